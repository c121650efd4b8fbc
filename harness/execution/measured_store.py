"""Results of stored runs: measured by the current code if possible, and judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from harness.errors import EngineError, ResultError
from harness.evaluation.cell_result import CellResult, CommandWords, point_of
from harness.evaluation.retention import RequestedEvidence, suffices
from harness.outcome import Cell, Evidence, MeasuredRun, Run, proven_outcome
from harness.store.cell_names import EVERY_CELL, CellNames
from harness.store.results import MEASURED, SERIES, Store, StoreReader, disk_error

if TYPE_CHECKING:
    from harness.execution.matrix import PlannedRun

# What measures and judges is imported where it is used: it takes half a second, and a plan needs none of it.


class StoredResults:
    """Results of the cells of one store."""

    def __init__(
        self,
        store: StoreReader,
        own: Store | None,
        words_of: Callable[[Cell], CommandWords] = lambda cell: CommandWords(),
    ) -> None:
        """`own`: the same store if runs can be written to it, else None. `words_of`: what a command that runs a cell
        again names besides the cell's own parts.
        """
        self._store = store
        self._own = own
        self._words_of = words_of

    def result_of(self, cell: Cell, repetitions: int | None = None) -> CellResult:
        """The cell with its stored runs (the first `repetitions` of them) and its verdict."""
        runs = self._store.runs(cell.key)
        return self._result(cell, [run for run in runs if repetitions is None or run.repetition < repetitions])

    def _result(self, cell: Cell, runs: Iterable[Run]) -> CellResult:
        from harness.evaluation.verdict import judge

        pairs = tuple((run, measured) for run in runs if self._is_judgeable(run, measured := self.measured(run)))
        folders = tuple(self._store.folder(cell.key, run.repetition) for run, _ in pairs)
        verdict = judge(cell.scenario, pairs, [str(folder) for folder in folders])
        return CellResult(cell, pairs, verdict, folders, words=self._words_of(cell))

    def _is_judgeable(self, run: Run, measured: MeasuredRun | None) -> bool:
        """Whether a run can be judged. A run whose measurements were lost cannot, and the store reports it."""
        if measured is not None or run.outcome.status not in ("completed", "timed_out"):
            return True
        folder = self._store.folder(run.cell.key, run.repetition)
        self._store.warn_ignored(folder, f"there is no {MEASURED} that can be read, and nothing to measure again")
        return False

    def find(
        self, matches: Callable[[Cell], bool] = lambda cell: True, *, among: CellNames = EVERY_CELL, every: bool = False
    ) -> list[CellResult]:
        """Results of the stored cells `among` those of these names that match.

        Of cells that differ only in code and image versions the newest, unless `every` is set.
        """
        newest: dict[object, tuple[str, Cell, list[Run]]] = {}
        for key in self._store.cell_keys(among):
            runs = self._store.runs(key)
            if not runs or not among.include(runs[-1].cell) or not matches(runs[-1].cell):
                continue
            cell, started_at = runs[-1].cell, runs[-1].started_at
            point = key if every else point_of(cell)
            if point not in newest or newest[point][0] <= started_at:
                # The runs of a whole store would take a gigabyte: they are read again, one cell after the other.
                newest[point] = (started_at, cell, [] if among == EVERY_CELL else runs)
        in_order = sorted(newest.values(), key=lambda item: _sort_key(item[1]))
        return [self._result(cell, runs or self._store.runs(cell.key)) for _, cell, runs in in_order]

    def completed_runs(
        self, planned: Iterable[PlannedRun], retry: frozenset[str], evidence: RequestedEvidence = "figures"
    ) -> set[tuple[str, int]]:
        """(key, repetition) of the planned runs that are stored with an outcome that is not in `retry`, and with at
        least that evidence.
        """
        planned_keys = {(item.cell.key, item.repetition) for item in planned}
        return {
            (key, run.repetition)
            for key in {key for key, _ in planned_keys}
            for run in self._store.runs(key)
            if (key, run.repetition) in planned_keys
            and suffices(self._evidence(run), evidence)
            and proven_outcome(run, self.measured(run)).status not in retry
        }

    def _evidence(self, run: Run) -> Evidence:
        """What a stored run still has: `harness prune` removes it later on."""
        folder = self._store.folder(run.cell.key, run.repetition)
        return run.evidence if self._own is None or (folder / "sim").is_dir() else "figures"

    def measured(self, run: Run) -> MeasuredRun | None:
        """The measurements of a run. It is measured again if the code is newer and its artefacts exist.

        The time breakdown can be computed again alone, since no other figure depends on it.
        """
        stored = self._store.measured(run.cell.key, run.repetition)
        folder = self._store.folder(run.cell.key, run.repetition)
        # The versions come last: to import them takes longer than all else where no run has artefacts.
        if self._own is None or not (folder / "sim").is_dir() or _is_current(stored):
            return stored
        from harness.analysis.metrics import VERSION, measure_with_series
        from harness.analysis.time_breakdown import attribute
        from harness.execution.runner import require_intact

        try:
            require_intact(folder, run)
        except ResultError:
            # The stored measurements were made from intact files, and are better than new ones.
            return stored
        if stored is not None and stored.version >= VERSION:
            measured, series = stored.model_copy(update={"attributed": attribute(folder, run)}), None
        else:
            measured, series = measure_with_series(folder, run)
        with suppress(EngineError, OSError):
            # The store may be read-only.
            self._own.write_measured(folder, measured, series)
        return measured

    def make_series(self, run: Run) -> None:
        """Measure a run again if it has captures but no series: older code did not keep the series of downloads."""
        folder = self._store.folder(run.cell.key, run.repetition)
        if self._own is not None and not (folder / SERIES).exists() and (folder / "sim").is_dir():
            with suppress(ResultError):
                # Damaged files give no series.
                remeasure(self._own, run)


def _is_current(stored: MeasuredRun | None) -> bool:
    """Whether the current code made a run's measurements and its time breakdown."""
    from harness.analysis.metrics import VERSION
    from harness.analysis.time_breakdown import VERSION as ATTRIBUTION

    if stored is None or stored.version < VERSION:
        return False
    return stored.attributed is not None and stored.attributed.version >= ATTRIBUTION


def remeasure(store: Store, run: Run) -> MeasuredRun:
    """Measure a stored run again from its artefacts, and store the result.

    ResultError if these files have changed; EngineError if the disk refuses.
    """
    from harness.analysis.metrics import measure_with_series
    from harness.execution.runner import require_intact

    folder = store.folder(run.cell.key, run.repetition)
    require_intact(folder, run)
    measured, series = measure_with_series(folder, run)
    try:
        store.write_measured(folder, measured, series)
    except OSError as error:
        raise disk_error(error, folder) from error
    return measured


def _sort_key(cell: Cell) -> tuple[str, str, str, str]:
    return (cell.scenario.name, cell.engine, cell.client.name, cell.server.name)
