"""Exact bottlenecks: when each packet of an accepted sequence leaves a serial server, or a token bucket."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from harness.analysis.link_phases import LinkPhase
from harness.netem.bounds import STANDSTILL


class Bottleneck(ABC):
    """A queue and what serves it; all times relative to the first arrival, ns.

    The rates of all phases are known from the start, so that a departure is settled when a packet is accepted: the
    queue is first in, first out.
    """

    def __init__(self, phases: Sequence[LinkPhase], lengths: list[int]) -> None:
        self.phases = list(phases)
        self.phase = self.phases[0]
        self.coming = self.phases[1:]
        self.lengths = lengths
        self.starts = [-1.0] * len(lengths)
        """When each accepted packet left the queue."""
        self.departures = [-1.0] * len(lengths)
        """When it left the bottleneck; infinite for one that never does."""
        self.limited = [False] * len(lengths)
        self.queue: list[int] = []  # accepted packets in order; those before `head` have left
        self.head = 0
        self.backlog = 0

    def advance(self, now: float) -> None:
        """Let packets leave the queue, and changes happen, until `now`."""
        while self.coming and self.coming[0].start_ns <= now:
            self.phase = self.coming.pop(0)
        head, backlog = self.head, self.backlog
        while head < len(self.queue) and self.starts[self.queue[head]] <= now:
            backlog -= self.lengths[self.queue[head]]
            head += 1
        self.head, self.backlog = head, backlog

    def phase_at(self, moment: float) -> LinkPhase:
        """The phase in force at a time from now on."""
        phase = self.phase
        for later in self.coming:
            if later.start_ns > moment:
                break
            phase = later
        return phase

    @abstractmethod
    def would_leave(self, length: int, now: float) -> float:
        """When a packet that arrives now would leave the bottleneck."""

    @abstractmethod
    def _serve(self, index: int, ready: float) -> None:
        """Settle when a packet leaves, behind all that were served before."""

    def accept(self, index: int, now: float) -> None:
        """Queue a packet."""
        self.queue.append(index)
        self.backlog += self.lengths[index]
        self._serve(index, now)

    def full(self, length: int) -> bool:
        """Whether a packet does not fit (net/sched/sch_fifo.c: backlog + length ≤ limit, or packets < limit)."""
        if self.phase.limit_packets is not None:
            return len(self.queue) - self.head >= self.phase.limit_packets
        return self.phase.limit_bytes is not None and self.backlog + length > self.phase.limit_bytes

    def _ends(self, number: int) -> float:
        """When a phase gives way to the next."""
        return float(self.phases[number + 1].start_ns) if number + 1 < len(self.phases) else math.inf


def _per_byte(rate_bps: int) -> float:
    """Time for a byte, ns; infinite at a rate of 0."""
    return 8e9 / rate_bps if rate_bps else math.inf


class SerialServer(Bottleneck):
    """One packet is sent after the other, each in its own time; the one in service is no longer in the queue.

    A change of rate takes nothing back: the packet in service goes on with its remaining bytes at the new rate.
    """

    def __init__(self, phases: Sequence[LinkPhase], lengths: list[int]) -> None:
        super().__init__(phases, lengths)
        self.free = 0.0  # when the last packet has been sent
        self.serving = 0  # the phase at that time

    def would_leave(self, length: int, now: float) -> float:
        """Behind all that were served before."""
        return self._sent(length, max(now, self.free))[0]

    def _serve(self, index: int, ready: float) -> None:
        start = max(ready, self.free)
        self.limited[index] = start > ready
        self.starts[index] = start
        self.free, self.serving = self._sent(self.lengths[index], start)
        self.departures[index] = self.free

    def _sent(self, length: int, start: float) -> tuple[float, int]:
        """(when, in which phase) the last of so many bytes has been sent, begun at `start`."""
        number, left, moment = self.serving, float(length), start
        while math.isfinite(start):
            until, per_byte = self._ends(number), _per_byte(self.phases[number].rate_bps)
            if moment < until:
                end = moment + left * per_byte
                if end <= until:
                    return end, number
                left -= (until - moment) / per_byte
                moment = until
            number += 1
        # Behind a packet that never ends.
        return math.inf, number


class TokenBucket(Bottleneck):
    """tbf (net/sched/sch_tbf.c): a bucket of `burst` bytes, full at the start, filled at the rate.

    The packet at the head leaves once the bucket holds its length, and is in the queue until then. Over a change the
    bucket keeps its bytes, as far as the new one holds them. Linux's own fills it (tbf_change), and looks at the packet
    at the head only when it would have left at the former rate; the lab kernel's does neither.
    """

    def __init__(self, phases: Sequence[LinkPhase], lengths: list[int]) -> None:
        super().__init__(phases, lengths)
        self.last = 0.0  # when the last packet left
        self.serving = 0  # the phase at that time
        self.filled_from = -self._depth(0)  # since when the bucket would have been filling, had it no end

    def _time(self, number: int) -> float:
        return _per_byte(max(self.phases[number].rate_bps, STANDSTILL.value))

    def _depth(self, number: int) -> float:
        """Time to fill the bucket."""
        burst = self.phases[number].burst_bytes
        assert burst is not None
        return burst * self._time(number)

    def would_leave(self, length: int, now: float) -> float:
        """As soon as its tokens are there, and all before it have left."""
        return self._covered(length, max(now, self.last))[0]

    def _serve(self, index: int, ready: float) -> None:
        start = max(ready, self.last)
        departure, filled_from, number = self._covered(self.lengths[index], start)
        self.limited[index] = departure > start
        self.starts[index] = self.departures[index] = self.last = departure
        self.filled_from = max(filled_from, departure - self._depth(number)) + self.lengths[index] * self._time(number)
        self.serving = number

    def _covered(self, length: int, start: float) -> tuple[float, float, int]:
        """(when the bucket holds so many bytes, since when it has been filling, the phase), from `start` on."""
        number, filled_from = self.serving, self.filled_from
        while True:
            until = self._ends(number)
            departure = max(start, filled_from + length * self._time(number))
            if departure < until:
                return departure, filled_from, number
            held = min(until - filled_from, self._depth(number)) / self._time(number)
            number += 1
            filled_from = until - min(held * self._time(number), self._depth(number))
