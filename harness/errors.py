"""The errors of the harness. Each has a message, and a hint what to do next."""

from __future__ import annotations

import difflib
import errno
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path


class HarnessError(Exception):
    """The one root of the errors a user sees: what happened, and a hint what to do."""

    #: The exit code of the command line (`harness.cli.signals`).
    exit_code = 3

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(HarnessError):
    """Something the user wrote cannot be understood: a file, a name, an option."""

    exit_code = 2


class EngineError(HarnessError):
    """The environment failed: Docker, an image, a network, the lab kernel, the disk."""


class ResultError(HarnessError):
    """A stored result cannot be read."""


class NoDataError(HarnessError):
    """There is no data for an answer: no such store, or no stored run of the request."""

    exit_code = 5


class UnfitError(ValueError):
    """A value that does not fit where a person wrote it: why, and a hint what would."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def disk_error(error: OSError, place: Path) -> EngineError:
    """The error for a failed write to the disk. `place`: the path, if the system does not give it."""
    if isinstance(error, shutil.Error):
        return _copy_error(error, place)
    location = error.filename or place
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return EngineError(f"the disk is full: {location}", "free space (results/, 'docker system df') and run again")
    if error.errno == errno.EROFS:
        return EngineError(f"{location}: {error.strerror}", "mount it to be written to, or name another folder")
    denied = error.errno in (errno.EACCES, errno.EPERM)
    hint = "check the folder's permissions" if denied else "is this the place you meant?"
    return EngineError(f"{location}: {error.strerror or error}", hint)


def _copy_error(error: shutil.Error, place: Path) -> EngineError:
    """As `disk_error`, for many files at once, by the first of them: only the system's message is left of its error."""
    entries = error.args[0] if error.args else None
    if not isinstance(entries, list) or not entries:
        return EngineError(f"{place}: {error}", "is this the place you meant?")
    _, location, cause = entries[0]
    number = re.match(r"\[Errno (\d+)\] ", str(cause))
    if number is not None:
        return disk_error(OSError(int(number[1]), os.strerror(int(number[1])), str(location)), place)
    return EngineError(f"{location}: {cause}", "is this the place you meant?")


def describe_error(error: BaseException) -> str:
    """The cause of an error, for a sentence: its message if that is for people, else its type and message."""
    return error.message if isinstance(error, HarnessError) else f"{type(error).__name__}: {error}"


#: Names that a hint has room for.
_MOST_NAMES = 12


def similar_names(word: str, names: Sequence[str]) -> str:
    """A hint that asks for the known names that an unknown one resembles; empty if none does."""
    matches = difflib.get_close_matches(word, names, n=3, cutoff=0.6)
    return "did you mean " + " or ".join(f"'{name}'" for name in matches) + "?" if matches else ""


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """A hint for an unknown name: the nearest of the known names, else all of them."""
    names = sorted(set(candidates) - {""})
    if similar := similar_names(word, names):
        return similar
    if len(names) > _MOST_NAMES:
        return f"known: {', '.join(names[:_MOST_NAMES])} … ({len(names)} in all)"
    return "known: " + ", ".join(names) if names else "none is known"
