"""Random loss as netem does it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from harness.scenario.schema import GilbertElliott
from harness.units import Percentage
from tools.bench.fidelity.prediction import Booleans, Floats, Integers, Prediction

#: The largest 32-bit number: netem's probabilities are shares of it.
_LARGEST = (1 << 32) - 1


@dataclass(frozen=True)
class LossPrediction:
    """What is expected of the losses among so many packets."""

    share: Prediction
    """Share of packets lost."""
    run: Prediction
    """Mean length of a run of consecutive losses, packets."""


def _chain(loss: GilbertElliott) -> tuple[Floats, Floats, Floats]:
    """(transition matrix, stationary distribution, loss) over the states good and bad."""
    p, r = loss.good_to_bad.fraction, loss.bad_to_good.fraction
    if not (p > 0 and r > 0):
        raise ValueError("a chain that never leaves a state has no long run")
    return (
        np.array([[1 - p, p], [r, 1 - r]]),
        np.array([r, p]) / (p + r),
        np.array([loss.loss_in_good.fraction, loss.loss_in_bad.fraction]),
    )


def run_length_probabilities(loss: GilbertElliott, longest: int) -> Floats:
    """P(a run of losses has length k) for k = 1 … longest. Shape (longest,).

    netem's loss_gilb_ell (net/sched/sch_netem.c) decides a packet's fate by the state the packet finds, and moves the
    state by a number of its own. So (state, loss) is a hidden Markov chain. A run starts after a packet that was not
    lost, and the two-state probabilities follow by matrix products.
    """
    move, stationary, lost = _chain(loss)
    state = (stationary * (1 - lost)) @ move * lost
    if state.sum() == 0:
        raise ValueError("the chain loses nothing, or everything")
    state = state / state.sum()
    probabilities = np.empty(longest)
    for index in range(longest):
        # The state has lost so many packets in a row; the run ends unless the next is lost, too.
        following = state @ move * lost
        probabilities[index] = state.sum() - following.sum()
        state = following
    return probabilities


def gilbert_elliott(loss: GilbertElliott, packets: int) -> LossPrediction:
    """Share and mean run length of the losses among `packets`, with their standard deviations.

    Gilbert 1960, Elliott 1963. The share's variance has the chain's correlation in it: the covariance of two
    losses j packets apart is π_g·π_b·(l_b - l_g)²·λ^j with λ = 1 - p - r, summed for a long stream. Runs are taken
    as independent, which they are when the states lose all or nothing.
    """
    move, stationary, lost = _chain(loss)
    mean = float(stationary @ lost)
    eigenvalue = move[0, 0] + move[1, 1] - 1
    covariance = stationary.prod() * (lost[1] - lost[0]) ** 2 * eigenvalue / (1 - eigenvalue)
    share = Prediction(mean, float(np.sqrt((mean * (1 - mean) + 2 * covariance) / packets)))
    start = (stationary * (1 - lost)) @ move * lost
    chance = start.sum()
    # Moments of a discrete phase-type distribution (M. F. Neuts, Matrix-Geometric Solutions, §2.2).
    step = np.linalg.inv(np.eye(2) - move * lost)
    first = (start / chance) @ step
    length = float(first.sum())
    square = float((2 * first @ step - first).sum())
    runs = packets * chance
    return LossPrediction(share, Prediction(length, float(np.sqrt(max(0.0, square - length**2) / runs))))


#: Of the four shift registers: the bits of each that are not used.
_UNUSED = (1, 3, 4, 7)


def _tausworthe(seed: int) -> Iterator[int]:
    """The numbers that netem draws its losses from, uniform over 32 bits: LFSR113, as include/linux/prandom.h seeds it.

    P. L'Ecuyer, Tables of Maximally-Equidistributed Combined LFSR Generators, Mathematics of Computation 68, 1999:
    four shift registers of 31, 29, 28 and 25 bits. They are written out, since there is a million of numbers to draw.
    """
    word = (seed >> 32 ^ seed << 10 ^ seed) & _LARGEST
    # A register may not have only its unused bits set.
    a, b, c, d = (word + (1 << unused) * (word < 1 << unused) for unused in _UNUSED)
    while True:
        a = (a & 0xFFFFFFFE) << 18 & _LARGEST ^ ((a << 6 & _LARGEST) ^ a) >> 13
        b = (b & 0xFFFFFFF8) << 2 & _LARGEST ^ ((b << 2 & _LARGEST) ^ b) >> 27
        c = (c & 0xFFFFFFF0) << 7 & _LARGEST ^ ((c << 13 & _LARGEST) ^ c) >> 21
        d = (d & 0xFFFFFF80) << 13 & _LARGEST ^ ((d << 3 & _LARGEST) ^ d) >> 12
        yield a ^ b ^ c ^ d


def netem_losses(loss: Percentage | GilbertElliott, seed: int, packets: int) -> Booleans:
    """Which packets netem loses with a seed, packet for packet. Shape (packets,).

    net/sched/sch_netem.c since 6.6 (loss_event, loss_gilb_ell): a plain loss draws one number a packet, and
    the model two, of which the first may move the state that the second no longer looks at. Nothing else may be
    drawn in between, so there may be no jitter.
    """
    numbers = _tausworthe(seed)
    if isinstance(loss, Percentage):
        threshold = round(loss.fraction * _LARGEST)
        return np.array([threshold > 0 and number <= threshold for number in islice(numbers, packets)], dtype=np.bool_)
    leave_good, leave_bad, in_bad, in_good = (
        round(chance.fraction * _LARGEST)
        for chance in (loss.good_to_bad, loss.bad_to_good, loss.loss_in_bad, loss.loss_in_good)
    )
    lost = np.zeros(packets, dtype=np.bool_)
    bad = False
    for index in range(packets):
        moves = next(numbers) < (leave_bad if bad else leave_good)
        fate = next(numbers)
        lost[index] = fate > _LARGEST - in_bad if bad else fate < in_good
        bad ^= moves
    return lost


def loss_runs(lost: Booleans) -> Integers:
    """Lengths of the runs of consecutive losses. Shape (runs,)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], lost, [False]]).astype(np.int8)))
    lengths: Integers = edges[1::2] - edges[::2]
    return lengths
