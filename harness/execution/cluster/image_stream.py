"""An exported image on its way to another machine: a stream of bytes known by the digest of what it holds.

A parcel is compressed with zstd. In it are the length of a head (8 bytes, big-endian), the head, and the contents of
all files in its order. The head (JSON) has everything that `harness.engine.images.file_manifest` knows of the files,
the digest of each content among it, and which of them are names of one file. The parcel's digest is that of its head:
who has the head has the digests of all contents, so that nothing else needs to be believed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

import zstandard

from harness.engine.images.file_manifest import Entry, entries, read_entries, runs_as_another
from harness.engine.images.rootfs_export import FILES, ROOT
from harness.errors import EngineError
from harness.formatting import size_of
from harness.writing import place_below

#: Bytes of a piece: what is in flight at once, and what a worker is handed in one message.
PIECE = 4 << 20
_LENGTH = 8
#: zstd's level: 100 MB take half a second and become 35 MB.
_LEVEL = 3
#: No head is longer, bytes: an image of 100,000 files has one of 15 MB.
_LONGEST = 256 << 20


def head_of(export: Path) -> bytes:
    """The head of the parcel of an export, from what was counted when it was made. Raises OSError, ValueError."""
    return _head(export / ROOT, read_entries(export / FILES))


def _head(root: Path, sealed: list[Entry]) -> bytes:
    return json.dumps({"entries": sealed, "links": _links(root, sealed)}, separators=(",", ":")).encode()


def _links(root: Path, sealed: list[Entry]) -> dict[str, str]:
    """Names of a file that has an earlier name in the folder → that one. Programs tell files apart by their inodes."""
    first: dict[int, str] = {}
    found = {}
    for entry in sealed:
        if entry.is_file:
            inode = (root / entry.path).lstat().st_ino
            if inode in first:
                found[entry.path] = first[inode]
            else:
                first[inode] = entry.path
    return found


def digest_of(head: bytes) -> str:
    """What a parcel is known by, hexadecimal."""
    return hashlib.blake2b(head, digest_size=16).hexdigest()


def pieces(export: Path) -> Iterator[bytes]:
    """The parcel of an export, in pieces of at most `PIECE` bytes. Raises OSError, and ValueError for a damaged one."""
    head = head_of(export)
    content = json.loads(head)
    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).chunker(chunk_size=PIECE)
    yield from compressor.compress(len(head).to_bytes(_LENGTH, "big") + head)
    for entry in (Entry(*one) for one in content["entries"]):
        if entry.is_file and entry.path not in content["links"]:
            with (export / ROOT / entry.path).open("rb") as file:
                while block := file.read(PIECE):
                    yield from compressor.compress(block)
    yield from compressor.finish()  # type: ignore[no-untyped-call]


class _Pieces(io.RawIOBase):
    """Pieces that arrive one after the other, as a file to be read."""

    def __init__(self, arriving: Iterable[bytes]) -> None:
        self._arriving = iter(arriving)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._left:
            piece = next(self._arriving, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        taken = self._left[: len(buffer)]
        buffer[: len(taken)] = taken
        self._left = self._left[len(taken) :]
        return len(taken)


def unpack(arriving: Iterable[bytes], digest: str, root: Path) -> list[Entry]:
    """Write the files of a parcel to an empty folder; what they are, counted there.

    EngineError where it is not the parcel of that digest, to the last byte. Raises OSError.
    """
    wrong = EngineError(f"what arrived as the files of an image is not what was asked for ({digest})")
    decompressor = zstandard.ZstdDecompressor()
    try:
        with decompressor.stream_reader(cast(IO[bytes], _Pieces(arriving))) as stream:
            length = int.from_bytes(_exactly(stream, _LENGTH), "big")
            if length > _LONGEST:
                raise wrong
            head = _exactly(stream, length)
            if digest_of(head) != digest:
                raise wrong
            content = json.loads(head)
            sealed = [Entry(*one) for one in content["entries"]]
            _require_fit(sealed, content["links"], root)
            _write(stream, sealed, content["links"], root)
            if stream.read(1):
                raise wrong
    except (zstandard.ZstdError, ValueError, TypeError, KeyError, EOFError) as error:
        raise EngineError(f"{wrong.message}: {error}") from error
    there = entries(root)
    if digest_of(_head(root, there)) != digest:
        raise wrong
    return there


def _exactly(stream: zstandard.ZstdDecompressionReader, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        block = stream.read(min(PIECE, size - len(found)))
        if not block:
            raise EOFError("it ends too early")
        found += block
    return bytes(found)


def _require_fit(sealed: list[Entry], links: dict[str, str], root: Path) -> None:
    """ValueError for files that no export has: outside the folder, behind a link, with another's rights, too large.

    Whoever made the head may write anything into it, and its digest says no more than that it is the same head.
    """
    kinds: dict[str, int] = {}
    size = 0
    for entry in sealed:
        place_below(root, entry.path)
        above = entry.path.rpartition("/")[0]
        if entry.path in kinds or (above and not stat.S_ISDIR(kinds.get(above, 0))):
            raise ValueError(f"{entry.path} is in no folder of its own")
        if runs_as_another(entry.mode):
            raise ValueError(f"{entry.path} runs as its owner, whoever starts it")
        if entry.path in links and not (entry.is_file and stat.S_ISREG(kinds.get(links[entry.path], 0))):
            raise ValueError(f"{entry.path} is another name of no file")
        kinds[entry.path] = entry.mode
        size += 0 if entry.size < 0 or entry.path in links else entry.size
    free = shutil.disk_usage(root).free
    if size > free:
        raise ValueError(f"its files have {size_of(size)}, and {size_of(free)} are free")


def _write(stream: zstandard.ZstdDecompressionReader, sealed: list[Entry], links: dict[str, str], root: Path) -> None:
    for entry in sealed:
        place = root / entry.path
        if stat.S_ISDIR(entry.mode):
            place.mkdir()
        elif entry.is_link:
            place.symlink_to(entry.content)
            os.utime(place, ns=(entry.modified_ns, entry.modified_ns), follow_symlinks=False)
        elif entry.path in links:
            place.hardlink_to(root / links[entry.path])
        elif entry.is_file:
            _write_file(stream, entry, place)
        elif stat.S_ISFIFO(entry.mode):
            os.mkfifo(place)
            _settle(entry, place)
        else:
            raise ValueError(f"{entry.path} is no file, folder or link")
    # A folder's time is that of its last change, and it may forbid any: what is below comes first.
    for entry in reversed(sealed):
        if stat.S_ISDIR(entry.mode):
            _settle(entry, root / entry.path)


def _write_file(stream: zstandard.ZstdDecompressionReader, entry: Entry, place: Path) -> None:
    left = entry.size
    with place.open("xb") as file:
        while left:
            block = stream.read(min(PIECE, left))
            if not block:
                raise EOFError("it ends too early")
            file.write(block)
            left -= len(block)
    _settle(entry, place)


def _settle(entry: Entry, place: Path) -> None:
    place.chmod(stat.S_IMODE(entry.mode))
    os.utime(place, ns=(entry.modified_ns, entry.modified_ns))
