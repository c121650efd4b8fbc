"""The stored runs of cells, as results: measured by today's code where that is possible, and judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from harness.analysis.metrics import VERSION, measure_with_series
from harness.analysis.time_breakdown import VERSION as ATTRIBUTION
from harness.analysis.time_breakdown import attribute
from harness.errors import EngineError, ResultError
from harness.evaluation.cell_result import CellResult, point_of
from harness.evaluation.verdict import judge
from harness.execution.matrix import PlannedRun
from harness.execution.runner import require_unharmed
from harness.outcome import Cell, MeasuredRun, Run, proven_outcome
from harness.store.results import MEASURED, SERIES, Store, StoreReader, disk_error


class StoredResults:
    """What one store knows of cells."""

    def __init__(self, store: StoreReader, own: Store | None) -> None:
        """`own`: the same store where it is one that runs are written to, else None."""
        self._store = store
        self._own = own

    def of(self, cell: Cell, repetitions: int | None = None) -> CellResult:
        """The cell with its stored runs (the first `repetitions` of them) and its verdict."""
        found = [run for run in self._store.runs(cell.key) if repetitions is None or run.repetition < repetitions]
        pairs = tuple((run, measured) for run in found if self._counts(run, measured := self.measured(run)))
        folders = tuple(self._store.folder(cell.key, run.repetition) for run, _ in pairs)
        verdict = judge(cell.scenario, pairs, [str(folder) for folder in folders])
        return CellResult(cell, pairs, verdict, folders)

    def _counts(self, run: Run, measured: MeasuredRun | None) -> bool:
        """Whether a run can be judged. One that was measured once and is not any more is none, and is named."""
        if measured is not None or run.outcome.status not in ("completed", "timed_out"):
            return True
        folder = self._store.folder(run.cell.key, run.repetition)
        self._store.leave_out(folder, f"there is no {MEASURED} that can be read, and nothing to measure again")
        return False

    def find(self, wanted: Callable[[Cell], bool], *, every: bool = False) -> list[CellResult]:
        """Results of all stored cells that are wanted; of cells that differ only in their bits, the newest."""
        newest: dict[object, tuple[str, Cell]] = {}
        for key in self._store.cell_keys():
            found = self._store.runs(key)
            if not found or not wanted(found[-1].cell):
                continue
            cell, at = found[-1].cell, found[-1].started_at
            point = key if every else point_of(cell)
            if point not in newest or newest[point][0] <= at:
                newest[point] = (at, cell)
        return [self.of(cell) for _, cell in sorted(newest.values(), key=lambda item: _order(item[1]))]

    def done(self, planned: Iterable[PlannedRun], retry: frozenset[str]) -> set[tuple[str, int]]:
        """(key, repetition) of the planned runs that are stored with an outcome that is not to be tried again."""
        wanted = {(item.cell.key, item.repetition) for item in planned}
        return {
            (key, run.repetition)
            for key in {key for key, _ in wanted}
            for run in self._store.runs(key)
            if (key, run.repetition) in wanted and proven_outcome(run, self.measured(run)).status not in retry
        }

    def measured(self, run: Run) -> MeasuredRun | None:
        """What was measured of a run; measured again when newer code can, and its artefacts are there.

        Where its time went is looked for again by itself: no other figure depends on it.
        """
        stored = self._store.measured(run.cell.key, run.repetition)
        folder = self._store.folder(run.cell.key, run.repetition)
        if self._own is None or _of_today(stored) or not (folder / "sim").is_dir():
            return stored
        try:
            require_unharmed(folder, run)
        except ResultError:
            # What was measured while they were whole is better than what could be measured now.
            return stored
        if stored is not None and stored.version >= VERSION:
            measured, series = stored.model_copy(update={"attributed": attribute(folder, run)}), None
        else:
            measured, series = measure_with_series(folder, run)
        with suppress(EngineError, OSError):
            # A store that cannot be written is read all the same.
            self._own.write_measured(folder, measured, series)
        return measured

    def make_series(self, run: Run) -> None:
        """Measure a run again that has no series, where its captures are there: older code kept none of downloads."""
        folder = self._store.folder(run.cell.key, run.repetition)
        if self._own is not None and not (folder / SERIES).exists() and (folder / "sim").is_dir():
            with suppress(ResultError):
                # Of files that were damaged there are none.
                measure_again(self._own, run)


def _of_today(stored: MeasuredRun | None) -> bool:
    """Whether a run's figures, and where its time went, are of today's code."""
    if stored is None or stored.version < VERSION:
        return False
    return stored.attributed is not None and stored.attributed.version >= ATTRIBUTION


def measure_again(store: Store, run: Run) -> MeasuredRun:
    """Measure a stored run anew from its artefacts, and keep the result.

    ResultError where files that it was measured from are not as they were; EngineError when the disk refuses.
    """
    folder = store.folder(run.cell.key, run.repetition)
    require_unharmed(folder, run)
    measured, series = measure_with_series(folder, run)
    try:
        store.write_measured(folder, measured, series)
    except OSError as error:
        raise disk_error(error, folder) from error
    return measured


def _order(cell: Cell) -> tuple[str, str, str, str]:
    return (cell.scenario.name, cell.engine, cell.client.name, cell.server.name)
