"""Differences in code of two runs of one point: the lab, the images and their contents, the engine. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.engine.images.contents import Contents, comparable, is_counted
from harness.outcome import Cell, Run
from harness.store.identity import Ledger, cell_identities


def differing_components(stored: Cell, today: Cell, ledger: Ledger) -> tuple[str, ...]:
    """The parts of their keys in which two cells of one point differ, in words; empty where the keys are equal."""
    if stored.key == today.key:
        return ()
    sides = [cell_identities(cell, ledger) for cell in (stored, today)]
    labels = {"engine": "the engine's code", "simulator": "the simulator"}
    parts = {labels.get(kind, f"the image of {name}"): (kind, name) for kind, name in {**sides[0], **sides[1]}}
    differing = [label for label, part in parts.items() if sides[0].get(part, "") != sides[1].get(part, "")]
    if stored.compiled != today.compiled:
        differing.insert(0, "the lab it amounts to")
    return tuple(differing) or ("what was asked",)


@dataclass(frozen=True)
class VersionChange:
    """A package or program that two images hold in other versions; an empty version where one lacks it."""

    image: str
    """Names of the image in its runs: client0, sim …, separated by commas."""
    name: str
    versions: tuple[str, str]


def compare_versions(
    first: Run, second: Run, lookups: tuple[Callable[[str], Contents | None], Callable[[str], Contents | None]]
) -> tuple[list[VersionChange], list[str]]:
    """(changed versions of packages and programs in two runs' images, images with other changed or unknown contents).

    `lookups`: digest → contents, for either run. Images without a digest in a run are not compared. Digests by
    different rules differ in any case, so for these only packages and programs are compared.
    """
    pairs: dict[tuple[str, str], list[str]] = {}
    for name in {**first.contents, **second.contents}:
        digests = first.contents.get(name, ""), second.contents.get(name, "")
        if "" not in digests and digests[0] != digests[1]:
            pairs.setdefault(digests, []).append(name)
    version_changes, other_files = list[VersionChange](), list[str]()
    for digests, names in pairs.items():
        image = ", ".join(sorted(names))
        contents = [lookup(digest) for lookup, digest in zip(lookups, digests, strict=True)]
        image_changes = (
            []
            if None in contents
            else _compare_contents(image, *(content for content in contents if content is not None))
        )
        version_changes += image_changes
        if not image_changes and (comparable(*digests) or None in contents):
            other_files.append(image)
    return _merge_changes(version_changes), other_files


def _merge_changes(version_changes: list[VersionChange]) -> list[VersionChange]:
    """The changes, those that are equal in several images once."""
    images: dict[tuple[str, tuple[str, str]], list[str]] = {}
    for change in version_changes:
        images.setdefault((change.name, change.versions), []).append(change.image)
    return [VersionChange(", ".join(names), name, versions) for (name, versions), names in images.items()]


def _compare_contents(image: str, first: Contents, second: Contents) -> list[VersionChange]:
    def comparable_versions(contents: Contents) -> Mapping[str, str]:
        # Records by a former rule list programs that no longer count.
        return contents.packages | {path: digest for path, digest in contents.programs.items() if is_counted(path[1:])}

    sides = comparable_versions(first), comparable_versions(second)
    names = sorted({*sides[0], *sides[1]})
    versions = {name: (sides[0].get(name, ""), sides[1].get(name, "")) for name in names}
    return [VersionChange(image, name, pair) for name, pair in versions.items() if pair[0] != pair[1]]
