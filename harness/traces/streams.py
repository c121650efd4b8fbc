"""When a stream's bytes had arrived without a gap (RFC 9000 §2.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from harness.traces.connections import Opened

Ints = npt.NDArray[np.int64]

#: Bytes of the smallest STREAM frame with data (RFC 9000 §19.8): type, stream, one byte.
_SMALLEST_FRAME = 3
#: Of a stream's ID (RFC 9000 §2.1): whether the server began it, whether it has one direction.
_BY_SERVER, _ONE_WAY = 0x01, 0x02


@dataclass(frozen=True)
class Bounds:
    """Between which two moments something happened, ns; each None where it did not happen by the end of the capture."""

    earliest_ns: int | None
    latest_ns: int | None


@dataclass(frozen=True)
class StreamArrival:
    """The data of one stream as packets brought it to one interface.

    Some packets have more frames than were captured. A part of the stream that is in no visible frame was in one of
    these, and nobody knows in which: the earliest moment counts it as there from the beginning, the latest one from the
    last such packet on. Where nothing is missing, or something visible arrived later, both are the same.
    """

    stream: int
    final_size: int | None
    """Bytes of the stream (RFC 9000 §4.5); None where its end was not visible."""
    size: int
    """Bytes up to the furthest that was visible."""
    head: bytes
    """Its first bytes, as far as they were captured."""
    unseen: int
    """Bytes below `size` that were in no visible frame."""
    _early: tuple[Ints, Ints]
    _late: tuple[Ints, Ints]
    """Times of arrival and bytes without a gap after each, at most and at least; both of shape (n,)."""

    def reached(self, size: int) -> Bounds:
        """When the first `size` bytes were there."""
        return Bounds(_reached(*self._early, size), _reached(*self._late, size))


def largest_stream(opened: Opened) -> int | None:
    """The bidirectional stream of the client on which the server's data goes furthest: its answer to a request."""
    furthest: Counter[int] = Counter()
    for frames in opened.frames:
        for frame in frames.streams:
            if not frame.stream & (_BY_SERVER | _ONE_WAY):
                furthest[frame.stream] = max(furthest[frame.stream], frame.end)
    return max(furthest, key=lambda stream: furthest[stream]) if furthest else None


def stream_arrival(opened: Opened, stream: int, whole: bool) -> StreamArrival:
    """When the data of a stream arrived at the capture's interface.

    `whole`: all of it did, as the application had it in the end; else what was not visible may never have come.
    """
    found = [
        (t_ns, frame)
        for t_ns, frames in zip(opened.t_ns.tolist(), opened.frames, strict=True)
        for frame in frames.streams
        if frame.stream == stream
    ]
    t_ns = np.array([t for t, _ in found], np.int64)
    offset = np.array([frame.offset for _, frame in found], np.int64)
    end = np.array([frame.end for _, frame in found], np.int64)
    heads = (frame.head for _, frame in found if frame.offset == 0 and frame.head)
    starts, ends = gaps(offset, end).T
    early = contiguous(np.concatenate([starts, offset]), np.concatenate([ends, end]))[len(starts) :]
    last = _last_hidden(opened) if whole else None
    late_ns, late = t_ns, contiguous(offset, end)
    if last is not None:
        at = np.searchsorted(t_ns, last, side="right")
        late_ns = np.insert(t_ns, at, np.full(len(starts), last))
        late = contiguous(np.insert(offset, at, starts), np.insert(end, at, ends))
    return StreamArrival(
        stream=stream,
        final_size=max((frame.end for _, frame in found if frame.fin), default=None),
        size=int(end.max(initial=0)),
        head=next(heads, b""),
        unseen=int((ends - starts).sum()),
        _early=(t_ns, early),
        _late=(late_ns, late),
    )


def _last_hidden(opened: Opened) -> int | None:
    """When the last packet came that may hold a frame of which nothing was captured."""
    hidden = [frames.hidden >= _SMALLEST_FRAME for frames in opened.frames]
    times = [*opened.t_ns[np.array(hidden, np.bool_)].tolist(), *opened.coalesced_ns.tolist()]
    return max(times, default=None)


def contiguous(offset: Ints | Sequence[int], end: Ints | Sequence[int]) -> Ints:
    """Bytes from 0 on without a gap after each of n parts [offset, end), in their order; shape (n,)."""
    frontier = 0
    waiting: list[tuple[int, int]] = []
    reached = []
    for start, stop in zip(np.asarray(offset).tolist(), np.asarray(end).tolist(), strict=True):
        if start <= frontier:
            frontier = max(frontier, stop)
            while waiting and waiting[0][0] <= frontier:
                frontier = max(frontier, heappop(waiting)[1])
        else:
            heappush(waiting, (start, stop))
        reached.append(frontier)
    return np.array(reached, np.int64)


def gaps(offset: Ints, end: Ints) -> Ints:
    """The parts [start, end) from 0 to the furthest byte that are in none of n parts, in order; shape (m, 2)."""
    order = np.argsort(offset, kind="stable")
    starts = offset[order]
    before = np.concatenate([[0], np.maximum.accumulate(end[order])])[: len(starts)]
    apart = starts > before
    return np.stack([before[apart], starts[apart]], axis=1)


def _reached(t_ns: Ints, contiguous_bytes: Ints, size: int) -> int | None:
    at = int(np.searchsorted(contiguous_bytes, size))
    return int(t_ns[at]) if at < len(t_ns) else None
