"""What a command is started in: closed streams, encodings of few letters, no width, a folder that is gone."""

from __future__ import annotations

import codecs
import errno
import os
import re
import sys
from pathlib import Path

from harness.errors import InputError

#: What stands for a letter that the output's encoding has not; of any other a question mark.
_INSTEAD = {
    "→": "->", "←": "<-", "–": "-", "—": "-", "…": "...", "≤": "<=", "≥": ">=", "✓": "+", "✗": "x", "✕": "x", "●": "o",
    "★": "*", "×": "x", "·": "-", "↓": "v", "‡": "#", "█": "#", "“": '"', "”": '"', "’": "'",
}  # fmt: skip
#: By this name Python knows how such letters are written.
_HANDLER = "quic-lab"
_WIDTH = re.compile("[1-9][0-9]{0,4}")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_INSTEAD.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


def settle() -> None:
    """Make of the streams and the width something that a command can print to."""
    codecs.register_error(_HANDLER, _plain)
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The next file to be opened would have its number, and take what is printed.
            os.open(os.devnull, os.O_RDWR)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(number, "w", closefd=False))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_HANDLER)
    for name in ("COLUMNS", "LINES"):
        if not _WIDTH.fullmatch(os.environ.get(name, "1")):
            del os.environ[name]


def require_folder() -> None:
    """InputError where the folder that a command is started in has been removed: no name in it means anything."""
    try:
        Path.cwd()
    except OSError as error:
        raise InputError("the folder that this command is started in is gone", "'cd' to one that is there") from error


class UnreadError(Exception):
    """Whoever read what is printed has closed the pipe: 'harness list | head'."""


def is_broken_pipe(error: OSError) -> bool:
    """Whether nobody reads what was written on."""
    return error.errno in (errno.EPIPE, errno.ESHUTDOWN)


def fall_silent() -> None:
    """Print nothing any more: what is left in a closed pipe's buffer would be complained of at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(nowhere, stream.fileno())
