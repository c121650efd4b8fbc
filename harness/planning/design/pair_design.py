"""The design of a study for one pair of implementations: the factors and levels that it honours, and its points. Pure.

A pair honours a level that it can be configured with, or that is its default
(`harness.planning.endpoint_config.refusal_reason`). A level that it does not honour is absent, with the reason; no
other level replaces it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.errors import did_you_mean
from harness.outcome import Contestant
from harness.planning.design.factorial import (
    MOST_COMBINATIONS,
    Aliases,
    Rows,
    combinations,
    design_size,
    find_aliases,
    least_random_runs,
)
from harness.planning.endpoint_config import endpoint_parameters, refusal_reason
from harness.planning.sweep import (
    Point,
    SweepError,
    dimensions,
    find_place,
    full_names,
    is_cpu_name,
    is_path_name,
    point_at,
)
from harness.scenario.parameters import PARAMETERS, ROLES, ParameterValue, Role
from harness.scenario.schema import LEAST_RESOLUTION, Experiment, Flow, Implementation, Scenario
from harness.scenario.validation_errors import Location, Mistake

Pair = Mapping[Role, Implementation]


@dataclass(frozen=True)
class PairDesign:
    """A study of one pair."""

    factors: Mapping[str, tuple[ParameterValue, ...]]
    """Name → the levels that the pair honours, at least two, in canonical form; empty for profiles."""
    rows: Rows
    """The level of each factor in each combination; empty for profiles."""
    points: tuple[Point, ...]
    labels: tuple[str, ...]
    """Per point: its profiles, joined by ' = ' where they are the same settings for the pair; empty for factors."""
    unsupported: Mapping[str, str]
    """NAME of a factor, NAME LEVEL, or PROFILE: NAME VALUE that the pair does not honour → the reason."""
    too_few: str = ""
    """Why the pair does not take part in the study; empty where it does."""

    @property
    def aliases(self) -> Aliases:
        """Effects that its combinations cannot tell apart; empty unless all factors have two levels."""
        if all(len(levels) == 2 for levels in self.factors.values()):
            return find_aliases(self.rows)
        return Aliases((), ())


def flow_pair(
    scenario: Scenario, client: Implementation, server: Implementation, contestants: Mapping[str, Contestant]
) -> Pair:
    """The implementations at the ends of the studied flow: the matrix's pair, or those that the flow names."""
    players: dict[Role, Implementation] = {"client": client, "server": server}
    for role in ROLES:
        name = studied_flow(scenario).implementation(role)
        if name is not None and name in contestants:
            players[role] = contestants[name].implementation
    return players


def studied_flow(scenario: Scenario) -> Flow:
    """The first flow over QUIC; without one the first over TCP, or the first one."""
    kinds = {flow.kind: flow for flow in reversed(scenario.flows)}
    return kinds.get("quic") or kinds.get("tcp") or scenario.flows[0]


def design_for_pair(point: Point, pair: Pair) -> PairDesign:
    """The study of a point's scenario for one pair. `point`: the parameters common to all of its cells."""
    study = point.scenario.study
    assert study is not None
    return _profiles(point, pair) if study.profiles else _factors(point, pair)


def honoured_levels(point: Point, pair: Pair) -> tuple[dict[str, tuple[object, ...]], dict[str, str]]:
    """Factor → the levels that a pair honours, as written, where there are at least two; and NAME or NAME LEVEL that it
    does not honour → the reason.
    """
    study = point.scenario.study
    assert study is not None
    factors: dict[str, tuple[object, ...]] = {}
    absent: dict[str, str] = {}
    for name, levels in study.factors.items():
        refusals = [_refusal(point, pair, name, level) for level in levels]
        usable = tuple(level for level, why in zip(levels, refusals, strict=True) if not why)
        if len(usable) < 2:
            absent[name] = next(why for why in refusals if why)
            continue
        for level, why in zip(levels, refusals, strict=True):
            if why:
                absent[f"{name} {level}"] = why
        factors[name] = usable
    return factors, absent


def _factors(point: Point, pair: Pair) -> PairDesign:
    study = point.scenario.study
    assert study is not None
    factors, absent = honoured_levels(point, pair)
    canonical = {
        name: tuple(point_at(point, {name: level}).parameters[full_names(name)[0]] for level in levels)
        for name, levels in factors.items()
    }
    too_few = _too_few(len(factors), study.least, "factor")
    rows = (
        []
        if too_few
        else combinations(study.kind, study.number, [len(levels) for levels in factors.values()], point.scenario.name)
    )
    values = list(factors.values())
    points = tuple(
        point_at(point, {name: values[n][level] for n, (name, level) in enumerate(zip(factors, row, strict=True))})
        for row in rows
    )
    return PairDesign(canonical, rows, points, ("",) * len(points), absent, too_few)


def _profiles(point: Point, pair: Pair) -> PairDesign:
    study = point.scenario.study
    assert study is not None
    absent: dict[str, str] = {}
    by_parameters: dict[tuple[object, ...], tuple[Point, list[str]]] = {}
    for label, settings in (("", {}), *study.profiles.items()):
        usable: dict[str, object] = {}
        for name, value in settings.items():
            if why := _refusal(point, pair, name, value):
                absent[f"{label}: {name} {value}"] = why
            else:
                usable[name] = value
        if label and (why := _too_few(len(usable), study.least, "setting")):
            absent[label] = why
            continue
        profile_point = point_at(point, usable)
        by_parameters.setdefault(tuple(sorted(profile_point.parameters.items())), (profile_point, []))[1].append(
            label or "its own parameters"
        )
    too_few = "it can be told no profile" if len(by_parameters) < 2 else ""
    points = [] if too_few else list(by_parameters.values())
    return PairDesign(
        {},
        [],
        tuple(profile_point for profile_point, _ in points),
        tuple(" = ".join(labels) for _, labels in points),
        absent,
        too_few,
    )


def _too_few(count: int, least: int, noun: str) -> str:
    if count >= least:
        return ""
    return f"it honours {count or 'no'} {noun}{'s' if count != 1 else ''}, and {least} are the least"


def _refusal(point: Point, pair: Pair, name: str, level: object) -> str:
    """Why a pair does not honour a level; empty where it does."""
    if is_path_name(name) or is_cpu_name(name):
        return ""
    requested, flow = point_at(point, {name: level}).parameters, studied_flow(point.scenario)
    parameters = endpoint_parameters(requested) | flow.parameters
    for full in full_names(name):
        if parameters[full] != requested[full]:
            return f"the flow has {full} {parameters[full]} of its own, which comes before"
    refusals = (refusal_reason(flow, pair["client"], pair["server"], full, parameters) for full in full_names(name))
    return next(filter(None, refusals), "")


# --- Errors in a study that need no pair: names, levels, and an impossible design. Pure.


_DESIGN: Location = ("study", "design")


def study_mistakes(scenario: Scenario) -> Iterator[Mistake]:
    """Errors in a scenario's study; none where it has no study."""
    study = scenario.study
    if study is None:
        return
    point = Point(scenario, {})
    errors = [mistake for name in study.factors for mistake in _factor_mistakes(point, study, name)]
    errors += _overlap_mistakes(scenario, study)
    yield from errors
    if study.profiles:
        yield from _profile_mistakes(study)
    elif not errors:
        yield from _design_mistakes(study)


def _factor_mistakes(point: Point, study: Experiment, name: str) -> Iterator[Mistake]:
    location: Location = ("study", "factors", name)
    if not is_path_name(name) and name not in dimensions():
        text = f"'{name}' is neither a parameter of an endpoint nor a property of the path"
        yield Mistake(location, text, did_you_mean(name, dimensions()), of_key=True)
        return
    positions: dict[object, int] = {}
    for index, level in enumerate(study.factors[name]):
        try:
            canonical = point_at(point, {name: level}).parameters[full_names(name)[0]]
        except SweepError as error:
            level_location: Location = location if error.value is None else (*location, index)
            yield Mistake(level_location, error.reason, error.hint, of_key=error.value is None)
            return
        if positions.setdefault(canonical, index) != index:
            yield Mistake((*location, index), f"the level {canonical} is given twice", "leave one of the two out")
    if name in PARAMETERS and PARAMETERS[name].acts != "both":
        acts = "server" if PARAMETERS[name].acts == "sender" else "client"
        text = f"{name} alone is both ends', and few pairs honour it at both"
        yield Mistake(location, text, f"write {acts}.{name}: in a download that is who it is about", of_key=True)


def _overlap_mistakes(scenario: Scenario, study: Experiment) -> Iterator[Mistake]:
    """Factors that duplicate another factor, or that are drawn."""
    owners: dict[object, str] = {}
    drawn = {_identity(scenario, name) for name in scenario.draw}
    for name in study.factors:
        location: Location = ("study", "factors", name)
        for place in {_identity(scenario, full) for full in full_names(name)} - {None}:
            if place in drawn:
                yield Mistake(location, f"{name} is both drawn and a factor", "leave one of the two out", of_key=True)
            elif (owner := owners.setdefault(place, name)) != name:
                yield Mistake(location, f"that is {owner}, too", "leave one of the two out", of_key=True)


def _identity(scenario: Scenario, name: str) -> object:
    """The identity of the parameter or path property that a name stands for; None for an invalid name, which is
    reported elsewhere.
    """
    if not is_path_name(name):
        return name
    try:
        return find_place(scenario, name)
    except SweepError:
        return None


def _profile_mistakes(study: Experiment) -> Iterator[Mistake]:
    if study.design != "full":
        yield Mistake(_DESIGN, "profiles are all run, one after the other", "leave design out")
    for name, settings in study.profiles.items():
        if len(settings) < study.least:
            text = f"{len(settings)} settings, and a pair must honour {study.least}"
            yield Mistake(("study", "profiles", name), text, "write a smaller least", of_key=True)


def _design_mistakes(study: Experiment) -> Iterator[Mistake]:
    counts = [len(levels) for levels in study.factors.values()]
    total, number = math.prod(counts), study.number
    if study.least > len(counts):
        text = f"{study.least} factors must be honoured, and there are {len(counts)}"
        yield Mistake(("study", "least"), text, f"{len(counts)} are the most")
    if study.kind == "fractional":
        yield from _fraction_mistakes(study)
        return
    if study.kind == "random" and number > total:
        yield Mistake(_DESIGN, f"there are {total} combinations, and {number} are to be drawn", "write design: full")
        return
    if study.kind == "random" and number < (least := least_random_runs(counts)):
        text = f"{number} combinations alias main effects: {len(counts)} factors with {sum(counts)} levels take {least}"
        yield Mistake(_DESIGN, text, f"write random({least}) at least; one-at-a-time takes as many")
        return
    count = design_size(study.kind, number, counts)
    if count > MOST_COMBINATIONS:
        text = f"{count} combinations of each pair, and {MOST_COMBINATIONS} are the most"
        yield Mistake(_DESIGN, text, "write fractional(4), or one-at-a-time", of_key=False)


def _fraction_mistakes(study: Experiment) -> Iterator[Mistake]:
    number, factors = study.number, len(study.factors)
    multilevel = [(name, len(levels)) for name, levels in study.factors.items() if len(levels) != 2]
    for name, count in multilevel:
        text = f"a fraction is of two levels each, and {name} has {count}"
        yield Mistake(("study", "factors", name), text, "leave levels out, or write design: one-at-a-time", of_key=True)
    if number < LEAST_RESOLUTION:
        text = f"a fraction of resolution {number} aliases main effects with each other"
        yield Mistake(_DESIGN, text, "fractional(3) tells them apart, fractional(4) from interactions of two, too")
    elif number > factors:
        text = f"no fraction of {factors} factors has resolution {number}: the whole has no words"
        hint = f"write fractional({factors}), or design: full" if factors >= LEAST_RESOLUTION else "write design: full"
        yield Mistake(_DESIGN, text, hint)
    elif not multilevel and (count := design_size("fractional", number, [2] * factors)) > MOST_COMBINATIONS:
        text = f"{count} combinations of each pair, and {MOST_COMBINATIONS} are the most"
        yield Mistake(_DESIGN, text, "write a smaller resolution, or fewer factors")
