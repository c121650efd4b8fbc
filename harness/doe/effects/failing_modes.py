"""Modes of a server that fail: their runs are far beyond those of all other modes of all servers. Pure.

A mode is a server with one congestion control and everything else its own. What settings are worth in a mode that fails
says how it fails, and not what the settings are worth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.doe.effects.samples import CombinationRuns, StudySample, metrics_of
from harness.evaluation.cell_result import CellResult, current_scenario
from harness.planning.sampling import has_chance
from harness.scenario.parameters import PARAMETERS, ParameterValue
from harness.scenario.schema import Scenario

#: What tells the modes of a server apart.
FACTOR = "server.congestion_control"
#: A mode fails whose fastest run takes so many times as long as the slowest of all other modes.
_BEYOND = 2.0
#: The fewest other modes to compare one with.
_FEWEST = 3

Mode = tuple[str, ParameterValue | None]


@dataclass(frozen=True)
class FailingMode:
    """A mode that fails on some paths."""

    server: str
    level: ParameterValue
    """Of `FACTOR`."""
    metrics: tuple[str, ...]
    """Those times of the first path in which it is beyond all others."""
    times: tuple[tuple[float, float], ...]
    """For each of them its fastest and slowest run, seconds."""
    other_mode_times: tuple[tuple[float, float], ...]
    """For each of them the fastest and the slowest run of all other modes, seconds."""
    modes: int
    """Other modes on the first path."""
    scenarios: tuple[str, ...]
    """Where its runs are."""
    path: str
    """The first path, to find other runs on it."""
    rtt: float
    """The shortest round trip of the paths on which it fails, s: on shorter ones its runs count."""


@dataclass(frozen=True)
class Remedy:
    """A setting with which a mode does not fail."""

    factor: str
    level: ParameterValue
    fastest: float
    """Seconds of the mode's last time that is beyond all others'."""
    slowest: float
    runs: int
    scenario: str


def failing_modes(results: Iterable[CellResult]) -> list[FailingMode]:
    """The modes of servers that fail, among cells in virtual time that set nothing but the mode, without chance."""
    by_path: dict[str, dict[Mode, list[CellResult]]] = {}
    for result in results:
        cell = result.cell
        alone = set(cell.parameters) <= {FACTOR} and cell.scenario.study is not None
        if alone and cell.virtual_time and not has_chance(cell.scenario):
            by_path.setdefault(path_text(cell.scenario), {}).setdefault((cell.server.name, _level(result)), []).append(
                result
            )
    by_mode: dict[Mode, FailingMode] = {}
    for modes in by_path.values():
        for mode in modes:
            failing = _failing_mode(mode, modes)
            if failing is not None:
                known = by_mode.get(mode)
                names = (*known.scenarios, *failing.scenarios) if known else failing.scenarios
                shortest = min(failing.rtt, known.rtt) if known else failing.rtt
                by_mode[mode] = replace(known or failing, scenarios=tuple(dict.fromkeys(names)), rtt=shortest)
    return [by_mode[mode] for mode in sorted(by_mode, key=str)]


def path_text(scenario: Scenario) -> str:
    """The paths of a scenario as text, equal for equal ones."""
    return str({name: path.model_dump() for name, path in scenario.every_path.items()})


def remedies(mode: FailingMode, samples: Iterable[StudySample]) -> list[Remedy]:
    """Settings with which no run of a mode on its path takes longer than the slowest of all other modes did."""
    working = []
    for sample in samples:
        names = list(sample.factors)
        if sample.server != mode.server or path_text(sample.scenario) != mode.path or FACTOR not in names:
            continue
        place = names.index(FACTOR)
        own = [cell for cell in sample.cells if sample.factors[FACTOR][cell.levels[place]] == mode.level]
        for n, name in enumerate(names):
            for number, level in enumerate(sample.factors[name]) if n != place else ():
                mine = [cell for cell in own if cell.levels[n] == number]
                seconds = [time for cell in mine for time, _ in cell.times(mode.metrics[-1]).values()]
                if len(mine) > 1 and max(seconds, default=math.inf) <= mode.other_mode_times[-1][1]:
                    working.append(Remedy(name, level, min(seconds), max(seconds), len(seconds), sample.scenario.name))
    return working


def without_failing_modes(samples: Sequence[StudySample], modes: Sequence[FailingMode]) -> list[StudySample]:
    """Samples without the runs of modes that fail, on paths with as long a round trip."""
    return [
        _without(
            sample,
            {mode.level for mode in modes if mode.server == sample.server and _is_as_long(sample.scenario, mode)},
        )
        for sample in samples
    ]


def is_of_mode(mode: FailingMode, scenario: Scenario, server: str, settings: Mapping[str, ParameterValue]) -> bool:
    """Whether a server with these settings is in a mode, on a path on which it fails."""
    return server == mode.server and settings.get(FACTOR) == mode.level and _is_as_long(scenario, mode)


def _shortest_rtt(scenario: Scenario) -> float:
    return min(path.rtt.seconds for path in scenario.every_path.values())


def _is_as_long(scenario: Scenario, mode: FailingMode) -> bool:
    return _shortest_rtt(scenario) >= mode.rtt


def _without(sample: StudySample, levels: set[ParameterValue]) -> StudySample:
    if FACTOR not in sample.factors:
        return sample
    place = list(sample.factors).index(FACTOR)
    refused = {f"{FACTOR} {level}": "that mode fails" for level in sample.factors[FACTOR] if level in levels}
    if not refused:
        return sample
    cells = tuple(cell for cell in sample.cells if sample.factors[FACTOR][cell.levels[place]] not in levels)
    return replace(sample, cells=cells, refused={**sample.refused, **refused}).with_occurring_levels()


def _level(result: CellResult) -> ParameterValue | None:
    """The congestion control that a cell has: what it sets, or the server's own; None where nothing tells it."""
    cell = result.cell
    setting = cell.implementation("server", 0).setting("server", "congestion_control")
    default = None if setting is None or setting.default is None else setting.default
    own = None if default is None else PARAMETERS["congestion_control"].canonical(default)
    return cell.parameters.get(FACTOR, own)


def _failing_mode(mode: Mode, modes: Mapping[Mode, Sequence[CellResult]]) -> FailingMode | None:
    server, level = mode
    other_results = [result for other_mode, cells in modes.items() if other_mode != mode for result in cells]
    if level is None or len(modes) <= _FEWEST:
        return None
    beyond = []
    for metric in metrics_of(current_scenario(modes[mode])):
        own, rest = _times(modes[mode], metric), _times(other_results, metric)
        if own and rest and min(own) > _BEYOND * max(rest):
            beyond.append((metric, (min(own), max(own)), (min(rest), max(rest))))
    if not beyond:
        return None
    metrics, times, other_times = zip(*beyond, strict=True)
    names = tuple(dict.fromkeys(result.cell.scenario.name for result in modes[mode]))
    scenario = current_scenario(modes[mode])
    path, rtt = path_text(scenario), _shortest_rtt(scenario)
    return FailingMode(server, level, metrics, times, other_times, len(modes) - 1, names, path, rtt)


def _times(results: Iterable[CellResult], metric: str) -> list[float]:
    cells = (CombinationRuns(result, ()) for result in results)
    return [seconds for cell in cells for seconds, _ in cell.times(metric).values()]
