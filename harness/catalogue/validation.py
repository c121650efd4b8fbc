"""Checks all files of a checkout, each alone and against the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from harness.catalogue import MANIFEST, Catalogue, read_yaml
from harness.errors import HarnessError, InputError


def validate(catalogue: Catalogue, files: Sequence[Path]) -> list[HarnessError]:
    """Load every scenario and image file, or only `files` and the files below folders; returns the errors.

    InputError for a folder without YAML files.
    """
    problems: list[HarnessError] = []
    messages: set[str] = set()

    def attempt(read: Callable[[], object]) -> None:
        try:
            read()
        except InputError as error:
            # A mistake in a manifest makes every scenario unreadable; it is reported once.
            if error.message not in messages:
                messages.add(error.message)
                problems.append(error)

    if files:
        for file in yaml_files(files):
            attempt(lambda file=file: _load_any(catalogue, file))  # type: ignore[misc]
        return problems
    for file in catalogue.scenario_files():
        attempt(lambda file=file: catalogue.scenario(file))  # type: ignore[misc]
    for file in catalogue.implementation_files():
        attempt(lambda file=file: _load_any(catalogue, file))  # type: ignore[misc]
    attempt(catalogue.require_own_names)
    if not problems:
        attempt(catalogue.implementations)
        problems += _duplicate_colours(catalogue)
    return problems


def yaml_files(places: Sequence[Path]) -> list[Path]:
    """The given files, and all YAML files below the given folders. InputError for a folder without any."""
    paths: list[Path] = []
    for path in places:
        below = sorted(path.rglob("*.yaml")) if path.is_dir() else [path]
        if not below:
            raise InputError(f"{path}: no YAML file is below this folder", "name files, or a folder that has some")
        paths += below
    return list(dict.fromkeys(paths))


def _duplicate_colours(catalogue: Catalogue) -> list[HarnessError]:
    """Manifests with the colour of another one, which a plot could not distinguish."""
    owners: dict[str, str] = {}
    problems: list[HarnessError] = []
    for file in catalogue.implementation_files():
        implementation = catalogue.manifest(file)
        owner = owners.setdefault(implementation.colour.lower(), implementation.name)
        if owner != implementation.name:
            place = read_yaml(file)[1].find(("colour",))[0]
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
