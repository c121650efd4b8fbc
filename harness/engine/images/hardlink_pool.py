"""A pool of hard links: files that several folders have are on the disk once. Keys are content, mode, owner and time.

Images share layers, and builds of one recipe share most of their files. Linked files are never written to. Only the
number of links of a folder's files changes.
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

#: Errors of a file system without hard links, or without hard links between two places.
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV, errno.ENOSYS})


class HardlinkPool:
    """A pool of files, on the same file system as the folders that share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def share(self, root: Path, sealed: list[FileEntry], scratch: Path) -> None:
        """Replace a folder's files with links to the pool, and add those that the pool lacks. Raises OSError.

        `sealed`: the folder's manifest. `scratch`: an unused path on the same file system; it is unused afterwards,
        too.
        """
        equal: Counter[str] = Counter()
        first: dict[int, Path] = {}
        for entry in sealed:
            if not entry.is_file:
                continue
            file = root / entry.path
            status = file.stat()
            if status.st_ino in first:
                # Hard links within the folder stay hard links.
                if not file.samefile(first[status.st_ino]):
                    _replace_with_link(file, first[status.st_ino], scratch)
                continue
            first[status.st_ino] = file
            # Equal files of one folder stay separate: programs tell them apart by their inodes.
            name = _pool_name(entry, status)
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
        if not _is_intact(pooled, status, content):
            _add_to_pool(file, pooled)
            return
        try:
            _replace_with_link(file, pooled, scratch)
        except OSError as error:
            # The pooled file has the maximum number of links.
            if error.errno != errno.EMLINK:
                raise
            _add_to_pool(file, pooled)

    def _files(self) -> Iterator[os.DirEntry[str]]:
        for folder in sorted(self._folder.glob("??")):
            with os.scandir(folder) as entries:
                yield from entries

    def prune(self) -> int:
        """Remove files that no folder has any more. Returns the bytes on the disk of the remaining ones."""
        left = 0
        for file in self._files():
            status = file.stat()
            if status.st_nlink == 1:
                Path(file.path).unlink(missing_ok=True)
            else:
                left += status.st_blocks * 512
        return left


def unshared_bytes(root: Path, sealed: list[FileEntry]) -> int:
    """Bytes on the disk of a folder's unshared parts: folders, links, and files that are not in the pool."""
    statuses = ((root / entry.path).lstat() for entry in sealed)
    return sum(status.st_blocks * 512 for status in statuses if status.st_nlink == 1 or stat.S_ISDIR(status.st_mode))


def _is_intact(pooled: Path, status: os.stat_result, content: str) -> bool:
    """Whether a file of the pool has the content and attributes of its name: somebody may have damaged it."""
    try:
        actual = pooled.stat()
    except FileNotFoundError:
        return False
    matching = all(
        getattr(actual, name) == getattr(status, name) for name in ("st_mode", "st_mtime_ns", "st_uid", "st_gid")
    )
    return matching and file_content(pooled) == content


def _replace_with_link(file: Path, target: Path, scratch: Path) -> None:
    """Replace a file with a link to `target`."""
    os.link(target, scratch)
    scratch.replace(file)


def _add_to_pool(file: Path, pooled: Path) -> None:
    """Put a file into the pool. It replaces one that is damaged, or that has the maximum number of links."""
    pooled.parent.mkdir(parents=True, exist_ok=True)
    pooled.unlink(missing_ok=True)
    os.link(file, pooled)


def _pool_name(entry: FileEntry, status: os.stat_result) -> str:
    key = f"{entry.content} {entry.mode:o} {entry.modified_ns} {status.st_uid} {status.st_gid}"
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
