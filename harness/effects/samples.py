"""The stored cells of a study, pair by pair: the level of each factor, and the times of each repetition. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.design import honoured, players_of
from harness.metric_names import MetricName
from harness.model import Scenario
from harness.outcome import proven_outcome
from harness.parameters import ParameterValue
from harness.results import CellResult
from harness.sweep import Point, expanded, point_at


@dataclass(frozen=True)
class Tried:
    """One combination of levels that was run."""

    result: CellResult
    levels: tuple[int, ...]
    """Of each factor, its number."""

    def times(self, metric: str) -> dict[int, tuple[float, bool]]:
        """Repetition → seconds of the first transfer, and whether its time was over before.

        Then the scenario's timeout stands for it, which is less than it would have taken. Repetitions that failed
        otherwise are left out.
        """
        name = MetricName(metric, 0, "first")
        found: dict[int, tuple[float, bool]] = {}
        for run, measured in self.result.runs:
            status = proven_outcome(run, measured).status
            if measured is None or status not in ("completed", "timed_out"):
                continue
            value = measured.value(*name)
            if value is not None:
                found[run.repetition] = value, False
            elif status == "timed_out":
                found[run.repetition] = run.cell.scenario.timeout.seconds, True
        return found


@dataclass(frozen=True)
class Studied:
    """The cells of one study by one pair that tell the same factors."""

    scenario: Scenario
    client: str
    server: str
    engine: str
    rest: Mapping[str, ParameterValue]
    """What else was asked of all of them."""
    factors: Mapping[str, tuple[ParameterValue, ...]]
    """Name → the levels that were run, the base first."""
    cells: tuple[Tried, ...]

    @property
    def name(self) -> str:
        """For people."""
        rest = "".join(f", {name} {value}" for name, value in self.rest.items())
        return f"{self.scenario.name} {self.client}→{self.server} ({self.engine}{rest})"


def metrics_of(scenario: Scenario) -> list[str]:
    """The times that a study is about: of each milestone, or of the whole."""
    return [f"milestone_{size.label()}" for size in scenario.milestones_within()] or ["completion"]


def studied(results: Iterable[CellResult]) -> list[Studied]:
    """The studies with factors among stored cells, by scenario and pair."""
    groups: dict[tuple[object, ...], list[CellResult]] = {}
    for result in results:
        cell, factors = result.cell, _factors(result)
        if not factors:
            continue
        told = {full for name in factors for full in expanded(name)}
        rest = tuple((name, value) for name, value in sorted(cell.parameters.items()) if name not in told)
        place = (cell.scenario.name, cell.client.name, cell.server.name, cell.engine, str(cell.seed), factors)
        groups.setdefault((*place, cell.host_cpu, len(rest), rest), []).append(result)
    return [_studied(group) for _, group in sorted(groups.items(), key=lambda item: (*item[0][:-1], str(item[0][-1])))]


def _factors(result: CellResult) -> tuple[str, ...]:
    """The factors of its study that a cell was told; none where the pair honours others, too.

    Such a cell is no combination of the study, but one of a search (`harness.reach`).
    """
    cell = result.cell
    if cell.scenario.study is None or not cell.scenario.study.factors:
        return ()
    pair = players_of(cell.scenario, cell.client, cell.server, cell.others)
    names, _ = honoured(Point(cell.scenario, {}), pair)
    return tuple(names) if all(expanded(name)[0] in cell.parameters for name in names) else ()


def _studied(group: list[CellResult]) -> Studied:
    cell, names = group[0].cell, _factors(group[0])
    told = {full for name in names for full in expanded(name)}
    rest = {name: value for name, value in sorted(cell.parameters.items()) if name not in told}
    levels = {name: _levels(group, name) for name in names}
    kept = {name: found for name, found in levels.items() if len(found) > 1}
    alone = {expanded(name)[0]: found[0] for name, found in levels.items() if len(found) == 1}
    tried = tuple(
        Tried(one, tuple(found.index(_level(one, name)) for name, found in kept.items())) for one in group
    )  # fmt: skip
    ordered = tuple(sorted(tried, key=lambda one: one.levels))
    return Studied(
        cell.scenario, cell.client.name, cell.server.name, cell.engine, {**rest, **alone}, kept, ordered
    )  # fmt: skip


def _level(result: CellResult, name: str) -> ParameterValue:
    return result.cell.parameters[expanded(name)[0]]


def _levels(group: list[CellResult], name: str) -> tuple[ParameterValue, ...]:
    """The levels that some cell has, as the study orders them."""
    seen = dict.fromkeys(_level(one, name) for one in group)
    scenario = group[-1].cell.scenario
    study = scenario.study
    assert study is not None
    written = study.factors[name]
    order = [point_at(Point(scenario, {}), {name: level}).parameters[expanded(name)[0]] for level in written]
    return tuple(sorted(seen, key=lambda level: order.index(level) if level in order else math.inf))
