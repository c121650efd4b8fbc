"""Files that several folders hold are on the disk once: hard links to a pool, by content, mode, owner and time.

Images share their layers, and builds of one recipe most of their files. What is linked is never written to. A folder
looks as it did, but for the number of links of its files.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from harness.engine.images.file_manifest import FileEntry, file_content

#: What a file system answers that has no hard links, or none between these two places.
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV, errno.ENOSYS})


class SharedFiles:
    """A pool of files, on one file system with the folders that share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def share(self, root: Path, sealed: list[FileEntry], scratch: Path) -> None:
        """Put links to the pool in place of a folder's files; what the pool lacks comes into it. Raises OSError.

        `sealed`: everything in the folder. `scratch`: a name on the same file system that is free, and left so.
        """
        equal: Counter[str] = Counter()
        first: dict[int, Path] = {}
        for entry in sealed:
            if not entry.is_file:
                continue
            file = root / entry.path
            status = file.stat()
            if status.st_ino in first:
                # Names of one file stay names of one file.
                if not file.samefile(first[status.st_ino]):
                    _replace(file, first[status.st_ino], scratch)
                continue
            first[status.st_ino] = file
            # Files of one folder that are equal stay two: programs tell them apart by their inodes.
            name = _name(entry, status)
            equal[name] += 1
            pooled = self._folder / name[:2] / f"{name}.{equal[name]}"
            try:
                self._link(file, status, entry.content, pooled, scratch)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
        for entry in sealed:
            if stat.S_ISDIR(entry.mode):
                os.utime(root / entry.path, ns=(entry.modified_ns, entry.modified_ns))

    def _link(self, file: Path, status: os.stat_result, content: str, pooled: Path, scratch: Path) -> None:
        if not _is(pooled, status, content):
            _take(file, pooled)
            return
        try:
            _replace(file, pooled, scratch)
        except OSError as error:
            # It has as many links as a file can have.
            if error.errno != errno.EMLINK:
                raise
            _take(file, pooled)

    def _files(self) -> Iterator[os.DirEntry[str]]:
        for folder in sorted(self._folder.glob("??")):
            with os.scandir(folder) as entries:
                yield from entries

    def prune(self) -> int:
        """Remove what no folder has any more. The bytes on the disk of what is left."""
        left = 0
        for file in self._files():
            status = file.stat()
            if status.st_nlink == 1:
                Path(file.path).unlink(missing_ok=True)
            else:
                left += status.st_blocks * 512
        return left


def unshared(root: Path, sealed: list[FileEntry]) -> int:
    """Bytes on the disk of what is in a folder and in no pool: folders, links, and files that could not be shared."""
    statuses = ((root / entry.path).lstat() for entry in sealed)
    return sum(status.st_blocks * 512 for status in statuses if status.st_nlink == 1 or stat.S_ISDIR(status.st_mode))


def _is(pooled: Path, status: os.stat_result, content: str) -> bool:
    """Whether a file of the pool is what its name says: somebody may have damaged it."""
    try:
        actual = pooled.stat()
    except FileNotFoundError:
        return False
    matching = all(
        getattr(actual, name) == getattr(status, name) for name in ("st_mode", "st_mtime_ns", "st_uid", "st_gid")
    )
    return matching and file_content(pooled) == content


def _replace(file: Path, target: Path, scratch: Path) -> None:
    """A link to another file in place of this one."""
    os.link(target, scratch)
    scratch.replace(file)


def _take(file: Path, pooled: Path) -> None:
    """A file comes into the pool; one that was damaged there, or has as many links as can be, leaves it."""
    pooled.parent.mkdir(parents=True, exist_ok=True)
    pooled.unlink(missing_ok=True)
    os.link(file, pooled)


def _name(entry: FileEntry, status: os.stat_result) -> str:
    key = f"{entry.content} {entry.mode:o} {entry.modified_ns} {status.st_uid} {status.st_gid}"
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
