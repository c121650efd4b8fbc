"""Which cells have figures of their own: those whose flows share the path, or come and go on it."""

from __future__ import annotations

from collections.abc import Iterable

from harness.results import CellResult


def with_figures(results: Iterable[CellResult]) -> list[CellResult]:
    """Those of these cells that `harness run` draws: with series, and with a stored run.

    One download to its end has its milestones and times in the tables, and at most its mean operating point to draw.
    """
    return [result for result in results if result.runs and result.cell.scenario.has_series]
