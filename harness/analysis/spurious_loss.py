"""Spurious losses: packets that their sender declared lost and that arrived (RFC 9002 §6.1, RFC 3522 §1).

A sender's own trace of losses is trusted. Without such a trace, the data that it sends again show its losses.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.analysis.arrival import resent_flags, stream_offsets
from harness.analysis.delivery import ByteRanges
from harness.analysis.run_view import RunView, Unavailable
from harness.analysis.timeseries.sender import first_event_ns, traces_of
from harness.capture import qlog
from harness.capture.artefacts import TransferWindow
from harness.capture.capture import Keys
from harness.capture.connections import SentPackets
from harness.capture.matching import MatchedPackets
from harness.capture.quic.frames import Frames
from harness.capture.streams import SMALLEST_FRAME

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
#: Remembered parts of a stream: a sender with so many in flight has 100 MB of them.
_REMEMBERED_PARTS = 1 << 17
#: Bytes of the longest part: what a datagram, or a segment before it is cut, can hold.
_LONGEST_PART = 1 << 16
#: Share of the least round trip: data sent twice within a shorter time were not declared lost in between.
_RTT_SHARE = 0.9
_QLOG = "the sender's qlog and the left capture"
_COPIES = "left capture, decrypted"
_SEGMENTS = "both captures"


@dataclass(frozen=True)
class SpuriousLosses:
    """s packets that were declared lost though they arrived, in the order of declaration; arrays of shape (s,)."""

    declared_ns: Ints
    """When the sender declared each lost, ns since the epoch: by its trace, else when it sent the data again."""
    sent_ns: Ints
    """When each was sent, ns since the epoch."""
    needless: Keys
    """The capture's keys of packets with only data that had arrived, or that other packets delivered, shape (k,)."""
    vantage: str


def spurious_losses(view: RunView, window: TransferWindow) -> SpuriousLosses | Unavailable | None:
    """The spurious losses of one transfer; None if its data are never sent again, or the captures do not show it."""
    return view.cached(_losses_by_transfer)[window.transfer.flow, window.transfer.index]


def _losses_by_transfer(view: RunView) -> dict[tuple[int, int], SpuriousLosses | Unavailable | None]:
    return {(window.transfer.flow, window.transfer.index): _losses_or_reason(view, window) for window in view.windows}


def _losses_or_reason(view: RunView, window: TransferWindow) -> SpuriousLosses | Unavailable | None:
    try:
        return _find_losses(view, window)
    except Exception as error:  # a damaged trace must not cost the time breakdown
        return Unavailable(f"{type(error).__name__}: {error}")


def _find_losses(view: RunView, window: TransferWindow) -> SpuriousLosses | Unavailable | None:
    facts = next((flow for flow in view.lab.flows if flow.flow == window.transfer.flow), None) if view.lab else None
    if view.lab is None or facts is None or facts.kind == "udp":
        return None
    down = facts.sender == "server"
    passage = view.to_client if down else view.to_server
    if passage is None:
        return None
    t_ns = passage.entered.t_ns
    passage = passage.select(
        np.asarray((t_ns >= window.start_ns) & (t_ns < window.end_ns) & (passage.entered.flow == window.transfer.flow))
    )
    links = next((path.links for path in view.lab.paths if path.path == facts.path), view.lab.links)
    jitter_ns = links.to_client.jitter_ns + links.to_server.jitter_ns
    rtt_ns = links.rtt_ns - jitter_ns + 2 * facts.access_delay_ns
    if window.over_tcp:
        return segment_losses(passage, down, rtt_ns)
    return _packet_losses(view, window, passage, rtt_ns)


def segment_losses(passage: MatchedPackets, down: bool, rtt_ns: int) -> SpuriousLosses:
    """For TCP: segments sent again, all of whose bytes had been sent before in segments that arrived."""
    sent = passage.entered
    ports = sent.destination_port if down else sent.source_port
    resent = resent_flags(sent, ports)
    losses = _LossCollector(rtt_ns)
    for port in np.unique(ports[resent]):
        rows = np.flatnonzero((ports == port) & (sent.payload > 0))
        begins = stream_offsets(sent.sequence[rows], int(sent.sequence[rows[0]]))
        ends = begins + sent.payload[rows]
        overlaps = _overlap(begins, ends, resent[rows])
        rows, begins, ends = rows[overlaps], begins[overlaps], ends[overlaps]
        received, carriers = ByteRanges(), _Carriers()
        for begin, end, t_ns, copy, arrived, key in zip(
            begins.tolist(),
            ends.tolist(),
            sent.t_ns[rows].tolist(),
            resent[rows].tolist(),
            passage.arrived[rows].tolist(),
            sent.key[rows].tolist(),
            strict=True,
        ):
            if copy and received.has(begin, end):
                losses.add(t_ns, carriers.sent_at(begin, t_ns))
                losses.needless.append(key)
            if arrived:
                received.add(begin, end)
                carriers.add(begin, end, t_ns)
    return losses.losses(_SEGMENTS)


def _overlap(begins: Ints, ends: Ints, flagged: Flags) -> Flags:
    """Which of n parts of a stream share a byte with the flagged parts, shape (n,)."""
    order = np.argsort(begins[flagged], kind="stable")
    starts, furthest = begins[flagged][order], np.maximum.accumulate(ends[flagged][order])
    at = np.searchsorted(starts, ends) - 1
    return np.asarray((at >= 0) & (furthest[np.maximum(at, 0)] > begins), np.bool_)


def _packet_losses(
    view: RunView, window: TransferWindow, passage: MatchedPackets, rtt_ns: int
) -> SpuriousLosses | Unavailable:
    """For QUIC: the losses that its trace names, else the packets whose data it sent again."""
    opened = view.decrypted_packets(window, window.sender)
    if not opened:
        return Unavailable("there are no keys to read packets with")
    left = [_sending_times(passage, connection.key) for connection in opened]
    trace = next(iter(traces_of(view, window, window.sender)), None)
    logged = [] if trace is None else qlog.read_lost(trace)
    lifetime = None if view.series is None else view.series.lifetimes.get(window.transfer.flow)
    by_copies = copied_frames(opened, left, rtt_ns)
    if not logged or trace is None or lifetime is None:
        return by_copies
    first_ns = first_event_ns(view, trace, lifetime, window)
    # A trace covers one connection; the connection with the most packets is the transfer's.
    connection, left_ns = max(zip(opened, left, strict=True), key=lambda pair: len(pair[1]))
    declared_lost = np.isin(connection.packets.number, [loss.number for loss in logged]) & (left_ns >= 0)
    left_by_number = dict(
        zip(connection.packets.number[declared_lost].tolist(), left_ns[declared_lost].tolist(), strict=True)
    )
    moments = sorted(
        (first_ns + round(loss.t_ms * 1e6), left_by_number[loss.number])
        for loss in logged
        if loss.number in left_by_number
    )
    losses = np.array(moments, np.int64).reshape(-1, 2)
    return replace(by_copies, declared_ns=losses[:, 0], sent_ns=losses[:, 1], vantage=_QLOG)


def _sending_times(passage: MatchedPackets, keys: Keys) -> Ints:
    """When the packets with these n keys were sent, ns since the epoch, shape (n,); -1 if that was not seen."""
    order = np.argsort(passage.entered.key, kind="stable")
    ordered = passage.entered.key[order]
    if not len(ordered):
        return np.full(len(keys), -1, np.int64)
    at = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    return np.where(ordered[at] == keys, passage.entered.t_ns[order[at]], -1)


def copied_frames(opened: Sequence[SentPackets], left_ns: Sequence[Ints], rtt_ns: int) -> SpuriousLosses:
    """For QUIC: frames that brought the client stream data it already had. `left_ns`: when the packets of each
    connection were sent, -1 if that is unknown.

    A frame is sent again when its packet is declared lost, or as a probe (RFC 9002 §6.2.4).
    """
    losses = _LossCollector(rtt_ns)
    for connection, sent_times in zip(opened, left_ns, strict=True):
        received, stream_carriers = dict[int, ByteRanges](), dict[int, _Carriers]()
        for sent_ns, frames, key in _possible_copies(connection, sent_times):
            data = [frame for frame in frames.streams if frame.length]
            new = [received.setdefault(frame.stream, ByteRanges()).add(frame.offset, frame.end) for frame in data]
            if sent_ns < 0:
                continue
            if data and not any(new) and frames.hidden < SMALLEST_FRAME:
                losses.needless.append(int(key))
            for frame, is_new in zip(data, new, strict=True):
                carriers = stream_carriers.setdefault(frame.stream, _Carriers())
                if not is_new:
                    losses.add(int(sent_ns), carriers.sent_at(frame.offset, int(sent_ns)))
                carriers.add(frame.offset, frame.end, int(sent_ns))
    return losses.losses(_COPIES)


def _possible_copies(connection: SentPackets, sent_ns: Ints) -> Iterable[tuple[int, Frames, int]]:
    """When each packet was sent, its frames and its key, in order; without packets that decide nothing.

    Most transfers send few bytes twice. Frames that are read anew each time are gone through once, and all are kept.
    """
    if not isinstance(connection.frames, tuple):
        return zip(sent_ns, connection.frames, connection.key, strict=True)
    rows = _packets_with_shared_bytes(connection.frames).tolist()
    return ((sent_ns[row], connection.frames[row], connection.key[row]) for row in rows)


def _packets_with_shared_bytes(frames: Sequence[Frames]) -> Ints:
    """Indices of the packets with stream data that another frame has, too, ascending."""
    parts = np.array(
        [
            (index, frame.stream, frame.offset, frame.end)
            for index, packet in enumerate(frames)
            for frame in packet.streams
            if frame.length
        ],
        np.int64,
    ).reshape(-1, 4)
    index, stream, begin, end = parts[np.lexsort((parts[:, 2], parts[:, 1]))].T
    # Streams one behind the other, so that no two share a byte.
    start = np.unique(stream, return_inverse=True)[1] * (end.max(initial=0) + 1)
    begin, end = begin + start, end + start
    shared = np.zeros(len(index), np.bool_)
    shared[1:] = begin[1:] < np.maximum.accumulate(end)[:-1]
    shared[:-1] |= begin[1:] < end[:-1]
    return np.unique(index[shared])


class _Carriers:
    """When the packets were sent that carried the parts of a stream, by the beginning of each part.

    It remembers the last `_KEPT` parts at least: no sender has more in flight.
    """

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._parts: dict[int, tuple[int, int]] = {}

    def add(self, begin: int, end: int, sent_ns: int) -> None:
        """Record that a packet sent at that time carried a part; the last packet of a part counts."""
        if begin not in self._parts:
            insort(self._offsets, begin)
        self._parts[begin] = end, sent_ns
        if len(self._offsets) >= 2 * _REMEMBERED_PARTS:
            for old in self._offsets[:_REMEMBERED_PARTS]:
                del self._parts[old]
            del self._offsets[:_REMEMBERED_PARTS]

    def sent_at(self, byte: int, default_ns: int) -> int:
        """When the packet was sent that carried a byte; the default if none is known that did."""
        at = bisect_right(self._offsets, byte) - 1
        while at >= 0 and byte - self._offsets[at] < _LONGEST_PART:
            end, sent_ns = self._parts[self._offsets[at]]
            if byte < end:
                return sent_ns
            at -= 1
        return default_ns


class _LossCollector:
    """Collects spurious losses."""

    def __init__(self, rtt_ns: int) -> None:
        self._rtt_ns = rtt_ns
        self._losses: list[tuple[int, int]] = []
        self.needless: list[int] = []

    def add(self, one_ns: int, other_ns: int) -> None:
        """Record two packets with the same data by their sending times. The later is the copy, even if it arrived
        first.

        If both were sent in less than a round trip, the sender cannot have declared the first one lost.
        """
        left, declared = sorted((one_ns, other_ns))
        if declared - left >= _RTT_SHARE * self._rtt_ns:
            self._losses.append((declared, left))

    def losses(self, vantage: str) -> SpuriousLosses:
        """All of them, in order."""
        return _sort_losses(self._losses, self.needless, vantage)


def _sort_losses(losses: Sequence[tuple[int, int]], needless: Sequence[int], vantage: str) -> SpuriousLosses:
    declared, left = np.array(sorted(losses), np.int64).reshape(-1, 2).T
    return SpuriousLosses(declared, left, np.array(needless, np.uint64), vantage)
