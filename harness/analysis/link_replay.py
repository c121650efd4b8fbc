"""The ideal link: the arrivals of one direction through an exact queue and its server.

The server is a serial server (one packet after the other, each with its own transmission time), or tbf's token bucket.
Then comes netem's delay. Which packets were dropped is taken from the captures. So the replay answers one question
only: when should each packet have left?
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Literal

import numpy as np
import numpy.typing as npt

from harness.capture.artefacts import Artefacts
from harness.capture.capture import Capture
from harness.capture.matching import MatchedPackets
from harness.netem.bounds import SLOWEST_TBF_RATE, default_bucket_bytes
from harness.netem.program import AddressMapping, SizeLimit
from harness.netem.series import DeliveryCourse, RateCourse, SeriesContent, transit_at
from harness.scenario.schema import FRAME_HEADER, Discipline
from harness.topology.lab_file import FlowAddresses, LinkSettings, LinkSettingsChange

# --- The link as it was configured, phase by phase: from one scheduled change to the next.


#: Default bucket of runs that do not record theirs, s: a later default does not apply to them.
_FORMER_WAKE_UP = 0.004


@dataclass(frozen=True)
class LinkPhase:
    """One direction of the link, from `start_ns` until the next phase."""

    start_ns: int
    rate_bps: int
    delay_ns: int
    mean_loss: float
    burst_bytes: int | None
    """The token bucket; None if packets leave one after the other, each with its own transmission time (a serial
    server).
    """
    limit_bytes: int | None
    limit_packets: int | None
    jitter_ns: int = 0
    """How much earlier than the delay a packet may leave."""
    changes: int = 0
    """How many of the path's changes came before it or begin it: its place among the link's states."""
    mtu: SizeLimit | None = None
    """The largest packet that passes; None where that is what the interfaces carry."""

    def is_too_large(self, length: int) -> bool:
        """Whether a frame of that length, Ethernet header included, is larger than what passes."""
        return self.mtu is not None and length - FRAME_HEADER > self.mtu.size


def phases_of(run: Artefacts, direction: Literal["to_client", "to_server"]) -> tuple[LinkPhase, ...]:
    """The phases of one direction in order of time; a change that never took effect begins none.

    A phase begins when the simulator applied its change; the link proof compares that with the scheduled time. Empty
    without lab.json.
    """
    if run.lab is None:
        return ()
    initial: LinkSettings = getattr(run.lab.links, direction)
    phases = [
        LinkPhase(
            0,
            initial.rate_bps,
            initial.delay_ns,
            initial.mean_loss,
            initial.burst_bytes,
            initial.limit_bytes,
            initial.limit_packets,
            initial.jitter_ns,
            mtu=initial.mtu,
        )
    ]
    for index, change in enumerate(run.lab.changes):
        new: LinkSettingsChange | None = getattr(change, direction)
        applied = run.events.applied(index, change.at)
        if new is not None and applied is not None:
            phases.append(_next_phase(phases[-1], new, applied, index + 1))
    return tuple(phases)


def _next_phase(before: LinkPhase, new: LinkSettingsChange, start_ns: int, changes: int) -> LinkPhase:
    rate = before.rate_bps if new.rate_bps is None else new.rate_bps
    burst = new.burst_bytes
    if burst is None and before.burst_bytes is not None:
        # Runs that do not record it had a default bucket, which followed the rate, or a configured one.
        default = default_bucket_bytes(before.rate_bps, _FORMER_WAKE_UP)
        burst = default_bucket_bytes(rate, _FORMER_WAKE_UP) if before.burst_bytes == default else before.burst_bytes
    return LinkPhase(
        start_ns,
        rate,
        before.delay_ns if new.delay_ns is None else new.delay_ns,
        before.mean_loss if new.mean_loss is None else new.mean_loss,
        burst,
        before.limit_bytes if new.limit_bytes is None else new.limit_bytes,
        before.limit_packets if new.limit_packets is None else new.limit_packets,
        before.jitter_ns if new.jitter_ns is None else new.jitter_ns,
        changes,
        before.mtu if new.mtu is None else new.mtu,
    )


# --- Exact bottlenecks: when each packet of an accepted sequence leaves a serial server, or a token bucket.


class Bottleneck(ABC):
    """A queue and its server; all times relative to the first arrival, ns.

    The rates of all phases are known from the start, and the queue is first in, first out. So a departure is determined
    when a packet is accepted.
    """

    def __init__(self, phases: Sequence[LinkPhase], lengths: list[int]) -> None:
        self.phases = list(phases)
        self.phase = self.phases[0]
        self.next_phases = self.phases[1:]
        self.lengths = lengths
        self.starts = [-1.0] * len(lengths)
        """When each accepted packet left the queue."""
        self.departures = [-1.0] * len(lengths)
        """When it left the bottleneck; infinite for one that never does."""
        self.waited = [False] * len(lengths)
        self.queue: list[int] = []  # accepted packets in order; those before `head` have left
        self.head = 0
        self.backlog = 0
        self.transit: Transit | None = None

    def advance(self, now: float) -> None:
        """Let packets leave the queue, and apply changes, until `now`."""
        while self.next_phases and self.next_phases[0].start_ns <= now:
            self.phase = self.next_phases.pop(0)
        head, backlog = self.head, self.backlog
        while head < len(self.queue) and self.starts[self.queue[head]] <= now:
            backlog -= self.lengths[self.queue[head]]
            head += 1
        self.head, self.backlog = head, backlog

    def may_be_too_large(self, length: int, departure: float, guard: float) -> bool:
        """Whether a packet is larger than what passes within `guard` of when it is sent, or of its departure."""
        ends = [*(phase.start_ns for phase in self.phases[1:]), math.inf]
        sent = departure - length * _per_byte(self.phase_at(departure).rate_bps)
        return any(
            phase.is_too_large(length)
            for phase, end in zip(self.phases, ends, strict=True)
            if phase.start_ns <= departure + guard and end > sent - guard
        )

    def phase_at(self, moment: float) -> LinkPhase:
        """The phase in force at a time from now on."""
        phase = self.phase
        for later in self.next_phases:
            if later.start_ns > moment:
                break
            phase = later
        return phase

    def delay_at(self, moment: float) -> int:
        """The delay of a packet that leaves at a time from now on, ns."""
        if self.transit is not None and math.isfinite(moment):
            return int(self.transit.delays_ns(np.array([round(moment)]))[0])
        return self.phase_at(moment).delay_ns

    @abstractmethod
    def would_leave(self, length: int, now: float) -> float:
        """When a packet that arrives now would leave the bottleneck."""

    @abstractmethod
    def _serve(self, index: int, ready: float) -> None:
        """Determine when a packet leaves, after all that were accepted before."""

    def accept(self, index: int, now: float) -> None:
        """Queue a packet."""
        self.queue.append(index)
        self.backlog += self.lengths[index]
        self._serve(index, now)

    def is_full(self, length: int) -> bool:
        """Whether a packet does not fit (net/sched/sch_fifo.c: backlog + length ≤ limit, or packets < limit)."""
        if self.phase.limit_packets is not None:
            return len(self.queue) - self.head >= self.phase.limit_packets
        return self.phase.limit_bytes is not None and self.backlog + length > self.phase.limit_bytes

    def _phase_end(self, number: int) -> float:
        """When a phase ends and the next begins."""
        return float(self.phases[number + 1].start_ns) if number + 1 < len(self.phases) else math.inf


def _per_byte(rate_bps: int) -> float:
    """Time for a byte, ns; infinite at a rate of 0."""
    return 8e9 / rate_bps if rate_bps else math.inf


class SerialServer(Bottleneck):
    """Packets are sent one after the other, each with its own transmission time; the packet in service is not in the
    queue.

    After a change of rate the packet in service continues with its remaining bytes at the new rate.
    """

    def __init__(self, phases: Sequence[LinkPhase], lengths: list[int]) -> None:
        super().__init__(phases, lengths)
        self.free_at = 0.0  # when the last packet has been sent
        self.serving = 0  # the phase at that time

    def would_leave(self, length: int, now: float) -> float:
        """After all packets that were accepted before."""
        return self._sent(length, max(now, self.free_at))[0]

    def _serve(self, index: int, ready: float) -> None:
        start = max(ready, self.free_at)
        self.waited[index] = start > ready
        self.starts[index] = start
        self.free_at, self.serving = self._sent(self.lengths[index], start)
        self.departures[index] = self.free_at

    def _sent(self, length: int, start: float) -> tuple[float, int]:
        """(when, in which phase) the last of so many bytes has been sent, if sending begins at `start`."""
        number, left, moment = self.serving, float(length), start
        while math.isfinite(start):
            until, per_byte = self._phase_end(number), _per_byte(self.phases[number].rate_bps)
            if moment < until:
                end = moment + left * per_byte
                if end <= until:
                    return end, number
                left -= (until - moment) / per_byte
                moment = until
            number += 1
        # It follows a packet that never ends.
        return math.inf, number


class TracedServer(SerialServer):
    """The same with a rate that follows a series."""

    def __init__(self, phases: Sequence[LinkPhase], lengths: list[int], course: RateCourse) -> None:
        super().__init__(phases, lengths)
        self.course = course

    def _sent(self, length: int, start: float) -> tuple[float, int]:
        return (self.course.sent(length, start) if math.isfinite(start) else math.inf), 0


class DeliveryServer(Bottleneck):
    """A packet-delivery trace: packets leave at its opportunities, and wait in the queue until then."""

    def __init__(self, phases: Sequence[LinkPhase], lengths: list[int], course: DeliveryCourse) -> None:
        super().__init__(phases, lengths)
        self.course = course

    def would_leave(self, length: int, now: float) -> float:
        """At the opportunities that those accepted before leave over."""
        return copy.copy(self.course).sent(length, now)[1]

    def _serve(self, index: int, ready: float) -> None:
        self.starts[index], self.departures[index] = self.course.sent(self.lengths[index], ready)
        # Each waits for an opportunity.
        self.waited[index] = True


@dataclass(frozen=True)
class Transit:
    """The way behind a bottleneck whose delay and loss follow a series; times are ns after the first arrival."""

    content: SeriesContent
    base_ns: int
    start_ns: int

    def delays_ns(self, moments: Ints) -> Ints:
        """The delay in force at moments, shape (n,)."""
        return transit_at(self.content, self.base_ns, self.start_ns, moments)[0]

    def losses(self, moments: Ints) -> npt.NDArray[np.float64]:
        """The chance of loss in force at moments, shape (n,)."""
        return transit_at(self.content, self.base_ns, self.start_ns, moments)[1]


@dataclass(frozen=True)
class DirectionSeries:
    """The series of one direction, and when each stood at its beginning and was started, ns."""

    rate: tuple[SeriesContent, int, int] | None = None
    transit: tuple[SeriesContent, int, int] | None = None

    @property
    def kinds(self) -> set[str]:
        """Those that started."""
        return {name for name in ("rate", "transit") if getattr(self, name) is not None}

    def bottleneck(self, phases: Sequence[LinkPhase], lengths: list[int], base: int) -> Bottleneck | None:
        """The server whose rate follows a series, with times from `base` on; None without one."""
        if self.rate is None:
            return None
        content, beginning, start = self.rate
        if content.opportunity:
            return DeliveryServer(phases, lengths, DeliveryCourse(content, beginning - base, start - base))
        return TracedServer(phases, lengths, RateCourse(content, beginning - base, start - base))

    def transit_from(self, base: int) -> Transit | None:
        """The way behind it, with times from `base` on; None where it follows no series."""
        if self.transit is None:
            return None
        content, beginning, start = self.transit
        return Transit(content, beginning - base, start - base)


def series_of(run: Artefacts, direction: Literal["to_client", "to_server"]) -> DirectionSeries:
    """The series of one direction. Raises OSError, or ValueError, where its file cannot be read."""
    by_kind: dict[str, tuple[SeriesContent, int, int]] = {}
    for item in run.lab.series if run.lab is not None else ():
        if item.direction != direction or run.lab is None:
            continue
        settings: LinkSettings = getattr(run.lab.links, direction)
        start = run.series_starts.get(settings.device if item.kind == "rate" else settings.egress)
        if start is not None:
            content = SeriesContent.decode((run.folder / item.file).read_bytes())
            by_kind[item.kind] = (content, start - item.offset_ns, start)
    return DirectionSeries(by_kind.get("rate"), by_kind.get("transit"))


class TokenBucket(Bottleneck):
    """tbf (net/sched/sch_tbf.c): a bucket of `burst` bytes, full at the start, filled at the rate.

    The packet at the head leaves once the bucket holds its length, and is in the queue until then. At a change the
    bucket keeps its bytes, up to the new depth. Linux's own tbf fills the bucket (tbf_change), and checks the packet at
    the head only when it would have left at the former rate; the lab kernel's does neither.
    """

    def __init__(self, phases: Sequence[LinkPhase], lengths: list[int]) -> None:
        super().__init__(phases, lengths)
        self.last = 0.0  # when the last packet left
        self.serving = 0  # the phase at that time
        self.filled_from = -self._depth(0)  # since when it would have been filling, if it were unlimited

    def _time(self, number: int) -> float:
        return _per_byte(max(self.phases[number].rate_bps, SLOWEST_TBF_RATE.value))

    def _depth(self, number: int) -> float:
        """Time to fill the bucket."""
        burst = self.phases[number].burst_bytes
        assert burst is not None
        return burst * self._time(number)

    def would_leave(self, length: int, now: float) -> float:
        """As soon as its tokens are available, and all earlier packets have left."""
        return self._covered(length, max(now, self.last))[0]

    def _serve(self, index: int, ready: float) -> None:
        start = max(ready, self.last)
        departure, filled_from, number = self._covered(self.lengths[index], start)
        self.waited[index] = departure > start
        self.starts[index] = self.departures[index] = self.last = departure
        self.filled_from = max(filled_from, departure - self._depth(number)) + self.lengths[index] * self._time(number)
        self.serving = number

    def _covered(self, length: int, start: float) -> tuple[float, float, int]:
        """(when the bucket holds so many bytes, since when it has been filling, the phase), from `start` on."""
        number, filled_from = self.serving, self.filled_from
        while True:
            until = self._phase_end(number)
            departure = max(start, filled_from + length * self._time(number))
            if departure < until:
                return departure, filled_from, number
            tokens = min(until - filled_from, self._depth(number)) / self._time(number)
            number += 1
            filled_from = until - min(tokens * self._time(number), self._depth(number))


class PolicedLink(Bottleneck):
    """A policer (net/sched/act_police.c): a packet leaves when it comes, or never.

    The bucket is full at the start, and when its rate changes (tcf_police_init). A packet that finds too few tokens
    takes none. One that was delivered although it found too few takes them all the same, so that `tokens` tells by how
    much that was wrong.
    """

    def __init__(self, phases: Sequence[LinkPhase], lengths: list[int]) -> None:
        super().__init__(phases, lengths)
        self.now = 0.0
        self.filled_at = 0.0
        self.tokens = self._depth()
        """Time at the rate for the bytes in the bucket at `filled_at`, ns."""

    def _depth(self) -> float:
        assert self.phase.burst_bytes is not None
        return self.phase.burst_bytes * _per_byte(self.phase.rate_bps)

    def advance(self, now: float) -> None:
        """Fill the bucket until `now`."""
        former = self.phase
        super().advance(now)
        self.now = now
        if self.phase is not former and self.phase.rate_bps != former.rate_bps:
            self.tokens, self.filled_at = self._depth(), float(self.phase.start_ns)
        self.tokens = min(self.tokens + now - self.filled_at, self._depth())
        self.filled_at = now

    def surplus(self, length: int) -> float:
        """Tokens beyond those that a packet takes which comes now, ns; it is dropped if they are less than 0."""
        return self.tokens - length * _per_byte(self.phase.rate_bps)

    def is_full(self, length: int) -> bool:
        """Whether a packet that comes now is dropped."""
        return self.phase.limit_bytes is not None and self.surplus(length) < 0

    def would_leave(self, length: int, now: float) -> float:
        """At once."""
        return now

    def _serve(self, index: int, ready: float) -> None:
        if (left := self.surplus(self.lengths[index])) >= 0 or self.phase.limit_bytes is not None:
            self.tokens = left
        self.starts[index] = self.departures[index] = ready


# --- Packets that a path does not deliver because it is dark, has forgotten an address mapping, or has a node on its
# way that refuses them.
#
# Neither counts as loss in the link proof.


Ints = npt.NDArray[np.int64]

#: Around a move the commands take effect one after the other, and their event is written up to this much later, ns.
_MOVE_GUARD = 50_000_000
_FOREVER = 1 << 62


@dataclass(frozen=True)
class Cuts:
    """When packets of one direction that were queued did not leave, all times in ns."""

    outages: Sequence[tuple[int, int]] = ()
    """(start, end) of the times in which nothing left."""
    silences: Sequence[tuple[int, int]] = ()
    """(start, end) of the times in which what left the queue was dropped, with all that is uncertain about them."""
    mapping_lost_ns: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """When the address mapping of each of n packets was lost, shape (n,), or empty if that does not matter."""
    refused: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Which of n packets a node behind the queue drops by rule, shape (n,), or empty if there is no such node."""

    def refuses(self, index: int) -> bool:
        """Whether a packet that leaves the queue is dropped by rule."""
        return bool(len(self.refused)) and bool(self.refused[index])

    def explain(self, index: int, queued: float, due: float, base: int) -> bool:
        """Whether a cut explains a missing packet that leaves the queue at `queued` and is due at `due`, ns after
        `base`.
        """
        if any(start - _MOVE_GUARD <= due + base < end + _MOVE_GUARD for start, end in self.outages):
            return True
        if any(start <= queued + base < end for start, end in self.silences):
            return True
        return bool(len(self.mapping_lost_ns)) and queued + base >= self.mapping_lost_ns[index] - _MOVE_GUARD


def outages_of(run: Artefacts, direction: Literal["to_client", "to_server"] | None = None) -> list[tuple[int, int]]:
    """The outages of the whole path, or those of a direction alone: (start, end) by the simulator's events.

    An outage that never began is left out.
    """
    outages = []
    for outage in run.lab.outages if run.lab is not None else ():
        if outage.direction != direction:
            continue
        start = run.events.applied(-1, outage.from_ns / 1e9)
        end = None if outage.until_ns is None else run.events.applied(-1, outage.until_ns / 1e9)
        if start is not None:
            outages.append((start, _FOREVER if end is None else end))
    return outages


def silences_of(run: Artefacts, direction: Literal["to_client", "to_server"], guard: int) -> list[tuple[int, int]]:
    """The outages of a direction alone, with `guard` ns before and behind each."""
    return [(start - guard, min(end + guard, _FOREVER)) for start, end in outages_of(run, direction)]


def entered_packets(run: Artefacts, passage: MatchedPackets) -> MatchedPackets:
    """The packets from the clients, without those that arrived during an outage: they never entered the path."""
    in_outage = np.zeros(len(passage.entered), np.bool_)
    for start, end in outages_of(run):
        in_outage |= (passage.entered.t_ns >= start - _MOVE_GUARD) & (passage.entered.t_ns < end + _MOVE_GUARD)
    return passage.select(~(in_outage & ~passage.arrived)) if in_outage.any() else passage


def cuts_to_client(run: Artefacts, passage: MatchedPackets) -> Cuts:
    """The cuts in the direction towards the clients."""
    return Cuts(outages_of(run), mapping_lost_ns=_mapping_expiry(run, passage.entered))


def _mapping_expiry(run: Artefacts, entered: Capture) -> Ints:
    """When the mapping that each packet is addressed to was replaced by another."""
    if run.lab is None or not run.lab.mappings:
        return np.zeros(0, np.int64)
    expiry = np.full(len(entered), _FOREVER, np.int64)
    for flow in run.lab.flows:
        mappings = [mapping for mapping in run.lab.mappings if mapping.inner[0] in flow.client.addresses]
        applied_ns = [run.events.applied(-1, mapping.at_ns / 1e9) for mapping in mappings]
        ends = [time for time in applied_ns if time is not None]
        if not ends:
            continue
        rows = np.flatnonzero(entered.flow == flow.flow)
        # The client's own address and port are valid until the first mapping.
        expiry[rows] = ends[0]
        for number, mapping in enumerate(mappings[: len(ends)]):
            addressed = rows[_is_addressed_to(entered, rows, flow, mapping)]
            expiry[addressed] = ends[number + 1] if number + 1 < len(ends) else _FOREVER
    return expiry


def _is_addressed_to(
    entered: Capture, rows: Ints, flow: FlowAddresses, mapping: AddressMapping
) -> npt.NDArray[np.bool_]:
    places = [flow.client.place(address) for address in mapping.outer]
    matches = np.isin(entered.client_address[rows], places)
    if mapping.port is not None:
        matches &= entered.destination_port[rows] == mapping.port
    return np.asarray(matches, np.bool_)


# --- link replay


NO_CUTS = Cuts()
NO_SERIES = DirectionSeries()
#: A packet due this close to the end of the capture may have been late and still in flight, ns.
_END_GUARD = 100_000_000
#: In virtual time a count may be this much older than its timestamp, because the counter is read before the clock (the
#: simulator's agent, _sample). Largest seen: 1.5 µs.
_READ_LAG = 20_000
#: The path through an idle simulator takes about this long in real time (a lab kernel: 0.1 to 0.5 ms), ns.
_IDLE_DELAY = 1_000_000
#: Around a scheduled change the commands take effect one after the other; packets that leave then prove nothing, ns. In
#: virtual time a change is reported a few clock reads after it.
GUARD_REAL, GUARD_VIRTUAL = 50_000_000, 1_000_000
#: The departure time of a packet that never leaves.
_NEVER = 1 << 62


class Fate(IntEnum):
    """What became of a packet."""

    DELIVERED = 0
    QUEUE_DROP = 1
    LOST = 2
    """Dropped behind the queue, so its bytes used the bottleneck."""
    IN_FLIGHT = 3
    """Not out when the capture ended."""
    CUT = 4
    """Queued, but by the time it should have left the path was gone, or had forgotten where it belongs."""
    REFUSED = 5
    """Dropped behind the queue, because a node on the way drops packets with such a header."""
    TOO_LARGE = 6
    """Larger than the path's MTU when it left the queue: a router does not forward it."""


@dataclass(frozen=True)
class Replay:
    """One direction's n packets on the ideal link; every array has shape (n,)."""

    departure_ns: Ints
    """When the packet should have left the bottleneck; -1 for queue drops."""
    transmission_ns: Ints
    """The packet's own transmission time before it, spent outside the queue; 0 behind a token bucket."""
    due_ns: Ints
    """When it should have left the simulator: departure plus delay; -1 for queue drops."""
    waited: npt.NDArray[np.bool_]
    """The packet had to wait: the bottleneck was busy."""
    fate: npt.NDArray[np.uint8]
    phase: Ints
    """Index of the phase in which it departed."""
    comparable: npt.NDArray[np.bool_]
    """It was delivered and departed away from a change, so its lateness is meaningful."""
    uncounted: npt.NDArray[np.bool_]
    """The queue dropped it after the kernel's counters were read last."""

    @property
    def accepted(self) -> Ints:
        """The rows of the packets that the queue did not drop, in order of departure, shape (m,)."""
        rows = np.flatnonzero(self.fate != Fate.QUEUE_DROP)
        return rows[np.argsort(self.departure_ns[rows], kind="stable")]

    def lateness_ns(self, passage: MatchedPackets) -> Ints:
        """Actual minus ideal departure of the calm packets."""
        return np.asarray(passage.out_ns[self.comparable] - self.due_ns[self.comparable], np.int64)

    def excess_ns(self, passage: MatchedPackets, drift: float) -> Ints:
        """Lateness of the calm packets beyond a drift: that share of the time their busy period has lasted.

        A timer that wakes tbf later than a bucketful loses capacity for good, so lateness accumulates as long as the
        queue is busy. That is an error of the rate, and a small one does not distort what a sender sees.
        """
        accepted = self.accepted
        since = np.zeros(len(self.fate), np.int64)
        since[accepted] = self._busy_for(passage, accepted)
        late = self.lateness_ns(passage)
        allowed = np.round(drift * since[self.comparable]).astype(np.int64)
        return np.sign(late) * np.maximum(np.abs(late) - allowed, 0)

    def _busy_for(self, passage: MatchedPackets, accepted: Ints) -> Ints:
        """How long the queue had been busy when each accepted packet should have left, ns.

        The queue is busy by the replay, or because the previous packet left after this one arrived and this one was
        notably late.
        """
        arrival, departure = passage.entered.t_ns[accepted], self.departure_ns[accepted]
        late = np.where(self.comparable[accepted], passage.out_ns[accepted] - self.due_ns[accepted], 0)
        before = np.maximum.accumulate(departure + late)
        behind = np.concatenate([[False], before[:-1] > arrival[1:]]) if len(arrival) else np.zeros(0, np.bool_)
        busy = self.waited[accepted] | (behind & (late > _IDLE_DELAY))
        start = np.maximum.accumulate(np.where(busy, 0, departure))
        return np.asarray(np.where(busy & (start > 0), departure - start, 0), np.int64)


@dataclass
class _Budget:
    """The kernel's drop count over time: a drop that it has not counted did not happen there."""

    times: Ints
    totals: Ints
    used: int = 0
    is_over: bool = False
    """Whether the last packet that was asked about may have been dropped after the last sample, uncounted."""

    def take(self, now: float, latest: float | None = None) -> bool | None:
        """Whether the count had a drop left for a packet of that time; None after the last sample.

        `latest`: until when the packet may have been dropped, if that is later than `now`.
        """
        sample = int(np.searchsorted(self.times, now + _READ_LAG))
        has_drop = sample < len(self.times) and bool(self.used < self.totals[sample])
        last = now if latest is None else latest
        self.is_over = not has_drop and (not len(self.times) or bool(last + _READ_LAG > self.times[-1]))
        self.used += has_drop
        return None if self.is_over else has_drop


@dataclass(frozen=True)
class DropCounts:
    """Sample times (ns) and running totals of the kernel's drop counts; empty arrays where there are none."""

    queue: tuple[Ints, Ints]
    """Drops at the bottleneck."""
    loss: tuple[Ints, Ints]
    """Drops at netem."""


def replay(
    passage: MatchedPackets,
    phases: Sequence[LinkPhase],
    discipline: type[Discipline],
    counted: DropCounts,
    cuts: Cuts = NO_CUTS,
    guard: int = GUARD_REAL,
    series: DirectionSeries = NO_SERIES,
) -> Replay:
    """Replay one direction.

    `guard`: so close to a change a departure proves nothing, ns. Where the discipline has a queue for each flow, it
    chooses who is next, and the server is replayed in the order in which packets left.
    """
    t_ns = passage.entered.t_ns
    base = int(t_ns[0]) if len(t_ns) else 0
    server: type[Bottleneck] = SerialServer if phases[0].burst_bytes is None else TokenBucket
    server = server if discipline.holds else PolicedLink
    shifted, lengths = [replace(phase, start_ns=phase.start_ns - base) for phase in phases], passage.entered.length
    link = series.bottleneck(shifted, lengths.tolist(), base) or server(shifted, lengths.tolist())
    link.transit = series.transit_from(base)
    queue, loss = (_Budget(times - base, totals) for times, totals in (counted.queue, counted.loss))
    fates, uncounted = np.zeros(len(t_ns), np.uint8), np.zeros(len(t_ns), np.bool_)
    # A packet has passed its flow's access delay only so long after it was due.
    last_due = passage.end_ns - base - (passage.access_ns if passage.access_ns is not None else np.zeros_like(t_ns))
    ends, arrivals, arrived = last_due.tolist(), (t_ns - base).tolist(), passage.arrived.tolist()
    for index in _service_order(passage) if discipline.separates_flows else range(len(t_ns)):
        now = arrivals[index]
        link.advance(now)
        if not arrived[index]:
            departure = link.would_leave(link.lengths[index], now)
            if cuts.explain(index, departure, departure + link.delay_at(departure), base):
                full = _may_be_full(discipline, link, link.lengths[index])
                fate = Fate.QUEUE_DROP if full and queue.take(now) else Fate.CUT
            elif cuts.refuses(index):
                full = _may_be_full(discipline, link, link.lengths[index])
                dropped = full and _counted_drop(discipline, now, departure, queue)
                fate = Fate.QUEUE_DROP if dropped else Fate.REFUSED
            elif link.may_be_too_large(link.lengths[index], departure, guard):
                full = _may_be_full(discipline, link, link.lengths[index])
                fate = Fate.QUEUE_DROP if full and queue.take(now) else Fate.TOO_LARGE
            else:
                fate = _fate(link, link.lengths[index], now, ends[index], queue, loss, discipline)
            fates[index] = fate
            if fate is Fate.QUEUE_DROP:
                uncounted[index] = queue.is_over
                continue
        link.accept(index, now)
    link.advance(np.inf)
    return _build_replay(passage, phases, link, fates, uncounted, base, guard)


def _service_order(passage: MatchedPackets) -> list[int]:
    """The packets in the order in which they left; one that did not, ahead of the next of its flow that did."""
    left = np.where(passage.arrived, passage.out_ns, _NEVER)
    for flow in np.unique(passage.entered.flow):
        rows = np.flatnonzero(passage.entered.flow == flow)
        # The earliest departure of this packet and all behind it.
        left[rows] = np.minimum.accumulate(left[rows][::-1])[::-1]
    order = np.lexsort((np.arange(len(left)), left))
    rows_in_order: list[int] = order.tolist()
    return rows_in_order


def _may_be_full(discipline: type[Discipline], link: Bottleneck, length: int) -> bool:
    """Whether the queue may have dropped a packet; one of several queues drops packets of the longest."""
    return discipline.drops_early or discipline.separates_flows or link.is_full(length)


def _counted_drop(discipline: type[Discipline], now: float, departure: float, queue: _Budget) -> bool | None:
    """Whether the queue's count has a drop for a packet that arrives `now` and would leave at `departure`."""
    if discipline.separates_flows and len(queue.times):
        # Packets are not replayed in the order of these decisions: all that were counted may be meant.
        return queue.take(float(queue.times[-1]) - _READ_LAG, latest=departure)
    return queue.take(departure if discipline.drops_at_dequeue else now)


def _fate(
    link: Bottleneck, length: int, now: int, end: int, queue: _Budget, loss: _Budget, discipline: type[Discipline]
) -> Fate:
    """Why a packet that entered did not leave.

    Without random loss, the queue dropped it unless the kernel did not count that. With random loss, a drop-tail queue
    must have been full, or netem must not have counted it. Errors correct themselves: a drop that is taken for a loss
    fills the replayed queue, and a loss that is taken for a drop empties it, until it is as full as the kernel's.
    """
    departure = link.would_leave(length, now)
    phase = link.phase_at(departure)
    margin = end - departure - link.delay_at(departure)  # how long before the end of the capture it was due
    lossy, full = phase.mean_loss > 0, _may_be_full(discipline, link, length)
    if full or not lossy:
        dropped = _counted_drop(discipline, now, departure, queue)
        if dropped is None:
            # What such a queue holds at the end waits for its turn, which tells nothing yet of its being dropped.
            waits = discipline.separates_flows or discipline.drops_at_dequeue
            dropped = (full and not waits) or (margin > 0 and (waits or not lossy))
        if dropped:
            return Fate.QUEUE_DROP
    if margin < 0:
        return Fate.IN_FLIGHT
    lost = loss.take(departure) if lossy else False
    if lost is False and lossy and not full and queue.take(now):
        return Fate.QUEUE_DROP
    return Fate.LOST if lost or margin > _END_GUARD else Fate.IN_FLIGHT


def replay_random_service(
    passage: MatchedPackets, phases: Sequence[LinkPhase], counted: DropCounts, cuts: Cuts = NO_CUTS
) -> Replay:
    """The fates of the packets of a link whose departures cannot be predicted, because its service is random.

    The queue is first in, first out, so packets that entered after the last one that left may still have been in it.
    The other missing packets were dropped by the queue, as many as the kernel counted, and else after it.
    """
    t_ns, arrived = passage.entered.t_ns, passage.arrived
    delivered = np.flatnonzero(arrived)
    last = int(delivered[-1]) if len(delivered) else -1
    counts = counted.queue[1]
    drops = int(counts[-1]) if len(counts) else len(t_ns)
    fates = np.zeros(len(t_ns), np.uint8)
    cut = np.array([cuts.explain(row, time, time, 0) for row, time in enumerate(t_ns.tolist())], np.bool_) & ~arrived
    fates[cut] = Fate.CUT
    starts = np.array([phase.start_ns for phase in phases[1:]], np.int64)
    phase_of = np.searchsorted(starts, t_ns, side="right").astype(np.int64)
    lengths = passage.entered.length.tolist()
    large = np.array([phases[of].is_too_large(length) for of, length in zip(phase_of, lengths, strict=True)], np.bool_)
    large &= ~arrived & ~cut
    fates[large] = Fate.TOO_LARGE
    missing = np.flatnonzero(~arrived & ~cut & ~large)
    before = missing[missing < last]
    fates[missing] = Fate.IN_FLIGHT
    refused = np.array([cuts.refuses(row) for row in before.tolist()], np.bool_)
    # The queue dropped those that nothing else explains, first.
    dropped = before[np.argsort(refused, kind="stable")][:drops]
    fates[before] = np.where(refused, Fate.REFUSED, Fate.LOST)
    fates[dropped] = Fate.QUEUE_DROP
    unknown = np.full(len(t_ns), -1, np.int64)
    never = np.zeros(len(t_ns), np.bool_)
    own_ns = np.zeros(len(t_ns), np.int64)
    return Replay(unknown, own_ns, unknown, never, fates, phase_of, never, uncounted=never)


def _build_replay(
    passage: MatchedPackets,
    phases: Sequence[LinkPhase],
    link: Bottleneck,
    fates: npt.NDArray[np.uint8],
    uncounted: npt.NDArray[np.bool_],
    base: int,
    guard: int,
) -> Replay:
    accepted = fates != Fate.QUEUE_DROP
    departures = np.array(link.departures)
    rounded = np.where(np.isfinite(departures), np.round(departures), _NEVER - base).astype(np.int64)
    departure = np.where(accepted, rounded + base, -1)
    starts = np.array([phase.start_ns for phase in phases[1:]], np.int64)
    phase = np.searchsorted(starts, departure, side="right")
    delays = np.array([phase_settings.delay_ns for phase_settings in phases], np.int64)
    due = np.where(accepted, departure + delays[phase], -1)
    if link.transit is not None:
        due = np.where(accepted, _due_in_order(passage, link.transit, departure, fates, base), -1)
    calm = passage.arrived & accepted
    for start in starts:
        calm &= np.abs(departure - start) > guard
    own_ns = np.where(accepted & np.isfinite(departures), np.round(departures - np.array(link.starts)), 0).astype(
        np.int64
    )
    waited = np.array(link.waited, np.bool_)
    return Replay(departure, own_ns, due, waited, fates, phase.astype(np.int64), calm, uncounted)


def _due_in_order(
    passage: MatchedPackets, transit: Transit, departure: Ints, fates: npt.NDArray[np.uint8], base: int
) -> Ints:
    """When packets are due behind a way with a changing delay, on which none overtakes another."""
    moments = np.where(departure >= _NEVER, 0, departure - base)
    due = np.where(departure >= _NEVER, _NEVER, departure + transit.delays_ns(moments))
    # Those of flows with another access delay have a line of their own, and one that is lost is in none.
    lines = passage.access_ns if passage.access_ns is not None else np.zeros(len(due), np.int64)
    for line in np.unique(lines):
        rows = np.flatnonzero((lines == line) & ((fates == Fate.DELIVERED) | (fates == Fate.IN_FLIGHT)))
        rows = rows[np.argsort(departure[rows], kind="stable")]
        due[rows] = np.maximum.accumulate(due[rows])
    return due


def replay_calibrated(
    passage: MatchedPackets,
    phases: Sequence[LinkPhase],
    discipline: type[Discipline],
    counted: DropCounts,
    cuts: Cuts = NO_CUTS,
    guard: int = GUARD_REAL,
    series: DirectionSeries = NO_SERIES,
) -> Replay:
    """Replay with each change of rate moved, by at most `guard`, to the time that departures show.

    The event that reports a change is written some milliseconds after the kernel made it. A change from rate a to b
    that is replayed x too late makes packets x·(a-b)/b late until the queue is empty again.
    """
    result = replay(passage, phases, discipline, counted, cuts, guard, series)
    adjusted = list(phases)
    for index in range(1, len(phases)):
        before, after = phases[index - 1].rate_bps, phases[index].rate_bps
        busy = result.comparable & (result.phase == index) & result.waited
        if before == after or not busy.any():
            continue
        first = np.flatnonzero(busy)[:200]
        late = float(np.median(passage.out_ns[first] - result.due_ns[first]))
        shift = round(late * after / (before - after))
        if 0 < abs(shift) <= guard:
            adjusted[index] = replace(phases[index], start_ns=phases[index].start_ns - shift)
            result = replay(passage, adjusted, discipline, counted, cuts, guard, series)
    return result
