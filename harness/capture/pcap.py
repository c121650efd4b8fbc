"""Classic pcap files as a matrix of packet heads (draft-ietf-opsawg-pcap; microseconds and nanoseconds)."""

from __future__ import annotations

import struct
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from harness.capture import pcapng

#: Bytes of each frame that are kept: the captures' snaplen.
HEAD = 96

_FILE_HEADER = 24
_RECORD_HEADER = 16
_ETHERNET = 1
#: A longer record means that the file is damaged there (tcpdump's MAXIMUM_SNAPLEN).
_MAX_RECORD = 262_144
#: First four bytes → byte order, nanoseconds per unit of the fraction.
_MAGIC = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}


@dataclass(frozen=True)
class Records:
    """n captured frames in file order."""

    t_ns: npt.NDArray[np.int64]
    """Time of capture, shape (n,)."""
    heads: npt.NDArray[np.uint8]
    """First bytes of each frame, zero beyond what was captured, shape (n, HEAD)."""
    captured: npt.NDArray[np.int64]
    """Bytes captured, shape (n,)."""
    length: npt.NDArray[np.int64]
    """Bytes on the wire, Ethernet header included, shape (n,)."""
    truncated: bool
    """The file ends inside a record."""


def merge_records(captures: Sequence[Records]) -> Records:
    """Frames of several captures, in order of time."""
    if len(captures) == 1:
        return captures[0]
    order = np.argsort(np.concatenate([capture.t_ns for capture in captures]), kind="stable")
    t_ns, heads, captured, length = (
        np.concatenate([getattr(capture, name) for capture in captures])[order]
        for name in ("t_ns", "heads", "captured", "length")
    )
    return Records(t_ns, heads, captured, length, any(capture.truncated for capture in captures))


def parse(data: bytes) -> Records:
    """Frames of an Ethernet capture. Raises ValueError where it is no classic Ethernet pcap."""
    order, unit = _parse_file_header(data)
    offsets, end = _record_offsets(data, order)
    return _frames(data, offsets, order, unit, truncated=end != len(data))


def read_parts(file: BinaryIO, size: int = 1 << 23) -> Iterator[Records]:
    """As `parse`, in parts of about `size` bytes of the file, at least one. Only the last can be `truncated`."""
    data = file.read(_FILE_HEADER)
    order, unit = _parse_file_header(data)
    remainder = b""
    while True:
        chunk = file.read(size)
        data = remainder + chunk
        offsets, end = _record_offsets(data, order, 0)
        remainder = data[end:]
        last = not chunk or len(remainder) > _MAX_RECORD + _RECORD_HEADER
        if offsets or last:
            yield _frames(data, offsets, order, unit, truncated=last and bool(remainder))
        if last:
            return


def _frames(data: bytes, offsets: list[int], order: str, unit: int, *, truncated: bool) -> Records:
    """The frames whose records start at `offsets`."""
    if not offsets:
        empty = np.zeros(0, np.int64)
        return Records(empty, np.zeros((0, HEAD), np.uint8), empty, empty, truncated)
    rows = _record_rows(data, offsets)
    fields = rows[:, :_RECORD_HEADER].copy().view(order + "u4").astype(np.int64)
    captured = fields[:, 2]
    heads = np.ascontiguousarray(rows[:, _RECORD_HEADER:])
    short = np.flatnonzero(captured < HEAD)
    heads[short] *= np.arange(HEAD) < captured[short, None]
    return Records(fields[:, 0] * 1_000_000_000 + fields[:, 1] * unit, heads, captured, fields[:, 3], truncated)


def _parse_file_header(data: bytes) -> tuple[str, int]:
    """Byte order, and nanoseconds per unit of a time's fraction."""
    if len(data) < _FILE_HEADER:
        raise ValueError(f"a pcap file starts with {_FILE_HEADER} bytes, this has {len(data)}")
    if data[:4] not in _MAGIC:
        raise ValueError(f"not a classic pcap file: it starts with {data[:4].hex()}")
    order, unit = _MAGIC[data[:4]]
    link = struct.unpack_from(order + "I", data, 20)[0] & 0x0FFF_FFFF
    if link != _ETHERNET:
        raise ValueError(f"the capture's link type is {link}, not Ethernet (1)")
    return order, unit


def iterate_records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Time of capture (ns) and all captured bytes of each frame, in file order, also of a pcapng file.

    Raises ValueError as `parse`.
    """
    if data[:4] == pcapng.MAGIC:
        yield from pcapng.iterate_frames(data)
        return
    order, unit = _parse_file_header(data)
    unpack = struct.Struct(order + "IIII").unpack_from
    for offset in _record_offsets(data, order)[0]:
        seconds, fraction, captured, _ = unpack(data, offset)
        start = offset + _RECORD_HEADER
        yield seconds * 1_000_000_000 + fraction * unit, data[start : start + captured]


def without_frames(data: bytes, numbers: Container[int]) -> bytes:
    """A classic capture without some frames, by their numbers from 1. Raises ValueError as `parse`."""
    order, _ = _parse_file_header(data)
    offsets, end = _record_offsets(data, order)
    records = pairwise([*offsets, end])
    kept = [data[start:stop] for number, (start, stop) in enumerate(records, 1) if number not in numbers]
    return b"".join([data[:_FILE_HEADER], *kept, data[end:]])


def _record_offsets(data: bytes, order: str, position: int = _FILE_HEADER) -> tuple[list[int], int]:
    """The offset of each whole record from `position` on, and the end of the last one."""
    unpack = struct.Struct(order + "I").unpack_from
    offsets = []
    end = len(data)
    while position + _RECORD_HEADER <= end:
        (captured,) = unpack(data, position + 8)
        record_end = position + _RECORD_HEADER + captured
        if record_end > end or captured > _MAX_RECORD:
            break
        offsets.append(position)
        position = record_end
    return offsets, position


def _record_rows(data: bytes, offsets: list[int]) -> npt.NDArray[np.uint8]:
    """Record header and frame head of each record, shape (n, 16 + HEAD)."""
    width = _RECORD_HEADER + HEAD
    buffer = np.frombuffer(data + bytes(width), np.uint8)
    windows = np.lib.stride_tricks.sliding_window_view(buffer, width)
    return windows[np.array(offsets, np.int64)]
