"""What is stored of a scenario."""

from __future__ import annotations

from collections.abc import Iterable

from harness.reports import CellResult


def stored_of(results: Iterable[CellResult], scenario: str) -> list[CellResult]:
    """The cells of a scenario that have figures."""
    return [result for result in results if result.cell.scenario.name == scenario and result.measurements]
