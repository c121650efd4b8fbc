"""In which bits two runs of one point differ: the lab, the images and what was in them, the engine. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.engines.contents import Contents
from harness.outcome import Cell, Run


def other_bits(stored: Cell, today: Cell) -> tuple[str, ...]:
    """In which parts of their keys two cells of one point differ, in words; empty where the keys are equal."""
    if stored.key == today.key:
        return ()
    parts = {
        "the lab it amounts to": (stored.compiled, today.compiled),
        "the engine's code": (stored.engine_code, today.engine_code),
        "the simulator": (stored.sim_image.identity, today.sim_image.identity),
        **{f"the image of {name}": identities for name, identities in _images(stored, today).items()},
    }
    found = tuple(what for what, (one, other) in parts.items() if one != other)
    return found or ("what was asked",)


def _images(stored: Cell, today: Cell) -> dict[str, tuple[str, str]]:
    both = [
        {
            cell.client.name: cell.client_image.identity,
            cell.server.name: cell.server_image.identity,
            **{name: one.image.identity for name, one in cell.others.items()},
        }
        for cell in (stored, today)
    ]
    return {name: (both[0].get(name, ""), both[1].get(name, "")) for name in {**both[0], **both[1]}}


@dataclass(frozen=True)
class Change:
    """A package or program that two images hold in other versions; an empty version where one lacks it."""

    image: str
    """Names of the image in its runs: client0, sim …, separated by commas."""
    name: str
    versions: tuple[str, str]


def changes(
    one: Run, other: Run, known: tuple[Callable[[str], Contents | None], Callable[[str], Contents | None]]
) -> tuple[list[Change], list[str]]:
    """(what two runs' images hold in other versions, images that differ in files beside these or are not known).

    `known`: digest → contents, for either run. Images of which a run has no digest are not compared.
    """
    pairs: dict[tuple[str, str], list[str]] = {}
    for name in {**one.contents, **other.contents}:
        digests = one.contents.get(name, ""), other.contents.get(name, "")
        if "" not in digests and digests[0] != digests[1]:
            pairs.setdefault(digests, []).append(name)
    found, beside = list[Change](), list[str]()
    for digests, names in pairs.items():
        image = ", ".join(sorted(names))
        contents = [look(digest) for look, digest in zip(known, digests, strict=True)]
        made = [] if None in contents else _between(image, *(one for one in contents if one is not None))
        found += made
        if not made:
            beside.append(image)
    return _joined(found), beside


def _joined(found: list[Change]) -> list[Change]:
    """What changed alike in several images, once."""
    images: dict[tuple[str, tuple[str, str]], list[str]] = {}
    for one in found:
        images.setdefault((one.name, one.versions), []).append(one.image)
    return [Change(", ".join(names), name, versions) for (name, versions), names in images.items()]


def _between(image: str, one: Contents, other: Contents) -> list[Change]:
    def every(contents: Contents) -> Mapping[str, str]:
        return contents.packages | contents.programs

    sides = every(one), every(other)
    names = sorted({*sides[0], *sides[1]})
    versions = {name: (sides[0].get(name, ""), sides[1].get(name, "")) for name in names}
    return [Change(image, name, pair) for name, pair in versions.items() if pair[0] != pair[1]]
