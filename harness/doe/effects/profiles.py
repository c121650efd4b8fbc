"""The stored cells of a study's profiles, pair by pair: the times with each, and what of it is not honoured. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.doe.effects.samples import metrics_of
from harness.evaluation.cell_result import CellResult
from harness.outcome import Cell, Interval
from harness.planning.design import of_pair, players_of
from harness.planning.sweep import Point
from harness.scenario.parameters import ParameterValue
from harness.scenario.schema import Scenario


@dataclass(frozen=True)
class ProfileRow:
    """A pair with one profile."""

    label: str
    """Of the profile, of several that come to the same for this pair, or 'its own parameters'."""
    told: Mapping[str, ParameterValue]
    """The settings that it honours."""
    absent: tuple[str, ...]
    """Those that it does not: 'client.ack_ratio 2'."""
    times: Mapping[str, Interval | None]
    """milestone_2MB … → seconds; infinite where the time was over before."""
    verdict: str


@dataclass(frozen=True)
class Profiled:
    """A study of profiles by one pair."""

    scenario: Scenario
    client: str
    server: str
    engine: str
    rows: tuple[ProfileRow, ...]

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.scenario.name} {self.client}→{self.server} ({self.engine})"


def profiled(results: Iterable[CellResult]) -> list[Profiled]:
    """The studies with profiles among stored cells, by scenario and pair."""
    groups: dict[tuple[str, ...], list[CellResult]] = {}
    for result in results:
        cell = result.cell
        if cell.scenario.study is not None and cell.scenario.study.profiles:
            rest = str(sorted(_rest(cell).items()))
            key = (cell.scenario.name, cell.client.name, cell.server.name, cell.engine, str(cell.seed), rest)
            groups.setdefault(key, []).append(result)
    return [_profiled(group) for _, group in sorted(groups.items())]


def _rest(cell: Cell) -> dict[str, ParameterValue]:
    """What was asked of a cell beside its profile."""
    study = cell.scenario.study
    named = {name for settings in study.profiles.values() for name in settings} if study is not None else set[str]()
    return {name: value for name, value in cell.parameters.items() if name not in named}


def _profiled(group: list[CellResult]) -> Profiled:
    cell = group[-1].cell
    base = Point(cell.scenario, cell.scenario.parameters | _rest(cell))
    pair = players_of(cell.scenario, cell.client, cell.server, cell.others)
    design = of_pair(base, pair)
    rows = []
    for point, label in zip(design.points, design.labels, strict=True):
        found = next((one for one in group if one.cell.parameters == dict(point.parameters)), None)
        if found is None:
            continue
        names = [f"{each}: " for each in label.split(" = ")]
        absent = tuple(name.partition(": ")[2] for name in design.absent if name.startswith(tuple(names)))
        told = {name: value for name, value in point.parameters.items() if cell.scenario.parameters.get(name) != value}
        times = {metric: found.interval(metric, 0, "first") for metric in metrics_of(cell.scenario)}
        rows.append(ProfileRow(label, told, absent, times, found.verdict.status))
    return Profiled(cell.scenario, cell.client.name, cell.server.name, cell.engine, tuple(rows))
