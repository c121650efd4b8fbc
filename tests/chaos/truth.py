"""What runs are that nobody disturbs: the measure of all others.

In virtual time two of them are made. Whatever these two agree on, every file and every figure of them, a run that was
disturbed, or made after a fault, has to agree on, too; no list of fields says what that is.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.outcome import EngineName
from tests.chaos.stage import REPETITIONS, Stage, digests

#: Files of a run that hold figures of their own, which are compared one by one.
DOCUMENTS = ("run.json", "measured.json")


#: What a run says of the machine, of its clock, and of what was repaired for it. Two runs may agree on it by chance.
MACHINE = (
    "run.json.warnings",
    "run.json.host.", "run.json.started_at", "run.json.wall", "run.json.phases.", "measured.json.link.idle",
    "measured.json.link.steal",
)  # fmt: skip


def leaves(content: object, place: str = "") -> Iterator[tuple[str, object]]:
    """Each single value of a JSON document, by where it is."""
    if isinstance(content, dict):
        for name, value in content.items():
            yield from leaves(value, f"{place}.{name}")
    elif isinstance(content, list):
        yield f"{place}.length", len(content)
        for index, value in enumerate(content):
            yield from leaves(value, f"{place}[{index}]")
    else:
        yield place, content


def picture(folder: Path) -> dict[str, object]:
    """All that a run's folder says: values of its documents, digests of its other files.

    A document that can be read has no digest: it holds what the machine was doing, on which two runs may agree.
    """
    contents: dict[str, object] = {}
    for name, digest in digests(folder).items():
        contents[name] = digest
        if name in DOCUMENTS:
            with suppress(ValueError):
                contents |= dict(leaves(json.loads((folder / name).read_bytes()), name)) | {name: "read"}
    return contents


def agreed(first_run: Mapping[str, object], second_run: Mapping[str, object]) -> dict[str, object]:
    """What two pictures have in common."""
    return {
        name: value
        for name, value in first_run.items()
        if name in second_run and second_run[name] == value and not name.startswith(MACHINE)
    }


@dataclass(frozen=True)
class Truth:
    """What an engine makes of the cell, undisturbed."""

    engine: EngineName
    cells: tuple[dict[str, Any], ...]
    """As `run --json` prints them."""
    expected_runs: Mapping[int, Mapping[str, object]]
    """Repetition → what its run must show; nothing in real time, where no two runs are the same."""
    shapes: frozenset[str]
    """What a store and a cache hold then."""
    seed_store: Path
    """A store with the first repetition in it, and no other."""
    lifetimes: Mapping[str, float]
    """How long what faults are meant for lives; seconds."""

    def differences(self, folder: Path, repetition: int, damaged: frozenset[str] = frozenset()) -> list[str]:
        """What is other in a stored run than it must be. `damaged`: names of its files that a fault has changed."""
        wanted = self.expected_runs.get(repetition, {})
        contents = picture(folder) if wanted else {}
        return [
            f"{name}: {contents.get(name, 'missing')} instead of {value}"
            for name, value in wanted.items()
            if contents.get(name) != value
            and not any(name == prefix or name.startswith(f"{prefix}.") for prefix in damaged)
        ]


def verdict_of(cell: Mapping[str, Any]) -> tuple[object, ...]:
    """What a cell's answer comes to."""
    return cell["verdict"], cell["reason"]


def keep_first(store: Path, target: Path) -> Path:
    """A copy of a store with the first repetition of each cell only."""
    shutil.copytree(store, target, symlinks=True)
    for folder in target.glob("runs/*/*"):
        if folder.name != "0":
            shutil.rmtree(folder)
    return target


def complete(cells: tuple[dict[str, Any], ...] | list[dict[str, Any]], engine: EngineName) -> bool:
    """Whether every repetition of every cell was completed."""
    return bool(cells) and all(cell["outcomes"] == {"completed": REPETITIONS[engine]} for cell in cells)


def truth_of(
    stages: tuple[Stage, Stage | None], cells: tuple[dict[str, Any], ...], lives: Mapping[str, float], place: Path
) -> Truth:
    """The truth that an undisturbed command, or two of them, have left on their stages. `place`: for the seed store."""
    first, again = stages
    pictures = {}
    if again is not None:
        for folder in first.run_folders():
            path = again.store / folder.relative_to(first.store)
            pictures[int(folder.name)] = agreed(picture(folder), picture(path))
    shapes = first.shapes() | (again.shapes() if again is not None else set())
    return Truth(first.engine, cells, pictures, frozenset(shapes), keep_first(first.store, place), lives)
