"""The ideal link: the arrivals of one direction through an exact queue and what serves it.

That is a serial server (one packet after the other, each in its own time), or tbf's token bucket. Then comes
netem's delay. Which packets were dropped is taken from the captures, so that the replay asks one thing only: when
should each packet have left?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from harness.analysis.ideal_bottleneck import Bottleneck, SerialServer, TokenBucket
from harness.analysis.link_phases import LinkPhase
from harness.analysis.mobility_losses import Cuts
from harness.capture.matching import Passage

Ints = npt.NDArray[np.int64]

NO_CUTS = Cuts()
#: A packet due this close to the end of the capture may have been under way, late, ns.
_END = 100_000_000
#: In virtual time a count may be as much older than it says: who reads it runs before who looks at the clock (the
#: simulator's agent, _sample). Seen: 1.5 µs.
_READ = 20_000
#: The way through an idle simulator takes about this long in real time (a lab kernel: 0.1 to 0.5 ms), ns.
_TRIFLE = 1_000_000
#: Around a scheduled change the commands apply one after the other; packets that leave then prove nothing, ns. In
#: virtual time a change is reported a few looks at the clock behind it.
GUARD = {"compose": 50_000_000, "virtual": 1_000_000}
#: When a packet leaves that never does.
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


@dataclass(frozen=True)
class Replay:
    """One direction's n packets on the ideal link; every array has shape (n,)."""

    departure_ns: Ints
    """When the packet should have left the bottleneck; -1 for queue drops."""
    own_ns: Ints
    """The time before it in which the packet itself was sent and no longer in the queue; 0 behind a token bucket."""
    due_ns: Ints
    """When it should have left the simulator: departure plus delay; -1 for queue drops."""
    limited: npt.NDArray[np.bool_]
    """The packet had to wait: the bottleneck was busy."""
    fate: npt.NDArray[np.uint8]
    phase: Ints
    """Index of the phase in which it departed."""
    calm: npt.NDArray[np.bool_]
    """It was delivered and departed away from a change: its lateness means something."""

    def lateness_ns(self, passage: Passage) -> Ints:
        """Actual minus ideal departure of the calm packets."""
        return np.asarray(passage.out_ns[self.calm] - self.due_ns[self.calm], np.int64)

    def excess_ns(self, passage: Passage, drift: float) -> Ints:
        """Lateness of the calm packets beyond a drift: that share of the time their busy period has lasted.

        A timer that wakes tbf later than a bucketful loses capacity for good, so that lateness adds up as long
        as the queue is busy. That is an error of the rate, and a small one does not distort what a sender sees.
        """
        accepted = np.flatnonzero(self.fate != Fate.QUEUE_DROP)
        since = np.zeros(len(self.fate), np.int64)
        since[accepted] = self._busy_for(passage, accepted)
        late = self.lateness_ns(passage)
        allowed = np.round(drift * since[self.calm]).astype(np.int64)
        return np.sign(late) * np.maximum(np.abs(late) - allowed, 0)

    def _busy_for(self, passage: Passage, accepted: Ints) -> Ints:
        """How long the queue had been busy when each accepted packet should have left, ns.

        Busy by the replay, or in truth: the packet before left behind it, more than a trifle late.
        """
        arrival, departure = passage.entered.t_ns[accepted], self.departure_ns[accepted]
        late = np.where(self.calm[accepted], passage.out_ns[accepted] - self.due_ns[accepted], 0)
        before = np.maximum.accumulate(departure + late)
        behind = np.concatenate([[False], before[:-1] > arrival[1:]]) if len(arrival) else np.zeros(0, np.bool_)
        busy = self.limited[accepted] | (behind & (late > _TRIFLE))
        start = np.maximum.accumulate(np.where(busy, 0, departure))
        return np.asarray(np.where(busy & (start > 0), departure - start, 0), np.int64)


@dataclass
class _Budget:
    """A count of drops by the kernel over time: what it has not counted was not dropped there."""

    times: Ints
    totals: Ints
    used: int = 0

    def take(self, now: float) -> bool | None:
        """Whether the count had a drop left for a packet of that time; None after the last sample."""
        sample = int(np.searchsorted(self.times, now + _READ))
        if sample == len(self.times):
            return None
        if self.used >= self.totals[sample]:
            return False
        self.used += 1
        return True


@dataclass(frozen=True)
class Counted:
    """Sample times (ns) and running totals of the kernel's drop counts; empty arrays where there are none."""

    queue: tuple[Ints, Ints]
    """At the bottleneck."""
    loss: tuple[Ints, Ints]
    """At netem."""


def replay(
    passage: Passage,
    phases: Sequence[LinkPhase],
    red: bool,
    counted: Counted,
    cuts: Cuts = NO_CUTS,
    guard: int = GUARD["compose"],
) -> Replay:
    """Replay one direction.

    `red`: the queue is RED and may drop at any length. `guard`: so close to a change a departure proves nothing, ns.
    """
    t_ns = passage.entered.t_ns
    base = int(t_ns[0]) if len(t_ns) else 0
    server = SerialServer if phases[0].burst_bytes is None else TokenBucket
    link = server([replace(p, start_ns=p.start_ns - base) for p in phases], passage.entered.length.tolist())
    queue, loss = (_Budget(times - base, totals) for times, totals in (counted.queue, counted.loss))
    fates = np.zeros(len(t_ns), np.uint8)
    # The access delay of its flow is over only so long after a packet was due.
    until = passage.end_ns - base - (passage.access_ns if passage.access_ns is not None else np.zeros_like(t_ns))
    ends = until.tolist()
    for index, (now, arrived) in enumerate(zip((t_ns - base).tolist(), passage.arrived.tolist(), strict=True)):
        link.advance(now)
        if not arrived:
            leaves = link.would_leave(link.lengths[index], now)
            if cuts.explain(index, leaves, leaves + link.phase_at(leaves).delay_ns, base):
                full = red or link.full(link.lengths[index])
                fate = Fate.QUEUE_DROP if full and queue.take(now) else Fate.CUT
            else:
                fate = _fate(link, link.lengths[index], now, ends[index], queue, loss, red)
            fates[index] = fate
            if fate is Fate.QUEUE_DROP:
                continue
        link.accept(index, now)
    link.advance(np.inf)
    return _result(passage, phases, link, fates, base, guard)


def _fate(link: Bottleneck, length: int, now: int, end: int, queue: _Budget, loss: _Budget, red: bool) -> Fate:
    """Why a packet that entered did not leave.

    Without random loss the queue dropped it unless the kernel did not count it. With random loss, a drop-tail
    queue must have been full, or netem not have counted it. That corrects itself: a drop that is taken for a
    loss fills the replayed queue, a loss that is taken for a drop empties it, until it is as full as the
    kernel's.
    """
    leaves = link.would_leave(length, now)
    phase = link.phase_at(leaves)
    left = end - leaves - phase.delay_ns  # how long before the end of the capture it was due
    lossy, full = phase.mean_loss > 0, link.full(length)
    if red or full or not lossy:
        dropped = queue.take(now)
        if dropped is None:
            dropped = full or (left > 0 and not lossy)
        if dropped:
            return Fate.QUEUE_DROP
    if left < 0:
        return Fate.IN_FLIGHT
    lost = loss.take(leaves) if lossy else False
    if lost is False and lossy and not (red or full) and queue.take(now):
        return Fate.QUEUE_DROP
    return Fate.LOST if lost or left > _END else Fate.IN_FLIGHT


def accounted(passage: Passage, phases: Sequence[LinkPhase], counted: Counted, cuts: Cuts = NO_CUTS) -> Replay:
    """What became of the packets of a link whose departures nobody can foretell: its service is random.

    The queue is first in, first out, so what entered behind the last packet that left may still have been in it. Any
    other that did not leave was dropped by the queue as often as the kernel counted it, else behind it.
    """
    t_ns, arrived = passage.entered.t_ns, passage.arrived
    through = np.flatnonzero(arrived)
    last = int(through[-1]) if len(through) else -1
    counts = counted.queue[1]
    left = int(counts[-1]) if len(counts) else len(t_ns)
    fates = np.zeros(len(t_ns), np.uint8)
    cut = np.array([cuts.explain(row, time, time, 0) for row, time in enumerate(t_ns.tolist())], np.bool_) & ~arrived
    fates[cut] = Fate.CUT
    missing = np.flatnonzero(~arrived & ~cut)
    before = missing[missing < last]
    fates[missing] = Fate.IN_FLIGHT
    fates[before[:left]], fates[before[left:]] = Fate.QUEUE_DROP, Fate.LOST
    starts = np.array([phase.start_ns for phase in phases[1:]], np.int64)
    unknown = np.full(len(t_ns), -1, np.int64)
    no = np.zeros(len(t_ns), np.bool_)
    own = np.zeros(len(t_ns), np.int64)
    return Replay(unknown, own, unknown, no, fates, np.searchsorted(starts, t_ns, side="right").astype(np.int64), no)


def _result(
    passage: Passage, phases: Sequence[LinkPhase], link: Bottleneck, fates: npt.NDArray[np.uint8], base: int, guard: int
) -> Replay:
    accepted = fates != Fate.QUEUE_DROP
    leaves = np.array(link.departures)
    settled = np.where(np.isfinite(leaves), np.round(leaves), _NEVER - base).astype(np.int64)
    departure = np.where(accepted, settled + base, -1)
    starts = np.array([phase.start_ns for phase in phases[1:]], np.int64)
    phase = np.searchsorted(starts, departure, side="right")
    delays = np.array([item.delay_ns for item in phases], np.int64)
    due = np.where(accepted, departure + delays[phase], -1)
    calm = passage.arrived & accepted
    for start in starts:
        calm &= np.abs(departure - start) > guard
    own = np.where(accepted & np.isfinite(leaves), np.round(leaves - np.array(link.starts)), 0).astype(np.int64)
    return Replay(departure, own, due, np.array(link.limited, np.bool_), fates, phase.astype(np.int64), calm)


def calibrated(
    passage: Passage,
    phases: Sequence[LinkPhase],
    red: bool,
    counted: Counted,
    cuts: Cuts = NO_CUTS,
    guard: int = GUARD["compose"],
) -> Replay:
    """Replay with the moment of each change of rate moved, by at most `guard`, to where departures say it was.

    The event that reports a change is written some milliseconds from when the kernel made it. A change
    from rate a to b that is replayed x too late makes packets x·(a-b)/b late until the queue is empty again.
    """
    result = replay(passage, phases, red, counted, cuts, guard)
    moved = list(phases)
    for index in range(1, len(phases)):
        before, after = phases[index - 1].rate_bps, phases[index].rate_bps
        busy = result.calm & (result.phase == index) & result.limited
        if before == after or not busy.any():
            continue
        first = np.flatnonzero(busy)[:200]
        late = float(np.median(passage.out_ns[first] - result.due_ns[first]))
        shift = round(late * after / (before - after))
        if 0 < abs(shift) <= guard:
            moved[index] = replace(phases[index], start_ns=phases[index].start_ns - shift)
            result = replay(passage, moved, red, counted, cuts, guard)
    return result
