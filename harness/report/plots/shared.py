"""Which stored runs `harness run` draws in the end."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from harness.evaluation.cell_result import CellResult
from harness.outcome import MeasuredRun, Run

Telling = tuple[CellResult, Run, MeasuredRun | None]

#: Verdicts, the worst first; what is not among them comes last.
_WORST = ("error", "fail", "inconclusive")


def with_figures(results: Iterable[CellResult]) -> list[CellResult]:
    """Those of these cells that have all their figures drawn: whose flows share the path, or come and go on it."""
    return [result for result in results if result.runs and result.cell.scenario.has_series]


def telling_runs(results: Iterable[CellResult]) -> list[Telling]:
    """The measured runs of single downloads, the one to look at first in front.

    That is one of the worst verdict; among these one that did not complete, then the slowest, then the latest.
    """
    found = [
        (result, run, measured)
        for result in results
        if not result.cell.scenario.has_series
        for run, measured in result.runs
        # Of one that nobody could play there is nothing to see.
        if measured is not None
    ]
    return sorted(found, key=_gravity)


def _gravity(item: Telling) -> tuple[int, bool, float, float]:
    result, run, measured = item
    status = result.verdict.status
    rank = _WORST.index(status) if status in _WORST else len(_WORST)
    took = None if measured is None else measured.value("completion", 0, "first")
    return rank, run.outcome.status == "completed", -(took or 0.0), -_moment(run)


def _moment(run: Run) -> float:
    """When a run began, s since the epoch; 0 where that was not noted."""
    try:
        return datetime.fromisoformat(run.started_at).timestamp()
    except ValueError:
        return 0.0
