"""The stored cells of a study, per pair: the level of each factor, and the times of each repetition. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from harness.evaluation.cell_result import CellResult, current_scenario, newest
from harness.outcome import Cell, Interval, proven_outcome
from harness.planning.design import design_for_pair, flow_pair, honoured_levels
from harness.planning.sweep import Point, full_names, point_at
from harness.scenario.metric_names import MetricName
from harness.scenario.parameters import PARAMETERS, ROLES, ParameterValue, parse_parameter_name
from harness.scenario.schema import Scenario
from harness.units import Duration, Percentage, Rate, Size


@dataclass(frozen=True)
class CombinationRuns:
    """The runs of one combination of levels."""

    result: CellResult
    levels: tuple[int, ...]
    """Index of the level of each factor."""

    def times(self, metric: str) -> dict[int, tuple[float, bool]]:
        """Repetition → (seconds of the first transfer, whether the transfer failed before it reached the metric).

        A failed transfer counts as the scenario's timeout, which is less than it would have taken. Repetitions that
        failed in another way are left out.
        """
        name = MetricName(metric, 0, "first")
        times: dict[int, tuple[float, bool]] = {}
        for run, measured in self.result.runs:
            outcome = proven_outcome(run, measured)
            if measured is None or not (outcome.status == "completed" or outcome.failed_transfer):
                continue
            value = measured.value(*name)
            if value is not None:
                times[run.repetition] = value, False
            elif outcome.failed_transfer:
                times[run.repetition] = run.cell.scenario.timeout.seconds, True
        return times


@dataclass(frozen=True)
class TimedRun:
    """The time of one run."""

    cell: CombinationRuns
    levels: tuple[int, ...]
    """Index of the level of each factor."""
    repetition: int
    seconds: float
    late: bool
    """Whether the transfer failed before it came so far: the time is a lower bound."""


@dataclass(frozen=True)
class StudySample:
    """The cells of one study and pair that have the same factors."""

    scenario: Scenario
    client: str
    server: str
    engine: str
    fixed_parameters: Mapping[str, ParameterValue]
    """Parameters that all cells have in common, beside the factors."""
    factors: Mapping[str, tuple[ParameterValue, ...]]
    """Name → the levels that were run, the base first."""
    cells: tuple[CombinationRuns, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    """FACTOR, or FACTOR LEVEL, that is left out since the runs show that it was not reached → what they show."""
    is_beside_own: bool = False
    """Whether its base is what the pair does without being told anything."""

    @property
    def name(self) -> str:
        """The name for people: scenario, pair, engine and fixed parameters."""
        suffix = "".join(f", {name} {value}" for name, value in self.fixed_parameters.items())
        return f"{self.scenario.name} {self.client}→{self.server} ({self.engine}{suffix})"

    def timed_runs(self, metric: str) -> list[TimedRun]:
        """The times of all runs, cell by cell."""
        return [
            TimedRun(cell, cell.levels, repetition, seconds, late)
            for cell in self.cells
            for repetition, (seconds, late) in sorted(cell.times(metric).items())
        ]

    def with_occurring_levels(self) -> StudySample:
        """The sample without levels that no cell has, and then without factors that have only one level left."""
        indices = [sorted({cell.levels[n] for cell in self.cells}) for n in range(len(self.factors))]
        varying = [n for n, places in enumerate(indices) if len(places) > 1]
        names = list(self.factors)
        factors = {names[n]: tuple(self.factors[names[n]][place] for place in indices[n]) for n in varying}
        cells = tuple(
            replace(cell, levels=tuple(indices[n].index(cell.levels[n]) for n in varying)) for cell in self.cells
        )
        return replace(self, factors=factors, cells=cells)


def metrics_of(scenario: Scenario) -> list[str]:
    """The times that a study analyses: of each milestone, or of the whole transfer."""
    return [f"milestone_{size.label()}" for size in scenario.milestones_within()] or ["completion"]


def group_studies(results: Iterable[CellResult]) -> list[StudySample]:
    """The studies with factors among stored cells, by scenario and pair. Sweeps count as studies too.

    The factors of a sweep are the parameters that have several values in its cells. A sweep needs a scenario of one
    flow that downloads a file.
    """
    groups: dict[tuple[object, ...], list[CellResult]] = {}
    for result in results:
        cell, factors = result.cell, _factors(result)
        if not factors:
            continue
        factor_names = {full for name in factors for full in full_names(name)}
        fixed = tuple((name, value) for name, value in sorted(cell.parameters.items()) if name not in factor_names)
        place = (cell.scenario.name, cell.client.name, cell.server.name, cell.engine, str(cell.seed), factors)
        groups.setdefault((*place, cell.host_cpu, len(fixed), fixed), []).append(result)
    ordered = sorted(groups.items(), key=lambda item: (*item[0][:-1], str(item[0][-1])))
    samples = [_build_sample(group) for _, group in ordered]
    return [sample for sample in samples if sample.factors or sample.scenario.study is not None]


def _factors(result: CellResult) -> tuple[str, ...]:
    """The factors of its study that a cell sets; none where it leaves out a factor that the pair honours.

    Such a cell belongs to a search (`harness.doe.minimal_settings`), not to the study's design.
    Without a study: all parameters of the cell, if it is a single transfer.
    """
    cell = result.cell
    flows, study = cell.scenario.flows, cell.scenario.study
    if study is None:
        single_transfer = len(flows) == 1 and flows[0].amount is not None
        return tuple(sorted(cell.parameters)) if single_transfer else ()
    if not study.factors:
        return ()
    pair = flow_pair(cell.scenario, cell.client, cell.server, cell.others)
    names, _ = honoured_levels(Point(cell.scenario, {}), pair)
    return tuple(names) if all(full_names(name)[0] in cell.parameters for name in names) else ()


def _build_sample(group: list[CellResult]) -> StudySample:
    cell, names = group[0].cell, _factors(group[0])
    if cell.scenario.study is None:
        names = _merge_roles(group, names)
    factor_names = {full for name in names for full in full_names(name)}
    fixed = {name: value for name, value in sorted(cell.parameters.items()) if name not in factor_names}
    levels = {name: _levels(group, name) for name in names}
    factors = {name: values for name, values in levels.items() if len(values) > 1}
    constant = {name: values[0] for name, values in levels.items() if len(values) == 1}
    combinations = (
        CombinationRuns(result, tuple(values.index(_level(result, name)) for name, values in factors.items()))
        for result in group
    )
    ordered = tuple(sorted(combinations, key=lambda runs: runs.levels))
    return StudySample(
        cell.scenario, cell.client.name, cell.server.name, cell.engine, {**fixed, **constant}, factors, ordered
    )


def _merge_roles(group: list[CellResult], names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of factors, with one name for both roles where the two always have the same value."""
    factors: dict[str, None] = {}
    for name in names:
        bare_name = name.partition(".")[2]
        requests = [tuple(result.cell.parameters.get(full) for full in full_names(bare_name)) for result in group]
        shared = name.partition(".")[0] in ROLES and all(len(set(values)) == 1 for values in requests)
        factors[bare_name if shared else name] = None
    return tuple(factors)


def _level(result: CellResult, name: str) -> ParameterValue:
    return result.cell.parameters[full_names(name)[0]]


def _levels(group: list[CellResult], name: str) -> tuple[ParameterValue, ...]:
    """The levels that occur in any cell, in the study's order; for a sweep in ascending order."""
    levels = dict.fromkeys(_level(result, name) for result in group)
    scenario = current_scenario(group)
    study = scenario.study
    if study is None:
        return tuple(sorted(levels, key=lambda level: (_number(name, level), str(level))))
    study_levels = study.factors[name]
    order = [point_at(Point(scenario, {}), {name: level}).parameters[full_names(name)[0]] for level in study_levels]
    return tuple(sorted(levels, key=lambda level: order.index(level) if level in order else math.inf))


def _number(name: str, level: ParameterValue) -> float:
    """A level as a number to sort by, in base units; infinite for a word."""
    parameter = PARAMETERS.get(name.rpartition(".")[2])
    if parameter is not None:
        number = parameter.number(level)
        return math.inf if number is None else number
    for kind in (Rate, Duration, Percentage, Size):
        with suppress(ValueError):
            return float(kind.parse(str(level)).value)
    return math.inf


# --- A stack's own defaults as the base of a study.


#: The level of a factor whose default nobody states.
OWN = "own"


def own_default(sample: StudySample, name: str) -> ParameterValue:
    """What an endpoint does without being told: the default of a factor that its manifest states, or `OWN`."""
    cell = sample.cells[0].result.cell
    return _own_default(cell, name)


def _own_default(cell: Cell, name: str) -> ParameterValue:
    try:
        role, parameter = parse_parameter_name(name)
    except ValueError:
        return OWN
    setting = cell.implementation(role, 0).setting(role, parameter)
    if setting is None or setting.default is None:
        return OWN
    return PARAMETERS[parameter].canonical(setting.default)


def foreign_bases(sample: StudySample) -> dict[str, tuple[ParameterValue, ParameterValue]]:
    """Factor → (base of the study, the endpoint's own default), where they differ and one factor varies at a time."""
    study = sample.scenario.study
    if study is None or study.kind != "one-at-a-time" or sample.is_beside_own:
        return {}
    bases = {
        name: point_at(Point(sample.scenario, {}), {name: study.factors[name][0]}).parameters[full_names(name)[0]]
        for name in sample.factors
        if name in study.factors
    }
    owns = {name: own_default(sample, name) for name in bases}
    return {name: (base, owns[name]) for name, base in bases.items() if base != owns[name]}


def group_beside_own(results: Iterable[CellResult]) -> list[StudySample]:
    """Samples of cells that set one factor of a study, or none: every setting alone, beside a pair's own defaults.

    Searches (`harness.doe.minimal_settings`) run such cells. Pairs without a cell that sets nothing are left out.
    """
    groups: dict[tuple[str, ...], list[CellResult]] = {}
    for result in results:
        cell = result.cell
        if cell.scenario.study is not None and cell.scenario.study.factors and len(_settings(cell)) <= 1:
            place = (cell.scenario.name, cell.client.name, cell.server.name, cell.engine, str(cell.seed))
            groups.setdefault(place, []).append(result)
    samples = [_beside_own(group) for _, group in sorted(groups.items())]
    return [sample for sample in samples if sample is not None and sample.factors]


def _settings(cell: Cell) -> dict[str, ParameterValue]:
    """What a cell sets beside what its scenario does."""
    base = cell.scenario.parameters
    return {name: value for name, value in cell.parameters.items() if base.get(name) != value}


def _beside_own(group: list[CellResult]) -> StudySample | None:
    cell = newest(group).cell
    study = cell.scenario.study
    if study is None or all(_settings(result.cell) for result in group):
        return None
    factors: dict[str, tuple[ParameterValue, ...]] = {}
    for name in study.factors:
        full = full_names(name)[0]
        levels = dict.fromkeys(
            _settings(result.cell)[full] for result in group if list(_settings(result.cell)) == [full]
        )
        if levels:
            own = _own_default(cell, name)
            factors[name] = (own, *(level for level in levels if level != own))
    cells = []
    for result in group:
        settings = _settings(result.cell)
        levels_of = {name: settings.get(full_names(name)[0], values[0]) for name, values in factors.items()}
        known = all(full in {full_names(name)[0] for name in factors} for full in settings)
        if known:
            places = tuple(values.index(levels_of[name]) for name, values in factors.items())
            cells.append(CombinationRuns(result, places))
    unique = {runs.levels: runs for runs in sorted(cells, key=lambda runs: len(runs.result.runs))}
    sample = StudySample(
        cell.scenario, cell.client.name, cell.server.name, cell.engine, {}, factors,
        tuple(unique[levels] for levels in sorted(unique)), is_beside_own=True,
    )  # fmt: skip
    return sample.with_occurring_levels()


# --- The stored cells of a study's profiles, per pair: the times with each profile, and settings not honoured. Pure.


@dataclass(frozen=True)
class ProfileRow:
    """A pair with one profile."""

    label: str
    """The profile, several profiles that are the same settings for this pair, or 'its own parameters'."""
    settings: Mapping[str, ParameterValue]
    """The settings that the pair honours."""
    unsupported: tuple[str, ...]
    """Settings that the pair does not honour: 'client.ack_ratio 2'."""
    times: Mapping[str, Interval | None]
    """milestone_2MB … → seconds; infinite where the run timed out before."""
    verdict: str
    result: CellResult


@dataclass(frozen=True)
class ProfileSample:
    """A study of profiles by one pair."""

    scenario: Scenario
    client: str
    server: str
    engine: str
    rows: tuple[ProfileRow, ...]

    @property
    def name(self) -> str:
        """The name for people: scenario, pair and engine."""
        return f"{self.scenario.name} {self.client}→{self.server} ({self.engine})"


def group_profiles(results: Iterable[CellResult]) -> list[ProfileSample]:
    """The studies with profiles among stored cells, by scenario and pair."""
    groups: dict[tuple[str, ...], list[CellResult]] = {}
    for result in results:
        cell = result.cell
        if cell.scenario.study is not None and cell.scenario.study.profiles:
            fixed = str(sorted(_fixed_parameters(cell).items()))
            key = (cell.scenario.name, cell.client.name, cell.server.name, cell.engine, str(cell.seed), fixed)
            groups.setdefault(key, []).append(result)
    return [_build_profiles(group) for _, group in sorted(groups.items())]


def _fixed_parameters(cell: Cell) -> dict[str, ParameterValue]:
    """Parameters of a cell that none of its study's profiles sets."""
    study = cell.scenario.study
    profile_settings = (
        {name for settings in study.profiles.values() for name in settings} if study is not None else set[str]()
    )
    return {name: value for name, value in cell.parameters.items() if name not in profile_settings}


def _build_profiles(group: list[CellResult]) -> ProfileSample:
    cell = newest(group).cell
    base = Point(cell.scenario, cell.scenario.parameters | _fixed_parameters(cell))
    pair = flow_pair(cell.scenario, cell.client, cell.server, cell.others)
    design = design_for_pair(base, pair)
    rows = []
    for point, label in zip(design.points, design.labels, strict=True):
        result = next((candidate for candidate in group if candidate.cell.parameters == dict(point.parameters)), None)
        if result is None:
            continue
        prefixes = [f"{profile}: " for profile in label.split(" = ")]
        absent = tuple(name.partition(": ")[2] for name in design.unsupported if name.startswith(tuple(prefixes)))
        settings = {
            name: value for name, value in point.parameters.items() if cell.scenario.parameters.get(name) != value
        }
        times = {metric: result.interval(metric, 0, "first") for metric in metrics_of(cell.scenario)}
        rows.append(ProfileRow(label, settings, absent, times, result.verdict.status, result))
    return ProfileSample(cell.scenario, cell.client.name, cell.server.name, cell.engine, tuple(rows))
