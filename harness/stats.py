"""Intervals for a handful of repetitions, without assuming a distribution."""

from __future__ import annotations

import math
from collections.abc import Iterable

from harness.outcome import Interval

#: Coverage that an interval is to have where the number of values allows it.
COVERAGE = 0.95
#: From so many values on, order statistics reach that coverage: 1 - 2·2⁻⁶ = 0.969, with five it is 0.938.
ENOUGH = 6


def interval(values: Iterable[float]) -> Interval:
    """Median and the order-statistic interval around it.

    The narrowest symmetric pair (x₍k₎, x₍n+1-k₎) whose coverage of the true median is at least 95 %: the number
    of values below the median is binomial(n, ½), so the coverage is 1 - 2·P(B ≤ k-1), whatever the
    distribution (at least that much for one with ties). W. J. Conover, Practical Nonparametric Statistics,
    3rd ed., §3.2; H. A. David, H. N. Nagaraja, Order Statistics, 3rd ed., §7.1. With fewer than six values no
    pair reaches 95 %: then the extremes, with the coverage they have (0 for one value).

    Values may be infinite (a transfer that never finished); +inf and -inf together have no median.
    Raises ValueError for no value and for NaN.
    """
    ordered = sorted(values)
    if not ordered or any(math.isnan(value) for value in ordered):
        raise ValueError("an interval needs at least one value, and numbers only")
    n = len(ordered)
    k, coverage = _rank(n)
    low, high = ordered[(n - 1) // 2], ordered[n // 2]
    # The mean of the middle two; halves first would lose the last bit, and a sum of two infinities is one.
    median = low if low == high else (low + high) / 2
    return Interval(n=n, median=median, low=ordered[k - 1], high=ordered[n - k], coverage=coverage)


def _rank(n: int) -> tuple[int, float]:
    """The largest k whose pair of order statistics reaches `COVERAGE`, else 1, and the coverage."""
    outside = 1  # 2ⁿ·P(B ≤ k-1), exactly
    k, coverage = 1, 1 - 2 * outside / 2**n
    while 2 * (k + 1) <= n:
        outside += math.comb(n, k)
        wider = 1 - 2 * outside / 2**n
        if wider < COVERAGE:
            break
        k, coverage = k + 1, wider
    return k, coverage
