"""The search for the fewest settings with which a pair meets all objectives: results so far → sets to try next. Pure.

A candidate is a set of settings with at most one level of each factor; a factor without a level keeps its default. The
cost of a set is the number of its settings. The search has three steps. First it tries the empty set and every single
setting. Then it combines all settings that helped alone, and removes one after the other as long as the objectives are
met. Finally it tries all cheaper sets, the most promising ones (by the gains of their single settings) first. So a set
is called the cheapest only if every cheaper set was tried and failed. "None" is the answer only if every set failed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from harness.evaluation.cell_result import CellResult, newest
from harness.evaluation.objective_claim import count_text, objectives_answer
from harness.netem import ideal_time
from harness.netem.bounds import slow_start_time
from harness.netem.mobility import flow_timeline
from harness.outcome import Verdict
from harness.planning.design import Pair, flow_pair, honoured_levels
from harness.planning.sweep import Point, full_names, is_cpu_name, is_path_name, point_at
from harness.scenario.metric_names import MetricName
from harness.scenario.parameters import PARAMETERS, ParameterValue
from harness.scenario.schema import Implementation, Scenario
from harness.units import Size

#: (factor, its level) of each setting in a set.
Settings = frozenset[tuple[str, ParameterValue]]
NO_SETTINGS: Settings = frozenset()
#: The least score that a set can have.
Bound = Callable[[Settings], float]
#: How far below its bound a score may be before the bound is given up: times are sampled every 10 ms.
_BOUND_SLACK = 0.01
#: Scores are capped at this value: a greater one, as of a run that never ended, carries no more information.
_MAX_SCORE = 1000.0

SearchAnswer = Literal["cheapest", "found", "none", "open"]
"""cheapest: every cheaper set failed; found: not all cheaper were tried; none: every set failed; open: undecided."""


@dataclass(frozen=True)
class SearchResult:
    """The result of a search."""

    answer: SearchAnswer
    settings: Settings
    """The set that meets the objectives; for 'none' and 'open' the best set that was tried."""
    score: float
    """The worst ratio of that set's objectives to their bounds; it meets them at 1 or less."""
    tried_count: int
    """Sets."""
    total: int
    """Sets that there are."""
    untried_cheaper: int
    """Sets with fewer settings that were not tried, and that the bound allows."""
    excluded_count: int = 0
    """Sets that were not tried, since the bound excludes them."""


@dataclass
class _Search:
    factors: Mapping[str, Sequence[ParameterValue]]
    budget: int
    bound: Bound | None = None
    scores: dict[Settings, float] = field(default_factory=dict)

    def excludes(self, settings: Settings) -> bool:
        """Whether a set cannot meet the objectives, by a bound that no tried set with its controller has beaten."""
        if self.bound is None or self.bound(settings) <= 1:
            return False
        alike = [tried for tried in self.scores if _controller(tried) == _controller(settings)]
        return bool(alike) and all(self.scores[tried] >= self.bound(tried) * (1 - _BOUND_SLACK) for tried in alike)

    def untried_sets(self, cost: int) -> list[Settings]:
        """Sets of `cost` settings that were not tried, and that the bound allows."""
        untried = (settings for settings in self.sets_of_cost(cost) if settings not in self.scores)
        return [settings for settings in untried if not self.excludes(settings)]

    def try_sets(self, candidates: Sequence[Settings]) -> Generator[Sequence[Settings], Mapping[Settings, float], bool]:
        """Try the candidates that are new, within the budget; whether the budget sufficed."""
        untried = [settings for settings in dict.fromkeys(candidates) if settings not in self.scores]
        remaining = self.budget - len(self.scores)
        if untried[:remaining]:
            self.scores |= yield untried[:remaining]
        return len(untried) <= remaining

    def passing_sets(self, cost: int | None = None) -> list[Settings]:
        """Sets that meet the objectives, in order of cost, then of score."""
        sets = [settings for settings, score in self.scores.items() if score <= 1 and cost in (None, len(settings))]
        return sorted(sets, key=lambda settings: (len(settings), self.scores[settings], sorted(map(str, settings))))

    def sets_of_cost(self, cost: int) -> list[Settings]:
        """Every set of `cost` settings, the most promising one first."""
        sets = [
            frozenset(zip(names, levels, strict=True))
            for names in itertools.combinations(self.factors, cost)
            for levels in itertools.product(*(self.factors[name] for name in names))
        ]
        return sorted(sets, key=lambda settings: (self.predicted_change(settings), sorted(map(str, settings))))

    def gain(self, setting: tuple[str, ParameterValue]) -> float:
        """The change of the logarithm of the score by a single setting: it helps if this is below 0."""
        single = self.scores.get(frozenset({setting}))
        return 0.0 if single is None else _log(single) - _log(self.scores[NO_SETTINGS])

    def predicted_change(self, settings: Settings) -> float:
        """The expected change of the logarithm of the score, if gains are additive."""
        return sum(self.gain(setting) for setting in settings)

    def useful_settings(self) -> Settings:
        """The best setting of each factor, if it helps alone."""
        best = [min(((name, level) for level in levels), key=self.gain) for name, levels in self.factors.items()]
        return frozenset(setting for setting in best if self.gain(setting) < 0)

    def result(self) -> SearchResult:
        """The result of the search so far."""
        total = math.prod(len(levels) + 1 for levels in self.factors.values())
        tried, met = len(self.scores), self.passing_sets()
        if not met:
            remaining = sum(len(self.untried_sets(cost)) for cost in range(len(self.factors) + 1))
            best = min(
                self.scores,
                key=lambda settings: (self.scores[settings], len(settings), sorted(map(str, settings))),
                default=NO_SETTINGS,
            )
            answer: SearchAnswer = "open" if remaining else "none"
            excluded = total - tried - remaining
            return SearchResult(answer, best, self.scores.get(best, math.inf), tried, total, remaining, excluded)
        best = met[0]
        cheaper = sum(len(self.untried_sets(cost)) for cost in range(len(best)))
        return SearchResult("found" if cheaper else "cheapest", best, self.scores[best], tried, total, cheaper)


def _controller(settings: Settings) -> ParameterValue | None:
    return dict(settings).get("server.congestion_control")


def _log(score: float) -> float:
    return math.log(min(max(score, 1 / _MAX_SCORE), _MAX_SCORE))


def search_result(
    factors: Mapping[str, Sequence[ParameterValue]], scores: Mapping[Settings, float], bound: Bound | None = None
) -> SearchResult:
    """The result of a search that tried these sets."""
    return _Search(factors, len(scores), bound, dict(scores)).result()


def score(verdict: Verdict) -> float:
    """The worst ratio of a cell's objectives to their bounds: at 1 or less, the whole interval meets all of them.

    Infinite where a metric was not measured, or where there is no objective.
    """
    ratios = []
    for objective in verdict.objectives:
        if objective.observed is None or not objective.bound or not objective.observed.median:
            return math.inf
        ratio = objective.observed.median / objective.bound
        ratios.append(ratio if objective.at_most else 1 / ratio)
    worst = max(ratios, default=math.inf)
    # An objective that the interval does not confirm is not met.
    return worst if verdict.status == "pass" else max(worst, math.nextafter(1, 2))


def search(
    factors: Mapping[str, Sequence[ParameterValue]], budget: int, width: int = 8, bound: Bound | None = None
) -> Generator[Sequence[Settings], Mapping[Settings, float], SearchResult]:
    """Yields sets to try, is sent the score of each, and returns the result.

    `factors`: the levels of each factor that are not defaults; `budget`: the most sets to try; `width`: the most sets
    of one cost that are yielded at once; `bound`: sets of two and more settings that it excludes are not yielded. The
    search is deterministic: the same scores lead to the same sets. So a
    restarted search passes through the stored runs to where it stopped.
    """
    state = _Search(factors, budget, bound)
    for cost in (0, 1):
        if not (yield from state.try_sets(state.sets_of_cost(cost))):
            return state.result()
        if state.passing_sets():
            return state.result()
    yield from _drop_settings(state)
    for cost in range(2, len(factors) + 1):
        if state.passing_sets() and len(state.passing_sets()[0]) <= cost:
            break
        sets = [settings for settings in state.sets_of_cost(cost) if not state.excludes(settings)]
        for start in range(0, len(sets), width):
            if not (yield from state.try_sets(sets[start : start + width])):
                return state.result()
            if state.passing_sets(cost):
                return state.result()
    return state.result()


def _drop_settings(state: _Search) -> Generator[Sequence[Settings], Mapping[Settings, float], None]:
    """Start with the best settings that help alone, and remove settings as long as the objectives are met."""
    current = state.useful_settings()
    yield from state.try_sets([current])
    while state.scores.get(current, math.inf) <= 1:
        fewer = [
            current - {setting} for setting in sorted(current, key=lambda setting: (-state.gain(setting), str(setting)))
        ]
        yield from state.try_sets(fewer)
        met = [settings for settings in fewer if state.scores.get(settings, math.inf) <= 1]
        if not met:
            return
        current = min(met, key=lambda settings: (state.scores[settings], sorted(map(str, settings))))


# --- The search over a study's settings for one pair: its factors, the points of sets, and stored cells. Pure.


Factors = Mapping[str, tuple[ParameterValue, ...]]


@dataclass(frozen=True)
class Search:
    """The settings that a pair can be given, and the result of the search over them."""

    scenario: Scenario
    client: str
    server: str
    factors: Factors
    result: SearchResult
    impossible_objective: str = ""
    """An objective that the line itself does not allow; empty where it allows all."""
    undecided: str = ""
    """How many runs of the best set meet the objectives, where they do not decide; empty where they do."""
    slow_start: str = ""
    """The objective that slow start does not allow with the largest window of the sets that it excludes, with its time;
    empty where it excludes none.
    """


#: Bytes of the largest datagram on Ethernet, and how many datagrams' worth the acknowledged handshake adds to a window.
_DATAGRAM, _HANDSHAKE = 1472, 3
_INITIAL_WINDOW = "server.initial_cwnd"


@dataclass(frozen=True)
class SlowStartBound:
    """What no server does faster that begins with its initial window and doubles it each round trip (RFC 9002 §7.3.1).

    A server that does otherwise beats it in what was tried, and then it is given up.
    """

    scenario: Scenario
    default_window: int | None
    """Packets of the server's own initial window; without, the bound allows everything."""
    _times: dict[tuple[int, str], float] = field(default_factory=dict, compare=False)

    @cached_property
    def _goals(self) -> dict[str, float]:
        """Size → seconds that are demanded of it."""
        return {
            objective.metric.removeprefix("milestone_"): objective.bound
            for objective in self.scenario.objectives
            if objective.at_most is not None and objective.metric.startswith("milestone_")
        }

    def __call__(self, settings: Settings) -> float:
        """The least score of a set."""
        packets = self.window(settings)
        if packets is None:
            return 0.0
        return max((self._time(packets, size) / goal for size, goal in self._goals.items()), default=0.0)

    def window(self, settings: Settings) -> int | None:
        """Packets of the initial window that a set of settings gives."""
        level = dict(settings).get(_INITIAL_WINDOW, self.default_window)
        return level if isinstance(level, int) else None

    def text(self, packets: int) -> str:
        """The objective that sets miss by most whose window has so many packets or fewer, and the time it takes."""
        size = max(self._goals, key=lambda size: self._time(packets, size) / self._goals[size])
        return (
            f"they begin with {packets} packets at most, with which slow start takes {self._time(packets, size):.2f} s "
            f"for {size}, and {self._goals[size]:g} s are demanded"
        )

    def _time(self, packets: int, size: str) -> float:
        if (packets, size) not in self._times:
            window = (packets + _HANDSHAKE) * _DATAGRAM
            self._times[packets, size] = slow_start_time(flow_timeline(self.scenario), Size.parse(size), window)
        return self._times[packets, size]


def slow_start_bound(scenario: Scenario, pair: Pair) -> SlowStartBound:
    """The bound for a pair, by what its server's manifest says of its initial window."""
    setting = pair["server"].setting("server", _INITIAL_WINDOW.removeprefix("server."))
    default = None if setting is None else setting.default
    return SlowStartBound(scenario, default if isinstance(default, int) else None)


def slow_start_text(bound: SlowStartBound, factors: Factors, outcome: SearchResult) -> str:
    """What `Search.slow_start` says."""
    windows = [bound.default_window, *factors.get(_INITIAL_WINDOW, ())]
    excluded = [
        window for window in windows if isinstance(window, int) and bound(frozenset({(_INITIAL_WINDOW, window)})) > 1
    ]
    return bound.text(max(excluded)) if outcome.excluded_count and excluded else ""


def factors_of(point: Point, pair: Pair) -> Factors:
    """Factor of the endpoints → the levels that a pair honours and that are not its defaults."""
    factors = {}
    for name, levels in honoured_levels(point, pair)[0].items():
        if is_path_name(name) or is_cpu_name(name):
            continue
        canonical = (point_at(point, {name: level}).parameters[full_names(name)[0]] for level in levels)
        selectable = tuple(level for level in canonical if not _is_default(pair, name, level))
        if selectable:
            factors[name] = selectable
    return factors


def _is_default(pair: Pair, name: str, level: ParameterValue) -> bool:
    """Whether a level is the default in its role, or in both. Never for sizes: these may grow by default."""
    for full in full_names(name):
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


def settings_point(point: Point, settings: Settings) -> Point:
    """The point of a set of settings."""
    return point_at(point, dict(sorted(settings)))


def impossible_objective(scenario: Scenario) -> str:
    """The first objective that the path itself rules out, whatever the settings; empty where there is none."""
    for objective in scenario.objectives:
        name = MetricName.parse(objective.metric)
        size = name.metric.removeprefix("milestone_")
        if objective.at_most is None or size == name.metric:
            continue
        ideal = ideal_time(flow_timeline(scenario), Size.parse(size))
        if ideal > objective.bound:
            return f"{objective}, and the line itself takes {ideal:.2f} s"
    return ""


def stored_searches(results: Iterable[CellResult]) -> list[Search]:
    """The search of each pair among stored cells, where more was tried than the design of its study.

    A cell that sets some of the factors, not all, belongs to a search.
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
    cell = newest(group).cell
    base = Point(cell.scenario, cell.scenario.parameters)
    pair = flow_pair(cell.scenario, cell.client, cell.server, cell.others)
    factors = factors_of(base, pair)
    tried: dict[Settings, CellResult] = {}
    for result in sorted(group, key=lambda result: len(result.runs)):
        settings = _settings(result, base, factors)
        if settings is not None and result.runs:
            tried[settings] = result
    scores = {settings: _stored_score(result) for settings, result in tried.items()}
    # Every search tries the empty set first.
    if frozenset() not in scores:
        return None
    bound = slow_start_bound(cell.scenario, pair)
    outcome = search_result(factors, scores, bound)
    best = tried.get(outcome.settings)
    return Search(
        cell.scenario,
        cell.client.name,
        cell.server.name,
        factors,
        outcome,
        impossible_objective(cell.scenario),
        undecided=count_text(best) if best is not None and objectives_answer(best) == "undecided" else "",
        slow_start=slow_start_text(bound, factors, outcome),
    )


def _stored_score(result: CellResult) -> float:
    """`score`, where a few runs that pass by chance are no pass."""
    worst = score(result.verdict)
    return worst if objectives_answer(result) == "meets" else max(worst, math.nextafter(1, 2))


def _settings(result: CellResult, base: Point, factors: Factors) -> Settings | None:
    """The set of settings of a cell; None where the cell sets something that is not in the search."""
    requested = {name: value for name, value in result.cell.parameters.items() if base.parameters.get(name) != value}
    settings = set[tuple[str, ParameterValue]]()
    for name, levels in factors.items():
        values = {requested.pop(full, None) for full in full_names(name)}
        if values == {None}:
            continue
        if len(values) > 1 or not values <= set(levels):
            return None
        settings.add((name, next(value for value in values if value is not None)))
    return None if requested else frozenset(settings)
