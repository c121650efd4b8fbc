"""The cache: files that are kept between runs and can be made again, bounded in size.

Layout: `rootfs/` exported images (see `harness.engine.images.rootfs_export`), `files/` the files that they share,
`www/` served files, `contents/` contents of images, `certs*/` certificates. `uses/` has an empty file for each exported
image and served file. Its modification time is the time of the last use, and its users hold a lock on it (flock(2)).
Locked items are never removed. A lock ends with its process.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.engine.images.hardlink_pool import HardlinkPool
from harness.engine.process_owner import lives
from harness.errors import EngineError

#: Size of the cache, bytes, from which on the least recently used items are removed. Half of it is for served files.
LIMIT = 10 * 10**9
#: Name of an unfinished item: this, then its owner.
UNFINISHED = "unfinished."
#: File in the folder of an exported image. It is written last: an export without it is incomplete.
EXPORT = "export.json"
#: Key in that file: bytes on the disk of what is in its ROOT and is not shared with other exports.
UNSHARED = "unshared"
_ROOTS, _WWW, _CONTENTS, _USES, _POOL = "rootfs", "www", "contents", "uses", "files"


@dataclass(frozen=True)
class CacheItem:
    """Something in the cache that can be removed by itself."""

    name: str
    """Path in the cache: 'rootfs/1234' for all exports of an image; 'www/10MB.bin'."""
    paths: tuple[Path, ...]
    used_at: float
    """Time of the last use, seconds since the epoch; 0 where unknown."""


class Cache:
    """One cache folder."""

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        """`limit`: see LIMIT."""
        self.folder = folder.resolve()
        self.limit = limit
        self.roots = self.folder / _ROOTS
        self.www = self.folder / _WWW
        self.shared = HardlinkPool(self.folder / _POOL)
        self._keep_others_out()

    def _keep_others_out(self) -> None:
        """Restrict the cache and the files of images in it to its owner: these files come from strangers.

        Folders of other users are not changed, and neither is a folder like /tmp that is also used for a cache.
        """
        is_own = is_cache(self.folder) and not self.folder.stat().st_mode & stat.S_ISVTX
        for place in (*([self.folder] if is_own else []), self.roots, self.folder / _POOL):
            if _is_own(place) and stat.S_IMODE(place.stat().st_mode) & 0o077:
                with contextlib.suppress(OSError):
                    place.chmod(0o700)

    def _make(self) -> None:
        """Make the cache's folder and its subfolders, where they are missing. OSError."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        for place in (self.folder, self.roots, self.folder / _POOL, self.folder / _USES):
            place.mkdir(mode=0o700, exist_ok=True)

    # --- use

    @contextlib.contextmanager
    def use(self, *names: str) -> Iterator[None]:
        """Within the context nobody removes these items: 'rootfs/1234', 'www/10MB.bin'. They need not exist yet."""
        with contextlib.ExitStack() as locks:
            for name in sorted(set(names)):
                lock = self._lock(name, fcntl.LOCK_SH)
                if lock is not None:
                    locks.callback(os.close, lock)
            yield

    def _lock(self, name: str, operation: int) -> int | None:
        """A descriptor that holds a lock; None where the cache is read-only, so that nothing can be removed."""
        file = self.folder / _USES / name.replace("/", "-")
        while True:
            try:
                if not file.parent.is_dir():
                    self._make()
                lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
                    return None
                raise cache_error(error, self.folder) from error
            try:
                fcntl.flock(lock, operation)
                # Another process may have removed the item, and this file with it, before the lock was taken.
                if os.path.samestat(os.fstat(lock), file.stat()):
                    if operation == fcntl.LOCK_SH:
                        os.utime(lock)
                    return lock
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Within the context no other process or thread shares files or removes any."""
        lock = self._lock("pool", fcntl.LOCK_EX)
        try:
            yield
        finally:
            if lock is not None:
                os.close(lock)

    # --- what is there

    def kept(self) -> list[CacheItem]:
        """The items that can be removed, the least recently used first."""
        places: dict[str, list[Path]] = {}
        for place in [*_entries(self.roots), *_entries(self.www)]:
            if not place.name.startswith(UNFINISHED):
                kind = place.parent.name
                name = place.name.partition(".")[0] if kind == _ROOTS else place.name
                places.setdefault(f"{kind}/{name}", []).append(place)
        items = [CacheItem(name, tuple(paths), self._used(name)) for name, paths in places.items()]
        return sorted(items, key=lambda item: (item.used_at, item.name))

    def last_use(self, image_id: str) -> float:
        """Time of the last run with an exported image, seconds since the epoch; 0 where none is known."""
        return self._used(_exports_of(image_id))

    def _used(self, name: str) -> float:
        try:
            return (self.folder / _USES / name.replace("/", "-")).stat().st_mtime
        except OSError:
            return 0.0

    def sizes(self) -> dict[str, int]:
        """Bytes on the disk, by folder of the cache, and by name for other files. Shared files count once."""
        counted: set[tuple[int, int]] = set()
        sizes = {place.name: _bytes(place, counted) for place in _entries(self.folder) if place != self.roots}
        if self.roots.is_dir():
            exports = (_export_bytes(place, counted) for place in _entries(self.roots))
            sizes[_ROOTS] = _disk_bytes(self.roots) + sum(exports)
        return sizes

    # --- bounds

    def bound(self) -> list[str]:
        """Remove the least recently used items until the cache is within its limit. Returns their names.

        Served files and the rest have half of the limit each. So a served file of 10 GB does not cause the removal of
        exported images.
        """
        removed: list[str] = []
        oversized = self._over()
        for item in self.kept():
            if not oversized:
                break
            if item.name.partition("/")[0] in oversized and self.remove(item):
                removed.append(item.name)
                oversized = self._over()
        return removed

    def _over(self) -> frozenset[str]:
        """The kinds whose items must be removed: those beyond their half, while the whole cache is too large."""
        sizes = self.sizes()
        whole, served = sum(sizes.values()), sizes.get(_WWW, 0)
        if whole <= self.limit:
            return frozenset()
        parts = {_WWW: served, _ROOTS: whole - served}
        return frozenset(kind for kind, size in parts.items() if size > self.limit / 2)

    def tidy(self, images: Collection[str] | None) -> list[str]:
        """Remove exports that are unfinished, damaged, or needed by no image any more. Returns their names.

        `images`: IDs of Docker's images; None where Docker does not answer: then all exports are needed.
        """
        removed = self.remove_orphans()
        if images is None:
            return removed
        needed = {short_id(image) for image in images}
        for item in self.kept():
            kind, _, name = item.name.partition("/")
            if kind == _ROOTS and name not in needed and self.remove(item):
                removed.append(item.name)
        for file in _entries(self.folder / _CONTENTS):
            if file.name.partition(".")[0] not in needed:
                file.unlink(missing_ok=True)
        return removed

    def remove_orphans(self) -> list[str]:
        """Remove unfinished items of dead processes, and damaged exports. Returns their names."""
        removed = []
        for place in [*self.roots.glob(f"{UNFINISHED}*"), *self.www.glob(f"{UNFINISHED}*")]:
            if not lives(place.name.removeprefix(UNFINISHED).partition(".")[0]):
                _remove_path(place)
                removed.append(f"{place.parent.name}/{place.name}")
        for item in self.kept():
            useless = tuple(place for place in item.paths if not (place / EXPORT).exists())
            if item.name.startswith(_ROOTS) and useless and self.remove(CacheItem(item.name, useless, item.used_at)):
                removed += [f"{_ROOTS}/{place.name}" for place in useless]
        return removed

    def remove_exports(self, image_id: str) -> bool:
        """Remove the exports of an image, unless one is in use. Whether there are none now."""
        name = _exports_of(image_id)
        return all(self.remove(item) for item in self.kept() if item.name == name)

    def remove(self, item: CacheItem) -> bool:
        """Remove an item, unless it is in use. Whether it was removed."""
        try:
            lock = self._lock(item.name, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if lock is None:
            return False
        try:
            for place in item.paths:
                _remove_path(place)
            if item.name.startswith(_ROOTS):
                with self.alone():
                    self.shared.prune()
            if item.name not in {left.name for left in self.kept()}:
                (self.folder / _USES / item.name.replace("/", "-")).unlink(missing_ok=True)
        finally:
            os.close(lock)
        return True


def _is_own(place: Path) -> bool:
    """Whether a path is a folder of this process's user."""
    try:
        status = place.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def is_cache(folder: Path) -> bool:
    """Whether a folder has been used as a cache, by this process's user."""
    return _is_own(folder) and _is_own(folder / _USES)


def size_of(folder: Path) -> int:
    """Bytes on the disk of everything in a folder; 0 where there is none."""
    return _bytes(folder, set())


def short_id(image_id: str) -> str:
    """Name of an image's exports and of its file in `contents/`. `image_id`: sha256:…."""
    return image_id.removeprefix("sha256:")[:24]


def _exports_of(image_id: str) -> str:
    return f"{_ROOTS}/{short_id(image_id)}"


def cache_error(error: OSError, folder: Path) -> EngineError:
    """The error for a cache that cannot be read or written."""
    place = error.filename or folder
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return EngineError(
            f"the disk is full: {place}", "free space, or lower HARNESS_CACHE_LIMIT ('harness cache' says what is kept)"
        )
    return EngineError(
        f"the cache {folder} does not do: {place}: {error.strerror or error}",
        "check the folder's permissions, or name another one with HARNESS_CACHE",
    )


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _remove_path(place: Path) -> None:
    if place.is_dir():
        # Without this file nobody takes the rest for a complete export.
        (place / EXPORT).unlink(missing_ok=True)
        shutil.rmtree(place, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)


def _disk_bytes(place: Path) -> int:
    return place.lstat().st_blocks * 512


def _export_bytes(folder: Path, counted: set[tuple[int, int]]) -> int:
    """Bytes on the disk of an export without its shared files, as counted when it was made."""
    try:
        below = int(json.loads((folder / EXPORT).read_bytes())[UNSHARED])
        return below + _disk_bytes(folder) + sum(_disk_bytes(place) for place in _entries(folder))
    except (OSError, ValueError, TypeError, KeyError):
        return _bytes(folder, counted)


def _bytes(place: Path, counted: set[tuple[int, int]]) -> int:
    """Bytes on the disk of a file, or of everything in a folder, except for files that are in `counted` already."""
    total = 0
    below = [str(place)]
    while below:
        path = below.pop()
        try:
            status = os.lstat(path)
            if (status.st_dev, status.st_ino) in counted:
                continue
            if status.st_nlink > 1:
                counted.add((status.st_dev, status.st_ino))
            total += status.st_blocks * 512
            if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
                with os.scandir(path) as entries:
                    below += [entry.path for entry in entries]
        except FileNotFoundError:
            # Somebody has removed it meanwhile.
            continue
    return total
