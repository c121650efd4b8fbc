"""Runs of two rules side by side: a repetition's paths are the same for each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult
from harness.outcome import Handover, Interval, proven_outcome
from harness.report.studies import measured_cells
from harness.stats.intervals import interval
from studies.handover.claims import FIRST

PARAMETER = "server.migration_cwnd"
#: A ratio within so much of one is no difference that matters.
_SAME = 0.05


def by_rule(results: Sequence[CellResult], scenario: str, server: str = FIRST) -> dict[str, CellResult]:
    """Rule → the cell of a scenario in which that server has it, in virtual time."""
    cell_results = [
        result
        for result in measured_cells(results, scenario)
        if result.cell.virtual_time and result.cell.implementation("server", 0).name == server
    ]
    return {str(result.cell.parameters.get(PARAMETER)): result for result in cell_results}


def values(result: CellResult, metric: str) -> dict[int, float]:
    """Repetition → a metric of the first move, of the runs that have it."""
    found = {}
    for run, measured in result.runs:
        if measured is not None and proven_outcome(run, measured).status == "completed":
            value = measured.value(metric, 0, "first", move=1)
            if value is not None:
                found[run.repetition] = value
    return found


def larger(result: CellResult, initial: float) -> set[int]:
    """The repetitions in which the window was larger than an initial one when the client moved."""
    return {number for number, value in values(result, "cwnd_before").items() if value > initial}


def handovers(result: CellResult) -> list[Handover]:
    """The first move of each completed run."""
    return [
        handover
        for run, measured in result.runs
        if measured is not None and proven_outcome(run, measured).status == "completed"
        for handover in measured.moves
        if handover.move == 1 and not handover.why_not
    ]


@dataclass(frozen=True)
class Ratio:
    """One rule's figure per another's, repetition by repetition."""

    span: Interval

    @property
    def verdict(self) -> str:
        """What the interval supports."""
        if self.span.n < 2:
            return "one run tells nothing"
        if self.span.low > 1 + _SAME:
            return "helps"
        if self.span.high < 1 - _SAME:
            return "hurts"
        if self.span.low >= 1 - _SAME and self.span.high <= 1 + _SAME:
            return "makes no difference"
        return "no difference is shown"


def ratio(one: CellResult, other: CellResult, metric: str, only: Collection[int] | None = None) -> Ratio | None:
    """What one rule has per what the other has, in these repetitions; None where none has both."""
    mine, theirs = values(one, metric), values(other, metric)
    chosen = [number for number in sorted(mine) if theirs.get(number) and (only is None or number in only)]
    both = [mine[number] / theirs[number] for number in chosen]
    return Ratio(interval(both)) if both else None
