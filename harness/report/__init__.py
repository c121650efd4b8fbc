"""Reports: tables, pages and JSON. All of them take the same frozen results and return text or plain data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from harness.evaluation.cell_result import CellResult
from harness.formatting import format_count
from harness.report.parameters import sort_key


def group_by_scenario(results: Sequence[CellResult]) -> list[list[CellResult]]:
    """Group the results by scenario and engine, a group per table. Sort its rows by parameter values."""

    def table(result: CellResult) -> tuple[str, str]:
        return result.cell.scenario.name, result.cell.engine

    def row(result: CellResult) -> tuple[object, ...]:
        return *table(result), sort_key(result.cell)

    # Cells without parameters keep the order they come in.
    return [list(group) for _, group in groupby(sorted(results, key=row), key=table)]


def total_effort(results: Sequence[CellResult]) -> tuple[int, float, float]:
    """Return (number of runs, virtual time in s, wall time in s) of stored runs. A virtual-time run uses one core."""
    runs = [run for result in results for run, _ in result.runs]
    return len(runs), sum(run.virtual or 0.0 for run in runs), sum(run.wall for run in runs)


def slowest_families(results: Sequence[CellResult], limit: int) -> list[tuple[str, float]]:
    """Return (scenario folder, wall time in s), the longest first, at most `limit` of them."""
    seconds: dict[str, float] = {}
    for result in results:
        family = result.cell.scenario.name.partition("/")[0]
        seconds[family] = seconds.get(family, 0.0) + sum(run.wall for run, _ in result.runs)
    return sorted(seconds.items(), key=lambda entry: -entry[1])[:limit]


def effort_summary(results: Sequence[CellResult]) -> str:
    """Describe the time that runs took, for people. Empty without runs."""
    count, virtual, wall = total_effort(results)
    if not count:
        return ""
    runs = format_count(count, "run")
    if not virtual or not wall:
        return f"{runs} took {wall:,.0f} s"
    speed = f"{virtual / wall:.1f} times real time"
    return f"{runs} took {virtual:,.0f} s of virtual time in {wall:,.0f} s of one core ({speed})"
