"""What is stored of a scenario."""

from __future__ import annotations

from collections.abc import Iterable

from harness.reports import CellResult
from harness.reports.parameters import sort_key


def stored_of(results: Iterable[CellResult], scenario: str) -> list[CellResult]:
    """The cells of a scenario that have figures, by server and what was asked of them."""
    found = [result for result in results if result.cell.scenario.name == scenario and result.measurements]
    return sorted(found, key=lambda result: (result.cell.server.name, sort_key(result.cell)))
