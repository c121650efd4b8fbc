from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.stats.intervals import entropy, harm, interval, jain_index, product

FINITE = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("n", "rank", "coverage"),
    # Ranks and coverages of the tables in Conover and in David & Nagaraja.
    [(1, 1, 0.0), (2, 1, 0.5), (5, 1, 0.9375), (6, 1, 0.96875), (8, 1, 0.9921875), (9, 2, 0.9609375), (10, 2, 0.978515625),
     (11, 2, 0.98828125), (12, 3, 0.96142578125), (15, 4, 0.96484375), (20, 6, 0.9586105346679688)],
)  # fmt: skip
def test_table(n: int, rank: int, coverage: float) -> None:
    median_interval = interval(range(1, n + 1))
    assert (median_interval.n, median_interval.low, median_interval.high) == (n, rank, n + 1 - rank)
    assert median_interval.coverage == coverage


@given(FINITE)
def test_is_around_the_median(values: list[float]) -> None:
    median_interval = interval(values)
    assert median_interval.low <= median_interval.median <= median_interval.high
    assert median_interval.median == pytest.approx(statistics.median(values))
    assert median_interval.low in values and median_interval.high in values
    assert median_interval.coverage >= 0.95 or len(values) < 6


@given(FINITE, st.floats(0.1, 10), st.floats(-1e6, 1e6))
def test_follows_scale_and_shift(values: list[float], scale: float, shift: float) -> None:
    before, after = interval(values), interval([value * scale + shift for value in values])
    assert after.low == pytest.approx(before.low * scale + shift, rel=1e-9, abs=1e-6)
    assert after.high == pytest.approx(before.high * scale + shift, rel=1e-9, abs=1e-6)


@given(FINITE, st.data())
def test_is_monotone(values: list[float], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(values) - 1))
    larger = [value + (position == index) * data.draw(st.floats(0, 100)) for position, value in enumerate(values)]
    before, after = interval(values), interval(larger)
    assert after.low >= before.low and after.high >= before.high and after.median >= before.median


def test_infinite_values() -> None:
    median_interval = interval([1, 2, math.inf, math.inf])
    assert (median_interval.low, median_interval.median, median_interval.high) == (1, math.inf, math.inf)
    assert interval([math.inf]).median == math.inf


@pytest.mark.parametrize("values", [[], [1, math.nan]])
def test_refuses(values: list[float]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        interval(values)


def test_many_values() -> None:
    median_interval = interval(range(1000))
    assert 0.95 <= median_interval.coverage < 0.96 and median_interval.low == 468 and median_interval.high == 531


SHARES = st.lists(st.floats(0, 1e6), min_size=1, max_size=20).filter(lambda values: max(values) > 1e-6)


@given(SHARES)
def test_fairness_is_between_one_of_n_and_one(values: list[float]) -> None:
    assert 1 / len(values) - 1e-9 <= jain_index(values) <= 1 + 1e-9
    assert -1e-9 <= entropy(values) <= math.log(len(values)) + 1e-9


@given(st.floats(1e-3, 1e6), st.integers(1, 20))
def test_equal_shares_are_fair(share: float, n: int) -> None:
    assert jain_index([share] * n) == pytest.approx(1)
    assert entropy([share] * n) == pytest.approx(math.log(n))
    assert product([share] * n) == pytest.approx(share**n)
    # One has all: 1/n, and no uncertainty whose a packet is.
    assert jain_index([share] + [0.0] * (n - 1)) == pytest.approx(1 / n)
    assert entropy([share] + [0.0] * (n - 1)) == 0


@given(SHARES, st.floats(1e-3, 1e3), st.randoms(use_true_random=False))
def test_fairness_knows_no_scale_and_no_order(values: list[float], scale: float, dice: random.Random) -> None:
    shuffled = [value * scale for value in values]
    dice.shuffle(shuffled)
    assert jain_index(shuffled) == pytest.approx(jain_index(values))
    assert entropy(shuffled) == pytest.approx(entropy(values), abs=1e-6)


@given(SHARES)
def test_jain_is_one_over_one_plus_the_squared_variation(values: list[float]) -> None:
    mean = statistics.fmean(values)
    assert jain_index(values) == pytest.approx(1 / (1 + statistics.pvariance(values) / mean**2), rel=1e-6)


@given(st.lists(st.floats(0.1, 100), min_size=2, max_size=8))
def test_the_product_is_largest_for_equal_shares(values: list[float]) -> None:
    assert product(values) <= statistics.fmean(values) ** len(values) * (1 + 1e-9)


@pytest.mark.parametrize("index", [jain_index, entropy])
@pytest.mark.parametrize("values", [[], [0.0, 0.0], [1.0, -1.0]])
def test_no_shares_no_fairness(index: Callable[[list[float]], float], values: list[float]) -> None:
    with pytest.raises(ValueError, match="shares"):
        index(values)
    with pytest.raises(ValueError, match="at least one"):
        product([])


def test_harm() -> None:
    assert harm(10, 5, more_is_better=True) == 0.5  # half of the throughput gone
    assert harm(20, 80, more_is_better=False) == 0.75  # four times the delay
    assert harm(10, 10, more_is_better=True) == harm(10, 10, more_is_better=False) == 0
    assert harm(10, 12, more_is_better=True) == pytest.approx(-0.2)
    with pytest.raises(ValueError, match="no harm"):
        harm(0, 5, more_is_better=True)


@given(st.floats(0.1, 1e3), st.floats(0.1, 1e3))
def test_harm_is_at_most_one(alone: float, beside: float) -> None:
    for more_is_better in (True, False):
        assert harm(alone, beside, more_is_better=more_is_better) < 1
