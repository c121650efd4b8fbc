"""Checks all files of a checkout, one by one and against each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from harness.catalogue import MANIFEST, Catalogue
from harness.errors import HarnessError, InputError


def validate(catalogue: Catalogue, files: Sequence[Path]) -> list[HarnessError]:
    """Load every scenario and image file (or just `files`, and what is below folders); the errors found.

    InputError for a folder without any.
    """
    problems: list[HarnessError] = []
    said: set[str] = set()

    def attempt(read: Callable[[], object]) -> None:
        try:
            read()
        except InputError as error:
            # What is wrong with a manifest keeps every scenario from being read, and is said once.
            if error.message not in said:
                said.add(error.message)
                problems.append(error)

    if files:
        for file in files_of(files):
            attempt(lambda file=file: _load_any(catalogue, file))  # type: ignore[misc]
        return problems
    for file in catalogue.scenario_files():
        attempt(lambda file=file: catalogue.scenario(file))  # type: ignore[misc]
    for file in catalogue.implementation_files():
        attempt(lambda file=file: _load_any(catalogue, file))  # type: ignore[misc]
    if not problems:
        attempt(catalogue.implementations)
        problems += _like_coloured(catalogue)
    return problems


def files_of(places: Sequence[Path]) -> list[Path]:
    """The files that are named, and all YAML files below the folders that are. InputError for one without any."""
    found: list[Path] = []
    for place in places:
        below = sorted(place.rglob("*.yaml")) if place.is_dir() else [place]
        if not below:
            raise InputError(f"{place}: no YAML file is below this folder", "name files, or a folder that has some")
        found += below
    return list(dict.fromkeys(found))


def _like_coloured(catalogue: Catalogue) -> list[HarnessError]:
    """Manifests whose colour another has too: in a plot nobody could tell them apart."""
    owners: dict[str, str] = {}
    problems: list[HarnessError] = []
    for file in catalogue.implementation_files():
        one, positions = catalogue.manifest(file)
        other = owners.setdefault(one.colour.lower(), one.name)
        if other != one.name:
            place = positions.find(("colour",))[0]
            problems.append(
                InputError(f"{place}: colour {one.colour} is that of {other}", "choose one that no image has")
            )
    return problems


def _load_any(catalogue: Catalogue, file: Path) -> object:
    if file.name == MANIFEST:
        return catalogue.manifest(file)
    return catalogue.scenario(file)
