from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.stats.two_sample import ALPHA, adjust_holm, compare, required_repetitions, smallest_p, u_counts

VALUES = st.lists(st.floats(0.1, 1e3) | st.just(math.inf), min_size=1, max_size=7)


def test_samples_apart_are_told_by_the_smallest_p_there_is() -> None:
    bbr, cubic = [4.34, 4.39, 4.41, 4.41001, 4.43, 4.44], [45.6, 50.1, 55.2, 56.3, 58.0, 61.1]
    comparison, back = compare(cubic, bbr), compare(bbr, cubic)
    assert comparison.p == pytest.approx(2 / math.comb(12, 6)) == comparison.minimum_p
    assert comparison.factor is not None and back.factor is not None
    # The 18th and 19th of the 36 ratios; the 6th from either end.
    assert comparison.factor == pytest.approx(12.67, abs=0.05)
    assert comparison.low == pytest.approx(10.5, abs=0.05)
    assert comparison.high == pytest.approx(13.8, abs=0.05)
    assert comparison.coverage >= 0.95
    # The other way round it is the same, upside down.
    assert (back.p, back.coverage) == (comparison.p, comparison.coverage)
    for product in (back.factor * comparison.factor, back.low * comparison.high, back.high * comparison.low):
        assert product == pytest.approx(1)


def test_what_overlaps_is_no_difference() -> None:
    comparison = compare([4.1, 4.3, 4.5, 4.7], [4.2, 4.4, 4.6, 4.8])
    assert comparison.p is not None and comparison.p > 0.5
    assert comparison.low < 1 < comparison.high


def test_one_value_each_is_not_tested() -> None:
    comparison = compare([2.0], [1.0])
    assert (comparison.p, comparison.factor, comparison.low, comparison.high, comparison.coverage) == (None, 2, 2, 2, 0)
    # One beside many is: it can be the largest by chance as often as any.
    assert compare([9.0], [1.0, 2.0, 3.0]).p == pytest.approx(0.5)


def test_where_chance_plays_no_part_nothing_is_tested() -> None:
    comparison = compare([2.0, 2.0], [1.0, 1.0])
    assert comparison.constant and comparison.p is None and comparison.factor == 2
    assert not compare([2.0, 2.0], [1.0, 1.1]).constant
    assert not compare([2.0], [1.0]).constant


def test_what_never_ended_counts_as_longer_than_everything() -> None:
    finished = [4.0, 4.1, 4.2, 4.3, 4.4, 4.5]
    comparison = compare([math.inf] * 4 + [50.0, 51.0], finished)
    assert comparison.p == pytest.approx(2 / math.comb(12, 6))
    assert comparison.factor is None and comparison.high == math.inf
    # Both never: alike.
    assert compare([math.inf, math.inf, 3.0], [math.inf, math.inf, 3.0]).p == 1
    assert compare([math.inf], [math.inf]).factor == 1


def test_zeros_are_compared_too() -> None:
    assert compare([0.0, 0.0, 1.0], [0.0, 0.0, 0.0]).factor == 1
    assert compare([3.0, 4.0], [0.0, 0.0]).factor is None


@pytest.mark.parametrize("samples", [([], [1.0]), ([1.0], []), ([math.nan], [1.0])])
def test_what_is_no_sample_is_refused(samples: tuple[list[float], list[float]]) -> None:
    with pytest.raises(ValueError, match="values on both sides"):
        compare(*samples)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 3), (4, 4), (6, 5), (7, 2)])
def test_orders_are_counted(n: int, m: int) -> None:
    counts = u_counts(n, m)
    assert len(counts) == n * m + 1
    assert sum(counts) == math.comb(n + m, n)
    assert list(counts) == list(counts[::-1])


@pytest.mark.parametrize("seed", range(12))
def test_p_is_that_of_another_s_exact_test(seed: int) -> None:
    # Not above: each of the processes that share the tests would wait for it.
    from scipy.stats import mannwhitneyu

    chance = random.Random(seed)
    sample, base = ([chance.random() + shift for _ in range(chance.randint(2, 9))] for shift in (0, 0.2))
    assert compare(sample, base).p == pytest.approx(mannwhitneyu(sample, base, method="exact").pvalue)


@pytest.mark.parametrize("seed", range(4))
def test_p_of_tied_values_is_that_of_all_ways_to_deal_them(seed: int) -> None:
    from scipy.stats import rankdata

    chance = random.Random(seed)
    sample, base = ([float(chance.randint(0, 3)) for _ in range(4)] for _ in range(2))
    ranks = rankdata([*sample, *base])
    sums = [sum(ranks[list(chosen)]) for chosen in itertools.combinations(range(8), 4)]
    own = sum(ranks[:4])
    tail = min(sum(rank_sum <= own for rank_sum in sums), sum(rank_sum >= own for rank_sum in sums))
    assert compare(sample, base).p == pytest.approx(min(1, 2 * tail / len(sums)))


def test_very_many_values_are_compared_too() -> None:
    few, many = ([index % 97 / 10 + 1 for index in range(count)] for count in (50, 51))
    near, far = compare(few, few), compare(many, many)
    assert near.p == far.p == 1
    shifted = [value * 1.5 for value in many]
    comparison = compare(shifted, many)
    assert comparison.p is not None and comparison.p < 0.05
    assert 1 < comparison.low < 1.5 < comparison.high
    # Either side of where the approximation begins the p is the same but for the fourth digit.
    exact, approximate = (compare([1.2 * v for v in baseline], baseline).p for baseline in (few, many))
    assert exact == pytest.approx(approximate, abs=0.03)


@given(VALUES, VALUES)
def test_order_and_direction_do_not_matter(sample: list[float], base: list[float]) -> None:
    comparison, back = compare(sample, base), compare(base, sample)
    assert comparison.p == pytest.approx(back.p) if comparison.p is not None else back.p is None
    shuffled = random.Random(1).sample(sample, len(sample))
    assert compare(shuffled, base) == comparison
    assert comparison.low <= (comparison.factor or comparison.low) <= comparison.high or comparison.factor is None
    assert comparison.p is None or 0 < comparison.minimum_p <= comparison.p * (1 + 1e-9)


@given(st.lists(st.floats(0.5, 2), min_size=4, max_size=8, unique=True), st.integers(4, 8))
def test_the_interval_leaves_out_1_where_the_test_finds_a_difference(values: list[float], n: int) -> None:
    base = [1 + index / 7919 for index in range(n)]
    assume(not set(base) & set(values))
    result = compare(values, base)
    assert result.coverage >= 1 - ALPHA
    assert result.p is not None
    assert (result.p <= ALPHA) == (not result.low <= 1 <= result.high)


def test_by_chance_a_difference_is_found_as_often_as_said() -> None:
    chance = random.Random(7)

    def sample() -> list[float]:
        return [round(chance.lognormvariate(0, 1), 1) for _ in range(6)]

    wrong = sum((compare(sample(), sample()).p or 1) <= ALPHA for _ in range(300))
    assert wrong / 300 < 0.08


def test_several_comparisons_demand_more_of_each() -> None:
    assert adjust_holm([0.01]) == [0.01]
    assert adjust_holm([0.04, 0.01, 0.03]) == [pytest.approx(0.06), pytest.approx(0.03), pytest.approx(0.06)]
    assert adjust_holm([None, 0.6, 0.7]) == [None, 1.0, 1.0]


def test_how_many_runs_can_show_a_difference() -> None:
    assert (required_repetitions(1), required_repetitions(2), required_repetitions(15)) == (4, 5, 6)
    assert smallest_p(3, 3) == pytest.approx(0.1)
