"""Writing where somebody else may have put something: new files alone, through no link.

A name that is taken by anything is no place for a new file (O_EXCL). What stands in for another file is written beside
it and renamed, so that it is there whole or not at all, and a link in its place is replaced, not followed.
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

from harness.formatting import size_of
from harness.reading import UnfitFileError, held_folder, open_in, status_of, tree_of

#: What the modes of new files are before the process's umask takes its share.
_MODE = 0o666
_BUFFER = 1 << 20


def new_file(file: Path, mode: int = _MODE) -> BinaryIO:
    """A file that was not there, to be written. Raises OSError, also where the name is taken, by whatever it is."""
    with held_folder(file.parent) as folder:
        return _new_in(folder, file.name, file, mode)


def _new_in(folder: int, name: str, file: Path, mode: int = _MODE) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.fdopen(os.open(name, flags, mode, dir_fd=folder), "wb")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error


def write_new(file: Path, content: bytes | memoryview, mode: int = _MODE) -> None:
    """Write a file that was not there. Raises OSError."""
    with new_file(file, mode) as out:
        out.write(content)


@contextmanager
def replaced(file: Path, unfinished: str, mode: int = _MODE) -> Iterator[BinaryIO]:
    """A stream whose content stands in for a file once it is written; nothing is left of one that breaks off.

    `unfinished`: what it is called until then, in the same folder; what has that name already goes. Raises OSError.
    """
    with held_folder(file.parent) as folder:
        try:
            with suppress(FileNotFoundError):
                os.unlink(unfinished, dir_fd=folder)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(file.with_name(unfinished))) from error
        try:
            with _new_in(folder, unfinished, file.with_name(unfinished), mode) as out:
                yield out
            os.replace(unfinished, file.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished, dir_fd=folder)
            raise


def replace(file: Path, content: bytes | memoryview, unfinished: str = "") -> None:
    """Write a file in place of the one that may be there; see `replaced`. Raises OSError."""
    with replaced(file, unfinished or f"{file.name}.new") as out:
        out.write(content)


def place_below(folder: Path, name: str) -> Path:
    """Where a file of that name is, below a folder. Raises ValueError for a name that leads anywhere else."""
    place = PurePosixPath(name)
    if not name or place.is_absolute() or ".." in place.parts or "\0" in name or place == PurePosixPath():
        raise ValueError(f"{name!r} lies outside")
    return folder / place


def copy_tree(source: Path, target: Path, excluded: Collection[str] = ()) -> list[str]:
    """Copy the regular files of a folder, and the folders that they are in, into one that is there.

    `leaving`: names directly in it that are not copied, with what is below them. Gives the places of what is neither
    file nor folder, links above all, which is left behind. Raises OSError; UnfitFileError where it has no room.
    """
    tree = tree_of(source)
    files, folders, skipped = (
        [place for place in places if place.partition("/")[0] not in excluded]
        for places in (tree.files, tree.folders, [*tree.links, *tree.others])
    )
    _require_room(source, files, target)
    for place in folders:
        (target / place).mkdir()
    for place in files:
        _copy(source / place, target / place)
    return skipped


def settle_modes(folder: Path) -> None:
    """Take from a folder, and all that is below it, what new files and folders would not let others do.

    Whoever wrote there may have let everybody write, or left a program that runs as its owner (set-uid). What belongs
    to somebody else stays as it is. Raises OSError.
    """
    allowed = 0o777 & ~_umask()
    _settle(folder, allowed, inherited=stat.S_ISGID)
    tree = tree_of(folder)
    for place in tree.folders:
        _settle(folder / place, allowed, inherited=stat.S_ISGID)
    for place in tree.files:
        _settle(folder / place, allowed)


def _settle(place: Path, allowed: int, inherited: int = 0) -> None:
    """`inherited`: what a new folder has from the one that it is in."""
    status = status_of(place)
    if status is None or stat.S_ISLNK(status.st_mode):
        return
    is_folder = stat.S_ISDIR(status.st_mode)
    mode = (status.st_mode & inherited) | (allowed if is_folder else status.st_mode & allowed)
    if mode == stat.S_IMODE(status.st_mode):
        return
    with held_folder(place.parent) as folder:
        descriptor = os.open(place.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        with suppress(PermissionError):
            # By its descriptor, so that it is not another one by now; fchmod(2) takes none that is merely held.
            Path(f"/proc/self/fd/{descriptor}").chmod(mode)
    finally:
        os.close(descriptor)


def _umask() -> int:
    """The umask of the process, where it is said (proc_pid_status(5)): to ask for it by umask(2) is to set it."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))
    except (OSError, StopIteration, ValueError):
        return 0o022


def _require_room(source: Path, places: Collection[str], target: Path) -> None:
    """A file with a hole may claim more bytes than there are disks."""
    needed = sum(os.lstat(source / place).st_size for place in places)
    free = shutil.disk_usage(target).free
    if needed > free:
        raise UnfitFileError(errno.EFBIG, f"its files have {size_of(needed)}, and {size_of(free)} are free", source)


def _copy(source: Path, target: Path) -> None:
    with held_folder(source.parent) as folder, open_in(folder, source.name, source) as content:
        status = os.fstat(content.fileno())
        left = status.st_size
        # Who may run it may do so here; nobody gets anything beyond that.
        mode = _MODE | (0o111 if status.st_mode & stat.S_IXUSR else 0)
        with new_file(target, mode) as out:
            while left and (block := content.read(min(left, _BUFFER))):
                out.write(block)
                left -= len(block)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)
