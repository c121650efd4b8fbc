"""What is wrong with a study before anybody plays it: names, levels, and a design that cannot be had. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from harness.errors import did_you_mean
from harness.planning.design.combinations import MOST_COMBINATIONS, least_of_random, size
from harness.planning.sweep import Point, SweepError, dimensions, expanded, is_of_path, place_of, point_at
from harness.scenario.parameters import PARAMETERS
from harness.scenario.schema import LEAST_RESOLUTION, Experiment, Scenario
from harness.scenario.validation_errors import Location, Mistake

_DESIGN: Location = ("study", "design")


def mistakes(scenario: Scenario) -> Iterator[Mistake]:
    """What is wrong with a scenario's study; nothing where it has none."""
    study = scenario.study
    if study is None:
        return
    point = Point(scenario, {})
    wrong = [one for name in study.factors for one in _factor(point, study, name)]
    wrong += _overlaps(scenario, study)
    yield from wrong
    if study.profiles:
        yield from _profiles(study)
    elif not wrong:
        yield from _design(study)


def _factor(point: Point, study: Experiment, name: str) -> Iterator[Mistake]:
    where: Location = ("study", "factors", name)
    if not is_of_path(name) and name not in dimensions():
        text = f"'{name}' is neither a parameter of an endpoint nor a property of the path"
        yield Mistake(where, text, did_you_mean(name, dimensions()), of_key=True)
        return
    seen: dict[object, int] = {}
    for index, level in enumerate(study.factors[name]):
        try:
            made = point_at(point, {name: level}).parameters[expanded(name)[0]]
        except SweepError as error:
            at: Location = where if error.value is None else (*where, index)
            yield Mistake(at, error.reason, error.hint, of_key=error.value is None)
            return
        if seen.setdefault(made, index) != index:
            yield Mistake((*where, index), f"the level {made} is given twice", "leave one of the two out")
    if name in PARAMETERS and PARAMETERS[name].acts != "both":
        acts = "server" if PARAMETERS[name].acts == "sender" else "client"
        text = f"{name} alone is both ends', and few pairs honour it at both"
        yield Mistake(where, text, f"write {acts}.{name}: in a download that is who it is about", of_key=True)


def _overlaps(scenario: Scenario, study: Experiment) -> Iterator[Mistake]:
    """Factors that are another one's, or are drawn."""
    owners: dict[object, str] = {}
    drawn = {_place(scenario, name) for name in scenario.draw}
    for name in study.factors:
        where: Location = ("study", "factors", name)
        for one in {_place(scenario, full) for full in expanded(name)} - {None}:
            if one in drawn:
                yield Mistake(where, f"{name} is both drawn and a factor", "leave one of the two out", of_key=True)
            elif (other := owners.setdefault(one, name)) != name:
                yield Mistake(where, f"that is {other}, too", "leave one of the two out", of_key=True)


def _place(scenario: Scenario, name: str) -> object:
    """What a name stands for; None of one that stands for nothing, which is said elsewhere."""
    if not is_of_path(name):
        return name
    try:
        return place_of(scenario, name)
    except SweepError:
        return None


def _profiles(study: Experiment) -> Iterator[Mistake]:
    if study.design != "full":
        yield Mistake(_DESIGN, "profiles are all run, one after the other", "leave design out")
    for name, settings in study.profiles.items():
        if len(settings) < study.least:
            text = f"{len(settings)} settings, and a pair must honour {study.least}"
            yield Mistake(("study", "profiles", name), text, "write a smaller least", of_key=True)


def _design(study: Experiment) -> Iterator[Mistake]:
    counts = [len(levels) for levels in study.factors.values()]
    every, number = math.prod(counts), study.number
    if study.least > len(counts):
        text = f"{study.least} factors must be honoured, and there are {len(counts)}"
        yield Mistake(("study", "least"), text, f"{len(counts)} are the most")
    if study.kind == "fractional":
        yield from _fraction(study)
        return
    if study.kind == "random" and number > every:
        yield Mistake(_DESIGN, f"there are {every} combinations, and {number} are to be drawn", "write design: full")
        return
    if study.kind == "random" and number < (least := least_of_random(counts)):
        text = f"{number} combinations alias main effects: {len(counts)} factors with {sum(counts)} levels take {least}"
        yield Mistake(_DESIGN, text, f"write random({least}) at least; one-at-a-time takes as many")
        return
    count = size(study.kind, number, counts)
    if count > MOST_COMBINATIONS:
        text = f"{count} combinations of each pair, and {MOST_COMBINATIONS} are the most"
        yield Mistake(_DESIGN, text, "write fractional(4), or one-at-a-time", of_key=False)


def _fraction(study: Experiment) -> Iterator[Mistake]:
    number, factors = study.number, len(study.factors)
    wide = [(name, len(levels)) for name, levels in study.factors.items() if len(levels) != 2]
    for name, count in wide:
        text = f"a fraction is of two levels each, and {name} has {count}"
        yield Mistake(("study", "factors", name), text, "leave levels out, or write design: one-at-a-time", of_key=True)
    if number < LEAST_RESOLUTION:
        text = f"a fraction of resolution {number} aliases main effects with each other"
        yield Mistake(_DESIGN, text, "fractional(3) tells them apart, fractional(4) from interactions of two, too")
    elif number > factors:
        text = f"no fraction of {factors} factors has resolution {number}: the whole has no words"
        hint = f"write fractional({factors}), or design: full" if factors >= LEAST_RESOLUTION else "write design: full"
        yield Mistake(_DESIGN, text, hint)
    elif not wide and (count := size("fractional", number, [2] * factors)) > MOST_COMBINATIONS:
        text = f"{count} combinations of each pair, and {MOST_COMBINATIONS} are the most"
        yield Mistake(_DESIGN, text, "write a smaller resolution, or fewer factors")
