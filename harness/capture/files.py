"""Reading artefacts: as they were written, or compressed with zstd or gzip; complete or truncated.

Readers use a file's original name. `harness.store.compression` compresses each file of a finished run into one with
`.zst` appended to its name (RFC 8878). The captures of both sides, which hold the same packets, go together into
`captures.tar.zst`. A path below that archive stands for one of them.
"""

from __future__ import annotations

import hashlib
import io
import json
import mmap
import os
import stat
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol, cast

import zstandard

from harness.reading import UnfitFileError, checked_size, file_status, open_regular, too_large_error
from harness.topology.lab_file import LabFacts

#: Suffixes of compressed files, in the order of lookup.
ZSTD, GZIP = ".zst", ".gz"
#: The captures of a run, in the folder of its simulator, and the archive that holds both.
CAPTURES = {side: f"trace_node_{side}.pcap" for side in ("left", "right")}
SIMULATOR = "sim"
ARCHIVE = f"captures.tar{ZSTD}"
#: The folder of an endpoint's qlogs, below its own.
QLOG = "qlog"

_GZIP_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
#: Bytes of the longest header of a zstd frame (RFC 8878 §3.1.1), its magic number included.
_FRAME_HEADER = 18
#: Bytes read at a time of a compressed file, and of its content.
_READ, _BUFFER = 1 << 14, 1 << 20
#: The most bytes that are unpacked at a time: a block of zstd (RFC 8878 §3.1.1.2.4), and in front of damage one by one.
_STEP, _SCRAP = 128 << 10, 1
#: The most bytes of an artefact that is read as a whole: twice the default limit of an endpoint's logs.
MAX_SIZE = 4 << 30
#: The most bytes of an artefact that is parsed as one document.
MAX_RECORD_SIZE = 64 << 20
#: The most bytes that an artefact may unpack to where it is read in pieces: captures of 100 GB have less.
MAX_STREAMED_SIZE = 64 << 30


_DECOMPRESSION_ERRORS = (zlib.error, zstandard.ZstdError)


class _Stream(Protocol):
    """The unpacked content of a compressed file, in pieces; empty at its end. Its errors are the library's."""

    def read(self, most: int, /) -> bytes: ...


class _Gzip:
    """Members (RFC 1952) one after the other."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._member = zlib.decompressobj(wbits=31)
        self._left = b""

    def read(self, most: int, /) -> bytes:
        while True:
            if self._member.eof:
                if not (self._left or self._take()):
                    return b""
                self._member = zlib.decompressobj(wbits=31)
            elif not self._left:
                self._take()
            compressed = self._left
            content = self._member.decompress(compressed, most)
            self._left = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if content or (not compressed and not self._member.eof):
                return content

    def _take(self) -> bool:
        self._left = self._file.read(_READ)
        return bool(self._left)


def _zstd(file: BinaryIO) -> _Stream:
    reader = zstandard.ZstdDecompressor().stream_reader(file, read_size=_READ, read_across_frames=True, closefd=False)
    return cast(_Stream, reader)


class _Decompressed(io.RawIOBase):
    """The content of a compressed file; where it is truncated or damaged, the part that can be recovered.

    No more is unpacked at a time than the reader has room for, and never more than MOST_STREAMED in all: a file of a
    megabyte may unpack to a terabyte.
    """

    def __init__(self, file: BinaryIO, new: Callable[[BinaryIO], _Stream]) -> None:
        self._file = file
        self._open = new
        self._stream = new(file)
        self._size = 0
        self._started = self._ended = False

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any, /) -> int:
        content = self._read_piece(min(len(buffer), _STEP))
        buffer[: len(content)] = content
        return len(content)

    def readall(self) -> bytes:
        if not self._started and (whole := self._read_single_frame()) is not None:
            return whole
        parts = []
        size = 0
        while part := self._read_piece(_STEP):
            parts.append(part)
            if (size := size + len(part)) > MAX_SIZE:
                raise too_large_error(MAX_SIZE)
        return b"".join(parts)

    def _read_single_frame(self) -> bytes | None:
        """The content of a file that is one whole zstd frame with its size, which saves a copy; None for any other.

        OSError where it is too large.
        """
        if self._file.seek(0, io.SEEK_END) > MAX_SIZE:
            raise too_large_error(MAX_SIZE)
        self._file.seek(0)
        data = self._file.read()
        try:
            if zstandard.frame_content_size(data[:_FRAME_HEADER]) > MAX_SIZE:
                raise too_large_error(MAX_SIZE)
            return zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)
        except zstandard.ZstdError:
            self._file.seek(0)
            return None

    def _read_piece(self, limit: int) -> bytes:
        """The next piece; empty at the end, and where the rest of the file cannot be unpacked."""
        if self._ended:
            return b""
        self._started = True
        try:
            content = self._stream.read(limit)
            self._ended = not content
        except _DECOMPRESSION_ERRORS:
            content = self._recover(limit)
            self._ended = True
        self._size += len(content)
        if self._size > MAX_STREAMED_SIZE:
            raise too_large_error(MAX_STREAMED_SIZE)
        return content

    def _recover(self, limit: int) -> bytes:
        """The bytes in front of damage, which the library does not give with its error. At most `limit` bytes."""
        self._file.seek(0)
        stream, scraps = self._open(self._file), bytearray()
        try:
            left = self._size
            while left and (content := stream.read(min(left, _STEP))):
                left -= len(content)
            while len(scraps) < limit and (content := stream.read(min(_SCRAP, limit - len(scraps)))):
                scraps += content
        except _DECOMPRESSION_ERRORS:
            pass
        return bytes(scraps)


def find_file(path: Path) -> Path | None:
    """The file that holds an artefact: itself, compressed, or in an archive; None where there is none."""
    for suffix in ("", ZSTD, GZIP):
        file = path.with_name(path.name + suffix)
        if _exists(file):
            return file
    archive = path.with_name(ARCHIVE)
    return archive / path.name if path.name in CAPTURES.values() and _exists(archive) else None


def _exists(file: Path) -> bool:
    """Whether a file of that name exists. A link counts, too: opening it reports what is wrong with it."""
    try:
        status = file_status(file)
    except UnfitFileError:
        return True
    except OSError:
        return False
    return status is not None and (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode))


def simulator_folders(folder: Path) -> list[Path]:
    """The folders of a run's simulators, the first path's first; those of the other paths are called sim-NAME."""
    siblings = (entry for entry in folder.glob(f"{SIMULATOR}-*") if entry.is_dir() and not entry.is_symlink())
    return [folder / SIMULATOR, *sorted(siblings)]


def capture_path(folder: Path, name: str) -> Path:
    """The original path of a capture: 'left', 'right'; for further simulators 'sim-NAME left'."""
    simulator, _, side = name.rpartition(" ")
    return folder / (simulator or SIMULATOR) / CAPTURES[side]


def capture_names(folder: Path) -> list[str]:
    """The names, as for `capture_file`, of the captures that a run may have."""
    prefixes = ("" if place.name == SIMULATOR else f"{place.name} " for place in simulator_folders(folder))
    return [prefix + side for prefix in prefixes for side in CAPTURES]


def original_path(path: Path) -> Path:
    """The name of a file before it was compressed."""
    return path.with_suffix("") if path.suffix in (ZSTD, GZIP) else path


def open_file(path: Path) -> BinaryIO:
    """The content of a file as a stream, decompressed, by the name that `find` gives or as it was written.

    Raises OSError, also for anything but a regular file, and for a path through a link.
    """
    if path.parent.name == ARCHIVE:
        return _open_member(path.parent, path.name)
    try:
        file = open_regular(path)
    except FileNotFoundError:
        # It may have been compressed since it was found.
        current = find_file(path)
        if current is None:
            raise
        return open_file(current)
    start = file.read(len(_ZSTD_MAGIC))
    file.seek(0)
    for magic, new in ((_ZSTD_MAGIC, _zstd), (_GZIP_MAGIC, _Gzip)):
        if start.startswith(magic):
            return io.BufferedReader(_Decompressed(file, new), _BUFFER)
    return file


class _Member(io.RawIOBase):
    """A member of an archive that is read from its start on; of a truncated archive, the part that is there."""

    def __init__(self, file: BinaryIO, archive: tarfile.TarFile, size: int) -> None:
        """The archive has just been read up to the member's content."""
        self._file, self._archive, self._left = file, archive, size

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._archive.close()
        self._file.close()
        super().close()

    def readinto(self, buffer: Any, /) -> int:
        stream = cast(BinaryIO, self._archive.fileobj)
        content = stream.read(min(len(buffer), self._left))
        self._left -= len(content)
        buffer[: len(content)] = content
        return len(content)


def _open_member(archive: Path, name: str) -> BinaryIO:
    file = open_file(archive)
    try:
        members = tarfile.open(fileobj=file, mode="r|", bufsize=_BUFFER)  # noqa: SIM115
        member = next((member for member in members if member.name == name), None)
        if member is None:
            raise FileNotFoundError(f"{archive} holds no {name}")
        return io.BufferedReader(_Member(file, members, member.size), _BUFFER)
    except tarfile.TarError as error:
        file.close()
        raise OSError(f"{archive}: no archive: {error}") from error
    except OSError:
        file.close()
        raise


def read_bytes(path: Path, limit: int | None = None) -> bytes:
    """The decompressed content; of a truncated compressed file, the part that can be recovered.

    Raises OSError, also where it has more than `limit` bytes (`MOST` by default).
    """
    with open_file(path) as file:
        if isinstance(file, io.BufferedReader) and isinstance(file.raw, io.FileIO):
            checked_size(file, limit or MAX_SIZE, path)
        if limit is None:
            return file.read()
        content = file.read(limit + 1)
    if len(content) > limit:
        raise too_large_error(limit, path)
    return content


#: Bytes from which on data is in an unnamed file: a column of 131,072 packets, 190 MB of them.
MAX_IN_MEMORY = 1 << 20
#: Files that may be large (FHS 3.0 §5.15): /tmp is memory on many machines.
_FOLDER = Path("/var/tmp")


def unnamed_file() -> IO[bytes]:
    """A file that is deleted as soon as nobody has it open or mapped, in TMPDIR, else /var/tmp. Raises OSError."""
    folder = os.environ.get("TMPDIR") or (str(_FOLDER) if os.access(_FOLDER, os.W_OK) else None)
    return tempfile.TemporaryFile(dir=folder)


#: The decompressed content of a file, in memory or in an unnamed file whose pages the kernel takes back as it needs.
Content = bytes | mmap.mmap


def map_content(path: Path) -> Content:
    """As `read_bytes`, for files that may be large: 2 GB of quic-go had a trace of 1.5 GB (docs/limits.md)."""
    with open_file(path) as file:
        content = file.read(MAX_IN_MEMORY)
        if len(content) < MAX_IN_MEMORY:
            return content
        try:
            return _map_copy(content, file, path)
        except UnfitFileError:
            raise
        except OSError:
            # The disk is full, or the file is damaged: then reading it again says so.
            pass
    return read_bytes(path, MAX_SIZE)


def _map_copy(start: bytes, rest: BinaryIO, path: Path) -> mmap.mmap:
    """A mapped copy of a file's start and its rest. Raises OSError.

    The file itself is not mapped: whoever shortened it would end this process.
    """
    with unnamed_file() as copy:
        content = start
        while content:
            copy.write(content)
            if copy.tell() > MAX_SIZE:
                raise too_large_error(MAX_SIZE, path)
            content = rest.read(_BUFFER)
        copy.flush()
        return mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ)


def count_word(content: Content, word: bytes) -> int:
    """How often a word that does not overlap itself occurs."""
    starts = range(0, len(content), _BUFFER)
    return sum(content[start : start + _BUFFER + len(word) - 1].count(word) for start in starts)


def content_digest(path: Path) -> str:
    """SHA-256 of a file as it was written, hexadecimal. Raises OSError."""
    digest = hashlib.sha256()
    with open_file(path) as file:
        while block := file.read(_BUFFER):
            digest.update(block)
    return digest.hexdigest()


def content_size(path: Path) -> int:
    """Bytes of a file before compression; its stored size where it does not record that. Raises OSError."""
    with open_regular(path) as file:
        start, stored = file.read(_FRAME_HEADER), os.fstat(file.fileno()).st_size
    if start.startswith(_ZSTD_MAGIC):
        size = zstandard.frame_content_size(start)
        if size >= 0:
            return size
    return stored


def read_whole_lines(path: Path) -> bytes:
    """The content up to the last newline: a truncated row could hold a wrong number. Raises OSError."""
    data = read_bytes(path)
    return data[: data.rfind(b"\n") + 1]


def read_objects(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a JSON-lines file; lines that are not JSON objects are skipped. Raises OSError."""
    for line in read_bytes(path).splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):  # a truncated line, or not UTF-8
            continue
        if isinstance(value, dict):
            yield value


def read_lab(path: Path) -> LabFacts:
    """Read lab.json. Raises OSError; ValueError (pydantic's) where it does not say what it must."""
    return LabFacts.model_validate_json(read_bytes(path, MAX_RECORD_SIZE))
