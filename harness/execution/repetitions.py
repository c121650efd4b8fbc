"""How many repetitions cells get: so many, or until the intervals decide their objectives. Pure but for what it asks.

Every repetition has a seed of its own (`harness.topology.run_seed`), in virtual time too: what the path loses, when a
generator sends and the random numbers of the endpoints differ from one to the next, so that more of them tell more.
Where two come out the same in every figure, chance plays no part in the cell, and more would only pretend to.

A cell is looked at where an interval can have become narrower (`harness.stats.intervals.decisive`). The coverage is
that of one look: with up to six of them an interval misleads more often than once in twenty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field

from harness.evaluation.cell_result import CellResult
from harness.execution.matrix import PlannedRun, UntilDecided, runs
from harness.outcome import Cell
from harness.stats.intervals import COVERAGE, decisive

#: Outcomes that keep a cell from passing, however many runs follow.
_FAULTS = frozenset({"unsupported", "wrong_file", "crashed", "log_overflow"})


@dataclass
class Repetitions:
    """The runs that the cells of one campaign get, as they come to be asked for."""

    matrix: Sequence[Cell]
    asked: int | UntilDecided | None
    """None leaves it to the scenarios."""
    result: Callable[[Cell, int], CellResult]
    """A cell with its first so many repetitions, and its verdict."""
    say: Callable[[str], object] = lambda text: None
    """Called with why a cell gets no more runs, where its verdict does not tell."""
    _done: Set[tuple[str, int]] = field(init=False, default_factory=frozenset)
    _reached: dict[str, int] = field(init=False, default_factory=dict)

    def possible(self) -> list[PlannedRun]:
        """All runs that may be asked for."""
        return runs(self.matrix, self.asked.most if isinstance(self.asked, UntilDecided) else self.asked)

    def first(self, done: Set[tuple[str, int]]) -> list[PlannedRun]:
        """What is to be run first, interleaved. `done`: (key, repetition) of what need not be run."""
        self._done = done
        return sorted((run for cell in self.matrix for run in self.further(cell)), key=lambda run: run.repetition)

    def further(self, cell: Cell) -> list[PlannedRun]:
        """What a cell needs next, now that everything it was asked for has been run."""
        begun = self._reached.get(cell.key, 0)
        for look in self._looks(cell):
            if look <= begun:
                continue
            if begun and self._suffices(cell, begun):
                break
            self._reached[cell.key] = look
            missing = [number for number in range(begun, look) if (cell.key, number) not in self._done]
            if missing:
                return [PlannedRun(cell, number) for number in missing]
            begun = look
        return []

    def reached(self, cell: Cell) -> int:
        """How many repetitions of a cell were asked for so far."""
        return self._reached.get(cell.key, 0)

    def stored(self) -> int:
        """How many of those asked for so far were done before."""
        return sum((cell.key, number) in self._done for cell in self.matrix for number in range(self.reached(cell)))

    def _looks(self, cell: Cell) -> list[int]:
        """Numbers of repetitions after which a cell is looked at."""
        if not isinstance(self.asked, UntilDecided):
            return [self.asked or cell.scenario.repetitions]
        if not cell.scenario.objectives:
            return [cell.scenario.repetitions]
        # After one, whether it works at all; in virtual time after two, whether chance plays a part.
        looks = {1, *([2] if cell.deterministic else []), *decisive(self.asked.most), self.asked.most}
        return sorted(look for look in looks if look <= self.asked.most)

    def _suffices(self, cell: Cell, count: int) -> bool:
        result = self.result(cell, count)
        if decided(result):
            return True
        if cell.deterministic and _all_alike(result):
            self.say(
                f"{result.name}: {len(result.runs)} repetitions are the same in every figure: "
                "chance plays no part, and more would tell nothing new"
            )
            return True
        return False


def decided(result: CellResult) -> bool:
    """Whether further runs of a cell would not change its verdict for good.

    So it is when an objective is missed or all are met by intervals that have their coverage; when a run showed a
    fault, which keeps the cell from passing; and when there is nothing that a run shows of an objective.
    """
    if _FAULTS & result.outcomes.keys():
        return True
    seen = [(one.verdict, one.observed.coverage) for one in result.verdict.objectives if one.observed is not None]
    sure = [verdict for verdict, coverage in seen if coverage >= COVERAGE]
    return "fail" in sure or (len(sure) == len(seen) and all(verdict == "pass" for verdict in sure))


def _all_alike(result: CellResult) -> bool:
    figures = [None if measured is None else measured.measurements for _, measured in result.runs]
    return len(figures) > 1 and bool(figures[0]) and all(one == figures[0] for one in figures)
