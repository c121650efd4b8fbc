"""Writing where somebody else may have written: new files only, through no link.

A new file needs a name that nothing has (O_EXCL). A replacement is written beside the file and renamed, so that it is
there whole or not at all, and a link in the file's place is replaced, not followed.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from harness.formatting import format_size
from harness.reading import UnfitFileError, file_status, open_folder, open_in, read_tree

#: The mode of new files, before the process's umask applies.
_MODE = 0o666
_BUFFER = 1 << 20


def create_file(file: Path, mode: int = _MODE) -> BinaryIO:
    """Create a file for writing. Raises OSError, also where anything has that name."""
    with open_folder(file.parent) as folder:
        return _create_in(folder, file.name, file, mode)


def _create_in(folder: int, name: str, file: Path, mode: int = _MODE) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.fdopen(os.open(name, flags, mode, dir_fd=folder), "wb")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error


def write_new_file(file: Path, content: bytes | memoryview, mode: int = _MODE) -> None:
    """Write a new file. Raises OSError, also where anything has that name."""
    with create_file(file, mode) as out:
        out.write(content)


@contextmanager
def replacement_stream(file: Path, unfinished: str, mode: int = _MODE) -> Iterator[BinaryIO]:
    """A stream whose content replaces a file once it is complete; nothing is left of it after an error.

    `unfinished`: its name until then, in the same folder; a file of that name is removed. Raises OSError.
    """
    with open_folder(file.parent) as folder:
        try:
            with suppress(FileNotFoundError):
                os.unlink(unfinished, dir_fd=folder)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(file.with_name(unfinished))) from error
        try:
            with _create_in(folder, unfinished, file.with_name(unfinished), mode) as out:
                yield out
            os.replace(unfinished, file.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished, dir_fd=folder)
            raise


def replace_file(file: Path, content: bytes | memoryview, unfinished: str = "") -> None:
    """Write a file, in place of an existing one; see `replaced`. Raises OSError."""
    with replacement_stream(file, unfinished or f"{file.name}.new") as out:
        out.write(content)


def path_below(folder: Path, name: str) -> Path:
    """The path of a file of that name below a folder. Raises ValueError for a name that leads anywhere else."""
    place = PurePosixPath(name)
    if not name or place.is_absolute() or ".." in place.parts or "\0" in name or place == PurePosixPath():
        raise ValueError(f"{name!r} lies outside")
    return folder / place


def copy_tree(source: Path, target: Path, excluded: Collection[str] = ()) -> list[str]:
    """Copy the regular files of a folder, and its folders, into an existing folder.

    `excluded`: names directly in it that are not copied, with all below them. Gives the paths of entries that are not
    copied because they are neither file nor folder, such as links. Raises OSError; UnfitFileError for lack of space.
    """
    tree = read_tree(source)
    files, folders, skipped = (
        [place for place in places if place.partition("/")[0] not in excluded]
        for places in (tree.files, tree.folders, [*tree.links, *tree.special_files])
    )
    _require_room(source, files, target)
    for place in folders:
        (target / place).mkdir()
    for place in files:
        _copy(source / place, target / place)
    return skipped


def limit_modes(folder: Path) -> None:
    """Limit the modes of a folder, and of all below it, to those of new files and folders.

    Their writer may have let everybody write, or left a program that runs as its owner (set-uid). Files of another
    owner stay as they are. Raises OSError.
    """
    allowed = 0o777 & ~_umask()
    _limit_mode(folder, allowed, inherited=stat.S_ISGID)
    tree = read_tree(folder)
    for place in tree.folders:
        _limit_mode(folder / place, allowed, inherited=stat.S_ISGID)
    for place in tree.files:
        _limit_mode(folder / place, allowed)


def _limit_mode(place: Path, allowed: int, inherited: int = 0) -> None:
    """Limit one mode. `inherited`: bits that a new folder has from its parent."""
    status = file_status(place)
    if status is None or stat.S_ISLNK(status.st_mode):
        return
    is_folder = stat.S_ISDIR(status.st_mode)
    mode = (status.st_mode & inherited) | (allowed if is_folder else status.st_mode & allowed)
    if mode == stat.S_IMODE(status.st_mode):
        return
    with open_folder(place.parent) as folder:
        descriptor = os.open(place.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        with suppress(PermissionError):
            # By its descriptor, so that it is the same file; fchmod(2) takes no O_PATH descriptor.
            Path(f"/proc/self/fd/{descriptor}").chmod(mode)
    finally:
        os.close(descriptor)


def _umask() -> int:
    """The umask of the process, from proc_pid_status(5): umask(2) cannot read it without setting it."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))
    except (OSError, StopIteration, ValueError):
        return 0o022


def _require_room(source: Path, places: Collection[str], target: Path) -> None:
    """UnfitFileError where the files claim more bytes than are free. A file with a hole may claim any size."""
    needed = sum(os.lstat(source / place).st_size for place in places)
    free = shutil.disk_usage(target).free
    if needed > free:
        raise UnfitFileError(
            errno.EFBIG, f"its files have {format_size(needed)}, and {format_size(free)} are free", source
        )


def _copy(source: Path, target: Path) -> None:
    with open_folder(source.parent) as folder, open_in(folder, source.name, source) as content:
        status = os.fstat(content.fileno())
        left = status.st_size
        # The copy is executable if the owner may execute the file; no other permission is kept.
        mode = _MODE | (0o111 if status.st_mode & stat.S_IXUSR else 0)
        with create_file(target, mode) as out:
            while left and (block := content.read(min(left, _BUFFER))):
                out.write(block)
                left -= len(block)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)
