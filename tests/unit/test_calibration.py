"""What computing costs, fitted to CPU time: the fit finds costs that are known."""

from __future__ import annotations

import random

import pytest

from tools.calibration import Load, fit_costs

COSTS = (8e-6, 3e-6, 2e-9)


def _load(draw: random.Random, noise: float = 0.0) -> Load:
    calls, datagrams, size = (
        draw.randrange(10_000, 200_000),
        draw.randrange(10_000, 200_000),
        draw.randrange(10**7, 10**8),
    )
    seconds = sum(count * cost for count, cost in zip((calls, datagrams, size), COSTS, strict=True))
    return Load("a→b", "server", calls, datagrams, size, seconds * (1 + draw.uniform(-noise, noise)))


def test_costs_that_are_known_are_fitted() -> None:
    draw = random.Random(1)
    loads = [_load(draw) for _ in range(12)]
    assert fit_costs(loads) == pytest.approx(COSTS, rel=1e-6)
    assert [load.price(COSTS) for load in loads] == pytest.approx([load.seconds for load in loads])


def test_the_fit_weighs_each_load_by_its_relative_error() -> None:
    draw = random.Random(2)
    fitted = fit_costs([_load(draw, noise=0.1) for _ in range(200)])
    assert fitted == pytest.approx(COSTS, rel=0.15)


def test_no_cost_is_below_zero() -> None:
    # More calls and less time: least squares alone would make a call earn time.
    loads = [Load("a→b", "client", calls, 1000, 10**6, seconds) for calls, seconds in ((1000, 0.2), (9000, 0.1))]
    assert min(fit_costs(loads)) == 0.0
