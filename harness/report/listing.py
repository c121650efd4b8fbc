"""Lists of scenarios, of implementations with their properties and availability, and of images with their sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from harness.engine.images.build import ImageBuild
from harness.report.layout import SENTENCE_WIDTH, Column, FittedTable, Row
from harness.scenario.parameters import PARAMETERS, Role
from harness.scenario.schema import Implementation, Scenario

#: Heading of the implementations whose manifests do not say `tested`.
UNTESTED = "by manifest alone: never run by those who wrote it"


@dataclass(frozen=True)
class ListedImplementation:
    """One implementation and what this machine has of it."""

    implementation: Implementation
    here: bool
    """Its image is on this machine."""
    absent: str | None
    """Why it is neither here nor can be made here."""

    def settable(self, role: Role) -> list[str]:
        """The parameters that can be set in a role, by the role itself or by asking its peer."""
        settings = {name: self.implementation.setting(role, name) for name in PARAMETERS}
        return [name for name, setting in settings.items() if setting is not None and setting.claimed]

    @property
    def state(self) -> str:
        """Whether it is here, for people."""
        if self.absent:
            return f"not built here: {self.absent}"
        if self.here:
            return "here"
        return f"not built yet (about {self.implementation.build_time})"


def _parameters(entry: ListedImplementation) -> str:
    """Parameters that can be set, by role. Names that both roles share appear once."""
    names_by_role = {role: entry.settable(role) for role in entry.implementation.roles}
    moves = [f"moves {' and '.join(entry.implementation.moves)}"] if entry.implementation.moves else []
    if len(names_by_role) == 2:
        common = [name for name in names_by_role["client"] if name in names_by_role["server"]]
        parts = [("", common)] + [
            (role, [name for name in names if name not in common]) for role, names in names_by_role.items()
        ]
    else:
        parts = [("", names) for names in names_by_role.values()]
    texts = [f"{role}: {', '.join(names)}" if role else ", ".join(names) for role, names in parts if names]
    return "; ".join([*texts, *moves]) or "–"


def show(scenarios: Sequence[Scenario], entries: Sequence[ListedImplementation], console: Console) -> None:
    """Print the scenarios and the implementations. Those that were never run have a table of their own."""
    for scenario in scenarios:
        console.print(f"{scenario.name:32} {scenario.title}", markup=False, soft_wrap=True)
    for title, tested in (("implementations", True), (UNTESTED, False)):
        section = [entry for entry in entries if entry.implementation.tested == tested]
        if section:
            console.print(_table(title, section))


def _table(title: str, entries: Sequence[ListedImplementation]) -> FittedTable:
    texts = ("roles", "protocols", "parameters it can be told", "here?")
    columns = [Column("name", identifies=True), Column("version", text=SENTENCE_WIDTH), Column("licence")]
    columns += [Column(heading, text=SENTENCE_WIDTH) for heading in texts]
    rows = []
    for entry in entries:
        item = entry.implementation
        roles, protocols = ", ".join(item.roles), ", ".join(item.protocols)
        rows.append(Row([item.name, item.version, item.licence, roles, protocols, _parameters(entry), entry.state]))
    return FittedTable(title, columns, rows)


def images_json(images: Mapping[str, ImageBuild]) -> dict[str, Any]:
    """What `images --json` prints."""
    return {
        "schema": 1,
        "images": [
            {
                "name": name,
                "reference": item.reference,
                "bytes": item.size,
                "seconds": round(item.seconds, 1),
                "was_there": item.was_present,
                "error": item.error.message if item.error else None,
            }
            for name, item in images.items()
        ],
    }


def show_images(images: Mapping[str, ImageBuild], absent: Mapping[str, str], console: Console) -> None:
    """Print each image with its size and build time, and the names of those that could not be built."""
    columns = [
        Column("name", identifies=True),
        Column("image"),
        Column("MB", right=True),
        Column("s", right=True),
        Column(""),
    ]
    rows = []
    for name, item in images.items():
        state = "failed" if item.error else "was there" if item.was_present else "built"
        rows.append(Row([name, item.reference, f"{item.size / 1e6:.0f}", f"{item.seconds:.1f}", state]))
    console.print(FittedTable("images", columns, rows))
    for name, why in absent.items():
        console.print(f"{name}: not built here: {why}", markup=False, soft_wrap=True)
