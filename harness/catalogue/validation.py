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
    messages: set[str] = set()

    def attempt(read: Callable[[], object]) -> None:
        try:
            read()
        except InputError as error:
            # What is wrong with a manifest keeps every scenario from being read, and is said once.
            if error.message not in messages:
                messages.add(error.message)
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
    paths: list[Path] = []
    for path in places:
        below = sorted(path.rglob("*.yaml")) if path.is_dir() else [path]
        if not below:
            raise InputError(f"{path}: no YAML file is below this folder", "name files, or a folder that has some")
        paths += below
    return list(dict.fromkeys(paths))


def _like_coloured(catalogue: Catalogue) -> list[HarnessError]:
    """Manifests whose colour another has too: in a plot nobody could tell them apart."""
    owners: dict[str, str] = {}
    problems: list[HarnessError] = []
    for file in catalogue.implementation_files():
        implementation, positions = catalogue.manifest(file)
        owner = owners.setdefault(implementation.colour.lower(), implementation.name)
        if owner != implementation.name:
            place = positions.find(("colour",))[0]
            problems.append(
                InputError(
                    f"{place}: colour {implementation.colour} is that of {owner}", "choose one that no image has"
                )
            )
    return problems


def _load_any(catalogue: Catalogue, file: Path) -> object:
    if file.name == MANIFEST:
        return catalogue.manifest(file)
    return catalogue.scenario(file)
