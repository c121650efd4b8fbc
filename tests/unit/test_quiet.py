"""A spoilt run waits for a machine that keeps time, and not for ever."""

from __future__ import annotations

import itertools

import pytest

from harness.engines.quiet import GAP, LONGEST, LOOK, PAUSE, await_quiet, longest_gap


def test_the_longest_time_between_two_looks_is_found() -> None:
    ticks = itertools.chain([0.0, 0.1, 0.2, 0.5, 0.6, 0.75], itertools.count(1.0, 0.1))
    assert longest_gap(1.0, lambda: next(ticks)) == pytest.approx(0.3)


def test_a_quiet_machine_is_not_waited_for() -> None:
    slept: list[float] = []
    assert await_quiet(lambda: GAP, slept.append)
    assert slept == []


def test_a_burst_is_waited_out() -> None:
    gaps, slept = iter([0.03, 0.02, 0.001]), list[float]()
    assert await_quiet(lambda: next(gaps), slept.append)
    assert slept == [PAUSE] * 2


def test_a_machine_that_never_is_quiet_is_given_up() -> None:
    slept: list[float] = []
    assert not await_quiet(lambda: 0.03, slept.append)
    assert sum(slept) + LOOK * len(slept) == pytest.approx(LONGEST)
