"""The catalogue: scenarios, and implementations with their properties and whether they are here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.catalogue.catalogue import ListedScenario
from harness.report.document import SENTENCE_WIDTH, Column, Document, Paragraph, Row, Table
from harness.scenario.parameters import PARAMETERS, Role
from harness.scenario.schema import Implementation, Release

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


def catalogue_document(scenarios: Sequence[ListedScenario], entries: Sequence[ListedImplementation]) -> Document:
    """The scenarios and the implementations. Those that were never run have a table of their own."""
    data = {
        "schema": 1,
        "scenarios": [{"name": item.name, "title": item.title, "repetitions": item.repetitions} for item in scenarios],
        "implementations": [_data(entry) for entry in entries],
    }
    tables = [
        _table(title, section)
        for title, tested in (("implementations", True), (UNTESTED, False))
        if (section := [entry for entry in entries if entry.implementation.tested == tested])
    ]
    return Document(data, [*(Paragraph(f"{item.name:32} {item.title}") for item in scenarios), *tables])


def _data(entry: ListedImplementation) -> dict[str, Any]:
    item = entry.implementation
    return {
        "name": item.name,
        "title": item.title,
        "version": item.version,
        "licence": item.licence,
        "tested": item.tested,
        "roles": list(item.roles),
        "protocols": list(item.protocols),
        "source": item.image or "built here",
        "parameters": {role: entry.settable(role) for role in item.roles},
        "here": entry.here,
        "absent": entry.absent,
    }


def _table(title: str, entries: Sequence[ListedImplementation]) -> Table:
    texts = ("roles", "protocols", "parameters it can be told", "here?")
    columns = [Column("name", identifies=True), Column("version", text=SENTENCE_WIDTH), Column("licence")]
    columns += [Column(heading, text=SENTENCE_WIDTH) for heading in texts]
    rows = []
    for entry in entries:
        item = entry.implementation
        roles, protocols = ", ".join(item.roles), ", ".join(item.protocols)
        rows.append(Row([item.name, item.version, item.licence, roles, protocols, _parameters(entry), entry.state]))
    return Table(columns, rows, title)


# --- Releases of one implementation.


@dataclass(frozen=True)
class ListedRelease:
    """One release of an implementation, and what this machine has of it."""

    release: Release
    current: bool
    """It is the one that the implementation's name alone means."""
    here: bool
    """Its image is on this machine."""
    absent: str | None
    """Why it cannot be had; None where it can."""

    @property
    def state(self) -> str:
        """Whether it is here, for people."""
        return self.absent or ("here" if self.here else "not built yet") + (", the current one" if self.current else "")


def releases_document(implementation: Implementation, entries: Sequence[ListedRelease]) -> Document:
    """The releases of an implementation that its registry has, newest first, with their dates."""
    newest_first = list(reversed(entries))
    data = {
        "schema": 1,
        "name": implementation.name,
        "releases": [
            {
                "name": f"{implementation.name}@{entry.release.version}",
                "version": str(entry.release.version),
                "date": entry.release.date.isoformat(),
                "yanked": entry.release.yanked,
                "current": entry.current,
                "here": entry.here,
                "absent": entry.absent,
            }
            for entry in newest_first
        ],
    }
    columns = [Column("name", identifies=True), Column("published"), Column("here?", text=SENTENCE_WIDTH)]
    rows = [
        Row([f"{implementation.name}@{entry.release.version}", entry.release.date.isoformat(), entry.state])
        for entry in newest_first
    ]
    return Document(data, [Table(columns, rows, f"releases of {_released(implementation)}")])


def _released(implementation: Implementation) -> str:
    """What the numbers are of: an implementation, or the package of it whose numbers are others."""
    title = implementation.title or implementation.name
    versions = implementation.versions
    if versions is None or versions.current is None:
        return title
    return f"{versions.package}, which {title} {implementation.version} has in version {versions.current}"
