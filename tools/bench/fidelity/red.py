"""RED as sch_red does it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from harness.netem.bottleneck import red_burst, red_log_weight
from harness.netem.bounds import size_bytes
from harness.scenario.schema import Link, Red
from harness.units import Duration
from tools.bench.fidelity.bottleneck import queue_of
from tools.bench.fidelity.prediction import Floats, Integers

#: tc sends a RED probability as a 32-bit fraction (iproute2, tc/q_red.c), and the kernel draws 32-bit numbers.
_FRACTION = 1 << 32
#: Ticks of the packet scheduler in a second (net/sched/sch_api.c, psched_show).
_TICKS = 10**9 / 64


@dataclass(frozen=True)
class IdleDecay:
    """The table by which the kernel lets the average of an idle queue decay (include/net/red.h)."""

    cell_log: int
    """A cell of the table has 2^cell_log us."""
    shifts: tuple[int, ...]
    """For each cell, by how many bits the average is shifted."""

    def decayed(self, average: Integers, idle_ns: Floats) -> Integers:
        """Averages after times without a packet (red_calc_qavg_from_idle_time). Both of shape (runs,)."""
        idle = np.minimum(idle_ns.astype(np.int64) // 1000, 255 << self.cell_log)
        shift = np.array(self.shifts, np.int64)[(idle >> self.cell_log) & 255]
        less = (average * idle) >> self.cell_log
        return np.asarray(np.where(shift > 0, average >> shift, average - np.minimum(less, average >> 1)), np.int64)


def idle_decay(log_weight: int, average_packet: int, rate_bps: int) -> IdleDecay:
    """The table that tc makes (iproute2, tc/tc_red.c, tc_red_eval_idle_damping): in ticks of 64 ns, which the kernel
    takes for microseconds.
    """
    ticks = math.ceil(_TICKS * average_packet * 8 / rate_bps)
    speed = -math.log1p(-(2.0**-log_weight)) / ticks
    cell_log = next(log for log in range(32) if 31 / speed / 2**log < 512)
    shifts = [0, *(min(31, math.ceil((cell << cell_log) * speed)) for cell in range(1, 255)), 31]
    return IdleDecay(cell_log, tuple(shifts))


@dataclass(frozen=True)
class RedParameters:
    """RED as the kernel has it after tc has translated its options."""

    limit_bytes: int
    min_bytes: int
    max_bytes: int
    log_weight: int
    """Wlog: the weight of the average is 2^-Wlog."""
    probability: float
    """Of a drop when the average reaches `max_bytes`."""
    decay: IdleDecay | None = None
    """How the average of an idle queue decays; None where it does not."""


def red_parameters(link: Link, rtt: Duration) -> RedParameters:
    """The parameters that `compile_path` gives a link with RED. ValueError for one without."""
    queue = link.queue
    if not isinstance(queue, Red):
        raise ValueError("the link's queue is not RED")
    limit, low, high = (size_bytes(size, link, rtt) for size in (queue.limit, queue.min, queue.max))
    average = queue.average_packet.bytes
    burst = queue.burst if queue.burst is not None else red_burst(queue.wq or 0.002, low, average)
    weight = red_log_weight(low, burst, average)
    if weight is None:
        raise ValueError(f"tc has no weight for burst {burst}, min {low} B and avpkt {average} B")
    decay = idle_decay(weight, average, link.rate.value)
    return RedParameters(limit, low, high, weight, queue.probability.fraction, decay)


@dataclass(frozen=True, eq=False)
class RedCounts:
    """Drops by reason, as `tc -s` counts them. Shape (runs,)."""

    early: Integers
    """By the average: probabilistic and forced ones together."""
    full: Integers
    """By the hard limit (tc: pdrop)."""


def red(
    arrivals_ns: Integers | Floats,
    frame_bytes: Integers,
    rate_bps: int,
    burst_bytes: int | None,
    parameters: RedParameters,
    runs: int,
    seed: int = 0,
) -> RedCounts:
    """Drops of RED over independent runs (Monte Carlo) of one arrival process. Its server is `tail_drop`'s.

    The kernel's own arithmetic (include/net/red.h, net/sched/sch_red.c). The average is a fixed-point number with its
    point at Wlog, moved by each arrival by the backlog without it. Between the thresholds `qcount` counts. Its first
    packet passes and draws qR, a 32-bit random number divided by max_P/(max - min). A packet is dropped once ((average
    - min) >> Wlog)·qcount ≥ qR. A packet that ends an idle time moves the average by that time alone. Behind a bucket
    there is no idle time: tbf peeks, so that red_dequeue never finds an empty child. The hard limit is a bfifo.
    """
    low, high = parameters.min_bytes << parameters.log_weight, parameters.max_bytes << parameters.log_weight
    divisor = max(1, int(parameters.probability * _FRACTION) // max(1, parameters.max_bytes - parameters.min_bytes))
    generator = np.random.default_rng(seed)
    queue = queue_of(arrivals_ns, rate_bps, burst_bytes, runs)
    average = np.zeros(runs, dtype=np.int64)
    count = np.full(runs, -1, dtype=np.int64)
    threshold = np.zeros(runs, dtype=np.int64)
    early, full = np.zeros(runs, dtype=np.int64), np.zeros(runs, dtype=np.int64)
    for now, size in zip(arrivals_ns.tolist(), frame_bytes.tolist(), strict=True):
        backlog = queue.backlog(now)
        idle = queue.idle_ns(now) if parameters.decay is not None else None
        moved = average + backlog - (average >> parameters.log_weight)
        if parameters.decay is not None and idle is not None and (idle > 0).any():
            moved = np.where(idle > 0, parameters.decay.decayed(average, idle), moved)
        average = moved
        forced, between = average >= high, (average >= low) & (average < high)
        count = np.where(between, count + 1, -1)
        excess = (average - low) >> parameters.log_weight
        chosen = between & (count > 0) & (excess * count >= threshold)
        draws = chosen | (between & (count == 0))
        if draws.any():
            threshold[draws] = generator.integers(_FRACTION, size=np.count_nonzero(draws)) // divisor
            count[chosen] = 0
        dropped = forced | chosen
        fits = backlog + size <= parameters.limit_bytes
        early += dropped
        full += ~dropped & ~fits
        queue.accept(now, size, ~dropped & fits)
    return RedCounts(early, full)
