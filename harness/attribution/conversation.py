"""One transfer as its rules look at it: what left, what came, what was acknowledged, and which windows were in force.

All moments are ns since the client's first datagram, on the clock of the client's side: what happened at the sender
stands at the moment at which a packet that left then would be at the client, through an empty path. So a gap in what
arrives stands beside what the sender did at that time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from harness.attribution.spans import NONE, Flags, Ints, merged

Floats = npt.NDArray[np.float64]
_NOTHING: Ints = np.zeros(0, np.int64)
#: The bottleneck serves one packet after the other: what is closer to each other than this has no gap, ns.
NO_GAP = 2_000


@dataclass(frozen=True)
class Sent:
    """The n packets of the sender, in the order in which they left; arrays of shape (n,)."""

    t_ns: Ints
    size: Ints
    """Payload of UDP or TCP, bytes."""
    start_ns: Ints
    """When the bottleneck began to serve each; -1 of one that its queue dropped."""
    end_ns: Ints
    """When it had; of one that arrived no later than that."""
    arrived: Flags
    lost: Flags
    """It never came, and was not just under way when the capture ended."""

    def __len__(self) -> int:
        return len(self.t_ns)


@dataclass(frozen=True)
class Acknowledged:
    """The m packets of the client that came to the sender, in order of arrival; arrays of shape (m,)."""

    t_ns: Ints
    upto: Ints
    """Packets of the sender up to which each acknowledges, at most: all that had come when it left."""
    late_ns: Floats
    """How long after their arrival the packets that it acknowledges newly were acknowledged, on average, less the
    return path's own delay: what the client held it for, and what it waited in the return path's queue; 0 where it
    acknowledges nothing new."""
    rtt_ns: Floats
    """From when these packets had left until then, on average; 0 where there are none."""


@dataclass(frozen=True)
class Credit:
    """A limit of flow control (RFC 9000 §4.1), and what of it was used."""

    name: str
    granted_ns: Ints
    """When each limit came to the sender, shape (g,)."""
    limit: Ints
    """Bytes of the stream, or of all streams, that may be sent from then on, shape (g,)."""
    used_ns: Ints
    """When more of it had been used, shape (u,)."""
    used: Ints
    """Bytes, shape (u,)."""


@dataclass(frozen=True)
class Window:
    """The congestion window as the sender tells it, held until it changes; arrays of shape (w,)."""

    t_ns: Ints
    bytes: Floats


@dataclass(frozen=True)
class Conversation:
    """One transfer."""

    request_ns: int
    """The client could ask: the handshake was over."""
    first_ns: int
    """The first byte of the answer had come."""
    end_ns: int
    """The last byte had come."""
    rtt_ns: int
    """The path's own, without queues."""
    rate_bps: int
    """Of the bottleneck when the transfer began, layer 2."""
    sent: Sent
    acknowledged: Acknowledged
    others: Ints = field(default_factory=lambda: NONE)
    """When the bottleneck served other flows: spans."""
    credits: tuple[Credit, ...] = ()
    window: Window | None = None
    """None where the sender does not tell."""

    @cached_property
    def payload(self) -> int:
        """Payload of the packets in which most bytes went."""
        sizes, counts = np.unique(self.sent.size[self.sent.size > 0], return_counts=True)
        return int(sizes[(sizes * counts).argmax()]) if len(sizes) else 0

    @cached_property
    def bdp(self) -> float:
        """Bandwidth-delay product, bytes."""
        return self.rate_bps / 8 * self.rtt_ns / 1e9

    @cached_property
    def served(self) -> Ints:
        """When the bottleneck served what then arrived: spans."""
        sent, done = self.sent, self.sent.arrived & (self.sent.start_ns >= 0)
        return merged(np.stack([sent.start_ns[done], sent.end_ns[done]], axis=1), NO_GAP)

    @cached_property
    def wasted(self) -> Ints:
        """When it served what was lost behind it: spans."""
        sent, done = self.sent, ~self.sent.arrived & (self.sent.start_ns >= 0)
        return merged(np.stack([sent.start_ns[done], sent.end_ns[done]], axis=1), NO_GAP)

    @cached_property
    def queued(self) -> Ints:
        """When at least one of its packets waited at the bottleneck: spans."""
        sent, done = self.sent, self.sent.start_ns >= 0
        return merged(np.stack([sent.t_ns[done], sent.start_ns[done]], axis=1))

    @cached_property
    def totals(self) -> Ints:
        """Bytes of the first k packets, shape (n + 1,)."""
        return np.concatenate([[0], np.cumsum(self.sent.size)]).astype(np.int64)

    def acknowledged_by(self, moments: Ints) -> Ints:
        """Packets up to which was acknowledged at each moment, shape of `moments`."""
        reached = np.concatenate([[0], np.maximum.accumulate(self.acknowledged.upto)]).astype(np.int64)
        found: Ints = reached[np.searchsorted(self.acknowledged.t_ns, moments, side="right")]
        return found

    def in_flight(self, moments: Ints) -> Ints:
        """Bytes that had left and were not acknowledged at each moment (RFC 9002 §2).

        What was lost below the largest acknowledged packet is none of it.
        """
        left = np.searchsorted(self.sent.t_ns, moments, side="right")
        found: Ints = self.totals[left] - self.totals[np.minimum(self.acknowledged_by(moments), left)]
        return found

    def at(self, moments: Ints) -> Floats:
        """The congestion window at each moment; infinite before the first value. Of a sender that tells it."""
        assert self.window is not None
        held = np.concatenate([[np.inf], self.window.bytes])
        return held[np.searchsorted(self.window.t_ns, moments, side="right")]

    @cached_property
    def detected(self) -> tuple[Ints, Ints]:
        """(when, which): losses in the order in which the sender could know of them, both of shape (l,).

        By the packet threshold (RFC 9002 §6.1.1), when three that left later are acknowledged. Probes of the path MTU
        are none (RFC 9000 §14.4).
        """
        lost = np.flatnonzero(self.sent.lost & (self.sent.size <= self.payload) & (self.sent.size > 0))
        reached = np.maximum.accumulate(self.acknowledged.upto) if len(self.acknowledged.upto) else _NOTHING
        at = np.searchsorted(reached, lost + 1 + _THRESHOLD)
        known = at < len(reached)
        when = self.acknowledged.t_ns[at[known]] if len(reached) else _NOTHING
        order = np.argsort(when, kind="stable")
        return when[order], lost[known][order]

    @cached_property
    def rounds(self) -> tuple[Ints, Ints]:
        """(beginnings, bytes sent in each): round trips of the answer, both of shape (r,).

        One ends when the first packet that left in it is acknowledged, and the next begins (as in RFC 9406 §4.2).
        """
        sent, known = self.sent.t_ns, self.acknowledged
        reached = np.maximum.accumulate(known.upto) if len(known.upto) else _NOTHING
        begins: list[int] = []
        places: list[int] = []
        place = int(np.searchsorted(sent, self.first_ns - self.rtt_ns // 4))
        moment = int(sent[place]) if place < len(sent) else 0
        while place < len(sent):
            begins.append(moment)
            places.append(place)
            at = int(np.searchsorted(reached, place + 1))
            if at == len(reached):
                break
            moment = int(known.t_ns[at])
            place = max(int(np.searchsorted(sent, moment)), place + 1)
        ends = np.array([*places, len(sent)], np.int64)
        return np.array(begins, np.int64), np.diff(self.totals[ends])

    @property
    def data_ns(self) -> tuple[int, int]:
        """From the first byte of the answer to the last."""
        return self.first_ns, self.end_ns


#: kPacketThreshold (RFC 9002 §6.1.1).
_THRESHOLD = 3
