"""In which bits two runs of one point differ: the lab, the images and what was in them, the engine. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.engine.images.contents import Contents, comparable, counts
from harness.outcome import Cell, Run
from harness.store.identity import Ledger, cell_identities


def other_bits(stored: Cell, today: Cell, ledger: Ledger) -> tuple[str, ...]:
    """In which parts of their keys two cells of one point differ, in words; empty where the keys are equal."""
    if stored.key == today.key:
        return ()
    sides = [cell_identities(cell, ledger) for cell in (stored, today)]
    words = {"engine": "the engine's code", "simulator": "the simulator"}
    parts = {words.get(kind, f"the image of {name}"): (kind, name) for kind, name in {**sides[0], **sides[1]}}
    differing = [what for what, part in parts.items() if sides[0].get(part, "") != sides[1].get(part, "")]
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


def changes(
    one: Run, other: Run, known: tuple[Callable[[str], Contents | None], Callable[[str], Contents | None]]
) -> tuple[list[VersionChange], list[str]]:
    """(what two runs' images hold in other versions, images that differ in files beside these or are not known).

    `known`: digest → contents, for either run. Images of which a run has no digest are not compared. Of digests by
    different rules only packages and programs are: that the digests differ says nothing.
    """
    pairs: dict[tuple[str, str], list[str]] = {}
    for name in {**one.contents, **other.contents}:
        digests = one.contents.get(name, ""), other.contents.get(name, "")
        if "" not in digests and digests[0] != digests[1]:
            pairs.setdefault(digests, []).append(name)
    found, beside = list[VersionChange](), list[str]()
    for digests, names in pairs.items():
        image = ", ".join(sorted(names))
        contents = [look(digest) for look, digest in zip(known, digests, strict=True)]
        made = [] if None in contents else _between(image, *(one for one in contents if one is not None))
        found += made
        if not made and (comparable(*digests) or None in contents):
            beside.append(image)
    return _joined(found), beside


def _joined(found: list[VersionChange]) -> list[VersionChange]:
    """What changed alike in several images, once."""
    images: dict[tuple[str, tuple[str, str]], list[str]] = {}
    for one in found:
        images.setdefault((one.name, one.versions), []).append(one.image)
    return [VersionChange(", ".join(names), name, versions) for (name, versions), names in images.items()]


def _between(image: str, one: Contents, other: Contents) -> list[VersionChange]:
    def every(contents: Contents) -> Mapping[str, str]:
        # Records by a former rule have programs that no longer count.
        return contents.packages | {path: digest for path, digest in contents.programs.items() if counts(path[1:])}

    sides = every(one), every(other)
    names = sorted({*sides[0], *sides[1]})
    versions = {name: (sides[0].get(name, ""), sides[1].get(name, "")) for name in names}
    return [VersionChange(image, name, pair) for name, pair in versions.items() if pair[0] != pair[1]]
