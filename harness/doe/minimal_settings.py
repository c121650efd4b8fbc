"""The fewest settings with which a pair meets all objectives: what to try next, from what came of what was tried. Pure.

A candidate is a set of settings, none or one of each factor; what is not in it is not told. It costs as many as there
are in it. First the empty set and every setting alone; then all settings together that were of use alone, less one
after the other as long as it holds, for a set that does; then all cheaper sets, those first that single settings
promise most of. So a set is the cheapest only where every cheaper one was tried and failed, and none exists only where
every set was.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.evaluation.cell_result import CellResult
from harness.netem import ideal_time
from harness.netem.mobility import course
from harness.outcome import Verdict
from harness.planning.design import Pair, honoured, players_of
from harness.planning.sweep import Point, expanded, is_of_path, point_at
from harness.scenario.metric_names import MetricName
from harness.scenario.parameters import PARAMETERS, ParameterValue
from harness.scenario.schema import Implementation, Scenario
from harness.units import Size

#: Factor → the level that is told.
Settings = frozenset[tuple[str, ParameterValue]]
NOTHING: Settings = frozenset()
#: A score beyond is as bad as this: a run that never ended says no more.
_WORST = 1000.0

Answer = Literal["cheapest", "found", "none", "open"]
"""cheapest: and every cheaper set failed; found: cheaper ones were not all tried; none: every set failed; open: neither
is known."""


@dataclass(frozen=True)
class SearchResult:
    """What a search came to."""

    answer: Answer
    settings: Settings
    """The set that meets the objectives; of 'none' and 'open' the best that was tried."""
    score: float
    """Of that set: the worst of its objectives as a multiple of what is demanded; 1 and less meets it."""
    tried: int
    """Sets."""
    every: int
    """Sets that there are."""
    cheaper: int
    """Sets with fewer settings that were not tried."""


@dataclass
class _Search:
    factors: Mapping[str, Sequence[ParameterValue]]
    budget: int
    scores: dict[Settings, float] = field(default_factory=dict)

    def ask(self, candidates: Sequence[Settings]) -> Generator[Sequence[Settings], Mapping[Settings, float], bool]:
        """Try those that were not, as far as the budget goes; whether it did."""
        untried = [settings for settings in dict.fromkeys(candidates) if settings not in self.scores]
        remaining = self.budget - len(self.scores)
        if untried[:remaining]:
            self.scores |= yield untried[:remaining]
        return len(untried) <= remaining

    def met(self, cost: int | None = None) -> list[Settings]:
        """Sets that meet the objectives, the cheapest first, then the best."""
        sets = [settings for settings, score in self.scores.items() if score <= 1 and cost in (None, len(settings))]
        return sorted(sets, key=lambda settings: (len(settings), self.scores[settings], sorted(map(str, settings))))

    def of_cost(self, cost: int) -> list[Settings]:
        """Every set of so many settings, those first that single ones promise most of."""
        sets = [
            frozenset(zip(names, levels, strict=True))
            for names in itertools.combinations(self.factors, cost)
            for levels in itertools.product(*(self.factors[name] for name in names))
        ]
        return sorted(sets, key=lambda settings: (self.promise(settings), sorted(map(str, settings))))

    def gain(self, setting: tuple[str, ParameterValue]) -> float:
        """The logarithm of what a setting alone makes of the score: below 0 it is of use."""
        single = self.scores.get(frozenset({setting}))
        return 0.0 if single is None else _log(single) - _log(self.scores[NOTHING])

    def promise(self, settings: Settings) -> float:
        """The logarithm of the score, if gains just added up."""
        return sum(self.gain(setting) for setting in settings)

    def of_use(self) -> Settings:
        """The best setting of each factor, where it is of use alone."""
        best = [min(((name, level) for level in levels), key=self.gain) for name, levels in self.factors.items()]
        return frozenset(setting for setting in best if self.gain(setting) < 0)

    def reached(self) -> SearchResult:
        """What is known by now."""
        total = math.prod(len(levels) + 1 for levels in self.factors.values())
        tried, met = len(self.scores), self.met()
        if not met:
            best = min(
                self.scores,
                key=lambda settings: (self.scores[settings], len(settings), sorted(map(str, settings))),
                default=NOTHING,
            )
            answer: Answer = "none" if tried == total else "open"
            return SearchResult(answer, best, self.scores.get(best, math.inf), tried, total, total - tried)
        best = met[0]
        cheaper_tried = sum(len(settings) < len(best) for settings in self.scores)
        cheaper = sum(self.count(cost) for cost in range(len(best))) - cheaper_tried
        return SearchResult("found" if cheaper else "cheapest", best, self.scores[best], tried, total, cheaper)

    def count(self, cost: int) -> int:
        """How many sets have so many settings."""
        sizes = [len(levels) for levels in self.factors.values()]
        return sum(math.prod(chosen) for chosen in itertools.combinations(sizes, cost))


def _log(score: float) -> float:
    return math.log(min(max(score, 1 / _WORST), _WORST))


def standing(factors: Mapping[str, Sequence[ParameterValue]], scores: Mapping[Settings, float]) -> SearchResult:
    """What a search came to that tried these sets."""
    return _Search(factors, len(scores), dict(scores)).reached()


def score(verdict: Verdict) -> float:
    """The worst of a cell's objectives as a multiple of what is demanded: 1 and less is met by all runs' interval.

    Infinite where something was not measured, or no objective is there.
    """
    ratios = []
    for objective in verdict.objectives:
        if objective.observed is None or not objective.bound or not objective.observed.median:
            return math.inf
        ratio = objective.observed.median / objective.bound
        ratios.append(ratio if objective.at_most else 1 / ratio)
    worst = max(ratios, default=math.inf)
    # What the intervals do not show is not met.
    return worst if verdict.status == "pass" else max(worst, math.nextafter(1, 2))


def search(
    factors: Mapping[str, Sequence[ParameterValue]], budget: int, width: int = 8
) -> Generator[Sequence[Settings], Mapping[Settings, float], SearchResult]:
    """Yields sets to try, is sent the score of each, and returns what it came to.

    `factors`: the levels of each that are not in force untold; `budget`: sets that may be tried; `width`: of sets of
    one cost so many are asked for at once. The same scores lead to the same questions, so that a search that is begun
    anew goes through what is stored to where it stopped.
    """
    state = _Search(factors, budget)
    for cost in (0, 1):
        if not (yield from state.ask(state.of_cost(cost))):
            return state.reached()
        if state.met():
            return state.reached()
    yield from _descend(state)
    for cost in range(2, len(factors) + 1):
        if state.met() and len(state.met()[0]) <= cost:
            break
        sets = state.of_cost(cost)
        for start in range(0, len(sets), width):
            if not (yield from state.ask(sets[start : start + width])):
                return state.reached()
            if state.met(cost):
                return state.reached()
    return state.reached()


def _descend(state: _Search) -> Generator[Sequence[Settings], Mapping[Settings, float], None]:
    """From all settings of use together to fewer, as long as the objectives are met."""
    current = state.of_use()
    yield from state.ask([current])
    while state.scores.get(current, math.inf) <= 1:
        fewer = [
            current - {setting} for setting in sorted(current, key=lambda setting: (-state.gain(setting), str(setting)))
        ]
        yield from state.ask(fewer)
        met = [settings for settings in fewer if state.scores.get(settings, math.inf) <= 1]
        if not met:
            return
        current = min(met, key=lambda settings: (state.scores[settings], sorted(map(str, settings))))


# --- What a search over a study's settings is for one pair: its factors, the points of sets, and stored ones. Pure.


Factors = Mapping[str, tuple[ParameterValue, ...]]


@dataclass(frozen=True)
class Search:
    """What may be told to a pair, and what came of it."""

    scenario: Scenario
    client: str
    server: str
    factors: Factors
    reached: SearchResult
    hopeless: str = ""
    """An objective that the line itself does not allow; empty where it allows all."""


def factors_of(point: Point, pair: Pair) -> Factors:
    """The levels that a pair honours and that are not in force untold, of each factor of its endpoints."""
    factors = {}
    for name, levels in honoured(point, pair)[0].items():
        if is_of_path(name):
            continue
        canonical = (point_at(point, {name: level}).parameters[expanded(name)[0]] for level in levels)
        selectable = tuple(level for level in canonical if not _in_force(pair, name, level))
        if selectable:
            factors[name] = selectable
    return factors


def _in_force(pair: Pair, name: str, level: ParameterValue) -> bool:
    """Whether a level is what both do untold. Of sizes it never is: a window or a datagram untold may grow."""
    for full in expanded(name):
        role, _, short = full.partition(".")
        implementation: Implementation = pair["client" if role == "client" else "server"]
        setting, parameter = (
            implementation.setting("client" if role == "client" else "server", short),
            PARAMETERS[short],
        )
        if parameter.kind == "size" or setting is None or setting.default is None:
            return False
        if parameter.canonical(setting.default) != level:
            return False
    return True


def told(point: Point, settings: Settings) -> Point:
    """The point at which a set is tried."""
    return point_at(point, dict(sorted(settings)))


def hopeless(scenario: Scenario) -> str:
    """The first objective that the line itself does not allow, whatever is told; empty where there is none."""
    for objective in scenario.objectives:
        name = MetricName.parse(objective.metric)
        size = name.metric.removeprefix("milestone_")
        if objective.at_most is None or size == name.metric:
            continue
        ideal = ideal_time(course(scenario), Size.parse(size))
        if ideal > objective.bound:
            return f"{objective}, and the line itself takes {ideal:.2f} s"
    return ""


def searches(results: Iterable[CellResult]) -> list[Search]:
    """What stored cells tell of each pair's search, where more than the whole design of its study was tried.

    A cell belongs to it that was told some of the factors, not all.
    """
    groups: dict[tuple[str, ...], list[CellResult]] = {}
    for result in results:
        cell = result.cell
        if cell.scenario.study is not None and cell.scenario.study.factors and cell.scenario.objectives:
            place = (cell.scenario.name, cell.client.name, cell.server.name, cell.engine, str(cell.seed))
            groups.setdefault(place, []).append(result)
    candidates = (_search(group) for _, group in sorted(groups.items()))
    return [candidate for candidate in candidates if candidate is not None]


def _search(group: list[CellResult]) -> Search | None:
    cell = group[-1].cell
    base = Point(cell.scenario, cell.scenario.parameters)
    pair = players_of(cell.scenario, cell.client, cell.server, cell.others)
    factors = factors_of(base, pair)
    scores: dict[Settings, float] = {}
    for result in group:
        settings = _settings(result, base, factors)
        if settings is not None and result.runs:
            scores[settings] = score(result.verdict)
    # Nobody searched who has not tried what is done untold.
    if frozenset() not in scores:
        return None
    outcome = standing(factors, scores)
    return Search(cell.scenario, cell.client.name, cell.server.name, factors, outcome, hopeless(cell.scenario))


def _settings(result: CellResult, base: Point, factors: Factors) -> Settings | None:
    """Of a cell the set that it was told; None where it was told something else."""
    requested = {name: value for name, value in result.cell.parameters.items() if base.parameters.get(name) != value}
    settings = set[tuple[str, ParameterValue]]()
    for name, levels in factors.items():
        values = {requested.pop(full, None) for full in expanded(name)}
        if values == {None}:
            continue
        if len(values) > 1 or not values <= set(levels):
            return None
        settings.add((name, next(value for value in values if value is not None)))
    return None if requested else frozenset(settings)
