"""Reading artefacts: as they were written, or compressed with zstd or gzip; complete or cut short.

Whoever reads names a file as it was written. `harness.packing` compresses a finished run's files: each into one of its
name with `.zst` behind it (RFC 8878), and the captures of both sides, which hold the same packets, together into
`captures.tar.zst`. A path below that file stands for one of them.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import zstandard

from harness.reading import open_regular, size_within, too_large

#: What is behind the name of a compressed file, in the order in which they are looked for.
ZSTD, GZIP = ".zst", ".gz"
#: The captures of a run, in the folder of its simulator, and the archive that holds both.
CAPTURES = {side: f"trace_node_{side}.pcap" for side in ("left", "right")}
SIMULATOR = "sim"
ARCHIVE = f"captures.tar{ZSTD}"

_GZIP_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
#: Bytes of the longest header of a zstd frame (RFC 8878 §3.1.1), its magic number included.
_FRAME_HEADER = 18
#: Bytes read at a time of a compressed file, and of what is in it. A block of zstd becomes up to 128 KiB (RFC 8878
#: §3.1.1.2.4) and may take four bytes: what comes of so much at a time still fits into memory.
_READ, _BUFFER = 1 << 12, 1 << 20
#: The most bytes of an artefact that is read as a whole: twice what an endpoint's logs may have unless told.
MOST = 4 << 30


class _Decompressor(Protocol):
    """What both libraries offer for one stream: a gzip member (RFC 1952), a zstd frame (RFC 8878)."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def _gzip() -> _Decompressor:
    return zlib.decompressobj(wbits=31)


def _zstd() -> _Decompressor:
    return zstandard.ZstdDecompressor().decompressobj()


class _Decompressed(io.RawIOBase):
    """The content of a compressed file; of one that is cut short or damaged, what can be had."""

    def __init__(self, file: BinaryIO, new: Callable[[], _Decompressor]) -> None:
        self._file = file
        self._new = new
        self._stream = new()
        self._ready = memoryview(b"")
        self._begun = False

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any, /) -> int:
        if not self._ready:
            self._ready = memoryview(self._more())
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def readall(self) -> bytes:
        if not self._begun and (whole := self._at_once()) is not None:
            return whole
        parts = [bytes(self._ready)]
        self._ready = memoryview(b"")
        size = len(parts[0])
        while part := self._more():
            parts.append(part)
            if (size := size + len(part)) > MOST:
                raise too_large(MOST)
        return b"".join(parts)

    def _at_once(self) -> bytes | None:
        """All of a file that is one whole zstd frame and says its size: that saves a copy; None of any other.

        OSError where that is too much.
        """
        if self._file.seek(0, io.SEEK_END) > MOST:
            raise too_large(MOST)
        self._file.seek(0)
        data = self._file.read()
        try:
            if zstandard.frame_content_size(data[:_FRAME_HEADER]) > MOST:
                raise too_large(MOST)
            return zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)
        except zstandard.ZstdError:
            self._file.seek(0)
            return None

    def _more(self) -> bytes:
        """What comes next; nothing at the end, and where nothing more can be made of the file."""
        try:
            self._begun = True
            while data := self._stream.unused_data or self._file.read(_READ):
                if self._stream.eof:
                    self._stream = self._new()
                if content := self._stream.decompress(data):
                    return content
        except (zlib.error, zstandard.ZstdError):
            pass
        return b""


def find(path: Path) -> Path | None:
    """The file that holds what was written there: itself, or compressed, or in an archive; None where none does."""
    for suffix in ("", ZSTD, GZIP):
        file = path.with_name(path.name + suffix)
        if file.is_file():
            return file
    archive = path.with_name(ARCHIVE)
    return archive / path.name if path.name in CAPTURES.values() and archive.is_file() else None


def simulators(folder: Path) -> list[Path]:
    """The folders of a run's simulators, the first one's first; those of further paths are called sim-NAME."""
    return [folder / SIMULATOR, *sorted(one for one in folder.glob(f"{SIMULATOR}-*") if one.is_dir())]


def capture_file(folder: Path, name: str) -> Path:
    """Where a capture of a run was written: 'left', 'right'; of further simulators 'sim-NAME left'."""
    simulator, _, side = name.rpartition(" ")
    return folder / (simulator or SIMULATOR) / CAPTURES[side]


def capture_names(folder: Path) -> list[str]:
    """What `capture_file` calls the captures that a run may have."""
    prefixes = ("" if place.name == SIMULATOR else f"{place.name} " for place in simulators(folder))
    return [prefix + side for prefix in prefixes for side in CAPTURES]


def as_written(path: Path) -> Path:
    """What a file was called before it was compressed."""
    return path.with_suffix("") if path.suffix in (ZSTD, GZIP) else path


def open_file(path: Path) -> BinaryIO:
    """The content of a file as a stream, decompressed, by the name that `find` gives or as it was written.

    Raises OSError, for what is no regular file as well.
    """
    if path.parent.name == ARCHIVE:
        return _open_member(path.parent, path.name)
    try:
        file = open_regular(path)
    except FileNotFoundError:
        # Also what was compressed since it was found.
        now = find(path)
        if now is None:
            raise
        return open_file(now)
    start = file.read(len(_ZSTD_MAGIC))
    file.seek(0)
    for magic, new in ((_ZSTD_MAGIC, _zstd), (_GZIP_MAGIC, _gzip)):
        if start.startswith(magic):
            return io.BufferedReader(_Decompressed(file, new), _BUFFER)
    return file


def _open_member(archive: Path, name: str) -> BinaryIO:
    data = read_bytes(archive)
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as members:
            # Of an archive that is cut short the last member may be, too.
            found = next((member for member in members if member.name == name), None)
    except tarfile.TarError as error:
        raise OSError(f"{archive}: no archive: {error}") from error
    if found is None:
        raise FileNotFoundError(f"{archive} holds no {name}")
    return io.BytesIO(data[found.offset_data : found.offset_data + found.size])


def read_bytes(path: Path) -> bytes:
    """The content, decompressed; of a compressed file that was cut short what can be had.

    Raises OSError, also where it is more than `MOST` bytes.
    """
    with open_file(path) as file:
        if isinstance(file, io.BufferedReader) and isinstance(file.raw, io.FileIO):
            size_within(file, MOST, path)
        return file.read()


def content_digest(path: Path) -> str:
    """SHA-256 of a file as it was written, hexadecimal. Raises OSError."""
    digest = hashlib.sha256()
    with open_file(path) as file:
        while block := file.read(_BUFFER):
            digest.update(block)
    return digest.hexdigest()


def content_size(path: Path) -> int:
    """Bytes of a file as it was written; of one that says nothing of that, as it is stored. Raises OSError."""
    with open_regular(path) as file:
        start = file.read(_FRAME_HEADER)
    if start.startswith(_ZSTD_MAGIC):
        size = zstandard.frame_content_size(start)
        if size >= 0:
            return size
    return path.stat().st_size


def read_whole_lines(path: Path) -> bytes:
    """The content up to the last newline: a row cut short could hold a wrong number. Raises OSError."""
    data = read_bytes(path)
    return data[: data.rfind(b"\n") + 1]


def read_objects(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a JSON-lines file; lines that are not JSON objects are skipped. Raises OSError."""
    for line in read_bytes(path).splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):  # a line cut short, or not UTF-8
            continue
        if isinstance(value, dict):
            yield value
