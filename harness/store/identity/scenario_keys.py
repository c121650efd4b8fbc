"""Which keys of the scenario format a cell uses: by these the scope of an equivalence is given. Pure."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

from harness.outcome import Cell
from harness.planning.sweep import dimensions, is_name
from harness.scenario.schema import Part, Scenario

#: Keys that change no run: words for people, what runs are judged by, and which cells there are.
_BESIDE = frozenset(
    {
        "schema", "name", "title", "description", "references", "objectives", "milestones", "repetitions", "clients",
        "servers", "vary", "combine", "study",
    }
)  # fmt: skip
#: Keys whose own keys are names: of paths, or of parameters.
_NAMES = frozenset({"paths"})
_PARAMETERS = frozenset({"parameters", "draw", "checks"})


def scenario_keys(cell: Cell) -> frozenset[str]:
    """The keys that a cell's scenario sets to something else than their defaults, at any depth.

    Beside them stand the words that a key chooses from (`red`, `udp`, `nat-address`) and the names of the parameters
    that are asked for (`server.congestion_control`).
    """
    return frozenset({*_keys(cell.scenario), *cell.parameters})


def _keys(part: Part) -> Iterator[str]:
    for name, item in type(part).model_fields.items():
        key, value = item.alias or name, getattr(part, name)
        if key in _BESIDE or (not item.is_required() and value == item.get_default(call_default_factory=True)):
            continue
        if key in _PARAMETERS:
            yield from value
            if key != "parameters":
                yield key
            continue
        yield key
        if isinstance(value, str) and value in _words(item.annotation):
            yield value
        yield from _inside(value.values() if key in _NAMES else value)


def _inside(value: Any) -> Iterator[str]:
    """The keys of the parts that a value is, or consists of."""
    if isinstance(value, Part):
        yield from _keys(value)
    elif isinstance(value, Mapping):
        yield from (key for item in value.values() for key in _inside(item))
    elif not isinstance(value, str | bytes) and hasattr(value, "__iter__"):
        yield from (key for item in value for key in _inside(item))


def _words(hint: Any) -> set[str]:
    """The words that a type chooses from."""
    if get_origin(hint) is Literal:
        return {word for word in get_args(hint) if isinstance(word, str)}
    return {word for inner in get_args(hint) for word in _words(inner)}


@functools.cache
def known_keys() -> frozenset[str]:
    """Every key that `scenario_keys` can give, but for the names of checks."""
    return frozenset({*_every_key(Scenario, set()), *dimensions()})


def is_key(key: str) -> bool:
    """Whether a scenario can use a key of that name."""
    return key in known_keys() or is_name(key)


def _every_key(part: type[Part], seen: set[type[Part]]) -> Iterator[str]:
    seen.add(part)
    for name, item in part.model_fields.items():
        key = item.alias or name
        if key in _BESIDE:
            continue
        yield key
        yield from _words(item.annotation)
        for inner in _parts(item.annotation):
            if inner not in seen:
                yield from _every_key(inner, seen)


def _parts(hint: Any) -> Iterator[type[Part]]:
    if isinstance(hint, type) and issubclass(hint, Part):
        yield hint
    for inner in get_args(hint):
        yield from _parts(inner)
