"""How many repetitions each cell gets: a fixed number, or as many as decide its objectives. Pure but for its callbacks.

Every repetition has its own seed (`harness.topology.run_seed`), also in virtual time. Path losses, the sending times of
generators and the random numbers of endpoints differ between repetitions, so more repetitions give more information.
If all figures of two repetitions are equal, the cell is deterministic, and more repetitions add nothing.

A cell is evaluated at sample sizes at which its interval can have become narrower
(`harness.stats.intervals.decisive_sizes`). The stated coverage is that of one evaluation: with up to six of them the
true value lies outside an interval more often than once in twenty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field

from harness.evaluation.cell_result import CellResult
from harness.execution.matrix import PlannedRun, UntilDecided, plan_runs
from harness.outcome import Cell
from harness.stats.intervals import COVERAGE, decisive_sizes

#: Outcomes that keep a cell from passing, whatever later runs show.
_FAULTS = frozenset({"unsupported", "wrong_file", "crashed", "log_overflow"})


@dataclass
class RepetitionPlan:
    """Schedules the repetitions of the cells of one campaign."""

    matrix: Sequence[Cell]
    requested: int | UntilDecided | None
    """None leaves it to the scenarios."""
    result: Callable[[Cell, int], CellResult]
    """Result of a cell from its first repetitions, by their number."""
    report: Callable[[str], object] = lambda text: None
    """Called with the reason if a cell gets no more runs although its verdict is undecided."""
    _completed: Set[tuple[str, int]] = field(init=False, default_factory=frozenset)
    _scheduled: dict[str, int] = field(init=False, default_factory=dict)

    def possible_runs(self) -> list[PlannedRun]:
        """All runs that may be scheduled."""
        return plan_runs(
            self.matrix, self.requested.maximum if isinstance(self.requested, UntilDecided) else self.requested
        )

    def first_runs(self, completed: Set[tuple[str, int]]) -> list[PlannedRun]:
        """The first runs to make, interleaved. `completed`: (key, repetition) of runs that need not be made."""
        self._completed = completed
        return sorted((run for cell in self.matrix for run in self.next_runs(cell)), key=lambda run: run.repetition)

    def next_runs(self, cell: Cell) -> list[PlannedRun]:
        """The next runs of a cell, after all runs scheduled for it so far have ended."""
        start = self._scheduled.get(cell.key, 0)
        for look in self._evaluation_points(cell):
            if look <= start:
                continue
            if start and self._suffices(cell, start):
                break
            self._scheduled[cell.key] = look
            missing = [number for number in range(start, look) if (cell.key, number) not in self._completed]
            if missing:
                return [PlannedRun(cell, number) for number in missing]
            start = look
        return []

    def scheduled_count(self, cell: Cell) -> int:
        """Number of repetitions of a cell that were scheduled so far."""
        return self._scheduled.get(cell.key, 0)

    def stored_count(self) -> int:
        """How many of the repetitions scheduled so far were already complete at the start."""
        return sum(
            (cell.key, number) in self._completed
            for cell in self.matrix
            for number in range(self.scheduled_count(cell))
        )

    def _evaluation_points(self, cell: Cell) -> list[int]:
        """Numbers of repetitions after which a cell is evaluated."""
        if not isinstance(self.requested, UntilDecided):
            return [self.requested or cell.scenario.repetitions]
        if not cell.scenario.objectives:
            return [cell.scenario.repetitions]
        # One repetition shows whether the cell works at all; in virtual time two show whether it is deterministic.
        looks = {
            1,
            *([2] if cell.deterministic else []),
            *decisive_sizes(self.requested.maximum),
            self.requested.maximum,
        }
        return sorted(look for look in looks if look <= self.requested.maximum)

    def _suffices(self, cell: Cell, count: int) -> bool:
        result = self.result(cell, count)
        if is_decided(result):
            return True
        if cell.deterministic and _is_deterministic(result):
            self.report(
                f"{result.name}: {len(result.runs)} repetitions are the same in every figure: "
                "chance plays no part, and more would tell nothing new"
            )
            return True
        return False


def is_decided(result: CellResult) -> bool:
    """Whether more runs of a cell cannot change its verdict.

    This holds in three cases. Intervals with full coverage miss an objective, or meet all of them. A run has a fault
    outcome, which keeps the cell from passing. The runs show nothing about any objective.
    """
    if _FAULTS & result.outcomes.keys():
        return True
    intervals = [
        (objective.verdict, objective.observed.coverage)
        for objective in result.verdict.objectives
        if objective.observed is not None
    ]
    conclusive = [verdict for verdict, coverage in intervals if coverage >= COVERAGE]
    return "fail" in conclusive or (
        len(conclusive) == len(intervals) and all(verdict == "pass" for verdict in conclusive)
    )


def _is_deterministic(result: CellResult) -> bool:
    figures = [None if measured is None else measured.measurements for _, measured in result.runs]
    return len(figures) > 1 and bool(figures[0]) and all(measurements == figures[0] for measurements in figures)
