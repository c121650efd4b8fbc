"""Where text goes: data to stdout, talk to stderr."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from rich.console import Console

from harness.errors import AbsentError, HarnessError

Made_contra = TypeVar("Made_contra", contravariant=True)
Made = TypeVar("Made")
#: Columns that a pipe is taken to have.
_WIDE = 180


class _Console(Console):
    """Rich's, which would end the process with a code of its own where a pipe is closed."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, "nobody reads on")


def _plain(**options: Any) -> Console:
    """A console that prints what people wrote as they wrote it: brackets are no markup, colons no emoji."""
    return _Console(highlight=False, markup=False, emoji=False, **options)


def console() -> Console:
    """Where talk goes."""
    return _plain(stderr=True)


def paper() -> Console:
    """Where tables go: as wide as the terminal or COLUMNS says, and with neither as wide as most tables are."""
    made = _plain()
    told = os.environ.get("COLUMNS", "").isdecimal()
    return made if made.is_terminal or told else _plain(width=_WIDE)


def print_json(content: dict[str, Any]) -> None:
    """Print data on stdout."""
    # Whoever reads an encoding of few letters as JSON finds all of them, escaped.
    whole = (sys.stdout.encoding or "").lower().startswith("utf")
    sys.stdout.write(json.dumps(content, indent=1, ensure_ascii=not whole, allow_nan=False) + "\n")


@contextmanager
def json_all_the_same(asked: bool, nothing: Callable[[], dict[str, Any]]) -> Iterator[None]:
    """Where there is nothing to answer from, who asked for JSON gets it, with nothing in it, beside the exit code."""
    try:
        yield
    except AbsentError:
        if asked:
            print_json(nothing())
        raise


def print_text(text: str) -> None:
    """Print text on stdout as it is, and end its last line."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


class View(Protocol[Made_contra]):
    """A module that shows something in three ways."""

    def report(self, made: Made_contra, /) -> dict[str, Any]:
        """As plain data."""
        ...

    def markdown(self, made: Made_contra, /) -> str:
        """For a page."""
        ...

    def show(self, made: Made_contra, console: Console, /) -> None:
        """For a terminal."""
        ...


def print_view(view: View[Made], made: Made, *, markdown: bool, as_json: bool) -> None:
    """Print on stdout in the way that is asked for; JSON comes before Markdown."""
    if as_json:
        print_json(view.report(made))
    elif markdown:
        print_text(view.markdown(made))
    else:
        view.show(made, paper())


def caution(text: str) -> None:
    """Say what to check before trusting what is printed."""
    console().print(f"warning: {text}", style="yellow", soft_wrap=True, markup=False)


def complain(error: HarnessError) -> None:
    """Say what went wrong, and what to do about it."""
    talk = console()
    lines = error.message.splitlines() or [""]
    talk.print(f"error: {lines[0]}", style="red", soft_wrap=True, markup=False)
    for line in lines[1:]:
        talk.print(f"       {line}", soft_wrap=True, markup=False)
    if error.hint:
        talk.print(f"hint: {error.hint}", soft_wrap=True, markup=False)
