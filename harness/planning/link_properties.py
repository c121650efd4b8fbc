"""Keys of the parts of a link that can be varied and drawn: `queue.target`, `reorder.share`. Pure."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from harness.errors import UnfitError, did_you_mean
from harness.scenario.schema import DISCIPLINES, GilbertElliott, Jitter, Link, Part, Reorder
from harness.units import Duration, Percentage, Quantity, Rate, Size

#: Property of a link → the models whose keys can be varied.
_PARTS: Mapping[str, tuple[type[Part], ...]] = {
    "jitter": (Jitter,),
    "reorder": (Reorder,),
    "loss": (GilbertElliott,),
    "queue": tuple(DISCIPLINES.values()),
}
#: How a switch is written: a scenario's sweep has 'on' and 'off' where YAML has truth values.
_SWITCH = {"true": True, "on": True, "false": False, "off": False}
_QUANTITIES: tuple[type[Quantity], ...] = (Rate, Duration, Size, Percentage)


def _annotations() -> Iterator[tuple[str, Any]]:
    for prop, parts in _PARTS.items():
        for part in parts:
            # Which discipline a queue has decides about its other keys: that is varied as the queue itself.
            yield from ((f"{prop}.{key}", part.model_fields[key].annotation) for key in part.model_fields)


#: PROPERTY.KEY → what it takes.
_NESTED: Mapping[str, Any] = {name: kind for name, kind in _annotations() if name != "queue.discipline"}
#: The keys of parts that can be varied, as PROPERTY.KEY.
NESTED: tuple[str, ...] = tuple(_NESTED)
#: Those that can be drawn → their quantity.
NESTED_QUANTITIES: Mapping[str, type[Quantity]] = {
    name: quantity
    for name, annotation in _NESTED.items()
    for quantity in _QUANTITIES
    if quantity in (annotation, *get_args(annotation))
}


def set_property(link: dict[str, Any], prop: str, value: object) -> None:
    """Set a property, or a key of one, in a link's plain data. UnfitError for a key that the link's part lacks."""
    name, _, key = prop.partition(".")
    if not key:
        link[name] = value
        return
    part = link[name]
    if not isinstance(part, dict):
        written = "none" if part is None else f"'{part}'"
        raise UnfitError(f"its {name} is {written}, which has no {key}", f"write {name} with its keys")
    if key not in part:
        whose = f"a {part['discipline']} queue" if "discipline" in part else f"such a {name}"
        raise UnfitError(f"{whose} has no {key}", did_you_mean(key, part))
    link[name] = {**part, key: _plain(value)}


def property_text(link: Link, prop: str) -> str:
    """The canonical value of a property, or of a key of one."""
    name, _, key = prop.partition(".")
    value = getattr(link, name)
    return str(getattr(value, key) if key else value)


def _plain(value: object) -> object:
    """A number or switch that stands as a text, as those of the command line do. Quantities have units, and stay."""
    if isinstance(value, str):
        if value in _SWITCH:
            return _SWITCH[value]
        with contextlib.suppress(ValueError):
            return int(value)
        with contextlib.suppress(ValueError):
            return float(value)
    return value
