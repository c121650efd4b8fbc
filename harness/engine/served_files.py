"""The files that servers serve: of given sizes, and the same on every machine."""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.engine.images.cache import UNFINISHED, Cache, cache_error
from harness.engine.process_owner import owner
from harness.reading import open_regular
from harness.topology import Lab
from harness.topology.spec import LabFile

#: Modification time of all files that endpoints get, seconds since the epoch (2026-01-01). Servers send it to their
#: clients, as Last-Modified or as part of an ETag (RFC 9110 §8.8).
MODIFIED = 1_767_225_600


def set_fixed_metadata(file: Path) -> None:
    """Set the modes and times of a file and its folder to those that they have on every machine."""
    for place, mode in ((file, 0o755 if file.is_dir() else 0o644), (file.parent, 0o755)):
        status = place.stat()
        # A file that is right already may belong to somebody else.
        if stat.S_IMODE(status.st_mode) != mode:
            place.chmod(mode)
        if status.st_mtime_ns != MODIFIED * 10**9:
            os.utime(place, (MODIFIED, MODIFIED))


def _is_intact(file: Path, size: int) -> bool:
    """Whether a file is there and unchanged: one that was written to has another time."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return False
    return status.st_size == size and status.st_mtime_ns == MODIFIED * 10**9


#: A row of one grey pixel, compressed (RFC 1950). Not every build of zlib compresses to the same bytes.
_GREY = bytes.fromhex("789c6368000000820081")
#: Bytes generated at once.
PIECE = 1 << 24


def served_bytes(file: LabFile, number: int = 0) -> Iterator[bytes]:
    """Yield the content of a served file: a text and blanks behind it, or bytes that nothing compresses, the same on
    every machine.

    `number`: files of one size with other numbers have other bytes.
    """
    if file.text:
        yield file.text.encode().ljust(file.size)
        return
    generator = np.random.Generator(np.random.PCG64([file.size, number] if number else file.size))
    if file.is_image and file.size > len(_png(b"")):
        yield _png(generator.bytes(file.size - len(_png(b""))))
        return
    for written in range(0, file.size, PIECE):
        yield generator.bytes(min(file.size - written, PIECE))


def _png(content: bytes) -> bytes:
    """A PNG image of one grey pixel (ISO/IEC 15948) with a private chunk that holds the content."""
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)),
        (b"quLb", content),
        (b"IDAT", _GREY),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


def served_file(folder: Path, served: LabFile, number: int = 0) -> Path:
    """A file with these bytes in a folder, or in one below it; made once. Raises OSError."""
    size = served.size
    file = folder / served.name
    if not _is_intact(file, size):
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f"{UNFINISHED}{owner()}.{threading.get_ident()}"
        try:
            with unfinished.open("wb") as out:
                for piece in served_bytes(served, number):
                    out.write(piece)
            unfinished.replace(file)
        finally:
            unfinished.unlink(missing_ok=True)
    set_fixed_metadata(file)
    if file.parent != folder:
        set_fixed_metadata(file.parent)
    return file


def make_served_files(lab: Lab, cache: Cache) -> None:
    """Make the files that a lab's servers serve. EngineError where they cannot be written."""
    sizes = {flow.file: flow.size for flow in lab.flows if flow.file}
    folders = {flow.folder: flow.files for flow in lab.flows if flow.files}
    try:
        missing = [name for name, size in sizes.items() if not _is_intact(cache.www / name, size)]
        missing += [name for name in folders if not (cache.www / name).exists()]
        cache.www.mkdir(parents=True, exist_ok=True)
        for name, size in sizes.items():
            served_file(cache.www, LabFile(name=name, size=size))
        for name, files in folders.items():
            for number, file in enumerate(files):
                served_file(cache.www / name, file, number)
    except OSError as error:
        raise cache_error(error, cache.folder) from error
    if missing:
        cache.bound()


@contextlib.contextmanager
def locked_served_files(lab: Lab, cache: Cache) -> Iterator[None]:
    """Within the context the files of a lab's servers are there, and nobody removes them. EngineError."""
    with cache.use(*(f"www/{flow.file or flow.folder}" for flow in lab.flows if flow.file or flow.folder)):
        make_served_files(lab, cache)
        yield


def first_difference(received: Path, served: Path, *, part: bool = False) -> int | None:
    """Offset of the first byte in which two files differ, or None when equal.

    A missing tail counts as a difference. With `part` the received file may be a beginning of the served one.
    """
    offset = 0
    # An endpoint may have put something else there than a regular file.
    with open_regular(received) as first, served.open("rb") as second:
        while True:
            received_chunk = first.read(1 << 22)
            served_chunk = second.read(len(received_chunk) if part else 1 << 22)
            if received_chunk != served_chunk:
                shorter = min(len(received_chunk), len(served_chunk))
                left, right = (np.frombuffer(data[:shorter], dtype=np.uint8) for data in (received_chunk, served_chunk))
                differing = np.flatnonzero(left != right)
                return offset + (int(differing[0]) if differing.size else shorter)
            if not received_chunk:
                return None
            offset += len(received_chunk)
