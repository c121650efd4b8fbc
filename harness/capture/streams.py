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
PacketFrames = tuple[StreamFrame, ...]

#: Numbers that are converted to Python integers at a time.
_PART = 1 << 16
#: Bytes of the smallest STREAM frame with data (RFC 9000 §19.8): type, stream, one byte.
SMALLEST_FRAME = 3
#: Bits of a stream ID (RFC 9000 §2.1): the server began the stream; it has one direction.
_BY_SERVER, _ONE_WAY = 0x01, 0x02


@dataclass(frozen=True)
class Bounds:
    """The earliest and the latest time of an event, ns; each None where it had not happened by the capture's end."""

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

    Some packets have more frames than were captured, and the sender's qlog may not list them. A part of the stream that
    is in no known frame was in one of these packets. The earliest time counts it as present from the beginning, the
    latest one from the last such packet on. Both are equal where nothing is missing, or a known part arrived later.
    """

    stream: int
    final_size: int | None
    """Bytes of the stream (RFC 9000 §4.5); None where its end was not visible."""
    size: int
    """Bytes up to the furthest that was visible."""
    head: bytes
    """Its first bytes, as far as they were captured."""
    missing_bytes: int
    """Bytes below `size` that were in no known frame."""
    _known: _Parts
    _missing: Ints
    """Parts of it in no known frame, shape (m, 2)."""
    _latest_ns: int | None
    """When the last packet arrived that may have held these; None where it is unknown whether they arrived."""

    def time_of(self, size: int) -> Bounds:
        """When the first `size` bytes had arrived."""
        return Bounds(_time_reached(*self._early, size), _time_reached(*self._late, size))

    @property
    def completion(self) -> Bounds:
        """When all of it had arrived. If its end was not visible, the last hidden packet may have carried it."""
        if self.final_size is not None:
            return self.time_of(self.final_size)
        bounds = self.time_of(self.size)
        if bounds.latest_ns is None or self._latest_ns is None:
            return Bounds(bounds.earliest_ns, None)
        return Bounds(bounds.earliest_ns, max(bounds.latest_ns, self._latest_ns))

    @cached_property
    def _early(self) -> tuple[Ints, Ints]:
        """Arrival times, and an upper bound of the contiguous bytes after each; both of shape (n,)."""
        starts, ends = self._missing.T
        parts = self._known
        frontiers = contiguous(np.concatenate([starts, parts.offset]), np.concatenate([ends, parts.end]))
        return parts.t_ns, frontiers[len(starts) :]

    @cached_property
    def _late(self) -> tuple[Ints, Ints]:
        """Arrival times, and a lower bound of the contiguous bytes after each; both of the same shape."""
        if not len(self._missing):
            return self._early
        parts, (starts, ends) = self._known, self._missing.T
        if self._latest_ns is None:
            return parts.t_ns, contiguous(parts.offset, parts.end)
        at = np.searchsorted(parts.t_ns, self._latest_ns, side="right")
        frontiers = contiguous(np.insert(parts.offset, at, starts), np.insert(parts.end, at, ends))
        return np.insert(parts.t_ns, at, np.full(len(starts), self._latest_ns)), frontiers


def is_response_stream(stream: int) -> bool:
    """Whether a stream is one of requests and their answers: the client began it, and it has both directions."""
    return not stream & (_BY_SERVER | _ONE_WAY)


def largest_stream(sent: SentPackets) -> int | None:
    """The client's bidirectional stream with the highest offset: the answer to a request, or an upload."""
    furthest: Counter[int] = Counter()
    for frames in sent.frames:
        for frame in frames.streams:
            if is_response_stream(frame.stream):
                furthest[frame.stream] = max(furthest[frame.stream], frame.end)
    return max(furthest, key=lambda stream: furthest[stream]) if furthest else None


def stream_arrival(
    sent: SentPackets, stream: int, whole: bool, logged: Mapping[int, PacketFrames] | None = None
) -> StreamArrival:
    """When the data of a stream arrived at the capture's interface.

    `whole`: the application received all of it; else bytes that were not visible may never have arrived. `logged`: the
    STREAM frames that the sender logged, by packet number. They count where they agree with the packet's visible part.
    """
    return _collect_arrivals(sent, whole, logged, {stream: _Frames()}, lambda number: number == stream)[stream]


def stream_arrivals(
    sent: SentPackets, whole: bool, logged: Mapping[int, PacketFrames] | None = None
) -> dict[int, StreamArrival]:
    """As `stream_arrival`, for every stream with an answer of the server, by stream ID."""
    return _collect_arrivals(sent, whole, logged, {}, is_response_stream)


@dataclass
class _Frames:
    """STREAM frames of one stream, in order of arrival; long transfers have millions."""

    times: array[int] = field(default_factory=lambda: array("q"))
    offsets: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    final: int | None = None
    head: bytes = b""

    def add(self, t_ns: int, frame: StreamFrame) -> None:
        """Add a frame that arrived."""
        self.times.append(t_ns)
        self.offsets.append(frame.offset)
        self.ends.append(frame.end)
        if frame.fin:
            self.final = frame.end if self.final is None else max(self.final, frame.end)
        if frame.offset == 0 and not self.head:
            self.head = frame.head


def _collect_arrivals(
    sent: SentPackets,
    whole: bool,
    logged: Mapping[int, PacketFrames] | None,
    streams: dict[int, _Frames],
    selects: Callable[[int], bool],
) -> dict[int, StreamArrival]:
    """Arrivals of the streams that `selects` accepts, and of those already in `streams`, by ID."""
    hidden, logged_frames = _add_logged_frames(sent, logged or {})
    for index, (t_ns, frames) in enumerate(zip(_iterate(sent.t_ns), sent.frames, strict=True)):
        for frame in frames.streams if index not in logged_frames else (*frames.streams, *logged_frames[index]):
            if selects(frame.stream):
                streams.setdefault(frame.stream, _Frames()).add(t_ns, frame)
    candidates_ns = [*sent.t_ns[hidden].tolist(), *sent.coalesced_ns.tolist()]
    latest_ns = max(candidates_ns, default=None) if whole else None
    return {stream: _build_arrival(stream, frames, latest_ns) for stream, frames in streams.items()}


def _build_arrival(stream: int, frames: _Frames, latest_ns: int | None) -> StreamArrival:
    """The arrival of a stream, from its frames. `latest_ns`: time of the last packet that may hold more of it."""
    parts = _Parts(*(np.array(column, np.int64) for column in (frames.times, frames.offsets, frames.ends)))
    missing = find_gaps(parts.offset, parts.end)
    return StreamArrival(
        stream=stream,
        final_size=frames.final,
        size=int(parts.end.max(initial=0)),
        head=frames.head,
        missing_bytes=int((missing[:, 1] - missing[:, 0]).sum()),
        _known=parts,
        _missing=missing,
        _latest_ns=latest_ns,
    )


def hidden_packets(sent: SentPackets) -> Flags:
    """Which packets may hold a STREAM frame without any captured byte, shape (n,)."""
    hidden = (frames.hidden >= SMALLEST_FRAME for frames in sent.frames)
    return np.fromiter(hidden, np.bool_, len(sent.frames))


def _add_logged_frames(sent: SentPackets, logged: Mapping[int, PacketFrames]) -> tuple[Flags, dict[int, PacketFrames]]:
    """Which packets still hide frames; and by index of a packet, the further STREAM frames that the sender logged."""
    hidden = hidden_packets(sent)
    logged_frames: dict[int, PacketFrames] = {}
    numbers = sent.packets.number
    for index, frames in enumerate(sent.frames if logged else ()):
        streams = logged.get(int(numbers[index])) if hidden[index] else None
        if streams is None:
            continue
        logged_extents = {(frame.stream, frame.offset, frame.length) for frame in streams}
        if all((frame.stream, frame.offset, frame.length) in logged_extents for frame in frames.streams):
            hidden[index] = False
            captured = {(frame.stream, frame.offset) for frame in frames.streams}
            logged_frames[index] = tuple(frame for frame in streams if (frame.stream, frame.offset) not in captured)
    return hidden, logged_frames


def _iterate(numbers: Ints) -> Iterator[int]:
    """The numbers, one at a time, without a list of all."""
    for start in range(0, len(numbers), _PART):
        yield from numbers[start : start + _PART].tolist()


def contiguous(offset: Ints | Sequence[int], end: Ints | Sequence[int]) -> Ints:
    """Contiguous bytes from 0 on after each of n parts [offset, end), in their order; shape (n,)."""
    frontier = 0
    pending: list[tuple[int, int]] = []
    starts, stops = np.asarray(offset, np.int64), np.asarray(end, np.int64)
    frontiers = array("q")
    for start, stop in zip(_iterate(starts), _iterate(stops), strict=True):
        if start <= frontier:
            frontier = max(frontier, stop)
            while pending and pending[0][0] <= frontier:
                frontier = max(frontier, heappop(pending)[1])
        else:
            heappush(pending, (start, stop))
        frontiers.append(frontier)
    return np.array(frontiers, np.int64)


def find_gaps(offset: Ints, end: Ints) -> Ints:
    """The gaps [start, end) that n parts leave between 0 and the furthest byte, in order; shape (m, 2)."""
    order = np.argsort(offset, kind="stable")
    starts = offset[order]
    covered = np.concatenate([[0], np.maximum.accumulate(end[order])])[: len(starts)]
    is_gap = starts > covered
    return np.stack([covered[is_gap], starts[is_gap]], axis=1)


def _time_reached(t_ns: Ints, contiguous_bytes: Ints, size: int) -> int | None:
    at = int(np.searchsorted(contiguous_bytes, size))
    return int(t_ns[at]) if at < len(t_ns) else None
