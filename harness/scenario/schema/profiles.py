"""Profiles of links: paths as people have them, by name. Each is a file below profiles/, with its sources."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

import yaml

ProfileName = Literal["leo", "geo", "5g", "lte", "wifi", "docsis"]
PROFILES: tuple[ProfileName, ...] = get_args(ProfileName)
_DIRECTIONS = ("forward", "return")


@cache
def _file(name: ProfileName) -> dict[str, Any]:
    text = files("harness.scenario.schema").joinpath("profiles", f"{name}.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.safe_load(text)
    return content


def profile_title(name: ProfileName) -> str:
    """A profile in a line."""
    return str(_file(name)["title"])


def profile_references(name: ProfileName) -> tuple[str, ...]:
    """Where the figures of a profile come from."""
    return tuple(_file(name)["references"])


def with_profile(content: Mapping[str, Any], name: ProfileName) -> dict[str, Any]:
    """A path's keys with those of a profile beside them; those that the path has itself come first.

    A value that the path gives a direction holds from beginning to end: the profile's changes leave it alone.
    """
    own = {key: value for key, value in content.items() if key != "profile"}
    path = dict(_file(name)["path"])
    if "changes" not in own and "changes" in path:
        path["changes"] = [item for change in path["changes"] if (item := _without(change, own))]
    merged = path | own
    for direction in _DIRECTIONS:
        if isinstance(own.get(direction), Mapping):
            merged[direction] = path[direction] | own[direction]
    return merged


def _without(change: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A change without the values that a path gives itself; empty where nothing is left."""
    kept: dict[str, Any] = {}
    for direction in _DIRECTIONS:
        given = own.get(direction)
        names = set(given) if isinstance(given, Mapping) else set()
        if values := {name: value for name, value in change.get(direction, {}).items() if name not in names}:
            kept[direction] = values
    times = {name: value for name, value in change.items() if name not in _DIRECTIONS}
    return {**times, **kept} if kept else {}
