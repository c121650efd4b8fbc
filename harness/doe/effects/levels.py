"""What runs show of the levels of a study: a level that was not reached is none. Pure.

What was observed decides. A level that most runs show at another value than the one set is named by what was seen. Two
levels that were seen at the same value are one: the one that is nearer to what was set stays, the base before others.

Flow-control credit that is set is fixed. An endpoint that raises it lets more data come in a round trip than that, and
then no level of the factor says anything.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

from harness.doe.effects.samples import CombinationRuns, StudySample, metrics_of
from harness.scenario.parameters import PARAMETERS, ParameterValue, Role, parse_parameter_name
from harness.units import Size

#: Parameters that are flow-control credit.
_CREDIT = ("stream_window", "connection_window")
#: Stands before the value that a level was seen at, where it is not the one that was set.
SEEN = "seen"
#: Two levels that are seen at values closer than that are one.
_APART = 1.1
#: The fewest values that have quartiles; of fewer the least and the most stand for them.
_FEWEST_FOR_QUARTILES = 4
#: More data per round trip than credit times this: a drawn delay may make the round trip a little shorter.
_MARGIN = 1.05


def as_observed(samples: Sequence[StudySample]) -> list[StudySample]:
    """Samples with the levels that their runs reached, and without factors that an endpoint shows not to hold.

    What is left out is named in `StudySample.refused`, with the reason.
    """
    own: dict[tuple[int, str], str] = {}
    shared: dict[tuple[str, ...], str] = {}
    for number, sample in enumerate(samples):
        for name in sample.factors:
            if name.rpartition(".")[2] in _CREDIT and (text := _raised_credit(sample, name)):
                own[number, name] = text
                shared.setdefault((*_owner(sample, name), name), f"in {sample.name} {text}")
    checked = []
    for number, sample in enumerate(samples):
        held = sample
        for name in sample.factors:
            if (key := (*_owner(sample, name), name)) in shared:
                held = without_factor(held, name, own.get((number, name), shared[key]))
        for name in held.factors:
            held = _with_observed_levels(held, name)
        checked.append(held)
    return checked


@dataclass(frozen=True)
class _Level:
    """What runs show of one level of a factor."""

    place: int
    value: ParameterValue
    number: float
    """What was set, in base units."""
    seen: tuple[float, ...]
    """One value per cell; what was set where nothing was seen."""
    reached: bool
    """Whether at least half of the cells show what was set, or show nothing of it."""

    @property
    def middle(self) -> float:
        return statistics.median(self.seen)

    @property
    def quartiles(self) -> tuple[float, float]:
        if len(self.seen) < _FEWEST_FOR_QUARTILES:
            return min(self.seen), max(self.seen)
        low, _, high = statistics.quantiles(self.seen, n=4)
        return low, high

    @property
    def miss(self) -> float:
        return abs(math.log(self.middle / self.number)) if self.middle > 0 and self.number > 0 else math.inf

    @property
    def label(self) -> ParameterValue:
        return self.value if self.reached else f"{self.value} ({SEEN} {self.middle:.3g})"


def _with_observed_levels(sample: StudySample, name: str) -> StudySample:
    """A sample whose levels of one factor are what runs show of them."""
    levels = _observed_levels(sample, name)
    if levels is None or all(level.reached for level in levels):
        return sample
    kept: list[_Level] = []
    refused: dict[str, str] = {}
    for level in sorted(levels, key=lambda level: (_is_base(sample, level), level.miss)):
        twin = next((distinct for distinct in kept if _are_alike(level, distinct)), None)
        if twin is None:
            kept.append(level)
        else:
            refused[f"{name} {level.value}"] = (
                f"it was seen at {_range_text(level)}, and {twin.value} at {_range_text(twin)}: they are no two levels"
            )
    if len(kept) < 2:
        reasons = "; ".join(f"{level.value} was seen at {_range_text(level)}" for level in levels)
        return without_factor(sample, name, f"{reasons}: they are no two levels")
    place = list(sample.factors).index(name)
    places = [level.place for level in kept]
    labels = tuple(next(observed.label for observed in levels if observed.place == n) for n in range(len(levels)))
    cells = tuple(cell for cell in sample.cells if cell.levels[place] in places)
    labelled = replace(sample, factors={**sample.factors, name: labels}, cells=cells)
    return replace(labelled.with_occurring_levels(), refused={**sample.refused, **refused})


def _observed_levels(sample: StudySample, name: str) -> list[_Level] | None:
    """What runs show of the levels of a factor; None for one that is no number of one endpoint."""
    try:
        role, parameter = parse_parameter_name(name)
    except ValueError:
        return None
    place = list(sample.factors).index(name)
    study = sample.scenario.study
    alone = study is not None and study.kind == "one-at-a-time"
    levels = []
    for level_place, value in enumerate(sample.factors[name]):
        asked = _number(parameter, value)
        if asked is None:
            return None
        cells = [
            cell
            for cell in sample.cells
            if cell.levels[place] == level_place
            and not (alone and any(level for n, level in enumerate(cell.levels) if n != place))
        ]
        observed = [shown for cell in cells if (shown := _observed(cell, value, role, parameter)) is not None]
        deviating = sum(not agrees for _, agrees in observed)
        seen = tuple(number for number, _ in observed) or (asked,)
        levels.append(_Level(level_place, value, asked, seen, deviating * 2 <= len(observed)))
    return levels


def _number(parameter: str, value: ParameterValue) -> float | None:
    """A level in base units; None for a word, and for a default that nobody states."""
    with suppress(ValueError):
        return PARAMETERS[parameter].number(value)
    return None


def _observed(cell: CombinationRuns, setting: ParameterValue, role: Role, parameter: str) -> tuple[float, bool] | None:
    """What the runs of a cell show of a parameter, and whether most of them show what was set; None for nothing.

    Each kind of evidence may see its own side of a parameter: what agrees with the value that was set is what counts.
    """
    values, deviating, runs = list[float](), 0, 0
    for _, measured in cell.result.runs:
        numbers = [
            observation.value
            for observation in (() if measured is None else measured.observed)
            if (observation.role, observation.parameter) == (role, parameter)
            and not isinstance(observation.value, str)
            and PARAMETERS[parameter].agrees(setting, observation.value) is not None
        ]
        if not numbers:
            continue
        agreeing = [number for number in numbers if PARAMETERS[parameter].agrees(setting, number)]
        runs, deviating = runs + 1, deviating + (not agreeing)
        values.append(statistics.median(agreeing or numbers))
    return (statistics.median(values), 2 * deviating <= runs) if values else None


def _is_base(sample: StudySample, level: _Level) -> bool:
    """Sorts the base before other levels, where one factor varies at a time and all other cells have it."""
    study = sample.scenario.study
    return study is not None and study.kind == "one-at-a-time" and level.place != 0


def _are_alike(level: _Level, other: _Level) -> bool:
    """Whether two levels were seen at the same value: a tenth apart at most, or with quartiles that overlap."""
    low, high = sorted((level, other), key=lambda compared: compared.middle)
    overlap = low.quartiles[1] >= high.quartiles[0] if len(low.seen) > 1 and len(high.seen) > 1 else False
    return overlap or high.middle < _APART * low.middle


def _range_text(level: _Level) -> str:
    low, high = (f"{value:.3g}" for value in level.quartiles)
    return low if low == high else f"{low} to {high}"


def without_factor(sample: StudySample, name: str, reason: str) -> StudySample:
    """A sample without one factor.

    Where one factor varies at a time, its other levels go with their cells. Elsewhere all cells stay: they vary in
    other factors as well.
    """
    place = list(sample.factors).index(name)
    study, cells = sample.scenario.study, sample.cells
    if study is not None and study.kind == "one-at-a-time":
        cells = tuple(cell for cell in cells if cell.levels[place] == 0)
    cells = tuple(replace(cell, levels=(*cell.levels[:place], *cell.levels[place + 1 :])) for cell in cells)
    factors = {factor: levels for factor, levels in sample.factors.items() if factor != name}
    return replace(sample, factors=factors, cells=cells, refused={**sample.refused, name: reason})


def _owner(sample: StudySample, name: str) -> tuple[str, str]:
    """Role and implementation that a factor is set at; none for a factor of both ends or of the path."""
    try:
        role, _ = parse_parameter_name(name)
    except ValueError:
        return "", ""
    return role, sample.client if role == "client" else sample.server


def _raised_credit(sample: StudySample, name: str) -> str:
    """That a run got more data in a round trip than the credit that was set; empty where none did."""
    scenario = sample.scenario
    paths = scenario.every_path
    if len(paths) != 1 or any(path.changes for path in paths.values()):
        return ""
    (path,) = paths.values()
    place, rtt = list(sample.factors).index(name), path.rtt.seconds
    sizes = [Size.parse(metric.removeprefix("milestone_")) for metric in metrics_of(scenario) if "milestone" in metric]
    for cell in sample.cells:
        level = sample.factors[name][cell.levels[place]]
        credit = _number(name.rpartition(".")[2], level) or 0.0
        times = [cell.times(f"milestone_{size.label()}") for size in sizes]
        for (first, early), (last, late) in pairwise(zip(sizes, times, strict=True)):
            for repetition in early.keys() & late.keys():
                (begun, _), (ended, failed) = early[repetition], late[repetition]
                count, received = (ended - begun) / rtt, last.bytes - first.bytes
                if not failed and credit and received > _MARGIN * credit * (count + 1):
                    came = f"{received / count / 1e6:.2g} MB"
                    return f"with {level} set {came} came per round trip: {_note(sample, name)}"
    return ""


def _note(sample: StudySample, name: str) -> str:
    """What the manifest says of the parameter; that the endpoint raises it where it says nothing."""
    role, parameter = parse_parameter_name(name)
    cell = sample.cells[0].result.cell
    setting = cell.implementation(role, 0).setting(role, parameter)
    note = "" if setting is None else " ".join(setting.note.split())
    endpoint = cell.implementation(role, 0).name
    return f"{endpoint}'s credit {note}" if note else f"{endpoint} raises it by itself"
