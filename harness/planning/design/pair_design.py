"""What a study is for one pair of implementations: the factors and levels that the two honour, and its points. Pure.

A pair honours a level where it can be told it, or where it is in force untold
(`harness.planning.endpoint_config.refusal`). What it does not honour is absent, with the reason; nothing is guessed in
its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.outcome import Contestant
from harness.planning.design.combinations import Aliases, aliases, combinations
from harness.planning.design.fraction import Rows
from harness.planning.endpoint_config import endpoint_parameters, refusal
from harness.planning.sweep import Point, expanded, is_of_path, point_at
from harness.scenario.parameters import ROLES, ParameterValue, Role
from harness.scenario.schema import Flow, Implementation, Scenario

Pair = Mapping[Role, Implementation]


@dataclass(frozen=True)
class PairDesign:
    """A study of one pair."""

    factors: Mapping[str, tuple[ParameterValue, ...]]
    """Name → the levels that the pair honours, two at least, as results have them; empty for profiles."""
    rows: Rows
    """The level of each factor in each combination; empty for profiles."""
    points: tuple[Point, ...]
    labels: tuple[str, ...]
    """Of each point: its profiles, separated by ' = ' where the pair does not tell them apart; empty for factors."""
    absent: Mapping[str, str]
    """What the pair does not honour → why: NAME of a factor, NAME LEVEL, or PROFILE: NAME VALUE."""
    too_few: str = ""
    """Why the pair has no part in it; empty where it has."""

    @property
    def aliases(self) -> Aliases:
        """What its combinations cannot tell apart, where all factors have two levels."""
        if all(len(levels) == 2 for levels in self.factors.values()):
            return aliases(self.rows)
        return Aliases((), ())


def players_of(
    scenario: Scenario, client: Implementation, server: Implementation, others: Mapping[str, Contestant]
) -> Pair:
    """Who plays the flow that a study is of: the matrix's pair, or whom the flow names."""
    given: dict[Role, Implementation] = {"client": client, "server": server}
    for role in ROLES:
        name = studied_flow(scenario).implementation(role)
        if name is not None and name in others:
            given[role] = others[name].implementation
    return given


def studied_flow(scenario: Scenario) -> Flow:
    """The first flow over QUIC; without one the first over TCP, or the first one."""
    kinds = {flow.kind: flow for flow in reversed(scenario.flows)}
    return kinds.get("quic") or kinds.get("tcp") or scenario.flows[0]


def of_pair(point: Point, pair: Pair) -> PairDesign:
    """The study of a point's scenario for one pair. `point`: what holds in all of its cells."""
    study = point.scenario.study
    assert study is not None
    return _profiles(point, pair) if study.profiles else _factors(point, pair)


def honoured(point: Point, pair: Pair) -> tuple[dict[str, tuple[object, ...]], dict[str, str]]:
    """Factor → the levels of it that a pair honours, as written, where there are two at least; and what it does not
    honour → why.
    """
    study = point.scenario.study
    assert study is not None
    found: dict[str, tuple[object, ...]] = {}
    absent: dict[str, str] = {}
    for name, levels in study.factors.items():
        refusals = [_refused(point, pair, name, level) for level in levels]
        left = tuple(level for level, why in zip(levels, refusals, strict=True) if not why)
        if len(left) < 2:
            absent[name] = next(why for why in refusals if why)
            continue
        for level, why in zip(levels, refusals, strict=True):
            if why:
                absent[f"{name} {level}"] = why
        found[name] = left
    return found, absent


def _factors(point: Point, pair: Pair) -> PairDesign:
    study = point.scenario.study
    assert study is not None
    found, absent = honoured(point, pair)
    canonical = {
        name: tuple(point_at(point, {name: level}).parameters[expanded(name)[0]] for level in levels)
        for name, levels in found.items()
    }
    too_few = _too_few(len(found), study.least, "factor")
    rows = (
        []
        if too_few
        else combinations(study.kind, study.number, [len(levels) for levels in found.values()], point.scenario.name)
    )
    values = list(found.values())
    points = tuple(
        point_at(point, {name: values[n][level] for n, (name, level) in enumerate(zip(found, row, strict=True))})
        for row in rows
    )
    return PairDesign(canonical, rows, points, ("",) * len(points), absent, too_few)


def _profiles(point: Point, pair: Pair) -> PairDesign:
    study = point.scenario.study
    assert study is not None
    absent: dict[str, str] = {}
    found: dict[tuple[object, ...], tuple[Point, list[str]]] = {}
    for label, settings in (("", {}), *study.profiles.items()):
        told: dict[str, object] = {}
        for name, value in settings.items():
            if why := _refused(point, pair, name, value):
                absent[f"{label}: {name} {value}"] = why
            else:
                told[name] = value
        if label and (why := _too_few(len(told), study.least, "setting")):
            absent[label] = why
            continue
        made = point_at(point, told)
        found.setdefault(tuple(sorted(made.parameters.items())), (made, []))[1].append(label or "its own parameters")
    too_few = "it can be told no profile" if len(found) < 2 else ""
    points = [] if too_few else list(found.values())
    return PairDesign(
        {}, [], tuple(made for made, _ in points), tuple(" = ".join(labels) for _, labels in points), absent, too_few
    )


def _too_few(count: int, least: int, what: str) -> str:
    if count >= least:
        return ""
    return f"it honours {count or 'no'} {what}{'s' if count != 1 else ''}, and {least} are the least"


def _refused(point: Point, pair: Pair, name: str, level: object) -> str:
    """Why a pair does not honour a level; empty where it does."""
    if is_of_path(name):
        return ""
    made, flow = point_at(point, {name: level}).parameters, studied_flow(point.scenario)
    parameters = endpoint_parameters(made) | flow.parameters
    for full in expanded(name):
        if parameters[full] != made[full]:
            return f"the flow has {full} {parameters[full]} of its own, which comes before"
    refusals = (refusal(flow, pair["client"], pair["server"], full, parameters) for full in expanded(name))
    return next(filter(None, refusals), "")
