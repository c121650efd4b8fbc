"""One transfer as its rules see it: packets sent, received and acknowledged, and the windows in force.

All moments are ns since the client's first datagram, on the clock of the receiver's side. An event at the sender is
placed at the moment when a packet that left then would arrive at the receiver through an empty path. So a gap in the
arrivals is at the same moment as the sender's action that caused it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

# --- Spans of time: arrays of shape (n, 2) of ns, in order, that do not touch each other.


Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

NO_SPANS: Ints = np.zeros((0, 2), np.int64)


def sorted_unique(*moments: Ints) -> Ints:
    """All of these moments, each once, in order. They are mostly in order, and np.unique would hash them."""
    ordered = np.sort(np.concatenate(moments), kind="stable")
    unique: Ints = ordered[np.diff(ordered, prepend=ordered[:1] - 1) != 0]
    return unique


def merge_spans(spans: Ints | Sequence[tuple[int, int]], gap_ns: int = 0) -> Ints:
    """Any spans, in order and without overlaps; spans at most `gap_ns` apart are joined, empty ones dropped."""
    ordered = np.asarray(spans, np.int64).reshape(-1, 2)
    ordered = ordered[ordered[:, 1] > ordered[:, 0]]
    if not len(ordered):
        return NO_SPANS
    ordered = ordered[np.argsort(ordered[:, 0], kind="stable")]
    until = np.maximum.accumulate(ordered[:, 1])
    first = np.concatenate([[True], ordered[1:, 0] > until[:-1] + gap_ns])
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], len(ordered)) - 1
    return np.stack([ordered[starts, 0], until[ends]], axis=1)


def in_spans(moments: Ints, spans: Ints) -> Flags:
    """Which of n moments lie in one of the spans (from ≤ t < to), shape (n,)."""
    if not len(spans):
        return np.zeros(len(moments), np.bool_)
    at = np.searchsorted(spans[:, 0], moments, side="right") - 1
    is_inside: Flags = (at >= 0) & (moments < spans[np.maximum(at, 0), 1])
    return is_inside


def intersect(left: Ints, right: Ints) -> Ints:
    """The intersection of two sets of spans."""
    edges = _edges(left, right)
    return flagged_spans(edges, in_spans(edges[:-1], left) & in_spans(edges[:-1], right))


def subtract(left: Ints, right: Ints) -> Ints:
    """The difference of two sets of spans: time in the first alone."""
    edges = _edges(left, right)
    return flagged_spans(edges, in_spans(edges[:-1], left) & ~in_spans(edges[:-1], right))


def total_ns(spans: Ints) -> int:
    """Their total duration, ns."""
    return int((spans[:, 1] - spans[:, 0]).sum())


def flagged_spans(edges: Ints, flags: Flags) -> Ints:
    """The flagged ones of the n pieces between n + 1 edges in order."""
    return merge_spans(np.stack([edges[:-1], edges[1:]], axis=1)[flags])


def cut_edges(start_ns: int, end_ns: int, spans: Sequence[Ints]) -> Ints:
    """Edges, in order, of the pieces into which spans cut the time from start to end; each piece is inside or outside a
    span.
    """
    cuts = np.concatenate([np.array([start_ns, end_ns], np.int64), *(span_array.ravel() for span_array in spans)])
    return sorted_unique(np.clip(cuts, start_ns, end_ns))


def _edges(*spans: Ints) -> Ints:
    edges = sorted_unique(*(span_array.ravel() for span_array in spans))
    return edges if len(edges) else np.zeros(1, np.int64)


# --- transfer


_NO_TIMES: Ints = np.zeros(0, np.int64)
#: The bottleneck serves one packet after the other: packets closer together than this have no gap, ns.
NO_GAP = 2_000
#: The name of TCP's credit.
RECEIVE_WINDOW = "receive window"


@dataclass(frozen=True)
class SentArrays:
    """The n packets of the sender, in the order in which they were sent; arrays of shape (n,)."""

    t_ns: Ints
    size: Ints
    """Payload of UDP or TCP, bytes."""
    start_ns: Ints
    """When the bottleneck began to serve each; -1 if its queue dropped it."""
    end_ns: Ints
    """When it finished; a packet arrived no later than that."""
    arrived: Flags
    lost: Flags
    """It never arrived, and was not merely in flight when the capture ended."""
    ack_only: Flags | None = None
    """It is known to only acknowledge, so it counts towards no congestion window (RFC 9002 §2); None if no packets can
    be decrypted.
    """

    needless: Flags | None = None
    """It carried only data that had already arrived, as far as is known."""

    @cached_property
    def useful(self) -> Flags:
        """The packet arrived, and was not needless."""
        return self.arrived if self.needless is None else self.arrived & ~self.needless

    @property
    def congestion_controlled(self) -> Flags:
        """Which packets count towards the congestion window, as far as is known."""
        with_payload: Flags = self.size > 0
        return with_payload if self.ack_only is None else with_payload & ~self.ack_only

    def __len__(self) -> int:
        return len(self.t_ns)


@dataclass(frozen=True)
class AckArrays:
    """The m packets of the client that arrived at the sender, in order of arrival; arrays of shape (m,)."""

    t_ns: Ints
    upto: Ints
    """Number of the sender's packets that each acknowledges, at most: all that had arrived when it was sent."""


@dataclass(frozen=True)
class Credit:
    """A flow control limit (RFC 9000 §4.1; for TCP the receive window, RFC 9293 §3.8.6), and its use."""

    name: str
    granted_ns: Ints
    """When each limit arrived at the sender, shape (g,)."""
    limit: Ints
    """Total bytes of the stream, or of all streams, that may be sent from then on, shape (g,)."""
    used_ns: Ints
    """When more of it was used, shape (u,)."""
    used: Ints
    """Bytes, shape (u,)."""


@dataclass(frozen=True)
class WindowSamples:
    """A window as the sender reports it, in force until it changes; arrays of shape (w,)."""

    t_ns: Ints
    bytes: Floats

    def at(self, moments: Ints) -> Floats:
        """The window at each moment; infinite before the first value."""
        values = np.concatenate([[np.inf], self.bytes])
        return values[np.searchsorted(self.t_ns, moments, side="right")]


@dataclass(frozen=True)
class Steps:
    """A figure of the path that changes in steps; arrays of shape (s,)."""

    t_ns: Ints
    """From when on each value is in force; the first is in force before that, too."""
    values: Ints

    def at(self, moments: Ints) -> Ints:
        """The figure at each moment."""
        values: Ints = self.values[np.maximum(np.searchsorted(self.t_ns, moments, side="right") - 1, 0)]
        return values


@dataclass(frozen=True)
class FalseLosses:
    """s packets that were declared lost though they arrived, in the order of declaration; arrays of shape (s,)."""

    t_ns: Ints
    """When the sender declared each lost."""
    sent_ns: Ints
    """When each was sent."""


@dataclass(frozen=True)
class Rounds:
    """Round trips of the response; arrays of shape (r,)."""

    begin_ns: Ints
    size: Ints
    """Bytes sent in each."""
    packets: Ints
    """Packets sent in each that count towards the congestion window."""
    late_ns: Ints
    """By how much its acknowledgement made each longer: delayed by the client, or queued on the return path."""


@dataclass(frozen=True)
class Conversation:
    """One transfer."""

    request_ns: int
    """When the client could send its request: the handshake was over."""
    first_byte_ns: int
    """When the first byte of the response had arrived."""
    end_ns: int
    """When the last byte had arrived."""
    rtt: Steps
    """The path's own round trip, ns, without queues, for packets that the client sends at each moment."""
    rate: Steps
    """Rate of the bottleneck, bit/s at layer 2."""
    sent: SentArrays
    acks: AckArrays
    other_flows: Ints = field(default_factory=lambda: NO_SPANS)
    """When the bottleneck served other flows: spans."""
    credits: tuple[Credit, ...] | None = None
    """None if packets cannot be decrypted, or TCP's opening was not captured, so that the credit is unknown."""
    window: WindowSamples | None = None
    """The congestion window; None if the sender does not report it."""
    spurious_losses: FalseLosses = field(default_factory=lambda: FalseLosses(_NO_TIMES, _NO_TIMES))
    """Empty also if spurious losses cannot be known."""

    @property
    def over_tcp(self) -> bool:
        """Whether its credit is TCP's."""
        return any(credit.name == RECEIVE_WINDOW for credit in self.credits or ())

    @cached_property
    def payload(self) -> int:
        """Payload of the packets that carried most bytes."""
        sizes, counts = np.unique(self.sent.size[self.sent.size > 0], return_counts=True)
        return int(sizes[(sizes * counts).argmax()]) if len(sizes) else 0

    @property
    def rtt_ns(self) -> int:
        """The path's own round trip when the response began, ns."""
        return self.rtt_at(self.first_byte_ns)

    def rtt_at(self, moment: int) -> int:
        """The path's own round trip at a moment, ns."""
        return int(self.rtt.at(np.array([moment]))[0])

    def bdp_at(self, moment: int) -> float:
        """Bandwidth-delay product at a moment, bytes."""
        return float(self.rate.at(np.array([moment]))[0]) / 8 * self.rtt_at(moment) / 1e9

    @cached_property
    def useful_service(self) -> Ints:
        """When the bottleneck served packets that then arrived, and were useful: spans."""
        return self._service(self.sent.useful)

    @cached_property
    def lost_service(self) -> Ints:
        """When it served packets that were lost after it: spans."""
        return self._service(~self.sent.arrived)

    @cached_property
    def needless(self) -> Ints:
        """When it served packets with nothing but data that had already arrived: spans."""
        return self._service(self.sent.arrived & ~self.sent.useful)

    def _service(self, mask: Flags) -> Ints:
        sent, served = self.sent, mask & (self.sent.start_ns >= 0)
        return merge_spans(np.stack([sent.start_ns[served], sent.end_ns[served]], axis=1), NO_GAP)

    @cached_property
    def queued(self) -> Ints:
        """When at least one of its packets waited at the bottleneck: spans."""
        sent, served = self.sent, self.sent.start_ns >= 0
        return merge_spans(np.stack([sent.t_ns[served], sent.start_ns[served]], axis=1))

    @cached_property
    def totals(self) -> Ints:
        """Bytes of the first k packets, shape (n + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sent.size)]).astype(np.int64)

    @cached_property
    def largest_acked(self) -> Ints:
        """Number of packets acknowledged after each acknowledgement, shape (a,)."""
        if not len(self.acks.upto):
            return _NO_TIMES
        largest: Ints = np.maximum.accumulate(self.acks.upto)
        return largest

    def acknowledged_by(self, moments: Ints) -> Ints:
        """Number of packets acknowledged at each moment, shape of `moments`."""
        received = np.searchsorted(self.acks.t_ns, moments, side="right")
        if not len(self.largest_acked):
            return np.zeros_like(received)
        counts: Ints = np.where(received > 0, self.largest_acked[received - 1], 0)
        return counts

    def in_flight(self, moments: Ints) -> Ints:
        """Bytes that were sent and not acknowledged at each moment (RFC 9002 §2).

        Packets lost below the largest acknowledged one do not count.
        """
        left = np.searchsorted(self.sent.t_ns, moments, side="right")
        unacknowledged: Ints = self.totals[left] - self.totals[np.minimum(self.acknowledged_by(moments), left)]
        return unacknowledged

    @cached_property
    def loss_detections(self) -> tuple[Ints, Ints]:
        """(when, which): losses in the order in which the sender could detect them, both of shape (l,).

        By the packet threshold (RFC 9002 §6.1.1): three packets that were sent later are acknowledged. Probes of the
        path MTU do not count (RFC 9000 §14.4).
        """
        lost = np.flatnonzero(self.sent.lost & (self.sent.size <= self.payload) & (self.sent.size > 0))
        largest_acked = self.largest_acked
        at = np.searchsorted(largest_acked, lost + 1 + _PACKET_THRESHOLD)
        detectable = at < len(largest_acked)
        detected_ns = self.acks.t_ns[at[detectable]] if len(largest_acked) else _NO_TIMES
        order = np.argsort(detected_ns, kind="stable")
        return detected_ns[order], lost[detectable][order]

    @cached_property
    def rounds(self) -> Rounds:
        """The response's round trips, as senders count them (RFC 9406 §4.2). A round trip ends, and the next begins,
        when its first packet that arrived is acknowledged.
        """
        sent, acks, largest_acked = self.sent, self.acks, self.largest_acked
        delivered = np.flatnonzero(sent.arrived & (sent.end_ns >= 0))
        begins, places, late = list[int](), list[int](), list[int]()
        place = int(np.searchsorted(sent.t_ns, self.first_byte_ns - self.rtt_ns // 4))
        moment = int(sent.t_ns[place]) if place < len(sent) else 0
        while place < len(sent):
            begins.append(moment)
            places.append(place)
            first = int(np.searchsorted(delivered, place))
            at = (
                int(np.searchsorted(largest_acked, int(delivered[first]) + 1))
                if first < len(delivered)
                else len(largest_acked)
            )
            if at == len(largest_acked):
                late.append(0)
                break
            moment = int(acks.t_ns[at])
            delivered_ns = int(sent.end_ns[delivered[first]])
            late.append(max(moment - self.rtt_at(delivered_ns) - delivered_ns, 0))
            place = max(int(np.searchsorted(sent.t_ns, moment)), place + 1)
        ends = np.array([*places, len(sent)], np.int64)
        counted = np.concatenate([[0], np.cumsum(sent.congestion_controlled)]).astype(np.int64)
        return Rounds(
            np.array(begins, np.int64), np.diff(self.totals[ends]), np.diff(counted[ends]), np.array(late, np.int64)
        )

    @cached_property
    def new_data_end_ns(self) -> int:
        """When the furthest byte of the response had arrived, by its stream's credit: at the latest from then on only
        lost data are left to send. The transfer's end if packets cannot be decrypted.
        """
        used = self.credits[0] if self.credits else None
        if used is None or not len(used.used):
            return self.end_ns
        return min(int(used.used_ns[used.used.argmax()]), self.end_ns)

    @property
    def sending_ns(self) -> tuple[int, int]:
        """From the first byte of the response until the sender had nothing left to send."""
        last = int(self.sent.t_ns[self.sent.size > 0].max(initial=self.first_byte_ns))
        return self.first_byte_ns, min(max(last, self.first_byte_ns), self.end_ns)


#: kPacketThreshold (RFC 9002 §6.1.1).
_PACKET_THRESHOLD = 3
