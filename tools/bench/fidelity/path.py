"""What a path does to a stream of packets, by what the scenario says of it: rates, delays, losses and holes over time.

A model beside the program that `harness.netem` compiles and beside the replay of the link proof
(`harness.analysis.link_replay`), with nothing of either but the seeds of netem.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from harness.netem.bounds import queue_bytes
from harness.netem.compile import phase_seed
from harness.scenario.schema import GilbertElliott, Path, TimedGilbertElliott, fixed
from harness.units import Percentage
from tools.bench.fidelity.losses import netem_losses
from tools.bench.fidelity.prediction import Booleans, Floats, Integers


@dataclass(frozen=True)
class Crossing:
    """What becomes of n packets; arrays of shape (n,)."""

    received_ns: Floats
    """When each comes out; NaN for one that does not."""
    dropped: Booleans
    """The queue had no room for it."""


@dataclass(frozen=True)
class _Air:
    """What lies behind the server from a moment on."""

    since_ns: float
    delay_ns: float
    loss: Percentage | GilbertElliott
    phase: int
    """For its seed."""


def changes_ns(path: Path) -> list[int]:
    """When the changes of a path are due, or the beginnings and ends of its holes, ns after the first packet."""
    if path.blackhole is not None:
        return [moment.value for hole in path.blackhole.times for moment in hole]
    return [change.at.value for change in path.changes]


def crossing(
    path: Path,
    to_client: bool,
    sent_ns: Floats,
    frame_bytes: Integers,
    seed: int,
    times_ns: Sequence[float] = (),
    air_times_ns: Sequence[float] = (),
) -> Crossing:
    """Packets of one direction through a path with a drop-tail queue of bytes and a serial server, without jitter.

    `sent_ns`: when each is sent, in order, ns after the first; `seed`: what the path is compiled with. `times_ns`: when
    its changes, or the beginnings and ends of its holes, took effect; by default when they are due. `air_times_ns`: the
    same of delays and losses, where they changed a little later than rates.
    """
    link = path.to_client if to_client else path.to_server
    times = [float(moment) for moment in (times_ns or changes_ns(path))]
    holes = list(zip(times[::2], times[1::2], strict=True)) if path.blackhole is not None else []
    rates, airs = _states(path, to_client, times, [float(moment) for moment in (air_times_ns or times)])
    if to_client:
        airs += [_Air(end, airs[0].delay_ns, airs[0].loss, number) for number, (_, end) in enumerate(holes, 1)]
    limit, side = queue_bytes(link, path.rtt), seed if to_client else seed + 1
    draws = [_losses(air.loss, phase_seed(side, air.phase), len(sent_ns)) for air in airs]
    drawn = [0] * len(airs)
    received, dropped = np.full(len(sent_ns), math.nan), np.zeros(len(sent_ns), np.bool_)
    waiting: list[tuple[float, int]] = []  # when each packet of the queue leaves it, and its length
    free = -math.inf
    for index, (now, size) in enumerate(zip(sent_ns.tolist(), frame_bytes.tolist(), strict=True)):
        if not to_client and any(begin <= now < end for begin, end in holes):
            continue
        waiting = [(leaves, length) for leaves, length in waiting if leaves > now]
        if sum(length for _, length in waiting) + size > limit:
            dropped[index] = True
            continue
        start = max(now, free)
        free = _served(8.0 * size, start, rates)
        waiting.append((start, size))
        if math.isinf(free):
            continue
        number = max(place for place, air in enumerate(airs) if air.since_ns <= free or not place)
        out = free + airs[number].delay_ns
        if to_client and any(start < end and out > begin for begin, end in holes):
            continue
        lost = draws[number][drawn[number]]
        drawn[number] += 1
        if not lost:
            received[index] = out
    return Crossing(received, dropped)


@lru_cache(maxsize=64)
def _losses(loss: Percentage | GilbertElliott, seed: int, packets: int) -> Booleans:
    """Which packets are lost; the same path is often held against several moments of its changes."""
    return netem_losses(loss, seed, packets)


def _states(
    path: Path, to_client: bool, times: Sequence[float], air_times: Sequence[float]
) -> tuple[list[tuple[float, float]], list[_Air]]:
    """(since, bit/s), and what lies behind the server, over time."""
    link = path.to_client if to_client else path.to_server
    rate, delay, loss = link.rate, link.delay, link.loss
    assert not isinstance(loss, TimedGilbertElliott), "this model loses packets by their number"
    rates = [(-math.inf, float(rate.value))]
    airs = [_Air(-math.inf, float(delay.value), loss, 0)]
    for number, change in enumerate(path.changes, 1):
        new = path.change_to_client(change) if to_client else path.change_to_server(change)
        if new is None:
            continue
        if new.rate is not None:
            rates.append((times[number - 1], float(fixed(new.rate).value)))
        before = (delay, loss)
        if new.delay is not None:
            delay = fixed(new.delay)
        if new.loss is not None and not isinstance(new.loss, tuple):
            loss = new.loss
        if (delay, loss) != before:
            airs.append(_Air(air_times[number - 1], float(delay.value), loss, number))
    return rates, airs


def _served(bits: float, start: float, rates: Sequence[tuple[float, float]]) -> float:
    """When so many bits have been sent that begin at `start`, ns; infinite for never."""
    for number, (since, rate) in enumerate(rates):
        until = rates[number + 1][0] if number + 1 < len(rates) else math.inf
        begin = max(start, since)
        if begin >= until or not rate:
            continue
        end = begin + bits * 1e9 / rate
        if end <= until:
            return end
        bits -= rate * (until - begin) / 1e9
    return math.inf
