"""Reading files that somebody else may have put there: regular files alone, through no link, no more than fits.

A folder is reached from the root one part after the other, each relative to the descriptor of the one above it
(openat(2)). So nobody can put a link in its place between a look and an opening. Whoever reads below a place that a
person named resolves that place first: a link that the person meant is followed there, and none below it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from harness.formatting import size_of

#: How a folder is held that others are reached from: nothing of it is read, so that it takes no permission to read.
_HELD = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Folders within folders, and files and folders in all, that a run may have: an honest one has five levels, and with a
#: qlog a connection some hundreds of files.
DEEPEST, MOST_ENTRIES = 32, 100_000


class UnfitFileError(OSError):
    """Something that nobody reads: no regular file, or one that is too large. `strerror` says which."""

    def __init__(self, code: int, why: str, file: Path | None = None) -> None:
        super().__init__(code, why, *([] if file is None else [str(file)]))


def _as_asked(error: OSError, file: Path) -> OSError:
    """The same error with the whole name in it: the system was asked for the last part alone."""
    return OSError(error.errno, error.strerror, str(file))


@contextmanager
def held_folder(folder: Path) -> Iterator[int]:
    """The descriptor of a folder, which is reached through no link. Raises OSError."""
    parts = folder.parts
    if ".." in parts:
        raise UnfitFileError(errno.EINVAL, "the name of no folder: '..' leads elsewhere", folder)
    begin, remaining = (folder.anchor, parts[1:]) if folder.anchor else (".", parts)
    descriptor = os.open(begin, _HELD)
    try:
        for part in remaining:
            try:
                child = os.open(part, _HELD, dir_fd=descriptor)
            except OSError as error:
                if error.errno == errno.ENOTDIR and is_link(part, descriptor):
                    raise UnfitFileError(errno.ELOOP, f"'{part}' is a link, which is not followed", folder) from error
                raise _as_asked(error, folder) from error
            os.close(descriptor)
            descriptor = child
        yield descriptor
    finally:
        os.close(descriptor)


def is_link(name: str, folder: int) -> bool:
    """Whether a name in a folder that is held is a symbolic link's."""
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def status_of(file: Path) -> os.stat_result | None:
    """What a file is: of a link the link's own, whose target nobody asks for. None where there is nothing.

    Raises OSError, for a link above it as well.
    """
    try:
        with held_folder(file.parent) as folder:
            return os.stat(file.name, dir_fd=folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_regular(file: Path) -> bool:
    """Whether it is a regular file, and neither a link to one nor behind a link."""
    try:
        status = status_of(file)
    except OSError:
        return False
    return status is not None and stat.S_ISREG(status.st_mode)


def open_regular(file: Path) -> BinaryIO:
    """A regular file as a stream. Raises OSError, for a link, a pipe, a device or a folder as well.

    Nobody waits for a pipe, and no link is followed, be it the file or a folder above it.
    """
    with held_folder(file.parent) as folder:
        return open_in(folder, file.name, file)


def open_in(folder: int, name: str, file: Path) -> BinaryIO:
    """The same in a folder that is held. `file`: its whole name, for errors. Raises OSError."""
    try:
        # Without a wait for somebody who writes: to open a FIFO would be one (fifo(7)).
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnfitFileError(errno.ELOOP, "not a regular file but a link, which is not followed", file) from error
        raise _as_asked(error, file) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnfitFileError(errno.EINVAL, "not a regular file", file)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def size_within(content: BinaryIO, limit: int, file: Path) -> int:
    """Bytes of an open file. UnfitFileError where these are more than `most`."""
    size = os.fstat(content.fileno()).st_size
    if size > limit:
        raise too_large(limit, file)
    return size


def too_large(limit: int, file: Path | None = None) -> UnfitFileError:
    """The error for a file with more than so many bytes in it."""
    return UnfitFileError(errno.EFBIG, f"more than {size_of(limit)}, which is too large for such a file", file)


def read_regular(file: Path, limit: int) -> bytes:
    """The content of a regular file of at most so many bytes. Raises OSError."""
    with open_regular(file) as content:
        # It may grow meanwhile.
        text = content.read(size_within(content, limit, file) + 1)
    if len(text) > limit:
        raise too_large(limit, file)
    return text


@dataclass
class Tree:
    """What is below a folder, by places from there in the order of names; of a link nothing is looked at but itself."""

    files: list[str] = field(default_factory=list)
    """Regular files."""
    folders: list[str] = field(default_factory=list)
    """Each before those in it."""
    links: list[str] = field(default_factory=list)
    """Symbolic links."""
    others: list[str] = field(default_factory=list)
    """Pipes, sockets, devices, and folders that nobody may look into."""

    def add(self, place: str, mode: int) -> None:
        """Note what is no folder by its kind."""
        kinds = ((stat.S_ISREG, self.files), (stat.S_ISLNK, self.links))
        next((places for is_kind, places in kinds if is_kind(mode)), self.others).append(place)

    @property
    def count(self) -> int:
        """How much there is."""
        return len(self.files) + len(self.folders) + len(self.links) + len(self.others)


def tree_of(folder: Path) -> Tree:
    """Everything below a folder. Raises OSError; UnfitFileError where it is more, or deeper, than an honest run has."""
    tree = Tree()
    with held_folder(folder) as descriptor:
        _climb(descriptor, "", tree, folder)
    return tree


def _climb(descriptor: int, place: str, tree: Tree, root: Path) -> None:
    # What is merely held cannot be listed.
    listing = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=descriptor)
    try:
        with os.scandir(listing) as entries:
            modes = sorted((entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in entries)
        for name, mode in modes:
            if tree.count >= MOST_ENTRIES:
                raise UnfitFileError(errno.EFBIG, f"more than {MOST_ENTRIES} files and folders", root)
            if not stat.S_ISDIR(mode):
                tree.add(f"{place}{name}", mode)
                continue
            if place.count("/") >= DEEPEST:
                raise UnfitFileError(errno.EFBIG, f"more than {DEEPEST} folders within folders", root)
            inner = os.open(name, _HELD, dir_fd=listing)
            try:
                tree.folders.append(f"{place}{name}")
                _climb(inner, f"{place}{name}/", tree, root)
            except PermissionError:
                tree.folders.remove(f"{place}{name}")
                tree.others.append(f"{place}{name}")
            finally:
                os.close(inner)
    finally:
        os.close(listing)
