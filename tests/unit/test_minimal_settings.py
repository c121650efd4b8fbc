"""The fewest settings that meet objectives: found, proven, or known not to be there; the budget; and going on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.doe.minimal_settings import (
    NO_SETTINGS,
    SearchResult,
    Settings,
    SlowStartBound,
    score,
    search,
    search_result,
)
from harness.scenario.schema import Flow, Objective
from harness.units import Duration
from tests.engine_pairs import result, run
from tests.examples import scenario

FACTORS = {"window": (32, 100), "cc": ("bbr",), "rtt": ("100 ms", "600 ms")}


def _run(answer: Callable[[Settings], float], budget: int = 1000, known: dict[Settings, float] | None = None) -> tuple[
    SearchResult, list[Settings]
]:  # fmt: skip
    """What a search comes to, and what it asked for that was not known."""
    going, asked, known = search(FACTORS, budget, width=2), list[Settings](), dict(known or {})
    try:
        wanted = next(going)
        while True:
            asked += [settings for settings in wanted if settings not in known]
            known |= {settings: answer(settings) for settings in wanted if settings not in known}
            wanted = going.send({settings: known[settings] for settings in wanted})
    except StopIteration as stopped:
        return stopped.value, asked


def _needs(*wanted: tuple[str, object]) -> Callable[[Settings], float]:
    """A set meets the objectives that has all of these; each brings it nearer."""
    return lambda settings: 1.5 ** (len(wanted) - sum(setting in settings for setting in wanted))


def test_nothing_needs_to_be_told() -> None:
    reached, asked = _run(lambda settings: 0.9)
    assert (reached.answer, reached.settings, asked) == ("cheapest", NO_SETTINGS, [NO_SETTINGS])


def test_two_settings_are_the_cheapest_where_no_single_one_is_enough() -> None:
    reached, asked = _run(_needs(("window", 100), ("cc", "bbr")))
    assert reached.answer == "cheapest"
    assert reached.settings == frozenset({("window", 100), ("cc", "bbr")})
    # The empty set, five alone, and the two of use together, of which neither can be left out.
    assert len(asked) == 7
    assert (reached.tried_count, reached.total, reached.untried_cheaper) == (7, 18, 0)


def test_a_set_that_single_settings_do_not_promise_is_found_all_the_same() -> None:
    """Each alone makes it worse."""
    wanted = frozenset({("window", 32), ("rtt", "600 ms")})
    reached, asked = _run(lambda settings: 0.8 if settings == wanted else 1.2 + 0.1 * len(settings))
    assert (reached.answer, reached.settings) == ("cheapest", wanted)
    assert len(asked) < 18


def test_none_is_said_when_every_set_has_failed() -> None:
    reached, asked = _run(lambda settings: 1.1 + 0.1 * len(settings))
    assert (reached.answer, reached.settings, reached.tried_count) == ("none", NO_SETTINGS, 18)
    assert len(set(asked)) == 18


def test_the_budget_leaves_it_open() -> None:
    reached, asked = _run(lambda settings: 2.0 - 0.1 * len(settings), budget=10)
    assert (reached.answer, len(asked), reached.total - reached.tried_count) == ("open", 10, 8)
    # A set was found, and a cheaper one may be there.
    needs = _needs(("window", 100), ("cc", "bbr"), ("rtt", "600 ms"))
    reached, _ = _run(needs, budget=10)
    assert (reached.answer, len(reached.settings), reached.untried_cheaper > 0) == ("found", 3, True)
    assert _run(needs)[0].answer == "cheapest"


def test_a_bound_decides_what_was_not_tried() -> None:
    """No set with a window below 100 can succeed: those of two and more settings are not tried."""

    def bound(settings: Settings) -> float:
        return 0.5 if ("window", 100) in settings else 1.5

    def reached(scores: dict[Settings, float]) -> SearchResult:
        return search_result(FACTORS, scores, bound)

    singles = [frozenset({(name, level)}) for name, levels in FACTORS.items() for level in levels]
    tried = dict.fromkeys([NO_SETTINGS, *singles], 2.0)
    outcome = reached(tried)
    # Of the twelve others, five have a window of 100.
    assert (outcome.answer, outcome.untried_cheaper, outcome.excluded_count) == ("open", 5, 7)
    every = [
        frozenset(zip(names, levels, strict=True))
        for cost in range(4)
        for names in itertools.combinations(FACTORS, cost)
        for levels in itertools.product(*(FACTORS[name] for name in names))
    ]
    allowed = {settings: 1.2 for settings in every if ("window", 100) in settings}
    assert (reached(tried | allowed).answer, reached(tried | allowed).excluded_count) == ("none", 7)
    # A set that does better than the bound says shows that it is none.
    assert (reached({**tried, NO_SETTINGS: 1.4}).answer, reached({**tried, NO_SETTINGS: 1.4}).excluded_count) == (
        "open",
        0,
    )
    going, asked = search(FACTORS, 1000, bound=bound), list[Settings]()
    answer: dict[Settings, float] | None = None
    try:
        while True:
            wanted = next(going) if answer is None else going.send(answer)
            asked += wanted
            answer = dict.fromkeys(wanted, 2.0)
    except StopIteration as stopped:
        assert stopped.value.answer == "none"
    assert len(asked) == 11 and all(("window", 100) in settings for settings in asked if len(settings) > 1)


def test_slow_start_bounds_what_a_window_can_reach() -> None:
    medium = scenario(
        path={name: {"rate": "50 Mbit/s", "delay": "325 ms"} for name in ("forward", "return")},
        objectives=[Objective(metric="milestone_2MB", at_most=Duration.parse("3 s"))],
        flows=[Flow.model_validate({"download": "100 MB"})],
    )
    bound = SlowStartBound(medium, default_window=10)
    assert bound(NO_SETTINGS) > bound(frozenset({("server.initial_cwnd", 100)})) > 1
    assert bound(frozenset({("server.initial_cwnd", 400)})) < 1
    assert "with 100 packets" in bound.text(100) and "3 s are demanded" in bound.text(100)
    # Where nobody knows the window, nothing is excluded.
    assert SlowStartBound(medium, default_window=None)(NO_SETTINGS) == 0


def test_a_search_goes_on_where_it_stopped() -> None:
    needs = _needs(("window", 100), ("cc", "bbr"), ("rtt", "600 ms"))
    _, first = _run(needs, budget=8)
    whole, every = _run(needs)
    again, rest = _run(needs, known={settings: needs(settings) for settings in first})
    assert again == whole
    assert [*first, *rest] == every
    assert search_result(FACTORS, {settings: needs(settings) for settings in every}) == whole
    assert search_result(FACTORS, {}).answer == "open"


@given(data=st.data())
def test_what_is_called_the_cheapest_is_and_none_means_none(data: st.DataObject) -> None:
    every = [
        frozenset((name, level) for name, level in zip(FACTORS, levels, strict=True) if level is not None)
        for levels in itertools.product(*((None, *levels_of_factor) for levels_of_factor in FACTORS.values()))
    ]
    scores = {settings: data.draw(st.sampled_from([0.5, 1.0, 1.1, 2.0, math.inf])) for settings in every}
    met = [settings for settings in every if scores[settings] <= 1]
    reached, asked = _run(scores.__getitem__)
    assert len(asked) == len(set(asked))
    assert reached.answer == ("cheapest" if met else "none")
    if met:
        assert len(reached.settings) == min(map(len, met))
        assert scores[reached.settings] <= 1


@pytest.mark.parametrize(
    ("seconds", "expected"), [((2.0,), 2 / 3), ((6.0,), 2.0), ((), math.inf), ((2.0, 2.5, 3.5), math.nextafter(1, 2))]
)
def test_a_score_is_the_worst_objective(seconds: tuple[float, ...], expected: float) -> None:
    cell_result = result(
        "virtual", *(run(figures={"milestone_2MB": value}) for value in seconds), definition=scenario()
    )
    assert score(cell_result.verdict) == expected
