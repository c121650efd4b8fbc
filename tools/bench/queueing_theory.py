"""Queueing theory that a serial link is held against: every packet's times, and the mean waits of known arrivals.

Times are ns, sizes layer-2 bytes, rates layer-2 bit/s. Sources: D. V. Lindley, The theory of queues with a single
server (Proc. Cambridge Phil. Soc. 48, 1952); F. Pollaczek (1930) and A. Khinchine (1932) for M/G/1; L. Kleinrock,
Queueing Systems I (1975), §5.6 and §3.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def lindley(arrivals_ns: Floats, services_ns: Floats) -> Floats:
    """When each packet has been sent: D_k = max(A_k, D_(k-1)) + S_k. Shape (packets,).

    Lindley's recursion for an endless queue, solved: D_k = S_1 + … + S_k + max over j ≤ k of A_j - (S_1 + … + S_(j-1)).
    """
    served = np.cumsum(services_ns)
    return np.asarray(served + np.maximum.accumulate(arrivals_ns - (served - services_ns)), np.float64)


@dataclass(frozen=True)
class Sizes:
    """A mix of packet sizes, each with its share."""

    frame_bytes: tuple[int, ...]
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.frame_bytes) != len(self.shares) or not np.isclose(sum(self.shares), 1):
            raise ValueError(f"{self}: one share for each size, 1 in all")

    def moment(self, power: int, rate_bps: float) -> float:
        """E[S^power] of the time a packet takes on a link, ns^power."""
        times = np.array(self.frame_bytes) * 8e9 / rate_bps
        return float(times**power @ np.array(self.shares))

    def draw(self, packets: int, generator: np.random.Generator) -> Integers:
        """Sizes of so many packets, independent of one another. Shape (packets,)."""
        return generator.choice(np.array(self.frame_bytes, np.int64), packets, p=self.shares)


def poisson_arrivals(mean_gap_ns: float, packets: int, generator: np.random.Generator) -> Integers:
    """Times of a Poisson process, whole ns from its first gap on. Shape (packets,)."""
    return np.round(np.cumsum(generator.exponential(mean_gap_ns, packets))).astype(np.int64)


def mean_wait(mean_gap_ns: float, service_ns: float, service_square: float) -> float:
    """Mean wait in M/G/1, ns: λ·E[S²] / (2·(1 - ρ)), by Pollaczek and Khinchine. ValueError from load 1 on.

    With E[S²] = E[S]² that is M/D/1; with 2·E[S]², M/M/1.
    """
    load = service_ns / mean_gap_ns
    if not load < 1:
        raise ValueError(f"a load of {load:g} has no mean wait")
    return service_square / mean_gap_ns / (2 * (1 - load))


@dataclass(frozen=True)
class Inputs:
    """First and second moments of what M/G/1 is given: service times and gaps between arrivals, ns and ns²."""

    mean_gap: float
    service: float
    service_square: float

    @property
    def mean_wait(self) -> float:
        """By Pollaczek and Khinchine, ns."""
        return mean_wait(self.mean_gap, self.service, self.service_square)


def _controls(waits: Floats, services: Floats, gaps: Floats, inputs: Inputs) -> Floats:
    """Three figures of a stream whose means are known to be zero, as its wait's error is not. Shape (3,).

    With X = S - gap, the gap behind a packet: X - E[X]; X² - E[X²]; and W·(X - E[X]), since nothing that comes behind
    a packet changes its wait.
    """
    drift = services - gaps
    expected = inputs.service - inputs.mean_gap
    # A gap of a Poisson process has its own mean for a standard deviation.
    square = inputs.service_square - inputs.service**2 + inputs.mean_gap**2 + expected**2
    return np.array([(drift - expected).mean(), (drift**2 - square).mean(), (waits * (drift - expected)).mean()])


@dataclass(frozen=True, eq=False)
class WaitEstimate:
    """How to draw the mean wait of M/G/1 from a stream near load 1, where a plain mean takes millions of packets.

    Its variance grows with (1 - ρ)^-4 (D. J. Daley, The serial correlation coefficients of waiting times in a
    stationary single server queue, 1968). Control variates take most of that away: the mean of the waits, less
    `coefficients` times figures of the same stream that are zero in the mean (S. S. Lavenberg and P. D. Welch,
    Management Science 27, 1981). Waits that are all too short or too long show in it as in the plain mean.
    """

    coefficients: Floats
    sd: float
    """Standard deviation of one stream's figure, ns."""

    def __call__(self, waits: Floats, services: Floats, gaps: Floats, inputs: Inputs) -> float:
        """The mean wait, ns. Arrays of shape (packets,); the first tenth, in which the queue grows, is left out."""
        start = waits.size // 10
        behind = _controls(waits[start:], services[start:], gaps[start:], inputs)
        return float(waits[start:].mean() - behind @ self.coefficients)


def wait_estimate(
    inputs: Inputs, draw: Callable[[np.random.Generator], tuple[Floats, Floats]], streams: int = 200, seed: int = 0
) -> WaitEstimate:
    """Coefficients by regression over independent streams through Lindley's recursion.

    `draw`: arrivals and service times of one stream, ns.
    """
    generator = np.random.default_rng(seed)
    plain, controls = np.empty(streams), np.empty((streams, 3))
    for index in range(streams):
        arrivals, services = draw(generator)
        waits = (lindley(arrivals, services) - services - arrivals)[:-1]
        start = waits.size // 10
        plain[index] = waits[start:].mean()
        controls[index] = _controls(waits[start:], services[start:-1], np.diff(arrivals)[start:], inputs)
    centred = controls - controls.mean(axis=0)
    coefficients = np.linalg.lstsq(centred, plain - plain.mean(), rcond=None)[0]
    return WaitEstimate(coefficients, float((plain - controls @ coefficients).std(ddof=4)))
