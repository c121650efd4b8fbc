"""Reading files that somebody else may have written: regular files only, through no link, up to a size limit.

A folder is opened from the root one component after the other, each relative to the descriptor of its parent
(openat(2)). So nobody can put a link in its place between a check and the opening. Callers resolve a path that a user
named first: links in that path are followed, and none below it.
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

from harness.formatting import format_size

#: Flags for a folder from which others are opened: it is not read, so that no read permission is needed. macOS has no
#: O_PATH.
_FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: The most levels of folders, and the most files and folders in all, of a run: an honest one has five levels, and some
#: hundreds of files with a qlog per connection.
MAX_DEPTH, MAX_ENTRIES = 32, 100_000


class UnfitFileError(OSError):
    """A file that is refused: not a regular file, or too large. `strerror` says which."""

    def __init__(self, code: int, why: str, file: Path | None = None) -> None:
        super().__init__(code, why, *([] if file is None else [str(file)]))


def _with_path(error: OSError, file: Path) -> OSError:
    """The error with the whole path in it: the system knows the last component only."""
    return OSError(error.errno, error.strerror, str(file))


@contextmanager
def open_folder(folder: Path) -> Iterator[int]:
    """The descriptor of a folder, opened through no link. Raises OSError."""
    parts = folder.parts
    if ".." in parts:
        raise UnfitFileError(errno.EINVAL, "the name of no folder: '..' leads elsewhere", folder)
    begin, remaining = (folder.anchor, parts[1:]) if folder.anchor else (".", parts)
    descriptor = os.open(begin, _FOLDER_FLAGS)
    try:
        for part in remaining:
            try:
                child = os.open(part, _FOLDER_FLAGS, dir_fd=descriptor)
            except OSError as error:
                if error.errno == errno.ENOTDIR and is_link(part, descriptor):
                    raise UnfitFileError(errno.ELOOP, f"'{part}' is a link, which is not followed", folder) from error
                raise _with_path(error, folder) from error
            os.close(descriptor)
            descriptor = child
        yield descriptor
    finally:
        os.close(descriptor)


def is_link(name: str, folder: int) -> bool:
    """Whether a name in a folder, given by its descriptor, is a symbolic link."""
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def file_status(file: Path) -> os.stat_result | None:
    """The status of a file, or of a link itself, not of its target. None where there is nothing.

    Raises OSError, also for a link above it.
    """
    try:
        with open_folder(file.parent) as folder:
            return os.stat(file.name, dir_fd=folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_regular(file: Path) -> bool:
    """Whether it is a regular file: no link to one, and not below a link."""
    try:
        status = file_status(file)
    except OSError:
        return False
    return status is not None and stat.S_ISREG(status.st_mode)


def open_regular(file: Path) -> BinaryIO:
    """Open a regular file as a stream. Raises OSError, also for a link, a pipe, a device or a folder.

    It does not wait for a pipe, and follows no link, neither at the file nor at a folder above it.
    """
    with open_folder(file.parent) as folder:
        return open_in(folder, file.name, file)


def open_in(folder: int, name: str, file: Path) -> BinaryIO:
    """As `open_regular`, in a folder given by its descriptor. `file`: the whole path, for errors. Raises OSError."""
    try:
        # Opening a FIFO would wait for a writer otherwise (fifo(7)).
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnfitFileError(errno.ELOOP, "not a regular file but a link, which is not followed", file) from error
        raise _with_path(error, file) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnfitFileError(errno.EINVAL, "not a regular file", file)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def checked_size(content: BinaryIO, limit: int, file: Path) -> int:
    """Bytes of an open file. UnfitFileError where there are more than `limit`."""
    size = os.fstat(content.fileno()).st_size
    if size > limit:
        raise too_large_error(limit, file)
    return size


def too_large_error(limit: int, file: Path | None = None) -> UnfitFileError:
    """The error for a file with more than `limit` bytes."""
    return UnfitFileError(errno.EFBIG, f"more than {format_size(limit)}, which is too large for such a file", file)


def read_regular(file: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes. Raises OSError."""
    with open_regular(file) as content:
        # The file may grow meanwhile.
        text = content.read(checked_size(content, limit, file) + 1)
    if len(text) > limit:
        raise too_large_error(limit, file)
    return text


@dataclass
class FolderTree:
    """The content of a folder, as relative paths in the order of names. Links are not followed."""

    files: list[str] = field(default_factory=list)
    """Regular files."""
    folders: list[str] = field(default_factory=list)
    """Each before those in it."""
    links: list[str] = field(default_factory=list)
    """Symbolic links."""
    special_files: list[str] = field(default_factory=list)
    """Pipes, sockets, devices, and folders without permission to read."""

    def add(self, place: str, mode: int) -> None:
        """Add an entry that is no folder, by its kind."""
        kinds = ((stat.S_ISREG, self.files), (stat.S_ISLNK, self.links))
        next((places for is_kind, places in kinds if is_kind(mode)), self.special_files).append(place)

    @property
    def count(self) -> int:
        """The number of entries."""
        return len(self.files) + len(self.folders) + len(self.links) + len(self.special_files)


def read_tree(folder: Path) -> FolderTree:
    """Everything below a folder. Raises OSError; UnfitFileError where it has more, or deeper, than an honest run."""
    tree = FolderTree()
    with open_folder(folder) as descriptor:
        _walk(descriptor, "", tree, folder)
    return tree


def _walk(descriptor: int, place: str, tree: FolderTree, root: Path) -> None:
    # A descriptor that was opened with O_PATH cannot be listed.
    listing = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=descriptor)
    try:
        with os.scandir(listing) as entries:
            modes = sorted((entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in entries)
        for name, mode in modes:
            if tree.count >= MAX_ENTRIES:
                raise UnfitFileError(errno.EFBIG, f"more than {MAX_ENTRIES} files and folders", root)
            if not stat.S_ISDIR(mode):
                tree.add(f"{place}{name}", mode)
                continue
            if place.count("/") >= MAX_DEPTH:
                raise UnfitFileError(errno.EFBIG, f"more than {MAX_DEPTH} folders within folders", root)
            inner = os.open(name, _FOLDER_FLAGS, dir_fd=listing)
            try:
                tree.folders.append(f"{place}{name}")
                _walk(inner, f"{place}{name}/", tree, root)
            except PermissionError:
                tree.folders.remove(f"{place}{name}")
                tree.special_files.append(f"{place}{name}")
            finally:
                os.close(inner)
    finally:
        os.close(listing)
