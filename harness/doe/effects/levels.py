"""What runs show of the levels of a study: a level that was not reached is none. Pure.

Flow-control credit that is set is fixed. An endpoint that raises it lets more data come in a round trip than that, and
then no level of the factor says anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from harness.doe.effects.samples import StudySample, metrics_of
from harness.scenario.parameters import PARAMETERS, parse_parameter_name
from harness.units import Size

#: Parameters that are flow-control credit.
_CREDIT = ("stream_window", "connection_window")
#: More data per round trip than credit times this: a drawn delay may make the round trip a little shorter.
_MARGIN = 1.05


def as_observed(samples: Sequence[StudySample]) -> list[StudySample]:
    """Samples without the factors whose levels their own runs, or others of the same endpoint, show not to be held.

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
        checked.append(held)
    return checked


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
        credit = PARAMETERS[name.rpartition(".")[2]].number(level) or 0.0
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
    who = cell.implementation(role, 0).name
    return f"{who}'s credit {note}" if note else f"{who} raises it by itself"
