"""A manifest of a folder's files, and checks of the folder against it.

There are two checks. The quick one looks at names, kinds, modes, sizes and modification times. It takes milliseconds,
and finds files that were deleted, truncated, written to or added. The full one reads every byte, and finds the rest.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

#: Bytes that are read at once.
_BLOCK = 1 << 20
#: Bits of a program's mode with which it runs as its owner, or its group, whoever starts it.
SET_ID_BITS = stat.S_ISUID | stat.S_ISGID


class FileEntry(NamedTuple):
    """One file, link or folder."""

    path: str
    """From the manifest's folder, without a leading slash."""
    mode: int
    """Kind and mode (st_mode)."""
    size: int
    """Bytes of a file or a link; 0 for anything else."""
    modified_ns: int
    content: str
    """BLAKE2b of a file, target of a link, empty for anything else."""

    @property
    def is_file(self) -> bool:
        """Whether it has content of its own."""
        return stat.S_ISREG(self.mode)

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self.mode)


def _walk(root: Path) -> dict[str, os.stat_result]:
    """Path from the root → status of everything in a folder, in no order. Raises OSError."""
    statuses: dict[str, os.stat_result] = {}
    folders = [""]
    while folders:
        below = folders.pop()
        with os.scandir(f"{root}/{below}") as entries:
            for entry in entries:
                path = below + entry.name
                statuses[path] = entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{path}/")
    return statuses


def _size(status: os.stat_result) -> int:
    # The size of a folder depends on the file system, and on the folder's past.
    return 0 if stat.S_ISDIR(status.st_mode) else status.st_size


def quick_digest(root: Path) -> str:
    """Digest of what the quick check looks at. Raises OSError.

    Owners and inode numbers are left out: owners may have been changed so that somebody can clear the folder.
    """
    return _attributes_digest(
        (path, status.st_mode, _size(status), status.st_mtime_ns) for path, status in _walk(root).items()
    )


def manifest_digest(sealed: Iterable[FileEntry]) -> str:
    """The same digest of a manifest."""
    return _attributes_digest((entry.path, entry.mode, entry.size, entry.modified_ns) for entry in sealed)


def _attributes_digest(attributes: Iterable[tuple[str, int, int, int]]) -> str:
    lines = sorted(f"{path}\0{mode:o} {size} {modified_ns}\n" for path, mode, size, modified_ns in attributes)
    return hashlib.blake2b("".join(lines).encode(errors="surrogateescape"), digest_size=16).hexdigest()


def strip_privileges(root: Path) -> dict[str, int]:
    """Remove set-uid and set-gid bits and device files from a folder: they would give a user another one's rights.

    Returns path → former mode, with these bits, of the programs that had them. Raises OSError.
    """
    modes = {}
    for path, status in sorted(_walk(root).items()):
        if stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode):
            (root / path).unlink()
        elif runs_as_another(status.st_mode):
            modes[path] = stat.S_IMODE(status.st_mode)
            (root / path).chmod(modes[path] & ~SET_ID_BITS)
    return modes


def runs_as_another(mode: int) -> bool:
    """Whether a file of this kind and mode (st_mode) is a program that runs as its owner or group."""
    return stat.S_ISREG(mode) and bool(mode & SET_ID_BITS)


def without_set_ids(sealed: Iterable[FileEntry]) -> list[FileEntry]:
    """A manifest without such bits."""
    return [
        entry._replace(mode=entry.mode & ~SET_ID_BITS) if runs_as_another(entry.mode) else entry for entry in sealed
    ]


def file_content(file: Path | str) -> str:
    """BLAKE2b of a file, hexadecimal. Raises OSError."""
    digest = hashlib.blake2b(digest_size=16)
    with open(file, "rb", buffering=0) as content:  # noqa: PTH123
        while block := content.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def entries(root: Path) -> list[FileEntry]:
    """The manifest of a folder, from all its bytes. Raises OSError."""
    return [_entry(root, path, status) for path, status in sorted(_walk(root).items())]


def _entry(root: Path, path: str, status: os.stat_result) -> FileEntry:
    place = f"{root}/{path}"
    content = ""
    if stat.S_ISREG(status.st_mode):
        content = file_content(place)
    elif stat.S_ISLNK(status.st_mode):
        content = str(Path(place).readlink())
    return FileEntry(path, status.st_mode, _size(status), status.st_mtime_ns, content)


def differences(root: Path, sealed: list[FileEntry]) -> list[str]:
    """Differences of a folder from its manifest, each as a clause: 'usr/lib/libz.so.1 is missing'."""
    before = {entry.path: entry for entry in sealed}
    changes = []
    try:
        now = _walk(root)
    except OSError as error:
        return [f"{error.filename or root} cannot be read: {error.strerror}"]
    for path, expected in before.items():
        status = now.get(path)
        if status is None:
            changes.append(f"{path} is missing")
            continue
        try:
            if _entry(root, path, status) != expected:
                changes.append(f"{path} was changed")
        except OSError as error:
            changes.append(f"{path} cannot be read: {error.strerror}")
    return [*changes, *(f"{path} was added" for path in sorted(now.keys() - before.keys()))]


def write_entries(file: Path, sealed: list[FileEntry]) -> None:
    """Write a manifest. Raises OSError."""
    file.write_text(json.dumps(sealed, separators=(",", ":")))


def read_entries(file: Path) -> list[FileEntry]:
    """Read a manifest of `write_entries`. Raises OSError, and ValueError where the file itself is damaged."""
    try:
        return [FileEntry(*row) for row in json.loads(file.read_bytes())]
    except TypeError as error:
        raise ValueError(f"{file}: {error}") from error
