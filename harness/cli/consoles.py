"""Where text goes: data to stdout, talk to stderr."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TextIO, TypeVar

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from harness.errors import AbsentError, HarnessError
from harness.formatting import harmless, without_html

Made_contra = TypeVar("Made_contra", contravariant=True)
Made = TypeVar("Made")
#: Columns that a pipe is taken to have.
_WIDE = 180
#: What JSON need not escape in a string, and a terminal obeys.
_RAW = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


class _Console(Console):
    """Rich's, for texts that may be strangers'."""

    def on_broken_pipe(self) -> None:
        """Rich would end the process with a code of its own."""
        raise BrokenPipeError(errno.EPIPE, "nobody reads on")

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What a terminal obeys comes from Rich alone: what is in a text is written out."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))


class _Uncommanding:
    """A stream to the log of a CI job, in which no line is a command to the runner: `annotate` gives those."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text, whose first line may go on from the text before."""
        return self._stream.write(uncommanding(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


#: How a line begins that the runner of GitHub Actions obeys (actions/runner, ActionCommand).
_COMMAND = re.compile(r"^(\s*)(?=::|##\[)", re.MULTILINE)


def uncommanding(text: str) -> str:
    """A text without commands to a CI job's runner, where this process is in one."""
    return _COMMAND.sub(r"\1\\", text) if os.environ.get("GITHUB_ACTIONS") == "true" else text


def annotate(text: str) -> None:
    """Give the runner of a CI job a command."""
    sys.stderr.write(harmless(text) + "\n")


def _plain(**options: Any) -> Console:
    """A console that prints what people wrote as they wrote it: brackets are no markup, colons no emoji."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        stream = sys.stderr if options.pop("stderr", False) else sys.stdout
        options["file"] = _Uncommanding(stream)
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
    text = json.dumps(content, indent=1, ensure_ascii=not whole, allow_nan=False)
    sys.stdout.write(_RAW.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n")


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
    """Print text on stdout as it is, but for what a terminal obeys, and end its last line."""
    shown = uncommanding(harmless(text))
    sys.stdout.write(shown if shown.endswith("\n") else shown + "\n")


def print_markdown(text: str) -> None:
    """Print a document in Markdown on stdout; of what is HTML in stored texts it shows the letters."""
    print_text(without_html(text))


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
        print_markdown(view.markdown(made))
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
