"""The bottleneck's queue over time, from what entered it and what left it.

A packet is in the queue from its arrival at the near interface until it left the far one, less the propagation delay
(`Direction.departures_ns`). One that was dropped never was in it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.analysis.direction import Direction
from harness.analysis.link_replay import Fate
from harness.analysis.timeseries.grid import NOTHING, Ints, Points, beginnings, bin_of, grid_ns, rates, seconds, sums


def bottleneck_series(direction: Direction, zero_ns: int) -> dict[str, Points]:
    """queue_length, queue_packets, queue_delay, sending_rate, drops, drop, mark, loss and capacity of one direction."""
    entered = direction.passage.entered
    if not len(entered):
        return {}
    start_ns = int(entered.t_ns[0]) - zero_ns
    end_ns = max(int(entered.t_ns[-1]), direction.passage.end_ns) - zero_ns
    came, left, length = stays(direction, zero_ns)
    moments = grid_ns(min(start_ns, 0), end_ns)
    first, last = (int(bin_of(np.array([t]))[0]) for t in (min(start_ns, 0), end_ns))
    dropped = direction.replayed.fate == Fate.QUEUE_DROP
    when = entered.t_ns[dropped] - zero_ns
    packets = _inside(came, left, np.ones_like(length), moments)
    return {
        "queue_length": _inside(came, left, length, moments),
        "queue_packets": packets,
        "queue_delay": _waits(came, left, moments, packets.value),
        "sending_rate": rates(left, length, first, last),
        "drops": Points(beginnings(first, last), sums(when, 1, first, last)),
        "drop": _whose(direction, dropped, zero_ns),
        "mark": _whose(direction, direction.passage.marked, zero_ns),
        "loss": _whose(direction, direction.replayed.fate == Fate.LOST, zero_ns),
        "capacity": _capacity(direction, zero_ns, end_ns),
    }


def _whose(direction: Direction, chosen: npt.NDArray[np.bool_], zero_ns: int) -> Points:
    """When each of the chosen packets came, and its flow."""
    entered = direction.passage.entered
    return Points(seconds(entered.t_ns[chosen] - zero_ns), entered.flow[chosen].astype(np.float64))


def stays(direction: Direction, zero_ns: int) -> tuple[Ints, Ints, Ints]:
    """When each packet that passed the queue came and left (ns since time zero), and its length (bytes), shape (n,)."""
    entered, departures = direction.passage.entered, direction.departures_ns()
    passed = departures >= 0
    came, left = entered.t_ns[passed], departures[passed]
    # No packet leaves before it came: clocks are read, and captures taken, a few µs off.
    return came - zero_ns, np.maximum(left, came) - zero_ns, entered.length[passed]


def _inside(came: Ints, left: Ints, amount: Ints, moments: Ints) -> Points:
    """Sum of what had come and not left at each moment."""
    return Points(seconds(moments), _total(came, amount, moments) - _total(left, amount, moments))


def _total(when: Ints, amount: Ints, moments: Ints) -> npt.NDArray[np.float64]:
    order = np.argsort(when, kind="stable")
    running = np.concatenate(([0], np.cumsum(amount[order])))
    return running[np.searchsorted(when[order], moments, side="right")].astype(np.float64)


def _waits(came: Ints, left: Ints, moments: Ints, packets: npt.NDArray[np.float64]) -> Points:
    if not len(left):
        return NOTHING
    order = np.argsort(left, kind="stable")
    last = np.searchsorted(left[order], moments, side="right") - 1
    wait = np.where(last >= 0, (left - came)[order][np.maximum(last, 0)], 0) / 1e6
    return Points(seconds(moments), np.where(packets > 0, wait, 0.0))


def _capacity(direction: Direction, zero_ns: int, end_ns: int) -> Points:
    """A point at the beginning (0), at each change, and at the end."""
    phases = direction.phases
    t = [0.0, *((phase.start_ns - zero_ns) / 1e9 for phase in phases[1:]), end_ns / 1e9]
    return Points(np.array(t), np.array([*(phase.rate_bps for phase in phases), phases[-1].rate_bps]) / 1e6)
