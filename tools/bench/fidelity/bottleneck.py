"""A first-in, first-out queue and what serves it: a serial link or tbf."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from tools.bench.fidelity.prediction import Booleans, Floats, Integers


class Queue(ABC):
    """A first-in, first-out queue and what serves it, for many independent runs of one arrival process.

    In a FIFO a packet's departure is known when it is accepted.
    """

    def __init__(self, runs: int, packets: int, rate_bps: int) -> None:
        self._rows = np.arange(runs)
        self._ns_per_byte = 8e9 / rate_bps
        # Of the accepted packets, in order: when it leaves the queue, and bytes accepted up to and without it.
        self._departures = np.full((runs, packets + 1), np.inf)
        self._accepted = np.zeros((runs, packets + 1), dtype=np.int64)
        self._head = np.zeros(runs, dtype=np.int64)
        self._tail = np.zeros(runs, dtype=np.int64)

    def backlog(self, now: float) -> Integers:
        """Bytes that wait at a time, which may not go back. Shape (runs,)."""
        while True:
            departed = self._departures[self._rows, self._head] <= now
            if not departed.any():
                break
            self._head += departed
        waiting: Integers = self._accepted[self._rows, self._tail] - self._accepted[self._rows, self._head]
        return waiting

    def accept(self, now: float, frame_bytes: int, which: Booleans) -> Floats:
        """Put a packet into the queues `which`. Its departures from the link, NaN in the others. Shape (runs,)."""
        leaves, departure = self._serve(now, frame_bytes * self._ns_per_byte, which)
        rows, tail = self._rows[which], self._tail[which]
        self._departures[rows, tail] = leaves[which]
        self._accepted[rows, tail + 1] = self._accepted[rows, tail] + frame_bytes
        self._tail[rows] += 1
        return np.where(which, departure, np.nan)

    def idle_ns(self, now: float) -> Floats:
        """For how long each queue has known, at a time, that it is empty; 0 where it does not. Shape (runs,).

        Behind a bucket none does: tbf only peeks, and never asks an empty queue.
        """
        return np.zeros(len(self._rows))

    @abstractmethod
    def _serve(self, now: float, own_ns: float, which: Booleans) -> tuple[Floats, Floats]:
        """When a packet that takes `own_ns` at the rate leaves the queue, and the link. Both of shape (runs,)."""


class _Serial(Queue):
    """One packet after the other: it leaves the queue when the one before has been sent, and the link when it has."""

    def __init__(self, runs: int, packets: int, rate_bps: int) -> None:
        super().__init__(runs, packets, rate_bps)
        self._free_at = np.full(runs, -np.inf)

    def idle_ns(self, now: float) -> Floats:
        """Since the last packet has been sent: then the lab kernel's `serial` asked for another (sch_serial.c)."""
        sent = np.isfinite(self._free_at)
        return np.where(sent, np.maximum(0.0, now - np.where(sent, self._free_at, now)), 0.0)

    def _serve(self, now: float, own_ns: float, which: Booleans) -> tuple[Floats, Floats]:
        begins = np.maximum(now, self._free_at)
        self._free_at = np.where(which, begins + own_ns, self._free_at)
        return begins, begins + own_ns


class _Bucket(Queue):
    """The token bucket of sch_tbf.

    From net/sched/sch_tbf.c, tbf_dequeue: tokens are time (`buffer` = burst at the rate, full at the start). The head
    of the queue leaves once they cover its own time. It stays in the child's backlog until then, since tbf only peeks.
    """

    def __init__(self, runs: int, packets: int, rate_bps: int, burst_bytes: int, start_ns: float) -> None:
        super().__init__(runs, packets, rate_bps)
        self._buffer = burst_bytes * self._ns_per_byte
        self._tokens = np.full(runs, self._buffer)
        self._last = np.full(runs, float(start_ns))

    def _serve(self, now: float, own_ns: float, which: Booleans) -> tuple[Floats, Floats]:
        leaves = np.maximum(np.maximum(now, self._last), self._last + own_ns - self._tokens)
        tokens = np.minimum(self._buffer, self._tokens + leaves - self._last) - own_ns
        self._tokens = np.where(which, tokens, self._tokens)
        self._last = np.where(which, leaves, self._last)
        return leaves, leaves


def queue_of(arrivals_ns: Integers | Floats, rate_bps: int, burst_bytes: int | None, runs: int = 1) -> Queue:
    """The queue of a link, empty at the first arrival: serial, or behind a bucket where there is a burst."""
    if burst_bytes is None:
        return _Serial(runs, arrivals_ns.size, rate_bps)
    return _Bucket(runs, arrivals_ns.size, rate_bps, burst_bytes, float(arrivals_ns[0]))


def tail_drop(
    arrivals_ns: Integers | Floats, frame_bytes: Integers, rate_bps: int, burst_bytes: int | None, limit_bytes: int
) -> Floats:
    """When packets leave a link with a bfifo: ns, NaN for a dropped one. Shape (packets,).

    A packet is accepted if backlog + its length ≤ limit (net/sched/sch_fifo.c, bfifo_enqueue). The server is tbf with
    a bucket, or serial where `burst_bytes` is None. Arrivals are in order; the queue is empty, and a bucket full, at
    the first.
    """
    queue = queue_of(arrivals_ns, rate_bps, burst_bytes)
    departures = np.empty(arrivals_ns.size)
    for index, (now, size) in enumerate(zip(arrivals_ns.tolist(), frame_bytes.tolist(), strict=True)):
        departures[index] = queue.accept(now, size, queue.backlog(now) + size <= limit_bytes)[0]
    return departures


def ceiling_ns(rate_bps: int, limit_bytes: int, delay_ns: int) -> float:
    """No packet can take longer behind a token bucket: a full queue at the link's rate, and the delay.

    What is in fact the longest delay of a stream depends on when in a packet's time its arrivals fall, which the
    bucket's burst shifts; `tail_drop` has that.
    """
    return delay_ns + 8e9 * limit_bytes / rate_bps


def gap_change(times_ns: Floats, gap_ns: float, tolerance: float = 0.2) -> tuple[float, float]:
    """The two times between which a regular process first left its gap: (last in step, first out of step).

    For the departures of a busy link, between them its rate changed. ValueError if it never did.
    """
    gaps = np.diff(times_ns)
    out_of_step = np.flatnonzero(np.abs(gaps - gap_ns) > tolerance * gap_ns)
    if out_of_step.size == 0:
        raise ValueError(f"all gaps are {gap_ns:g} ns ± {tolerance:.0%}")
    return float(times_ns[out_of_step[0]]), float(times_ns[out_of_step[0] + 1])
