"""Distribution-free intervals for a handful of repetitions; fairness of shares, and harm by a competitor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from harness.outcome import Interval

#: The coverage of an interval, where the number of values allows it.
COVERAGE = 0.95
#: The number of values from which order statistics reach that coverage: 1 - 2·2⁻⁶ = 0.969, with five it is 0.938.
MIN_VALUES = 6


def interval(values: Iterable[float]) -> Interval:
    """Median and the order-statistic interval around it.

    The narrowest symmetric pair (x₍k₎, x₍n+1-k₎) whose coverage of the true median is at least 95 %. The number of
    values below the median is binomial(n, ½), so the coverage is 1 - 2·P(B ≤ k-1), whatever the distribution (at least
    that much for one with ties). W. J. Conover, Practical Nonparametric Statistics, 3rd ed., §3.2; H. A. David, H. N.
    Nagaraja, Order Statistics, 3rd ed., §7.1. With fewer than six values no pair reaches 95 %: then the extremes, with
    the coverage they have (0 for one value).

    Values may be infinite (a transfer that never finished); +inf and -inf together have no median.
    Raises ValueError for no value and for NaN.
    """
    ordered = sorted(values)
    if not ordered or any(math.isnan(value) for value in ordered):
        raise ValueError("an interval needs at least one value, and numbers only")
    n = len(ordered)
    k, coverage = _interval_rank(n)
    low, high = ordered[(n - 1) // 2], ordered[n // 2]
    # The mean of the middle two; halves first would lose the last bit, and a sum of two infinities is one.
    median = low if low == high else (low + high) / 2
    return Interval(n=n, median=median, low=ordered[k - 1], high=ordered[n - k], coverage=coverage)


def _interval_rank(n: int) -> tuple[int, float]:
    """The largest k whose pair of order statistics reaches `COVERAGE`, else 1, and the coverage."""
    tail = 1  # 2ⁿ·P(B ≤ k-1), exactly
    k, coverage = 1, 1 - 2 * tail / 2**n
    while 2 * (k + 1) <= n:
        tail += math.comb(n, k)
        wider = 1 - 2 * tail / 2**n
        if wider < COVERAGE:
            break
        k, coverage = k + 1, wider
    return k, coverage


def share_interval(successes: int, trials: int) -> tuple[float, float]:
    """The interval of 95 % around the chance of success: Wilson's score interval.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference, J. Am. Stat. Assoc. 22 (1927);
    L. D. Brown, T. T. Cai, A. DasGupta, Interval estimation for a binomial proportion, Stat. Sci. 16 (2001), who
    recommend it for 40 trials and fewer. Raises ValueError without a trial, and for more successes than trials.
    """
    # It takes a third of a second to import, which most commands do not need.
    from scipy.stats import binomtest

    result = binomtest(successes, trials).proportion_ci(COVERAGE, method="wilson")
    return float(result.low), float(result.high)


def decisive_sizes(limit: int) -> list[int]:
    """Sample sizes up to `limit` whose interval can be narrower than that of any smaller one.

    The first reaches `COVERAGE`. At each next one the interval leaves out one more value at either end. In between it
    can only grow: its ends are values of the same rank among more.
    """
    return [
        n for n in range(MIN_VALUES, limit + 1) if n == MIN_VALUES or _interval_rank(n)[0] > _interval_rank(n - 1)[0]
    ]


def jain_index(values: Sequence[float]) -> float:
    """Jain's fairness index (Σx)² / (n · Σx²): 1 for equal shares, 1/n where one has all (RFC 5166 §2.3.1).

    ValueError for no value, negative ones, and nothing but zeros.
    """
    top = max(values, default=0.0)
    if min(values, default=-1.0) < 0 or top == 0:
        raise ValueError("fairness is of shares, not all of them zero")
    shares = [value / top for value in values]  # whose squares neither overflow nor vanish
    return math.fsum(shares) ** 2 / (len(shares) * math.fsum(share * share for share in shares))


def entropy(values: Sequence[float]) -> float:
    """Entropy of the shares, -Σ p·ln p with p = x / Σx: ln n for equal ones, 0 where one has all.

    ValueError for no value, negative ones, and nothing but zeros.
    """
    total = math.fsum(values)
    if min(values, default=-1.0) < 0 or total == 0:
        raise ValueError("fairness is of shares, not all of them zero")
    return -math.fsum(value / total * math.log(value / total) for value in values if value / total > 0)


def product(values: Sequence[float]) -> float:
    """Product of the shares Πx, the largest for equal ones of one sum (RFC 5166 §2.3.1). ValueError for no value."""
    if not values:
        raise ValueError("a product needs at least one value")
    return math.prod(values)


def harm(alone: float, beside: float, *, more_is_better: bool) -> float:
    """The harm of a competitor to a flow: 0 for none, towards 1 for a total loss.

    (x - y) / x where more is better (throughput), (y - x) / y where less is (delay, loss), with x the metric of the
    flow alone and y beside the competitor. R. Ware et al., Beyond Jain's Fairness Index, HotNets 2019. Negative where
    the flow gains. ValueError where it had nothing to lose.
    """
    whole = alone if more_is_better else beside
    if whole <= 0:
        raise ValueError(f"no harm can be done to {whole:g}")
    return (alone - beside if more_is_better else beside - alone) / whole
