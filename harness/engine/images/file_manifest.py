"""What a folder of files held when it was made, told apart from what it holds now.

Two looks: at names, kinds, modes, sizes and times of modification, which takes milliseconds and finds what was deleted,
cut short, written to or put there; and at every byte, which takes as long as reading them, and finds the rest.
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
#: Of a program's mode: that it runs as its owner, as its group, whoever starts it.
SET_ID_BITS = stat.S_ISUID | stat.S_ISGID


class FileEntry(NamedTuple):
    """One file, link or folder."""

    path: str
    """From the folder that was sealed, without a slash before it."""
    mode: int
    """Kind and mode (st_mode)."""
    size: int
    """Of a file or a link, bytes; 0 of what has no size of its own."""
    modified_ns: int
    content: str
    """BLAKE2b of a file, target of a link, empty of anything else."""

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
    # What a folder's size says depends on the file system, and on the folder's past.
    return 0 if stat.S_ISDIR(status.st_mode) else status.st_size


def appearance(root: Path) -> str:
    """Digest of what the first look sees. Raises OSError.

    Not seen are owners, who may have been changed for somebody to clear the folder, and numbers of inodes.
    """
    return _appearance(
        (path, status.st_mode, _size(status), status.st_mtime_ns) for path, status in _walk(root).items()
    )


def appearance_of(sealed: Iterable[FileEntry]) -> str:
    """The same of what a folder held when it was sealed."""
    return _appearance((entry.path, entry.mode, entry.size, entry.modified_ns) for entry in sealed)


def _appearance(attributes: Iterable[tuple[str, int, int, int]]) -> str:
    lines = sorted(f"{path}\0{mode:o} {size} {modified_ns}\n" for path, mode, size, modified_ns in attributes)
    return hashlib.blake2b("".join(lines).encode(errors="surrogateescape"), digest_size=16).hexdigest()


def disarm(root: Path) -> dict[str, int]:
    """Take from a folder what would give whoever comes to it another's rights: set-uid and set-gid bits, devices.

    Path → mode, with these bits, of the programs that had them. Raises OSError.
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
    """Whether what has that kind and mode (st_mode) is a program that runs as its owner or group, whoever starts it."""
    return stat.S_ISREG(mode) and bool(mode & SET_ID_BITS)


def disarmed(sealed: Iterable[FileEntry]) -> list[FileEntry]:
    """What was sealed, without such bits."""
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
    """Everything in a folder, read to its last byte. Raises OSError."""
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
    """What is other in a folder than when it was sealed, each as half a sentence: 'usr/lib/libz.so.1 is missing'."""
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
    """Keep what was sealed. Raises OSError."""
    file.write_text(json.dumps(sealed, separators=(",", ":")))


def read_entries(file: Path) -> list[FileEntry]:
    """What `write_entries` kept. Raises OSError, and ValueError where the file is damaged itself."""
    try:
        return [FileEntry(*row) for row in json.loads(file.read_bytes())]
    except TypeError as error:
        raise ValueError(f"{file}: {error}") from error
