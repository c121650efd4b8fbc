"""Two samples beside each other, without assuming a distribution: by what factor they differ, and whether that shows.

The test is that of Mann and Whitney, the factor the estimate of Hodges and Lehmann, and the interval around it the one
that leaves out 1 where the test, alone, finds a difference: M. Hollander, D. A. Wolfe, E. Chicken, Nonparametric
Statistical Methods, 3rd ed., §4.1 to §4.3. All rest on the order of the values, so that values may be infinite (a
transfer that never finished).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from harness.stats import COVERAGE

#: What a difference is shown by: the probability of one as large by chance is no larger.
ALPHA = 1 - COVERAGE
#: Ways to deal tied values into two samples that are all looked at; of more, the normal approximation tells.
_DEALS = 20_000


@dataclass(frozen=True)
class Comparison:
    """A sample beside another one, the base."""

    factor: float | None
    """How many times the base the sample is: median of all ratios; None where that is no finite number."""
    low: float
    high: float
    coverage: float
    """Probability that low to high covers the factor; 0 for one value each."""
    p: float | None
    """Probability of samples as far apart by chance, both ways counted; None where nothing can be tested."""
    least: float
    """The smallest p that so many values can have."""
    constant: bool
    """Each sample has one value, several times: chance plays no part."""


def compare(sample: Sequence[float], base: Sequence[float]) -> Comparison:
    """A sample beside a base. Values may be infinite. ValueError for an empty sample and for NaN."""
    if not sample or not base or any(math.isnan(value) for value in (*sample, *base)):
        raise ValueError("a comparison needs values on both sides, and numbers only")
    n, m = len(sample), len(base)
    constant = min(n, m) > 1 and len(set(sample)) == len(set(base)) == 1
    tested = max(n, m) > 1 and not constant
    ratios = sorted(_ratio(one, other) for one in sample for other in base)
    k, coverage = _rank(n, m)
    middle = ratios[(n * m - 1) // 2], ratios[n * m // 2]
    # The mean of the middle two as factors: of one half and twice it is 1.
    factor = middle[0] if middle[0] == middle[1] else math.sqrt(middle[0] * middle[1])
    return Comparison(
        factor=factor if 0 < factor < math.inf else None, low=ratios[k - 1], high=ratios[-k], coverage=coverage,
        p=_p(sample, base) if tested else None, least=least_p(n, m), constant=constant,
    )  # fmt: skip


def least_p(n: int, m: int) -> float:
    """The smallest p of n values beside m: when all of one lie above all of the other."""
    return min(1.0, 2 / math.comb(n + m, n))


def enough(comparisons: int) -> int:
    """Values each side must have for so many comparisons with one base to be able to show a difference."""
    n = 2
    while least_p(n, n) * comparisons > ALPHA:
        n += 1
    return n


def holm(found: Sequence[float | None]) -> list[float | None]:
    """The p of several comparisons, so adjusted that one among them misleads no more often than one alone would.

    S. Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6 (1979). None stays None.
    """
    made: list[float | None] = [None] * len(found)
    order = sorted((p, index) for index, p in enumerate(found) if p is not None)
    reached = 0.0
    for place, (p, index) in enumerate(order):
        reached = max(reached, min(1.0, p * (len(order) - place)))
        made[index] = reached
    return made


def _ratio(value: float, base: float) -> float:
    """One value by another; of two that are alike, zeros and infinities too, it is 1."""
    if value == base:
        return 1.0
    return math.inf if base == 0 else value / base


def _p(sample: Sequence[float], base: Sequence[float]) -> float:
    # It takes a while to import, and most commands compare nothing.
    from scipy.stats import PermutationMethod, mannwhitneyu, rankdata

    n = len(sample)
    ranks = rankdata([*sample, *base])
    method: object = "exact"
    if len(set(ranks)) < len(ranks):
        deals = math.comb(len(ranks), n)
        method = PermutationMethod(n_resamples=deals) if deals <= _DEALS else "asymptotic"
    return min(1.0, float(mannwhitneyu(ranks[:n], ranks[n:], alternative="two-sided", method=method).pvalue))


def _rank(n: int, m: int) -> tuple[int, float]:
    """The largest k whose pair of ordered ratios (the k-th from either end) has `COVERAGE`, else 1; the coverage."""
    counts = _arrangements(n, m)
    every, outside, k = math.comb(n + m, n), counts[0], 1
    coverage = max(0.0, 1 - 2 * outside / every)
    while 2 * (k + 1) <= n * m:
        outside += counts[k]
        wider = 1 - 2 * outside / every
        if wider < COVERAGE:
            break
        k, coverage = k + 1, wider
    return k, coverage


@cache
def _arrangements(n: int, m: int) -> tuple[int, ...]:
    """In how many orders of n and m values Mann and Whitney's U is 0, 1 … n·m: coefficients of a Gaussian binomial."""
    counts = [1, *[0] * (n * m)]
    for i in range(1, n + 1):
        for u in range(n * m, m + i - 1, -1):
            counts[u] -= counts[u - m - i]
        for u in range(i, n * m + 1):
            counts[u] += counts[u - i]
    return tuple(counts)
