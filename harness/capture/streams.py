"""When a stream's bytes had arrived without a gap (RFC 9000 §2.2)."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from harness.capture.connections import SentPackets
from harness.capture.quic.frames import StreamFrame

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
#: The STREAM frames of one packet.
Told = tuple[StreamFrame, ...]

#: Numbers that are made Python's at a time.
_PART = 1 << 16
#: Bytes of the smallest STREAM frame with data (RFC 9000 §19.8): type, stream, one byte.
SMALLEST_FRAME = 3
#: Of a stream's ID (RFC 9000 §2.1): whether the server began it, whether it has one direction.
_BY_SERVER, _ONE_WAY = 0x01, 0x02


@dataclass(frozen=True)
class Bounds:
    """Between which two moments something happened, ns; each None where it did not happen by the end of the capture."""

    earliest_ns: int | None
    latest_ns: int | None


@dataclass(frozen=True)
class _Parts:
    """n parts of a stream, in order of arrival; arrays of shape (n,)."""

    t_ns: Ints
    offset: Ints
    end: Ints


@dataclass(frozen=True)
class StreamArrival:
    """The data of one stream as packets brought it to one interface.

    Some packets have more frames than were captured, and what the sender's qlog does not tell of them nobody knows. A
    part of the stream that is in no known frame was in one of these: the earliest moment counts it as there from the
    beginning, the latest one from the last such packet on. Where nothing is missing, or something that is known arrived
    later, both are the same.
    """

    stream: int
    final_size: int | None
    """Bytes of the stream (RFC 9000 §4.5); None where its end was not visible."""
    size: int
    """Bytes up to the furthest that was visible."""
    head: bytes
    """Its first bytes, as far as they were captured."""
    unseen: int
    """Bytes below `size` that were in no known frame."""
    _known: _Parts
    _missing: Ints
    """Parts of it in no known frame, shape (m, 2)."""
    _latest_ns: int | None
    """When the last packet came that may have held these; None where nothing says that they came at all."""

    def reached(self, size: int) -> Bounds:
        """When the first `size` bytes were there."""
        return Bounds(_reached(*self._early, size), _reached(*self._late, size))

    @property
    def ended(self) -> Bounds:
        """When all of it was there; where its end was not visible, that may have come with the last hidden packet."""
        if self.final_size is not None:
            return self.reached(self.final_size)
        found = self.reached(self.size)
        if found.latest_ns is None or self._latest_ns is None:
            return Bounds(found.earliest_ns, None)
        return Bounds(found.earliest_ns, max(found.latest_ns, self._latest_ns))

    @cached_property
    def _early(self) -> tuple[Ints, Ints]:
        """Times of arrival, and the bytes without a gap after each at most; both of shape (n,)."""
        starts, ends = self._missing.T
        known = self._known
        reached = contiguous(np.concatenate([starts, known.offset]), np.concatenate([ends, known.end]))
        return known.t_ns, reached[len(starts) :]

    @cached_property
    def _late(self) -> tuple[Ints, Ints]:
        """The same at least."""
        if not len(self._missing):
            return self._early
        known, (starts, ends) = self._known, self._missing.T
        if self._latest_ns is None:
            return known.t_ns, contiguous(known.offset, known.end)
        at = np.searchsorted(known.t_ns, self._latest_ns, side="right")
        reached = contiguous(np.insert(known.offset, at, starts), np.insert(known.end, at, ends))
        return np.insert(known.t_ns, at, np.full(len(starts), self._latest_ns)), reached


def is_answer(stream: int) -> bool:
    """Whether a server's data on a stream answers a request: the client began it, and it has both directions."""
    return not stream & (_BY_SERVER | _ONE_WAY)


def largest_stream(opened: SentPackets) -> int | None:
    """The bidirectional stream of the client on which the server's data goes furthest: its answer to a request."""
    furthest: Counter[int] = Counter()
    for frames in opened.frames:
        for frame in frames.streams:
            if is_answer(frame.stream):
                furthest[frame.stream] = max(furthest[frame.stream], frame.end)
    return max(furthest, key=lambda stream: furthest[stream]) if furthest else None


def stream_arrival(
    opened: SentPackets, stream: int, whole: bool, told: Mapping[int, Told] | None = None
) -> StreamArrival:
    """When the data of a stream arrived at the capture's interface.

    `whole`: all of it did, as the application had it in the end; else what was not visible may never have come.
    `told`: what the sender says of packets, by number; it counts where it agrees with what was visible of the packet.
    """
    return _arrivals(opened, whole, told, {stream: _Frames()}, lambda number: number == stream)[stream]


def stream_arrivals(
    opened: SentPackets, whole: bool, told: Mapping[int, Told] | None = None
) -> dict[int, StreamArrival]:
    """The same of every stream on which the server answers a request, by its ID."""
    return _arrivals(opened, whole, told, {}, is_answer)


@dataclass
class _Frames:
    """STREAM frames of one stream, in order of arrival; long transfers have millions."""

    times: array[int] = field(default_factory=lambda: array("q"))
    offsets: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    final: int | None = None
    head: bytes = b""

    def add(self, t_ns: int, frame: StreamFrame) -> None:
        """A frame that came."""
        self.times.append(t_ns)
        self.offsets.append(frame.offset)
        self.ends.append(frame.end)
        if frame.fin:
            self.final = frame.end if self.final is None else max(self.final, frame.end)
        if frame.offset == 0 and not self.head:
            self.head = frame.head


def _arrivals(
    opened: SentPackets, whole: bool, told: Mapping[int, Told] | None, found: dict[int, _Frames],
    wanted: Callable[[int], bool],
) -> dict[int, StreamArrival]:  # fmt: skip
    """How the streams came that are wanted, by ID, and those that are in `found` already."""
    hidden, further = _completed(opened, told or {})
    for index, (t_ns, frames) in enumerate(zip(_each(opened.t_ns), opened.frames, strict=True)):
        for frame in frames.streams if index not in further else (*frames.streams, *further[index]):
            if wanted(frame.stream):
                found.setdefault(frame.stream, _Frames()).add(t_ns, frame)
    may_hold = [*opened.t_ns[hidden].tolist(), *opened.coalesced_ns.tolist()]
    latest_ns = max(may_hold, default=None) if whole else None
    return {stream: _arrival(stream, frames, latest_ns) for stream, frames in found.items()}


def _arrival(stream: int, frames: _Frames, latest_ns: int | None) -> StreamArrival:
    """A stream of its frames; `latest_ns`: of the last packet that may hold more."""
    known = _Parts(*(np.array(one, np.int64) for one in (frames.times, frames.offsets, frames.ends)))
    missing = gaps(known.offset, known.end)
    return StreamArrival(
        stream=stream,
        final_size=frames.final,
        size=int(known.end.max(initial=0)),
        head=frames.head,
        unseen=int((missing[:, 1] - missing[:, 0]).sum()),
        _known=known,
        _missing=missing,
        _latest_ns=latest_ns,
    )


def hidden_packets(opened: SentPackets) -> Flags:
    """Which packets may hold a STREAM frame of which nothing was captured, shape (n,)."""
    found = (frames.hidden >= SMALLEST_FRAME for frames in opened.frames)
    return np.fromiter(found, np.bool_, len(opened.frames))


def _completed(opened: SentPackets, told: Mapping[int, Told]) -> tuple[Flags, dict[int, Told]]:
    """Which packets still hide something, and by index further STREAM frames of those that the sender tells of."""
    hidden = hidden_packets(opened)
    further: dict[int, Told] = {}
    numbers = opened.packets.number
    for index, frames in enumerate(opened.frames if told else ()):
        streams = told.get(int(numbers[index])) if hidden[index] else None
        if streams is None:
            continue
        places = {(frame.stream, frame.offset, frame.length) for frame in streams}
        if all((frame.stream, frame.offset, frame.length) in places for frame in frames.streams):
            hidden[index] = False
            seen = {(frame.stream, frame.offset) for frame in frames.streams}
            further[index] = tuple(frame for frame in streams if (frame.stream, frame.offset) not in seen)
    return hidden, further


def _each(numbers: Ints) -> Iterator[int]:
    """Numbers one by one, without a list of all of them."""
    for start in range(0, len(numbers), _PART):
        yield from numbers[start : start + _PART].tolist()


def contiguous(offset: Ints | Sequence[int], end: Ints | Sequence[int]) -> Ints:
    """Bytes from 0 on without a gap after each of n parts [offset, end), in their order; shape (n,)."""
    frontier = 0
    waiting: list[tuple[int, int]] = []
    starts, stops = np.asarray(offset, np.int64), np.asarray(end, np.int64)
    reached = array("q")
    for start, stop in zip(_each(starts), _each(stops), strict=True):
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
