"""Sweeps: one scenario and the values to vary → the points of the sweep. Pure.

A dimension is a parameter of an endpoint, in one role (`client.initial_rtt`) or in both (`initial_rtt`), or a
property of the path (`path.forward.rate`, `path.down.loss`; of one of several `paths.campus.forward.rate`; of a segment
`path.wifi.forward.loss`; of all proxies `path.proxy.initial_cwnd`). A property may be a key of a part of the link
(`path.forward.queue.target`). `forward` leads to the terminal and `return` away from it; `down` leads to the client and
`up` to the server, wherever the terminal is. With several flows it may also be one flow's own: who plays it
(`flow1.server`), a parameter (`flow1.server.congestion_control`) or its access delay (`flow1.access_delay`). What
computing costs is a role's (`client.cpu.per_datagram`) or both roles' (`cpu.per_datagram`).
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from harness.errors import InputError, UnfitError, did_you_mean
from harness.formatting import format_value
from harness.netem import find_inexpressible
from harness.planning.link_properties import NESTED, property_text, set_property
from harness.scenario.parameters import PARAMETERS, ROLES, ParameterValue, Role
from harness.scenario.schema import FORMS, Cpu, Experiment, Flow, Proxy, Scenario, Segment
from harness.scenario.validation_errors import find_mistakes
from harness.units import Cost

Combine = Literal["product", "zip"]
DIRECTIONS = ("forward", "return", "down", "up")
PROPERTIES = ("rate", "delay", "jitter", "loss", "queue", "burst", "reorder", "duplicate", "ecn", "mtu")
#: A direction stands first, or behind the name of a path; a segment may have the name of a direction.
_PATH = re.compile(
    rf"(?:path|paths?\.([^.]*))\.({'|'.join(DIRECTIONS)})\.((?!(?:{'|'.join(DIRECTIONS)})\.)[^.]*(?:\.[^.]*)?)"
)
#: A setting of all proxies of a path.
_PROXY = re.compile(r"path\.proxy\.([^.]*)")
SETTINGS = tuple(name for name in Proxy.model_fields if name != "proxy")
_FLOW = re.compile(r"flow([0-9]{1,4})\.(.+)")
#: What computing costs: of one role, or of both.
CPU_COSTS = tuple(Cpu.model_fields)
_CPU = re.compile(rf"(?:({'|'.join(ROLES)})\.)?cpu\.({'|'.join(CPU_COSTS)})")
#: The most points of one scenario; more than that are a mistake.
MOST_POINTS = 1000


class SweepError(InputError):
    """A name that cannot be varied, or a value that it cannot have."""

    def __init__(self, message: str, hint: str = "", dimension: str = "", value: object = None) -> None:
        text = format_value(value).strip("'")
        super().__init__(f"{dimension} = {text}: {message}" if value is not None else message, hint)
        self.reason = message
        """Without the dimension and the value."""
        self.dimension = dimension
        """The name that cannot be varied; empty where the error is about the whole sweep."""
        self.value = value
        """The invalid value; None where the error is about the name, or about all values together."""


@dataclass(frozen=True)
class Point:
    """One point of a sweep."""

    scenario: Scenario
    """With the path of this point, and nothing left to vary."""
    parameters: Mapping[str, ParameterValue]
    """All requested parameters: role.NAME and path.DIRECTION.PROPERTY → value."""


@functools.cache
def dimensions() -> tuple[str, ...]:
    """Every name that can be varied."""
    return (
        *(f"{role}.{name}" for role in ROLES for name in PARAMETERS),
        *PARAMETERS,
        *(f"{owner}cpu.{cost}" for owner in ("client.", "server.", "") for cost in CPU_COSTS),
        *(f"path.{direction}.{name}" for direction in DIRECTIONS for name in (*PROPERTIES, *NESTED)),
    )


def is_dimension(name: str) -> bool:
    """Whether a name can be varied in some scenario: a dimension, a property of one flow (flow0.server), or of one of
    several paths (paths.campus.forward.rate).

    `points` checks whether a scenario has such a flow or path, and whether the flow can have such a value.
    """
    if (proxy := _PROXY.fullmatch(name)) is not None:
        return proxy[1] in SETTINGS
    match = _PATH.fullmatch(name)
    if match is not None:
        return is_property(match[3])
    return _FLOW.fullmatch(name) is not None or name in dimensions()


def is_property(name: str) -> bool:
    """Whether a link has such a property, or such a key of one (queue.target)."""
    return name in PROPERTIES or name in NESTED


def is_path_name(name: str) -> bool:
    """Whether a name has the form of a path's property: path.forward.rate, paths.campus.forward.rate."""
    return name.startswith(("path.", "paths."))


def is_cpu_name(name: str) -> bool:
    """Whether a name is of what computing costs: client.cpu.per_datagram, cpu.per_call."""
    return _CPU.fullmatch(name) is not None


def expand_points(
    scenario: Scenario,
    fixed: Mapping[str, object],
    vary: Mapping[str, Sequence[object]],
    combine: Combine | None = None,
) -> list[Point]:
    """The points of a scenario's own sweep, extended by `vary`, with the values of `fixed` in all of them.

    `vary` and `fixed` override the scenario's values of the same name. Raises SweepError.
    """
    varied = {**{name: list(values) for name, values in scenario.vary.items() if name not in fixed}, **vary}
    for name in vary:
        if name in fixed:
            raise SweepError(f"{name} is both set and varied", "leave one of the two out", name)
    combine = combine or scenario.combine
    rows = _rows(scenario.name, varied, combine)
    # A name in `vary` or `fixed` is not drawn.
    drawn = {name: limits for name, limits in scenario.draw.items() if name not in fixed and name not in vary}
    study = None if scenario.study is None else _reduce_study(scenario.study, {*fixed, *vary})
    bare = scenario.model_copy(update={"vary": {}, "combine": "product", "draw": drawn, "study": study})
    by_parameters: dict[tuple[object, ...], Point] = {}
    for row in rows:
        point = point_at(Point(bare, bare.parameters), {**fixed, **row})
        if by_parameters.setdefault(tuple(sorted(point.parameters.items())), point) is not point:
            assignment = ", ".join(f"{dimension}={value}" for dimension, value in row.items())
            raise SweepError(
                f"{scenario.name}: two points of the sweep are the same: {assignment}", "leave one of them out"
            )
    return list(by_parameters.values())


def _reduce_study(study: Experiment, assigned: Set[str]) -> Experiment | None:
    """A study without the names that are set or varied outside it; None where no factor or profile remains."""
    excluded = {full for name in assigned for full in full_names(name)}
    factors = {name: levels for name, levels in study.factors.items() if excluded.isdisjoint(full_names(name))}
    profiles = {
        name: {full: value for full, value in settings.items() if full not in excluded}
        for name, settings in study.profiles.items()
    }
    reduced = study.model_copy(update={"factors": factors, "profiles": profiles})
    return reduced if factors or any(profiles.values()) else None


def full_names(name: str) -> list[str]:
    """The names in results that a name stands for: a parameter without a role stands for both roles."""
    both = name in PARAMETERS or name.startswith("cpu.")
    return [f"{role}.{name}" for role in ROLES] if both else [name]


def _rows(name: str, varied: Mapping[str, Sequence[object]], combine: Combine) -> list[dict[str, object]]:
    for dimension, values in varied.items():
        if not values:
            raise SweepError(
                f"{name}: nothing to vary {dimension} over", "give its values, separated by commas", dimension
            )
    count = math.prod(map(len, varied.values())) if combine == "product" else max(map(len, varied.values()), default=0)
    if count > MOST_POINTS:
        raise SweepError(f"{name}: a sweep of {count} points, and {MOST_POINTS} are the most", "vary less at once")
    if combine == "product":
        return [dict(zip(varied, combination, strict=True)) for combination in itertools.product(*varied.values())]
    if len({len(values) for values in varied.values()}) > 1:
        counts = ", ".join(f"{dimension} has {len(values)}" for dimension, values in varied.items())
        raise SweepError(f"{name}: values can be paired only where each has as many: {counts}", "leave out zip")
    return [dict(zip(varied, combination, strict=True)) for combination in zip(*varied.values(), strict=True)] or [{}]


def point_at(point: Point, row: Mapping[str, object]) -> Point:
    """A point with some names at other values. Raises SweepError."""
    parameters: dict[str, ParameterValue] = dict(point.parameters)
    scenario, flows = point.scenario, list(point.scenario.flows)
    for name, value in row.items():
        if _PROXY.fullmatch(name):
            scenario, parameters[name] = _with_setting(scenario, name, value)
            continue
        if is_path_name(name):
            scenario, parameters[name] = _with_property(scenario, name, value)
            continue
        if match := _FLOW.fullmatch(name):
            index = int(match[1])
            flows[index], parameters[name] = _with_flow_property(flows, index, match[2], name, value)
            continue
        for full in full_names(name):
            if is_cpu_name(full):
                scenario, parameters[full] = _with_cost(scenario, full, name, value)
            else:
                parameters[full] = _parameter(full, name, value)
    return Point(scenario.model_copy(update={"flows": tuple(flows)}), parameters)


def _with_cost(scenario: Scenario, full: str, name: str, value: object) -> tuple[Scenario, str]:
    """The scenario with one cost of a role's computing changed, and the value as it is written in results.

    `name` stands for role.cpu.COST. A cost of 0 is none; without any, computing is free.
    """
    word, _, key = full.split(".")
    role: Role = "client" if word == "client" else "server"
    costs = {} if role not in scenario.cpu else scenario.cpu[role].model_dump(mode="json")
    try:
        cost = Cost.parse(str(value))
        content = costs | {key: str(cost)}
        free = not any(Cost.parse(text).value for text in content.values())
        changed = {} if free else {role: Cpu.model_validate(content)}
    except UnfitError as error:
        raise SweepError(str(error), error.hint, name, value) from error
    except ValidationError as errors:
        raise _value_error(errors, costs, name, value) from errors
    peer_costs = {peer: cpu for peer, cpu in scenario.cpu.items() if peer != role}
    return scenario.model_copy(update={"cpu": peer_costs | changed}), str(cost)


def _parameter(full: str, name: str, value: object) -> ParameterValue:
    """The canonical value of role.NAME, one of the names that `name` stands for."""
    if full not in dimensions():
        raise SweepError(f"'{full}' is not a parameter of an endpoint", did_you_mean(name, dimensions()), name)
    parameter = PARAMETERS[full.partition(".")[2]]
    try:
        return parameter.canonical(value)
    except ValueError as error:
        sweep_hint = f"several values are a sweep: --vary {name}={value}" if "," in str(value) else ""
        raise SweepError(
            f"{error} (it is {parameter.written})", sweep_hint or getattr(error, "hint", ""), name, value
        ) from error


def _with_flow_property(flows: Sequence[Flow], index: int, prop: str, name: str, value: object) -> tuple[Flow, str]:
    """A flow with one property changed, and the value as it is written in results."""
    if index >= len(flows):
        raise SweepError(f"{name}: there are {len(flows)} flows", f"the last one is flow{len(flows) - 1}", name)
    content: dict[str, Any] = flows[index].model_dump(mode="json", by_alias=True)
    role, _, parameter = prop.partition(".")
    if role in ROLES and parameter in PARAMETERS:
        content["parameters"] = {**content["parameters"], prop: value}
    elif prop in (*ROLES, "access_delay"):
        content[prop] = value
    else:
        properties = [
            "client",
            "server",
            "access_delay",
            *(f"{end}.{option}" for end in ROLES for option in PARAMETERS),
        ]
        raise SweepError(f"'{name}' is not a property of a flow", did_you_mean(prop, properties), name)
    try:
        changed = Flow.model_validate(content)
    except ValidationError as errors:
        raise _value_error(errors, content, name, value) from errors
    return changed, str(changed.parameters[prop] if parameter else getattr(changed, prop))


def _value_error(errors: ValidationError, content: object, name: str, value: object) -> SweepError:
    first = find_mistakes(errors, content, forms=FORMS)[0]
    return SweepError(first.text, first.hint, name, value)


def property_of(name: str) -> str:
    """The property that a name stands for, or the key of one; the text of the name where it has another form."""
    match = _PATH.fullmatch(name)
    return name if match is None else match[3]


def find_place(scenario: Scenario, name: str) -> tuple[str, str, str]:
    """(path, forward or return, property) that a name stands for. Raises SweepError.

    The path is its name in `Scenario.every_path`.
    """
    match = _PATH.fullmatch(name)
    if match is None or not is_property(match[3]):
        start = "paths.NAME" if scenario.paths else "path.NAME" if scenario.in_sequence else "path"
        hint = f"write {start}.DIRECTION.PROPERTY: one of {', '.join(DIRECTIONS)}, then one of {', '.join(PROPERTIES)}"
        if match is not None and "." in match[3]:
            keys = [key for key in NESTED if key.partition(".")[0] == match[3].partition(".")[0]]
            hint = did_you_mean(match[3], keys or NESTED)
        raise SweepError(f"'{name}' is not a property of the path", hint, name)
    path, direction, prop = match[1] or "", match[2], match[3]
    if path not in scenario.every_path or name.startswith("paths.") != bool(scenario.paths):
        if not scenario.paths and not scenario.in_sequence:
            raise SweepError(f"{name}: the scenario has one path", f"write path.{direction}.{prop}", name)
        names, first = list(scenario.every_path), next(iter(scenario.every_path))
        noun, start = ("segment", "path") if scenario.in_sequence else ("path", "paths")
        unknown = path and path not in names
        text = f"there is no {noun} '{path}'" if unknown else f"{name}: the scenario has several {noun}s"
        hint = did_you_mean(path, names) if unknown else f"write {start}.{path or first}.{direction}.{prop}"
        raise SweepError(text, hint, name)
    if direction in ("down", "up"):
        to_client = direction == "down"
        direction = "forward" if to_client == (scenario.every_path[path].terminal == "client") else "return"
    return path, direction, prop


def _with_property(scenario: Scenario, name: str, value: object) -> tuple[Scenario, str]:
    """The scenario with one property of a path changed, and the value as it is written in results."""
    path, direction, prop = find_place(scenario, name)
    content: dict[str, Any] = scenario.every_path[path].model_dump(mode="json", by_alias=True)
    try:
        set_property(content[direction], prop, _mtu(content[direction][prop], value) if prop == "mtu" else value)
        changed = type(scenario.every_path[path]).model_validate(content)
    except UnfitError as error:
        raise SweepError(str(error), error.hint, name, value) from error
    except ValidationError as errors:
        raise _value_error(errors, content, name, value) from errors
    if mistake := find_inexpressible(changed, scenario.horizon):
        raise SweepError(mistake.text, mistake.hint, name, value)
    link = changed.forward if direction == "forward" else changed.return_
    # Queues, loss models and reordering are written as they were given; everything else in its canonical form.
    stored_value = str(value) if prop in ("queue", "loss", "reorder") else property_text(link, prop)
    return scenario.with_paths({**scenario.every_path, path: changed}), stored_value


def _mtu(before: object, value: object) -> object:
    """A new MTU of a direction, told by ICMP or not as the one before it."""
    # The command line passes numbers as strings.
    size = int(value) if isinstance(value, str) and value.isdecimal() else value
    return {**before, "size": size} if isinstance(before, dict) else size


def _with_setting(scenario: Scenario, name: str, value: object) -> tuple[Scenario, str]:
    """The scenario with one setting of its proxies changed, and the value as it is written in results."""
    setting = name.rpartition(".")[2]
    if setting not in SETTINGS:
        hint = did_you_mean(setting, SETTINGS)
        raise SweepError(f"'{name}' is not a setting of a proxy", hint or f"it is one of {', '.join(SETTINGS)}", name)
    if not any(scenario.proxies):
        raise SweepError(f"{name}: the scenario has no proxy", "write one between two segments", name)
    # The command line passes numbers as strings.
    typed_value = int(value) if isinstance(value, str) and value.isdecimal() else value
    text = ""

    def changed(step: Segment | Proxy) -> Segment | Proxy:
        nonlocal text
        if not isinstance(step, Proxy):
            return step
        content = {**step.model_dump(mode="json"), setting: typed_value}
        try:
            proxy = Proxy.model_validate(content)
        except ValidationError as errors:
            raise _value_error(errors, content, name, value) from errors
        text = str(getattr(proxy, setting))
        return proxy

    return scenario.model_copy(update={"path_": tuple(changed(step) for step in scenario.steps)}), text
