"""What queues must do to a known stream of packets, by the rules of the kernel's queueing disciplines.

Predictions that measurements are held against (tests/lab/test_virtual_links.py, harness.bench.links), and the
statistics they are compared by. Times are ns, sizes layer-2 bytes, rates layer-2 bit/s, as tc counts them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.model import GilbertElliott, Link, Red
from harness.path.arithmetic import size_bytes
from harness.path.red import red_burst, red_log_weight
from harness.units import Duration, Percentage

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

#: The largest 32-bit number: netem's probabilities are shares of it.
_LARGEST = (1 << 32) - 1
#: tc sends a RED probability as a 32-bit fraction (iproute2, tc/q_red.c), and the kernel draws 32-bit numbers.
_FRACTION = 1 << 32


@dataclass(frozen=True)
class Prediction:
    """What is expected of one measurement."""

    mean: float
    sd: float
    """Standard deviation of one measurement."""

    def deviation(self, measured: float) -> float:
        """How many standard deviations a measurement is away; infinite for any distance where there are none."""
        if self.sd == 0:
            return 0.0 if measured == self.mean else np.inf
        return abs(measured - self.mean) / self.sd


# --- bottleneck: queue and server


class _Queue(ABC):
    """A first-in, first-out queue and what serves it, for many independent runs of one arrival process.

    In a FIFO a packet's departure is known when it is accepted.
    """

    def __init__(self, runs: int, packets: int, rate_bps: int) -> None:
        self._rows = np.arange(runs)
        self._ns_per_byte = 8e9 / rate_bps
        # Of the accepted packets, in order: when it leaves the queue, and bytes accepted up to and without it.
        self._leaves = np.full((runs, packets + 1), np.inf)
        self._accepted = np.zeros((runs, packets + 1), dtype=np.int64)
        self._head = np.zeros(runs, dtype=np.int64)
        self._tail = np.zeros(runs, dtype=np.int64)

    def backlog(self, now: float) -> Integers:
        """Bytes that wait at a time, which may not go back. Shape (runs,)."""
        while True:
            gone = self._leaves[self._rows, self._head] <= now
            if not gone.any():
                break
            self._head += gone
        waiting: Integers = self._accepted[self._rows, self._tail] - self._accepted[self._rows, self._head]
        return waiting

    def accept(self, now: float, frame_bytes: int, which: Booleans) -> Floats:
        """Put a packet into the queues `which`. Its departures from the link, NaN in the others. Shape (runs,)."""
        leaves, departure = self._serve(now, frame_bytes * self._ns_per_byte, which)
        rows, tail = self._rows[which], self._tail[which]
        self._leaves[rows, tail] = leaves[which]
        self._accepted[rows, tail + 1] = self._accepted[rows, tail] + frame_bytes
        self._tail[rows] += 1
        return np.where(which, departure, np.nan)

    @abstractmethod
    def _serve(self, now: float, own_ns: float, which: Booleans) -> tuple[Floats, Floats]:
        """When a packet that takes `own_ns` at the rate leaves the queue, and the link. Both of shape (runs,)."""


class _Serial(_Queue):
    """One packet after the other: it leaves the queue when the one before has been sent, and the link when it has."""

    def __init__(self, runs: int, packets: int, rate_bps: int) -> None:
        super().__init__(runs, packets, rate_bps)
        self._free = np.full(runs, -np.inf)

    def _serve(self, now: float, own_ns: float, which: Booleans) -> tuple[Floats, Floats]:
        begins = np.maximum(now, self._free)
        self._free = np.where(which, begins + own_ns, self._free)
        return begins, begins + own_ns


class _Bucket(_Queue):
    """The token bucket of sch_tbf.

    From net/sched/sch_tbf.c, tbf_dequeue: tokens are time (`buffer` = burst at the rate, full at the start); the
    head of the queue leaves once they cover its own time, and stays in the child's backlog until then, since tbf
    only peeks.
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


def _queue(arrivals_ns: Integers | Floats, rate_bps: int, burst_bytes: int | None, runs: int = 1) -> _Queue:
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
    queue = _queue(arrivals_ns, rate_bps, burst_bytes)
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


# --- RED


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
    return RedParameters(limit, low, high, weight, queue.probability.fraction)


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

    The kernel's own arithmetic (include/net/red.h, net/sched/sch_red.c): the average is a fixed-point number
    with its point at Wlog, moved by each arrival by the backlog without it; between the thresholds `qcount`
    counts, its first packet passes and draws qR, and one is dropped once ((average - min) >> Wlog)·qcount ≥ qR,
    where qR is a 32-bit random number divided by max_P/(max - min). There is no idle decay: below tbf, which
    peeks, and hfsc, which does not ask an empty queue, red_dequeue never finds an empty child, and an idle queue
    keeps its average. The hard limit is a bfifo.
    """
    low, high = parameters.min_bytes << parameters.log_weight, parameters.max_bytes << parameters.log_weight
    divisor = max(1, int(parameters.probability * _FRACTION) // max(1, parameters.max_bytes - parameters.min_bytes))
    generator = np.random.default_rng(seed)
    queue = _queue(arrivals_ns, rate_bps, burst_bytes, runs)
    average = np.zeros(runs, dtype=np.int64)
    count = np.full(runs, -1, dtype=np.int64)
    threshold = np.zeros(runs, dtype=np.int64)
    early, full = np.zeros(runs, dtype=np.int64), np.zeros(runs, dtype=np.int64)
    for now, size in zip(arrivals_ns.tolist(), frame_bytes.tolist(), strict=True):
        backlog = queue.backlog(now)
        average += backlog - (average >> parameters.log_weight)
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


# --- Gilbert–Elliott


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

    netem's loss_gilb_ell (net/sched/sch_netem.c) decides a packet's fate by the state the packet finds, and moves
    the state by a number of its own, so that (state, loss) is a hidden Markov chain: a run starts after a packet
    that was not lost, and the two-state probabilities follow by matrix products.
    """
    move, stationary, lost = _chain(loss)
    state = (stationary * (1 - lost)) @ move * lost
    if state.sum() == 0:
        raise ValueError("the chain loses nothing, or everything")
    state = state / state.sum()
    found = np.empty(longest)
    for index in range(longest):
        # The state has lost so many packets in a row; the run ends unless the next is lost, too.
        following = state @ move * lost
        found[index] = state.sum() - following.sum()
        state = following
    return found


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


class _Tausworthe:
    """The generator that netem draws its losses from: LFSR113, as include/linux/prandom.h seeds it.

    P. L'Ecuyer, Tables of Maximally-Equidistributed Combined LFSR Generators, Mathematics of Computation 68, 1999:
    four shift registers of 31, 29, 28 and 25 bits, given here as (shift in, shift out, unused bits, step).
    """

    _REGISTERS = ((6, 13, 1, 18), (2, 27, 3, 2), (13, 21, 4, 7), (3, 12, 7, 13))

    def __init__(self, seed: int) -> None:
        word = (seed >> 32 ^ seed << 10 ^ seed) & _LARGEST
        # A register may not have only its unused bits set.
        self._state = [word + (1 << unused) * (word < 1 << unused) for _, _, unused, _ in self._REGISTERS]

    def __call__(self) -> int:
        """The next number, uniform over 32 bits."""
        drawn = 0
        for index, (into, out, unused, step) in enumerate(self._REGISTERS):
            value = self._state[index]
            feedback = (value << into & _LARGEST ^ value) >> out
            self._state[index] = (value >> unused << unused) << step & _LARGEST ^ feedback
            drawn ^= self._state[index]
        return drawn


def netem_losses(loss: Percentage | GilbertElliott, seed: int, packets: int) -> Booleans:
    """Which packets netem loses with a seed, packet for packet. Shape (packets,).

    net/sched/sch_netem.c since 6.6 (loss_event, loss_gilb_ell): a plain loss draws one number a packet, and
    the model two, of which the first may move the state that the second no longer looks at. Nothing else may be
    drawn in between, so there may be no jitter.
    """
    draw = _Tausworthe(seed)
    if isinstance(loss, Percentage):
        threshold = round(loss.fraction * _LARGEST)
        return np.array([threshold > 0 and draw() <= threshold for _ in range(packets)], dtype=np.bool_)
    leave_good, leave_bad, in_bad, in_good = (
        round(chance.fraction * _LARGEST)
        for chance in (loss.good_to_bad, loss.bad_to_good, loss.loss_in_bad, loss.loss_in_good)
    )
    lost = np.zeros(packets, dtype=np.bool_)
    bad = False
    for index in range(packets):
        moves = draw() < (leave_bad if bad else leave_good)
        fate = draw()
        lost[index] = fate > _LARGEST - in_bad if bad else fate < in_good
        bad ^= moves
    return lost


def loss_runs(lost: Booleans) -> Integers:
    """Lengths of the runs of consecutive losses. Shape (runs,)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], lost, [False]]).astype(np.int8)))
    lengths: Integers = edges[1::2] - edges[::2]
    return lengths


# --- changes


def first_other_gap(times_ns: Floats, gap_ns: float, tolerance: float = 0.2) -> tuple[float, float]:
    """The two times between which a regular process first left its gap: (last in step, first out of step).

    For the departures of a busy link, between them its rate changed. ValueError if it never did.
    """
    gaps = np.diff(times_ns)
    other = np.flatnonzero(np.abs(gaps - gap_ns) > tolerance * gap_ns)
    if other.size == 0:
        raise ValueError(f"all gaps are {gap_ns:g} ns ± {tolerance:.0%}")
    return float(times_ns[other[0]]), float(times_ns[other[0] + 1])
