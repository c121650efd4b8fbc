"""Exact bottlenecks: when each packet of an accepted sequence leaves a serial server, or tbf's token bucket."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from harness.analysis.link_phases import LinkPhase


class Bottleneck(ABC):
    """A queue and what serves it; all times relative to the first arrival, ns."""

    def __init__(self, phases: Sequence[LinkPhase], lengths: list[int]) -> None:
        self.coming = list(phases[1:])
        self.lengths = lengths
        self.departures = [-1.0] * len(lengths)
        self.own = [0.0] * len(lengths)
        self.limited = [False] * len(lengths)
        self.queue: list[int] = []  # accepted packets in order; those before `head` have left
        self.head = 0
        self.backlog = 0
        self._enter(phases[0])

    def _enter(self, phase: LinkPhase) -> None:
        self.phase = phase
        self.per_byte = 8e9 / phase.rate_bps

    def advance(self, now: float) -> None:
        """Let packets leave, and changes happen, until `now`."""
        while self.coming and self.coming[0].start_ns <= now:
            phase = self.coming.pop(0)
            self._leave_until(phase.start_ns)
            self._enter(phase)
            moment = max(float(phase.start_ns), 0.0)
            self._change(moment)
            for index in self.queue[self.head :]:
                self._serve(index, moment)
        self._leave_until(now)

    def _leave_until(self, now: float) -> None:
        queue, departures, own = self.queue, self.departures, self.own
        head, backlog = self.head, self.backlog
        while head < len(queue) and departures[queue[head]] - own[queue[head]] <= now:
            backlog -= self.lengths[queue[head]]
            head += 1
        self.head, self.backlog = head, backlog

    @abstractmethod
    def would_leave(self, length: int, now: float) -> float:
        """When a packet that arrives now would leave."""

    @abstractmethod
    def _change(self, now: float) -> None:
        """The kernel changed the rate; what waits is served anew."""

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


class SerialServer(Bottleneck):
    """One packet is sent after the other, each in its own time; the one in service is no longer in the queue.

    hfsc lets packets go at the rate, netem sends them (harness.path.program). A change of rate begins hfsc's curve
    anew (hfsc_change_usc), so that the next packet goes to netem at once, where it waits for the one in service.
    """

    def __init__(self, phases: Sequence[LinkPhase], lengths: list[int]) -> None:
        super().__init__(phases, lengths)
        self.free = 0.0  # when hfsc lets the next packet go
        self.last = 0.0  # when netem has sent the last

    def _change(self, now: float) -> None:
        self.free = now
        self.last = self.departures[self.queue[self.head - 1]] if self.head else 0.0

    def would_leave(self, length: int, now: float) -> float:
        """Behind all that were served before."""
        return max(now, self.free, self.last) + length * self.per_byte

    def _serve(self, index: int, ready: float) -> None:
        own = self.lengths[index] * self.per_byte
        goes = max(ready, self.free)
        start = max(goes, self.last)
        self.limited[index] = start > ready
        self.own[index] = own
        self.departures[index] = self.last = start + own
        self.free = goes + own


class TokenBucket(Bottleneck):
    """tbf (net/sched/sch_tbf.c): a bucket of `burst` bytes, full at the start, filled at the rate.

    The packet at the head leaves once the bucket holds its length, and is in the queue until then. A change fills the
    bucket (tbf_change).
    """

    def __init__(self, phases: Sequence[LinkPhase], lengths: list[int]) -> None:
        super().__init__(phases, lengths)
        self.last = 0.0
        self.filled_from = -self.depth

    def _enter(self, phase: LinkPhase) -> None:
        super()._enter(phase)
        assert phase.burst_bytes is not None
        self.depth = phase.burst_bytes * self.per_byte  # time to fill the bucket

    def _change(self, now: float) -> None:
        self.last = now
        self.filled_from = self.phase.start_ns - self.depth

    def would_leave(self, length: int, now: float) -> float:
        """As soon as its tokens are there, and all before it have left."""
        return max(now, self.last, self.filled_from + length * self.per_byte)

    def _serve(self, index: int, ready: float) -> None:
        size = self.lengths[index] * self.per_byte
        start = max(ready, self.last)
        departure = max(start, self.filled_from + size)
        self.limited[index] = departure > start
        self.departures[index] = self.last = departure
        self.filled_from = max(self.filled_from, departure - self.depth) + size
