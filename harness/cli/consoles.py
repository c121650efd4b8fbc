"""Output: data to stdout, messages to stderr."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from harness.errors import HarnessError, NoDataError
from harness.formatting import escape_controls, escape_html

if TYPE_CHECKING:
    from harness.report.document import Document

#: Columns that a pipe is taken to have.
_PIPE_WIDTH = 180
#: Control characters that JSON may leave unescaped in a string, and that a terminal obeys.
_CONTROL = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


class _Console(Console):
    """Rich's console, for texts that may come from strangers."""

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError: Rich would end the process with an exit code of its own."""
        raise BrokenPipeError(errno.EPIPE, "nobody reads on")

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Only Rich gives the terminal commands. Control characters in a text are written out."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escape_controls(segment.text))


class _CommandFilter:
    """A stream to the log of a CI job. No line is a command to the runner: `annotate` gives those."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text. Its first line may continue the text before."""
        return self._stream.write(without_commands(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


#: Start of a line that the runner of GitHub Actions obeys (actions/runner, ActionCommand).
_COMMAND = re.compile(r"^(\s*)(?=::|##\[)", re.MULTILINE)


def without_commands(text: str) -> str:
    """A text without commands to the runner, where this process is part of a CI job."""
    return _COMMAND.sub(r"\1\\", text) if os.environ.get("GITHUB_ACTIONS") == "true" else text


def annotate(text: str) -> None:
    """Give the runner of a CI job a command."""
    sys.stderr.write(escape_controls(text) + "\n")


def text_console(**options: Any) -> Console:
    """A console that prints text as people wrote it: brackets are no markup, colons no emoji. `options`: Rich's."""
    return _Console(highlight=False, markup=False, emoji=False, **options)


def _make_console(**options: Any) -> Console:
    """A console for this process's output, of which no line is a command to the runner of a CI job."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        stream = sys.stderr if options.pop("stderr", False) else sys.stdout
        options["file"] = _CommandFilter(stream)
    return text_console(**options)


def console() -> Console:
    """The console for messages, on stderr."""
    return _make_console(stderr=True)


def table_console() -> Console:
    """The console for tables, on stdout. Its width is that of the terminal or COLUMNS, else that of most tables."""
    output = _make_console()
    has_columns = os.environ.get("COLUMNS", "").isdecimal()
    return output if output.is_terminal or has_columns else _make_console(width=_PIPE_WIDTH)


def print_json(content: dict[str, Any]) -> None:
    """Print data on stdout."""
    # Where the output's encoding lacks letters, they are escaped, so that a reader of the JSON gets all of them.
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(content, indent=1, ensure_ascii=not is_unicode, allow_nan=False)
    sys.stdout.write(_CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n")


@contextmanager
def empty_json_if_absent(as_json: bool, nothing: Callable[[], Document]) -> Iterator[None]:
    """Where nothing is stored, print the data of this document if JSON was requested, and raise NoDataError all the
    same.
    """
    try:
        yield
    except NoDataError:
        if as_json:
            print_document(nothing(), as_json=True)
        raise


def print_text(text: str) -> None:
    """Print text on stdout, without control characters, and end its last line."""
    safe_text = without_commands(escape_controls(text))
    sys.stdout.write(safe_text if safe_text.endswith("\n") else safe_text + "\n")


def print_markdown(text: str) -> None:
    """Print a document in Markdown on stdout. HTML in stored texts is shown as text."""
    print_text(escape_html(text))


def print_document(document: Document, *, markdown: bool = False, as_json: bool = False) -> None:
    """Print on stdout: as JSON, else in Markdown, else for a terminal."""
    from harness.report.document import render_json
    from harness.report.markdown import render_markdown
    from harness.report.terminal import render_terminal

    if as_json:
        print_json(render_json(document))
    elif markdown:
        print_markdown(render_markdown(document))
    else:
        render_terminal(document, table_console())


def print_warning(text: str) -> None:
    """Print a warning on stderr: what to check before trusting the output."""
    console().print(f"warning: {text}", style="yellow", soft_wrap=True, markup=False)


def print_error(error: HarnessError) -> None:
    """Print an error on stderr, with its hint."""
    messages = console()
    lines = error.message.splitlines() or [""]
    messages.print(f"error: {lines[0]}", style="red", soft_wrap=True, markup=False)
    for line in lines[1:]:
        messages.print(f"       {line}", soft_wrap=True, markup=False)
    if error.hint:
        messages.print(f"hint: {error.hint}", soft_wrap=True, markup=False)
