"""Whether a link varied delays, reordered and duplicated packets as a scenario asks, by what the captures show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from harness.analysis.direction import LinkDirection
from harness.analysis.link_estimates import loss_probability
from harness.analysis.link_replay import Ints
from harness.capture.capture import CE, ECT_1, NOT_ECT, ecn
from harness.netem import early_share
from harness.scenario.schema import FRAME_HEADER, Jitter, Link, Reorder
from harness.units import Percentage

#: Of fewer packets nothing is said.
_FEWEST = 30


def impairment_problems(
    direction: LinkDirection, states: Sequence[Link], tolerance_ns: int, improbable: float
) -> Iterator[str]:
    """What the captures show of a direction that a link with these properties would not do.

    `states`: the link at first and after each change of its path. `tolerance_ns`: how early or late a packet may be
    without its being asked. `improbable`: the probability below which a number of packets is a problem.
    """
    if any(phase.mtu is not None for phase in direction.phases):
        yield from _size_problems(direction, tolerance_ns)
    phases = [states[phase.changes] for phase in direction.phases]
    if phases[0].ecn is not None:
        yield from _ecn_problems(direction, phases[0].ecn)
    varied = [(link.delay, link.variation, link.reorder) for link in phases]
    for number, form in enumerate(varied):
        if form in varied[:number]:
            continue
        link, part = phases[number], _of_phases(direction, [phase_form == form for phase_form in varied])
        if link.reorder is not None:
            yield from _reorder_problems(part, link, link.reorder, improbable)
        elif link.variation.deviation.value:
            yield from _jitter_problems(part, link, tolerance_ns, improbable)
    if any(link.duplicate.value for link in phases):
        yield from _duplicate_problems(direction, phases, improbable)


def _of_phases(direction: LinkDirection, chosen: Sequence[bool]) -> LinkDirection:
    """A direction of which only the packets of the chosen phases are comparable."""
    if all(chosen):
        return direction
    replayed = direction.replay
    return replace(
        direction, replay=replace(replayed, comparable=replayed.comparable & np.array(chosen)[replayed.phase])
    )


def _size_problems(direction: LinkDirection, tolerance_ns: int) -> Iterator[str]:
    """Packets that left whole though they were larger than the path's MTU."""
    replayed, entered = direction.replay, direction.passage.entered
    # A serial link may decide when it begins to send a packet.
    decided = replayed.departure_ns - replayed.transmission_ns - tolerance_ns
    for index, phase in enumerate(direction.phases):
        if phase.mtu is None:
            continue
        large = entered.length - FRAME_HEADER > phase.mtu.size
        if phase.mtu.icmp:
            # A router fragments those that allow it (RFC 791 §2.3); the first fragment has the datagram's header.
            large &= ~entered.may_fragment
        passed = int((large & replayed.comparable & (replayed.phase == index) & (decided >= phase.start_ns)).sum())
        if passed:
            yield f"{direction.name}: {passed} packets larger than the MTU of {phase.mtu.size} B passed"


def _ecn_problems(direction: LinkDirection, ecn_change: str) -> Iterator[str]:
    """Delivered packets whose ECN field is not what the node on the way makes of it."""
    passage = direction.passage
    if passage.out_class is None:
        return
    before, after = ecn(passage.entered.traffic_class)[passage.arrived], ecn(passage.out_class)[passage.arrived]
    # The queue ahead of the node may have marked.
    wrong = {
        "bleach": after != NOT_ECT,
        "ect1-to-ect0": after == ECT_1,
        "mark": (before != NOT_ECT) & (after != CE),
        "drop": before != NOT_ECT,
    }[ecn_change]
    if wrong.any():
        yield f"{direction.name}: {int(wrong.sum())} of {len(wrong)} packets left with ECN that was to be changed"


def deviations_ns(direction: LinkDirection) -> Ints:
    """By how much each delivered packet's delay differs from the link's, in order of departure, shape (n,)."""
    replayed, passage = direction.replay, direction.passage
    rows = replayed.accepted[replayed.comparable[replayed.accepted]]
    return np.asarray(passage.out_ns[rows] - replayed.due_ns[rows], np.int64)


def _jitter_problems(direction: LinkDirection, link: Link, tolerance_ns: int, improbable: float) -> Iterator[str]:
    variation = link.variation
    deviations = deviations_ns(direction)
    if len(deviations) < _FEWEST:
        return
    largest = variation.largest.value
    low, high = int(deviations.min()), int(deviations.max())
    # A delay below zero is none, so that the deviation ends there.
    least = -min(largest, link.delay.value)
    if low < least - tolerance_ns or high > largest + tolerance_ns:
        yield (
            f"{direction.name}: delays deviate by {low / 1e6:.2f} to {high / 1e6:.2f} ms, asked at most "
            f"{largest / 1e6:.2f} ms"
        )
    if variation.order == "kept":
        yield from _order_problems(direction)
    elif not variation.correlation.value and (probability := _misfit(deviations, variation, least)) < improbable:
        yield (
            f"{direction.name}: the deviations of {len(deviations)} delays are not {variation.distribution} with "
            f"{variation.deviation} (probability {probability:.0e})"
        )


def _order_problems(direction: LinkDirection) -> Iterator[str]:
    """A packet that left ahead of one that had left the bottleneck before it."""
    rows = direction.replay.accepted
    rows = rows[direction.passage.arrived[rows]]
    overtaken = int((np.diff(direction.passage.out_ns[rows]) < 0).sum())
    if overtaken:
        text = f"{overtaken} of {len(rows)} packets were overtaken, and the jitter was to keep their order"
        yield f"{direction.name}: {text}"


def _misfit(deviations: Ints, variation: Jitter, least: int) -> float:
    """Probability of deviations at least so far from the asked distribution (test of Kolmogorov and Smirnov).

    netem's tables of other distributions than the uniform and the normal one are not known here: their mean and their
    standard deviation are tested, by the normal distribution of the mean of many.
    """
    from scipy import stats

    scale = variation.deviation.value
    if least > -variation.largest.value:
        return 1.0
    if variation.distribution == "uniform":
        return float(stats.kstest(deviations, stats.uniform(-scale, 2 * scale).cdf).pvalue)
    if variation.distribution == "normal":
        return float(stats.kstest(deviations, stats.truncnorm(-4, 4, scale=scale).cdf).pvalue)
    error = abs(float(deviations.mean())) / (scale / np.sqrt(len(deviations)))
    return float(2 * stats.norm.sf(error))


def _reorder_problems(direction: LinkDirection, link: Link, reorder: Reorder, improbable: float) -> Iterator[str]:
    early = _early(direction, link, reorder)
    if len(early) < _FEWEST or reorder.correlation.value:
        return
    expected = early_share(reorder)
    count = int(early.sum())
    # With a gap, numbers vary less than those of independent packets: the test is too mild, never too strict.
    probability = loss_probability(count, len(early), expected, Percentage(0))
    if probability < improbable:
        yield (
            f"{direction.name}: {count} of {len(early)} packets ({count / len(early):.2%}) left early, asked "
            f"{expected:.2%} (probability {probability:.0e})"
        )


def _early(direction: LinkDirection, link: Link, reorder: Reorder) -> npt.NDArray[np.bool_]:
    """Which of the delivered packets left early."""
    ahead = (reorder.ahead or link.delay).value
    return np.asarray(deviations_ns(direction) < -ahead // 2, np.bool_)


def _duplicate_problems(direction: LinkDirection, phases: Sequence[Link], improbable: float) -> Iterator[str]:
    """Copies are made of packets that netem is given, and a lost one of two is no copy that anybody sees."""
    arrived = direction.passage.arrived
    delivered = int(arrived.sum())
    copies = direction.passage.copies
    if delivered < _FEWEST:
        return
    shares = np.array([_copied_share(link) for link in phases])
    expected = float(shares[direction.replay.phase[arrived]].mean())
    probability = loss_probability(copies, delivered, expected, Percentage(0))
    if probability < improbable:
        yield (
            f"{direction.name}: {copies} of {delivered} packets ({copies / delivered:.2%}) arrived twice, asked "
            f"{expected:.2%} (probability {probability:.0e})"
        )


def _copied_share(link: Link) -> float:
    """The share of the packets that arrive of which a copy arrives, too."""
    share = link.duplicate.fraction * (1 - link.mean_loss)
    # Of those that arrive: all but those that were lost and had no copy.
    return share / (1 - link.mean_loss * (1 - link.duplicate.fraction))
