"""The cache: what can be made again and is kept between runs, bounded in size.

Layout: `rootfs/` exported images (see `harness.engine.images.rootfs_export`), `files/` what they share, `www/` served
files, `contents/` what was found in images, `certs*/`; `uses/` has an empty file for each exported image and served
file: its time of modification says when that was used last, and whoever uses it holds a lock on it (flock(2)). What is
locked is never removed; a lock goes with its process.
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

from harness.engine.images.hardlink_pool import SharedFiles
from harness.engine.process_owner import lives
from harness.errors import EngineError

#: What the cache may grow to, bytes, before what was used least recently goes; a half of it belongs to served files.
LIMIT = 10 * 10**9
#: What is being made is called this, then its owner.
UNFINISHED = "unfinished."
#: In the folder of an exported image, written last: without it the rest is of no use.
EXPORT = "export.json"
#: Under this name it has the bytes on the disk of what is in its ROOT and in no other export.
UNSHARED = "unshared"
_ROOTS, _WWW, _CONTENTS, _USES, _POOL = "rootfs", "www", "contents", "uses", "files"


@dataclass(frozen=True)
class CacheItem:
    """Something in the cache that can go by itself."""

    name: str
    """Below the cache: 'rootfs/1234', of all exports of an image; 'www/10MB.bin'."""
    places: tuple[Path, ...]
    used: float
    """When it was used last, seconds since the epoch; 0 where nobody knows."""


class Cache:
    """One cache folder."""

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        """`limit`: see LIMIT."""
        self.folder = folder.resolve()
        self.limit = limit
        self.roots = self.folder / _ROOTS
        self.www = self.folder / _WWW
        self.shared = SharedFiles(self.folder / _POOL)
        self._keep_others_out()

    def _keep_others_out(self) -> None:
        """Nobody but its owner comes to the cache, nor to the files of images in it: these are strangers'.

        What is somebody else's stays as it is, and so does a folder like /tmp that is merely used for a cache, too.
        """
        is_own = is_cache(self.folder) and not self.folder.stat().st_mode & stat.S_ISVTX
        for place in (*([self.folder] if is_own else []), self.roots, self.folder / _POOL):
            if _is_own(place) and stat.S_IMODE(place.stat().st_mode) & 0o077:
                with contextlib.suppress(OSError):
                    place.chmod(0o700)

    def _make(self) -> None:
        """Make the folder where it is not there, and those of images. OSError."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        for place in (self.folder, self.roots, self.folder / _POOL, self.folder / _USES):
            place.mkdir(mode=0o700, exist_ok=True)

    # --- use

    @contextlib.contextmanager
    def use(self, *names: str) -> Iterator[None]:
        """While it lasts nobody removes these: 'rootfs/1234', 'www/10MB.bin'. They need not be there yet."""
        with contextlib.ExitStack() as locks:
            for name in sorted(set(names)):
                lock = self._lock(name, fcntl.LOCK_SH)
                if lock is not None:
                    locks.callback(os.close, lock)
            yield

    def _lock(self, name: str, operation: int) -> int | None:
        """A descriptor that holds a lock; None where that cannot be, since nothing can be written here or removed."""
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
                # Whoever removed what was used so far has removed this file with it.
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
        """While it lasts no other process, and no other thread of this one, shares files or removes any."""
        lock = self._lock("pool", fcntl.LOCK_EX)
        try:
            yield
        finally:
            if lock is not None:
                os.close(lock)

    # --- what is there

    def kept(self) -> list[CacheItem]:
        """What can go, what was used least recently first."""
        places: dict[str, list[Path]] = {}
        for place in [*_entries(self.roots), *_entries(self.www)]:
            if not place.name.startswith(UNFINISHED):
                kind = place.parent.name
                name = place.name.partition(".")[0] if kind == _ROOTS else place.name
                places.setdefault(f"{kind}/{name}", []).append(place)
        items = [CacheItem(name, tuple(paths), self._used(name)) for name, paths in places.items()]
        return sorted(items, key=lambda item: (item.used, item.name))

    def _used(self, name: str) -> float:
        try:
            return (self.folder / _USES / name.replace("/", "-")).stat().st_mtime
        except OSError:
            return 0.0

    def sizes(self) -> dict[str, int]:
        """Bytes on the disk, by folder of the cache; files beside them by their name. What is shared counts once."""
        counted: set[tuple[int, int]] = set()
        sizes = {place.name: _bytes(place, counted) for place in _entries(self.folder) if place != self.roots}
        if self.roots.is_dir():
            exports = (_export_bytes(place, counted) for place in _entries(self.roots))
            sizes[_ROOTS] = _on_disk(self.roots) + sum(exports)
        return sizes

    # --- bounds

    def bound(self) -> list[str]:
        """Remove what was used least recently until the cache is within its limit. Names of what was removed.

        Served files and the rest have half of the limit each that the other cannot take from them: a file of 10 GB
        costs no exported image.
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
        """The kinds of what is kept that have to give way: those beyond their half, while the whole is too large."""
        sizes = self.sizes()
        whole, served = sum(sizes.values()), sizes.get(_WWW, 0)
        if whole <= self.limit:
            return frozenset()
        parts = {_WWW: served, _ROOTS: whole - served}
        return frozenset(kind for kind, size in parts.items() if size > self.limit / 2)

    def tidy(self, images: Collection[str] | None) -> list[str]:
        """Remove what is of no use: exports that broke off, that were damaged, or that no image needs any more.

        `images`: the IDs of those that Docker has; None where it does not answer, and then all are needed. Names of
        what was removed.
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
        """Remove what a process that no longer lives was making, and exports that were damaged. Names of all that."""
        removed = []
        for place in [*self.roots.glob(f"{UNFINISHED}*"), *self.www.glob(f"{UNFINISHED}*")]:
            if not lives(place.name.removeprefix(UNFINISHED).partition(".")[0]):
                _drop(place)
                removed.append(f"{place.parent.name}/{place.name}")
        for item in self.kept():
            useless = tuple(place for place in item.places if not (place / EXPORT).exists())
            if item.name.startswith(_ROOTS) and useless and self.remove(CacheItem(item.name, useless, item.used)):
                removed += [f"{_ROOTS}/{place.name}" for place in useless]
        return removed

    def remove(self, item: CacheItem) -> bool:
        """Remove something, unless it is in use. Whether it was removed."""
        try:
            lock = self._lock(item.name, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if lock is None:
            return False
        try:
            for place in item.places:
                _drop(place)
            if item.name.startswith(_ROOTS):
                with self.alone():
                    self.shared.prune()
            if item.name not in {left.name for left in self.kept()}:
                (self.folder / _USES / item.name.replace("/", "-")).unlink(missing_ok=True)
        finally:
            os.close(lock)
        return True


def _is_own(place: Path) -> bool:
    """Whether it is a folder of this process's user."""
    try:
        status = place.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def is_cache(folder: Path) -> bool:
    """Whether a folder has been used as a cache, by this process's user."""
    return _is_own(folder) and _is_own(folder / _USES)


def size_of(folder: Path) -> int:
    """Bytes on the disk of all that is in a folder; 0 where there is none."""
    return _bytes(folder, set())


def short_id(image_id: str) -> str:
    """What an image's exports and the note of what is in it are called by. `image_id`: sha256:…."""
    return image_id.removeprefix("sha256:")[:24]


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


def _drop(place: Path) -> None:
    if place.is_dir():
        # Without this file nobody takes what is left for whole.
        (place / EXPORT).unlink(missing_ok=True)
        shutil.rmtree(place, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)


def _on_disk(place: Path) -> int:
    return place.lstat().st_blocks * 512


def _export_bytes(folder: Path, counted: set[tuple[int, int]]) -> int:
    """Bytes on the disk of an export but for what it shares: as it was counted when it was made."""
    try:
        below = int(json.loads((folder / EXPORT).read_bytes())[UNSHARED])
        return below + _on_disk(folder) + sum(_on_disk(place) for place in _entries(folder))
    except (OSError, ValueError, TypeError, KeyError):
        return _bytes(folder, counted)


def _bytes(place: Path, counted: set[tuple[int, int]]) -> int:
    """Bytes on the disk of a file, or of all in a folder, but for those of files that were `counted`."""
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
            # Somebody removes it meanwhile.
            continue
    return total
