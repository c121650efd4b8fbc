"""Packets that carry nothing but data, read all at once: most of a download's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from harness.traces.frames import FIN, LEN, OFF, STREAM, STREAM_LAST, Frames, StreamFrame

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

#: Bytes of the longest variable-length integer.
_LONGEST = 8


def data_alone(plain: Bytes, seen: Ints, size: Ints) -> Iterator[Frames | None]:
    """The frames of each of n payloads that begins with a STREAM frame, of which nothing was captured but that frame.

    `plain` holds their first bytes, shape (n, w), of which `seen` were captured, and `size` is their whole length, both
    of shape (n,). None for the others: whoever reads them frame by frame (`frames.read_frames`) says what they are.
    """
    width = plain.shape[1]
    data = np.pad(plain, ((0, 0), (0, _LONGEST)))
    kind = data[:, 0].astype(np.int64)
    whole = (seen > 0) & (kind >= STREAM) & (kind <= STREAM_LAST)
    at = np.ones(len(data), np.int64)
    stream, at = _integers(data, at)
    offset, length = np.zeros_like(at), np.zeros_like(at)
    for bit, values in ((OFF, offset), (LEN, length)):
        some = np.flatnonzero(kind & bit)
        values[some], at[some] = _integers(data[some], at[some])
    length = np.where(kind & LEN, length, size - at)
    end = at + length
    whole &= (at <= seen) & (end <= size) & (end >= np.minimum(size, seen)) & (offset + length < 1 << 62)
    captured = plain.tobytes()
    fields = zip(*(one.tolist() for one in (whole, kind, stream, offset, length, at, end, seen, size)), strict=True)
    for row, (alone, of_kind, in_stream, from_, long, start, stop, known, total) in enumerate(fields):
        if not alone:
            yield None
            continue
        head = captured[row * width + start : row * width + min(stop, known)]
        frame = StreamFrame(in_stream, from_, long, bool(of_kind & FIN), head)
        yield Frames((frame,), (of_kind,), None, total - stop)


def _integers(data: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Variable-length integers (RFC 9000 §16) of n payloads, each at a place of its own, and the places behind them.

    A place beyond what there is gives some integer, and a place further on.
    """
    rows = np.arange(len(data))
    at = np.minimum(at, data.shape[1] - _LONGEST)
    first = data[rows, at].astype(np.int64)
    size = 1 << (first >> 6)
    value = first & 0x3F
    for more in range(1, _LONGEST):
        some = np.flatnonzero(size > more)
        value[some] = value[some] << 8 | data[rows[some], at[some] + more]
    return value, at + size
