"""Reports: tables, pages and JSON. All of them take the same frozen results and return text or plain data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from harness.evaluation.cell_result import CellResult
from harness.formatting import counted
from harness.report.parameters import sort_key


def by_scenario(results: Sequence[CellResult]) -> list[list[CellResult]]:
    """The results in groups that share a table, one for each scenario and engine; rows in order of their values."""

    def table(result: CellResult) -> tuple[str, str]:
        return result.cell.scenario.name, result.cell.engine

    def row(result: CellResult) -> tuple[object, ...]:
        return *table(result), sort_key(result.cell)

    # Cells without parameters keep the order they come in.
    return [list(group) for _, group in groupby(sorted(results, key=row), key=table)]


def effort_of(results: Sequence[CellResult]) -> tuple[int, float, float]:
    """(runs, seconds of virtual time, seconds of wall time) of stored runs; a run in virtual time has one core."""
    runs = [run for result in results for run, _ in result.runs]
    return len(runs), sum(run.virtual or 0.0 for run in runs), sum(run.wall for run in runs)


def longest_families(results: Sequence[CellResult], limit: int) -> list[tuple[str, float]]:
    """(folder of scenarios, seconds of wall time) of those whose runs took longest, at most so many."""
    seconds: dict[str, float] = {}
    for result in results:
        family = result.cell.scenario.name.partition("/")[0]
        seconds[family] = seconds.get(family, 0.0) + sum(run.wall for run, _ in result.runs)
    return sorted(seconds.items(), key=lambda entry: -entry[1])[:limit]


def effort(results: Sequence[CellResult]) -> str:
    """What runs took, for people; empty for none."""
    count, virtual, wall = effort_of(results)
    if not count:
        return ""
    runs = counted(count, "run")
    if not virtual or not wall:
        return f"{runs} took {wall:,.0f} s"
    speed = f"{virtual / wall:.1f} times real time"
    return f"{runs} took {virtual:,.0f} s of virtual time in {wall:,.0f} s of one core ({speed})"
