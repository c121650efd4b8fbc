"""Sweeps: one scenario and the values to vary → the points of the sweep. Pure.

A dimension is a parameter of an endpoint, in one role (`client.initial_rtt`) or in both (`initial_rtt`), or a
property of the path (`path.forward.rate`, `path.down.loss`). `forward` leads to the terminal and `return` away
from it; `down` leads to the client and `up` to the server, wherever the terminal is. With several flows it may also
be one flow's own: who plays it (`flow1.server`), a parameter (`flow1.server.congestion_control`) or its access delay
(`flow1.access_delay`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from harness.errors import InputError, did_you_mean
from harness.model import Flow, Path, Scenario
from harness.parameters import PARAMETERS, ROLES, ParameterValue, canonical_value
from harness.path import inexpressible

Combine = Literal["product", "zip"]
DIRECTIONS = ("forward", "return", "down", "up")
PROPERTIES = ("rate", "delay", "jitter", "loss", "queue", "burst")
_FLOW = re.compile(r"flow(\d+)\.(.+)")


@dataclass(frozen=True)
class Point:
    """One point of a sweep."""

    scenario: Scenario
    """With the path of this point, and nothing left to vary."""
    parameters: Mapping[str, ParameterValue]
    """Everything that was asked for: role.NAME and path.DIRECTION.PROPERTY → value."""


def dimensions() -> list[str]:
    """Every name that can be varied."""
    return [
        *(f"{role}.{name}" for role in ROLES for name in PARAMETERS),
        *PARAMETERS,
        *(f"path.{direction}.{name}" for direction in DIRECTIONS for name in PROPERTIES),
    ]


def is_name(name: str) -> bool:
    """Whether a name can be varied in some scenario: a dimension, or what one flow has (flow0.server).

    Whether a scenario has such a flow, and a flow such a value, is for `points` to say.
    """
    return _FLOW.fullmatch(name) is not None or name in dimensions()


def points(
    scenario: Scenario,
    fixed: Mapping[str, object],
    vary: Mapping[str, Sequence[object]],
    combine: Combine | None = None,
) -> list[Point]:
    """The points of a scenario's own sweep, of `vary`, and of what is `fixed` in all of them.

    What is given here replaces what the scenario says under the same name. Raises InputError.
    """
    asked = {**{name: list(values) for name, values in scenario.vary.items() if name not in fixed}, **vary}
    for name in vary:
        if name in fixed:
            raise InputError(f"{name} is both set and varied", "leave one of the two out")
    combine = combine or scenario.combine
    rows = _rows(scenario.name, asked, combine)
    bare = scenario.model_copy(update={"vary": {}, "combine": "product"})
    return [_point(bare, {**fixed, **row}) for row in rows]


def _rows(name: str, asked: Mapping[str, Sequence[object]], combine: Combine) -> list[dict[str, object]]:
    for dimension, values in asked.items():
        if not values:
            raise InputError(f"{name}: nothing to vary {dimension} over", "give its values, separated by commas")
    if combine == "product":
        return [dict(zip(asked, chosen, strict=True)) for chosen in itertools.product(*asked.values())]
    if len({len(values) for values in asked.values()}) > 1:
        counts = ", ".join(f"{dimension} has {len(values)}" for dimension, values in asked.items())
        raise InputError(f"{name}: values can be paired only where each has as many: {counts}", "leave out zip")
    return [dict(zip(asked, chosen, strict=True)) for chosen in zip(*asked.values(), strict=True)] or [{}]


def _point(scenario: Scenario, row: Mapping[str, object]) -> Point:
    parameters: dict[str, ParameterValue] = dict(scenario.parameters)
    path, flows = scenario.path, list(scenario.flows)
    for name, value in row.items():
        if name.startswith("path."):
            path, text = _changed(path, name, value)
            parameters[name] = text
            continue
        if match := _FLOW.fullmatch(name):
            index = int(match[1])
            flows[index], parameters[name] = _flow(flows, index, match[2], name, value)
            continue
        for full in [f"{role}.{name}" for role in ROLES] if name in PARAMETERS else [name]:
            try:
                parameters[full] = canonical_value(full, value)
            except ValueError as error:
                hint = did_you_mean(name, dimensions()) if "not a parameter" in str(error) else ""
                if "," in str(value):
                    hint = f"several values are a sweep: --vary {name}={value}"
                raise InputError(str(error), hint) from error
    return Point(scenario.model_copy(update={"path": path, "flows": tuple(flows)}), parameters)


def _flow(flows: Sequence[Flow], index: int, prop: str, name: str, value: object) -> tuple[Flow, str]:
    """A flow with one property changed, and the value as it is written in results."""
    if index >= len(flows):
        raise InputError(f"{name}: there are {len(flows)} flows", f"the last one is flow{len(flows) - 1}")
    content: dict[str, Any] = flows[index].model_dump(mode="json", by_alias=True)
    role, _, parameter = prop.partition(".")
    if role in ROLES and parameter in PARAMETERS:
        content["parameters"] = {**content["parameters"], prop: value}
    elif prop in (*ROLES, "access_delay"):
        content[prop] = value
    else:
        known = ["client", "server", "access_delay", *(f"{one}.{other}" for one in ROLES for other in PARAMETERS)]
        raise InputError(f"'{name}' is not a property of a flow", did_you_mean(prop, known))
    try:
        changed = Flow.model_validate(content)
    except ValidationError as errors:
        said = str(errors.errors(include_url=False)[0]["msg"]).removeprefix("Value error, ")
        raise InputError(f"{name} = {value}: {said}") from errors
    return changed, str(changed.parameters[prop] if parameter else getattr(changed, prop))


def _changed(path: Path, name: str, value: object) -> tuple[Path, str]:
    """The path with one property of one direction changed, and the value as it is written in results."""
    _, direction, prop = (*name.split("."), "", "")[:3]
    if name.count(".") != 2 or direction not in DIRECTIONS or prop not in PROPERTIES:
        raise InputError(
            f"'{name}' is not a property of the path",
            f"write path.DIRECTION.PROPERTY: one of {', '.join(DIRECTIONS)}, then one of {', '.join(PROPERTIES)}",
        )
    key = direction
    if direction in ("down", "up"):
        key = "forward" if (direction == "down") == (path.terminal == "client") else "return"
    content: dict[str, Any] = path.model_dump(mode="json", by_alias=True)
    content[key][prop] = value
    try:
        changed = Path.model_validate(content)
    except ValidationError as errors:
        first = errors.errors(include_url=False)[0]
        said = str(first["msg"]).removeprefix("Value error, ")
        raise InputError(f"{name} = {value}: {said}") from errors
    if why := inexpressible(changed):
        raise InputError(f"{name} = {value}: {why}")
    link = changed.forward if key == "forward" else changed.return_
    text = getattr(link, prop)
    # Queues and loss models are written as they were given; everything else in its canonical form.
    return changed, str(text) if prop in ("rate", "delay", "jitter", "burst") else str(value)
