"""Distribution-free comparison of two samples: the factor by which they differ, and its significance.

The test is that of Mann and Whitney, and the factor is the estimate of Hodges and Lehmann. Its interval excludes 1
where the test, without adjustment, finds a difference: M. Hollander, D. A. Wolfe, E. Chicken, Nonparametric Statistical
Methods, 3rd ed., §4.1 to §4.3. All rest on the order of the values, so that values may be infinite (a transfer that
never finished).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

from harness.stats.intervals import COVERAGE

#: Significance level: the largest probability of such a difference by chance at which it counts as shown.
ALPHA = 1 - COVERAGE
#: Values of both samples together above which the normal approximation is used: its error is less than 0.001 there.
_EXACT_LIMIT = 100


@dataclass(frozen=True)
class Comparison:
    """The comparison of a sample with another one, the base."""

    factor: float | None
    """Ratio of the sample to the base: median of all ratios; None where that is no finite number."""
    low: float
    high: float
    coverage: float
    """Probability that low to high covers the factor; 0 for one value each."""
    p: float | None
    """Two-sided probability of samples as far apart by chance; None where nothing can be tested."""
    minimum_p: float
    """The smallest p that so many values can have."""
    constant: bool
    """Each sample has a single value, several times: there is no chance."""


def compare(sample: Sequence[float], base: Sequence[float]) -> Comparison:
    """Compare a sample with a base. Values may be infinite. ValueError for an empty sample and for NaN."""
    if not sample or not base or any(math.isnan(value) for value in (*sample, *base)):
        raise ValueError("a comparison needs values on both sides, and numbers only")
    n, m = len(sample), len(base)
    constant = min(n, m) > 1 and len(set(sample)) == len(set(base)) == 1
    testable = max(n, m) > 1 and not constant
    ratios = sorted(ratio(value, base_value) for value in sample for base_value in base)
    k, coverage = _interval_rank(n, m)
    middle_pair = ratios[(n * m - 1) // 2], ratios[n * m // 2]
    # The mean of the middle two as factors: of one half and twice it is 1.
    factor = middle_pair[0] if middle_pair[0] == middle_pair[1] else math.sqrt(middle_pair[0] * middle_pair[1])
    return Comparison(
        factor=factor if 0 < factor < math.inf else None,
        low=ratios[k - 1],
        high=ratios[-k],
        coverage=coverage,
        p=_rank_sum_p(sample, base) if testable else None,
        minimum_p=smallest_p(n, m),
        constant=constant,
    )


def smallest_p(n: int, m: int) -> float:
    """The smallest p of n values against m: when all of one sample lie above all of the other."""
    return min(1.0, 2 / math.comb(n + m, n))


def required_repetitions(comparisons: int) -> int:
    """The values that each side needs so that this many comparisons with one base can show a difference."""
    n = 2
    while smallest_p(n, n) * comparisons > ALPHA:
        n += 1
    return n


def adjust_holm(p_values: Sequence[float | None]) -> list[float | None]:
    """The p-values of several comparisons, adjusted for multiple testing: the family-wise error is that of one test.

    S. Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6 (1979). None stays None.
    """
    adjusted: list[float | None] = [None] * len(p_values)
    order = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    floor = 0.0
    for place, (p, index) in enumerate(order):
        floor = max(floor, min(1.0, p * (len(order) - place)))
        adjusted[index] = floor
    return adjusted


def ratio(value: float, base: float) -> float:
    """The ratio of two values; 1 for two equal ones, including zeros and infinities."""
    if value == base:
        return 1.0
    return math.inf if base == 0 else value / base


def _rank_sum_p(sample: Sequence[float], base: Sequence[float]) -> float:
    """The two-sided p of the rank sum: exact, with ties too; for many values by the normal approximation."""
    n, m = len(sample), len(base)
    if n + m > _EXACT_LIMIT:
        # The import is slow, and few comparisons have so many values.
        from scipy.stats import mannwhitneyu

        # Ranks, since infinities have no difference.
        ranks = _doubled_ranks([*sample, *base])
        return float(mannwhitneyu(ranks[:n], ranks[n:], alternative="two-sided", method="asymptotic").pvalue)
    ranks = _doubled_ranks([*sample, *base])
    counts = _rank_sum_counts(tuple(sorted(ranks)), n)
    rank_sum = sum(ranks[:n])
    return min(1.0, 2 * (min(sum(counts[: rank_sum + 1]), sum(counts[rank_sum:])) / sum(counts)))


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value, so that the mean rank of tied ones is a whole number."""
    below, up_to = dict[float, int](), dict[float, int]()
    for place, value in enumerate(sorted(values)):
        below.setdefault(value, place)
        up_to[value] = place + 1
    return [below[value] + up_to[value] + 1 for value in values]


@lru_cache(maxsize=64)
def _rank_sum_counts(ranks: tuple[int, ...], n: int) -> tuple[int, ...]:
    """The number of ways in which n of these ranks sum up to 0, 1, 2 …: the distribution of a rank sum.

    The shift algorithm of B. Streitberg and J. Röhmel, Exact distributions for permutations and rank tests, Statistical
    Software Newsletter 12 (1986). The counts of a row are the digits of one long integer, the lowest first, so that
    Python's own arithmetic adds them all at once. None exceeds 2^(number of ranks).
    """
    digit = len(ranks) // 8 + 1
    rows = [1] + [0] * n
    for number, rank in enumerate(ranks, 1):
        for size in range(min(n, number), 0, -1):
            rows[size] += rows[size - 1] << 8 * digit * rank
    length = digit * (sum(ranks) + 1)
    digits = rows[n].to_bytes(length, "little")
    return tuple(int.from_bytes(digits[place : place + digit], "little") for place in range(0, length, digit))


def _interval_rank(n: int, m: int) -> tuple[int, float]:
    """The largest k whose pair of ordered ratios (the k-th from either end) has `COVERAGE`, else 1; the coverage."""
    if n + m > _EXACT_LIMIT:
        spread = math.sqrt(n * m * (n + m + 1) / 12)
        return max(1, math.floor(n * m / 2 - NormalDist().inv_cdf((1 + COVERAGE) / 2) * spread)), COVERAGE
    counts = u_counts(n, m)
    total, tail, k = sum(counts), counts[0], 1
    coverage = max(0.0, 1 - 2 * tail / total)
    while 2 * (k + 1) <= n * m:
        tail += counts[k]
        wider = 1 - 2 * tail / total
        if wider < COVERAGE:
            break
        k, coverage = k + 1, wider
    return k, coverage


def u_counts(n: int, m: int) -> tuple[int, ...]:
    """The number of orders of n and m values, all different, in which Mann and Whitney's U is 0, 1 … n·m."""
    counts = _rank_sum_counts(tuple(range(2, 2 * (n + m) + 1, 2)), n)
    return counts[n * (n + 1) :: 2][: n * m + 1]
