"""Measured properties of a link: rate when busy, delay when idle, random loss, datagrams dropped by rule."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.analysis.link_replay import Fate, LinkPhase, Replay
from harness.capture.matching import MatchedPackets
from harness.netem import fault_share
from harness.netem.program import Fault
from harness.scenario.schema import GilbertElliott, TimedGilbertElliott
from harness.units import Percentage

#: A shorter busy period does not show the rate, ns.
SHORTEST_BUSY_NS = 200_000_000


@dataclass(frozen=True)
class BusyRate:
    """The served rate over all long enough busy periods of one phase."""

    bits_per_second: float
    seconds: float
    """Total time in which the bottleneck was busy."""
    periods: int


def busy_rate(passage: MatchedPackets, replayed: Replay, phase: int) -> BusyRate | None:
    """Bits that left while packets had to wait, divided by the time; None without a busy period of 0.2 s.

    In a busy period a serial server is never idle, and a bucket is empty after each packet. So the bytes behind its
    first packet leave at the rate. Bytes that netem lost afterwards were served too.
    """
    accepted = replayed.accepted
    served = np.cumsum(passage.entered.length[accepted])
    in_phase = replayed.phase[accepted] == phase
    # A packet lost behind the queue has no lateness, but it does not end a busy period.
    usable = replayed.comparable[accepted] | (replayed.fate[accepted] != Fate.DELIVERED)
    busy = replayed.waited[accepted] & in_phase & usable
    edges = np.diff(np.concatenate([[False], busy, [False]]).astype(np.int8))
    begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
    delivered = np.flatnonzero(replayed.comparable[accepted])
    if not len(delivered) or not len(begins):
        return None
    first = np.searchsorted(delivered, begins)
    last = np.searchsorted(delivered, ends, side="right") - 1
    is_measurable = (first < len(delivered)) & (last > first)
    first, last = delivered[first[is_measurable]], delivered[last[is_measurable]]
    out_ns = passage.out_ns[accepted]
    busy_ns = out_ns[last] - out_ns[first]
    is_long = busy_ns >= SHORTEST_BUSY_NS
    if not is_long.any():
        return None
    seconds = float(busy_ns[is_long].sum()) / 1e9
    served_bytes = int((served[last] - served[first])[is_long].sum())
    return BusyRate(served_bytes * 8 / seconds, seconds, int(is_long.sum()))


def idle_delay_ns(passage: MatchedPackets, replayed: Replay, phase: int) -> int | None:
    """Smallest delay of the packets of a phase that found the bottleneck idle; None if there were none.

    A packet's own transmission time on a serial link is subtracted.
    """
    idle = replayed.comparable & ~replayed.waited & (replayed.phase == phase)
    # The two times may differ by a nanosecond because of rounding.
    idle &= replayed.departure_ns - replayed.transmission_ns <= passage.entered.t_ns + 1
    if not idle.any():
        return None
    return int((passage.out_ns - passage.entered.t_ns - replayed.transmission_ns)[idle].min())


def unqueued_delay_ns(passage: MatchedPackets, replayed: Replay, phase: int, asked_ns: int) -> int | None:
    """Smallest delay of the packets of a phase that found all earlier packets gone; None if there were none.

    For a queue with a service process. A replay does not show when such a queue was idle: each of its packets still
    waits for the next opportunity.
    """
    left_ns = np.where(passage.arrived, passage.out_ns - asked_ns, 0)
    before = np.concatenate(([0], np.maximum.accumulate(left_ns)[:-1])) if len(left_ns) else left_ns
    alone = passage.arrived & (before <= passage.entered.t_ns) & (replayed.phase == phase)
    return int((passage.out_ns[alone] - passage.entered.t_ns[alone]).min()) if alone.any() else None


def loss_probability(
    lost: int, packets: int, expected: float, model: Percentage | GilbertElliott | TimedGilbertElliott
) -> float:
    """Two-sided probability of a number of random losses at least this extreme, given the requested mean.

    Binomial for independent losses. Losses of a Gilbert–Elliott channel come in runs: neighbouring states correlate
    with 1-p-r, which leaves n·(p+r)/(2-p-r) independent packets (variance of a two-state chain's mean). The test then
    uses that number of packets, and the same share of losses. States that last for a time are known: `expected` is the
    mean of the packets' own chances, and their losses are independent.
    """
    if isinstance(model, GilbertElliott):
        switching = model.good_to_bad.fraction + model.bad_to_good.fraction
        share = min(1.0, switching / max(2 - switching, 1e-9))
        lost, packets = round(lost * share), round(packets * share)
    if packets <= 0:
        return 1.0
    # Imported here because it takes longer than all other imports together, and most commands measure nothing.
    from scipy.special import bdtr, bdtrc

    below = float(bdtr(lost, packets, expected))
    above = 1.0 if lost == 0 else float(bdtrc(lost - 1, packets, expected))
    return min(1.0, 2 * min(below, above))


def coincidence_probability(lost: Sequence[npt.NDArray[np.bool_]]) -> float:
    """Probability that so many runs of losses begin at the same position of two phases, if phases are independent.

    `lost`: for each phase which of its packets were lost, in order, each of shape (packets,). Two independent phases of
    a ≤ b packets with r and s runs have r·s/b pairs at the same position on average. If a Poisson number of runs with
    mean λ begins at a position, it makes pairs of mean λ²/2 and variance λ²/2 + λ³. So the number of pairs is treated
    as a Poisson number after division by 1 + 2λ. A random number generator that restarts with each phase loses the same
    packets each time.
    """
    begins = [np.flatnonzero(phase & ~np.concatenate([[False], phase[:-1]])) for phase in lost if len(phase)]
    lengths = np.array([len(phase) for phase in lost if len(phase)], np.float64)
    order = np.argsort(lengths)
    if not len(order):
        return 1.0
    longest = int(lengths.max())
    counts = np.zeros(longest, np.int64)
    for places in begins:
        counts[places] += 1
    pairs = int((counts * (counts - 1) // 2).sum())
    # Each phase with all shorter ones ahead of it.
    runs = np.array([len(begins[index]) for index in order], np.float64)
    expected = float((runs / lengths[order] * np.concatenate([[0.0], np.cumsum(runs)[:-1]])).sum())
    if pairs == 0 or expected == 0:
        return 1.0
    from scipy.special import pdtrc

    spread = 1 + 2 * runs.sum() / longest
    return float(pdtrc(math.ceil(pairs / spread) - 1, expected / spread))


def quantiles_ms(values: npt.NDArray[np.int64], *percent: float) -> list[float] | None:
    """Percentiles in ms; None for an empty array."""
    return [float(value) for value in np.percentile(values, percent) / 1e6] if len(values) else None


# --- Datagrams that a path was configured to drop or to damage, and what became of them.
#
# A damaged datagram is counted twice: one datagram that entered and never left, and one that left and never entered.


#: A fault by packet number may have a mean loss of 0 in the long run, but its drops are not the queue's.
_TINY_LOSS = 1e-9


def phases_with_faults(phases: Sequence[LinkPhase], faults: Sequence[Fault]) -> tuple[LinkPhase, ...]:
    """The phases of a direction with a mean loss that includes the faults as well as netem's random loss."""
    if not faults:
        return tuple(phases)
    pass_share = float(np.prod([1 - chance_share(fault) for fault in faults]))
    return tuple(replace(phase, mean_loss=max(_TINY_LOSS, 1 - (1 - phase.mean_loss) * pass_share)) for phase in phases)


def chance_share(fault: Fault) -> float:
    """The share of many datagrams that a fault hits by chance."""
    return 0.0 if fault.packets else fault_share(fault.rate, fault.burst)


def fault_problems(
    name: str, passage: MatchedPackets, replayed: Replay, faults: Sequence[Fault], improbable: float
) -> Iterator[str]:
    """Datagrams that were not treated as requested. A share less probable than `improbable` is a problem.

    Requested packet numbers are compared with the numbers of the missing packets among those that passed the queue.
    Bursts that end make shares vary less than independent losses do, so the test is too mild, never too strict.
    """
    # Packets that entered after the last one that left may still be in flight.
    last = int(np.flatnonzero(passage.arrived).max(initial=-1))
    elsewhere = [Fate.QUEUE_DROP, Fate.REFUSED, Fate.TOO_LARGE]
    passed = ~np.isin(replayed.fate, elsewhere) & (np.arange(len(passage.arrived)) <= last)
    lost = passed & ~passage.arrived & (replayed.fate != Fate.CUT)
    damaged = passage.missed_at_ingress if any(fault.kind == "corrupt" for fault in faults) else 0
    entering = int(passed.sum())
    for fault in faults:
        if fault.packets:
            targets = [number for number in fault.packets if number <= entering]
            losses = (np.flatnonzero(lost[passed]) + 1).tolist()[: max(len(targets), 1)]
            if fault.kind == "drop" and len(faults) == 1 and losses[: len(targets)] != targets:
                yield (
                    f"{name}: datagrams {_join_numbers(targets)} were to be dropped, and "
                    f"{_join_numbers(losses)} were the first to be"
                )
            continue
        affected = damaged if fault.kind == "corrupt" else max(0, int(lost.sum()) - damaged)
        if entering and loss_probability(affected, entering, chance_share(fault), Percentage(0)) < improbable:
            verb = "damaged" if fault.kind == "corrupt" else "dropped"
            yield (
                f"{name}: {affected} of {entering} datagrams ({affected / entering:.2%}) were {verb}, "
                f"asked {chance_share(fault):.2%}"
            )


def _join_numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
