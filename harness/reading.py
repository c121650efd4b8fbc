"""Reading files that somebody else may have put there: regular files alone, and no more of them than fits."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from harness.text import size_of


class UnfitFileError(OSError):
    """Something that nobody reads: no regular file, or one that is too large. `strerror` says which."""

    def __init__(self, code: int, why: str, file: Path | None = None) -> None:
        super().__init__(code, why, *([] if file is None else [str(file)]))


def open_regular(file: Path) -> BinaryIO:
    """A regular file as a stream. Raises OSError, for a pipe, a device or a folder as well: nobody waits for these."""
    # Without a wait for somebody who writes: to open a FIFO would be one (fifo(7)).
    descriptor = os.open(str(file), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnfitFileError(errno.EINVAL, "not a regular file", file)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def size_within(content: BinaryIO, most: int, file: Path) -> int:
    """Bytes of an open file. UnfitFileError where these are more than `most`."""
    size = os.fstat(content.fileno()).st_size
    if size > most:
        raise too_large(most, file)
    return size


def too_large(most: int, file: Path | None = None) -> UnfitFileError:
    """The error for a file with more than so many bytes in it."""
    return UnfitFileError(errno.EFBIG, f"more than {size_of(most)}, which is too large for such a file", file)


def read_regular(file: Path, most: int) -> bytes:
    """The content of a regular file of at most so many bytes. Raises OSError."""
    with open_regular(file) as content:
        return content.read(size_within(content, most, file))
