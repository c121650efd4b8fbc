"""What a search over a study's settings is for one pair: its factors, the points of sets, and stored ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.doe.minimal_settings import Reached, Settings, score, standing
from harness.evaluation.cell_result import CellResult
from harness.netem import ideal_time
from harness.netem.mobility import course
from harness.planning.design import Pair, honoured, players_of
from harness.planning.sweep import Point, expanded, is_of_path, point_at
from harness.scenario.metric_names import MetricName
from harness.scenario.parameters import PARAMETERS, ParameterValue
from harness.scenario.schema import Implementation, Scenario
from harness.units import Size

Factors = Mapping[str, tuple[ParameterValue, ...]]


@dataclass(frozen=True)
class Search:
    """What may be told to a pair, and what came of it."""

    scenario: Scenario
    client: str
    server: str
    factors: Factors
    reached: Reached
    hopeless: str = ""
    """An objective that the line itself does not allow; empty where it allows all."""


def factors_of(point: Point, pair: Pair) -> Factors:
    """The levels that a pair honours and that are not in force untold, of each factor of its endpoints."""
    found = {}
    for name, levels in honoured(point, pair)[0].items():
        if is_of_path(name):
            continue
        told = (point_at(point, {name: level}).parameters[expanded(name)[0]] for level in levels)
        left = tuple(level for level in told if not _in_force(pair, name, level))
        if left:
            found[name] = left
    return found


def _in_force(pair: Pair, name: str, level: ParameterValue) -> bool:
    """Whether a level is what both do untold. Of sizes it never is: a window or a datagram untold may grow."""
    for full in expanded(name):
        role, _, short = full.partition(".")
        who: Implementation = pair["client" if role == "client" else "server"]
        setting, parameter = who.setting("client" if role == "client" else "server", short), PARAMETERS[short]
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
    for one in scenario.objectives:
        name = MetricName.parse(one.metric)
        size = name.metric.removeprefix("milestone_")
        if one.at_most is None or size == name.metric:
            continue
        least = ideal_time(course(scenario), Size.parse(size))
        if least > one.bound:
            return f"{one}, and the line itself takes {least:.2f} s"
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
    found = (_search(group) for _, group in sorted(groups.items()))
    return [one for one in found if one is not None]


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
    reached = standing(factors, scores)
    return Search(cell.scenario, cell.client.name, cell.server.name, factors, reached, hopeless(cell.scenario))


def _settings(result: CellResult, base: Point, factors: Factors) -> Settings | None:
    """Of a cell the set that it was told; None where it was told something else."""
    asked = {name: value for name, value in result.cell.parameters.items() if base.parameters.get(name) != value}
    made = set[tuple[str, ParameterValue]]()
    for name, levels in factors.items():
        values = {asked.pop(full, None) for full in expanded(name)}
        if values == {None}:
            continue
        if len(values) > 1 or not values <= set(levels):
            return None
        made.add((name, next(value for value in values if value is not None)))
    return None if asked else frozenset(made)
