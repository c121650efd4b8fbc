"""The page of an implementation: its verdicts, its defaults, and the reasons for its failures. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult, current_scenario
from harness.report.migration import MoveRow, cells_with_moves
from harness.report.migration import rows as moves_of
from harness.report.parameters import Default, defaults, observations
from harness.report.results import SYMBOLS, group_by_scenario
from harness.report.site.overview import listed_elsewhere
from harness.scenario.parameters import ROLES, Role
from harness.scenario.schema import Implementation


@dataclass(frozen=True)
class ScenarioSection:
    """The implementation's cells of one scenario in one role."""

    scenario: str
    title: str
    engine: str
    role: Role
    counts: tuple[tuple[str, int], ...]
    """(verdict, number of cells), without zeros."""
    listed: bool
    """The first page lists cells of it."""
    page: str
    """The page that lists the other cells; empty where there are none."""


@dataclass(frozen=True)
class FailureReason:
    """A reason for a failure of the implementation, and the cells that show it."""

    sentence: str
    results: tuple[CellResult, ...]


@dataclass(frozen=True)
class ImplementationPage:
    """The page."""

    implementation: Implementation
    parts: tuple[ScenarioSection, ...]
    counts: tuple[tuple[str, int], ...]
    defaults: tuple[Default, ...]
    failure_reasons: tuple[FailureReason, ...]
    moves: tuple[MoveRow, ...]


def implementations(results: Sequence[CellResult]) -> dict[str, Implementation]:
    """All implementations in these cells, by name, as in the newest cell."""
    by_name: dict[str, Implementation] = {}
    for result in sorted(results, key=lambda result: result.runs[-1][0].started_at):
        cell = result.cell
        for role in ROLES:
            for index in range(len(cell.scenario.flows)):
                by_name[cell.implementation(role, index).name] = cell.implementation(role, index)
    return dict(sorted(by_name.items()))


def implementation_page(implementation: Implementation, results: Sequence[CellResult]) -> ImplementationPage:
    """The page of an implementation. `results`: all cells of the site."""
    name, elsewhere = implementation.name, listed_elsewhere(results)
    by_role = {role: [result for result in results if _has_role(result, role, name)] for role in ROLES}
    parts = [
        ScenarioSection(
            cells[0].cell.scenario.name,
            current_scenario(cells).title,
            cells[0].cell.engine,
            role,
            _counts(cells),
            any(result.cell.key not in elsewhere for result in cells),
            next((elsewhere[result.cell.key] for result in cells if result.cell.key in elsewhere), ""),
        )
        for role in ROLES
        for cells in group_by_scenario(by_role[role])
    ]
    both_roles = list({result.cell.key: result for role in ROLES for result in by_role[role]}.values())
    reasons: dict[str, list[CellResult]] = {}
    for result in both_roles:
        status, reason = result.verdict.status, result.verdict.reason
        role = reason.rpartition("_")[2]
        culprit = result.cell.client.name if role == "client" else result.cell.server.name if role == "server" else ""
        if status in ("error", "unsupported", "inconclusive") and culprit == name:
            reasons.setdefault(result.verdict.sentence, []).append(result)
    own_defaults = defaults([implementation], observations(both_roles)) if implementation.parameters else []
    return ImplementationPage(
        implementation,
        tuple(sorted(parts, key=lambda part: (part.scenario, part.engine, part.role))),
        _counts(both_roles),
        tuple(default for default in own_defaults if default.stated is not None or default.observed is not None),
        tuple(FailureReason(sentence, tuple(alike)) for sentence, alike in reasons.items()),
        tuple(row for row in moves_of(cells_with_moves(by_role["server"])) if row.server == name and row.seen),
    )


def _has_role(result: CellResult, role: Role, name: str) -> bool:
    cell = result.cell
    return any(cell.implementation(role, index).name == name for index in range(len(cell.scenario.flows)))


def _counts(results: Sequence[CellResult]) -> tuple[tuple[str, int], ...]:
    counts: Counter[str] = Counter(result.verdict.status for result in results)
    return tuple((status, counts[status]) for status in SYMBOLS if counts[status])
