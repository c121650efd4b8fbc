from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.stats import interval

FINITE = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("n", "rank", "coverage"),
    # Ranks and coverages of the tables in Conover and in David & Nagaraja.
    [(1, 1, 0.0), (2, 1, 0.5), (5, 1, 0.9375), (6, 1, 0.96875), (8, 1, 0.9921875), (9, 2, 0.9609375), (10, 2, 0.978515625),
     (11, 2, 0.98828125), (12, 3, 0.96142578125), (15, 4, 0.96484375), (20, 6, 0.9586105346679688)],
)  # fmt: skip
def test_table(n: int, rank: int, coverage: float) -> None:
    found = interval(range(1, n + 1))
    assert (found.n, found.low, found.high) == (n, rank, n + 1 - rank)
    assert found.coverage == coverage


@given(FINITE)
def test_is_around_the_median(values: list[float]) -> None:
    found = interval(values)
    assert found.low <= found.median <= found.high
    assert found.median == pytest.approx(statistics.median(values))
    assert found.low in values and found.high in values
    assert found.coverage >= 0.95 or len(values) < 6


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
    found = interval([1, 2, math.inf, math.inf])
    assert (found.low, found.median, found.high) == (1, math.inf, math.inf)
    assert interval([math.inf]).median == math.inf


@pytest.mark.parametrize("values", [[], [1, math.nan]])
def test_refuses(values: list[float]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        interval(values)


def test_many_values() -> None:
    found = interval(range(1000))
    assert 0.95 <= found.coverage < 0.96 and found.low == 468 and found.high == 531
