"""What can go wrong, said so that a person knows what to do next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HarnessError(Exception):
    """The one root of the errors a user sees: what happened, and a hint what to do."""

    #: The exit code of the command line (`harness.cli.exits`).
    exit_code = 3

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(HarnessError):
    """Something the user wrote cannot be understood: a file, a name, an option."""

    exit_code = 2


class EngineError(HarnessError):
    """The ground failed: Docker, an image, a network, the lab kernel, the disk."""


class ResultError(HarnessError):
    """A stored result cannot be read."""


class AbsentError(HarnessError):
    """There is nothing to answer from: no such store, or no stored run of what was asked for."""

    exit_code = 5


def reason(error: BaseException) -> str:
    """What went wrong, for a sentence: an error's own words where they are for people, else its type too."""
    return error.message if isinstance(error, HarnessError) else f"{type(error).__name__}: {error}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint for a name nobody knows: the nearest known ones, else all of them."""
    names = sorted(set(known))
    near = difflib.get_close_matches(word, names, n=3, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(f"'{name}'" for name in near) + "?"
    return "known: " + ", ".join(names) if names else "none is known"
