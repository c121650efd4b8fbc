"""A spoilt run waits for a machine that keeps time, and not for ever."""

from __future__ import annotations

import itertools

import pytest

from harness.engine.docker.host_jitter import GAP, LONGEST, LOOK, PAUSE, QuietWait, longest_gap


def test_the_longest_time_between_two_looks_is_found() -> None:
    ticks = itertools.chain([0.0, 0.1, 0.2, 0.5, 0.6, 0.75], itertools.count(1.0, 0.1))
    assert longest_gap(1.0, lambda: next(ticks)) == pytest.approx(0.3)


def test_a_quiet_machine_is_not_waited_for() -> None:
    slept: list[float] = []
    assert QuietWait(300, lambda: GAP, slept.append).await_quiet()
    assert slept == []


def test_a_burst_is_waited_out() -> None:
    gaps, slept = iter([0.03, 0.02, 0.001]), list[float]()
    assert QuietWait(300, lambda: next(gaps), slept.append).await_quiet()
    assert slept == [PAUSE] * 2


def test_a_machine_that_never_is_quiet_is_given_up_each_time_and_at_last_at_once() -> None:
    slept: list[float] = []
    patience = QuietWait(1.5 * LONGEST, lambda: 0.03, slept.append)
    waited = []
    for _ in range(3):
        before = len(slept)
        assert not patience.await_quiet()
        waited.append((len(slept) - before) * (LOOK + PAUSE))
    assert waited == [LONGEST, 0.5 * LONGEST, 0]


def test_who_has_none_does_not_even_look() -> None:
    assert not QuietWait(0, lambda: pytest.fail("looked")).await_quiet()
