"""Selects stored runs to remove: by age, by outcome, or because no current `harness run` would use them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import EngineError, InputError
from harness.execution.checkout import App
from harness.execution.image_inventory import NOT_PRESENT
from harness.execution.locks import RunLock, claim_run
from harness.outcome import Cell, Run, proven_outcome
from harness.planning.sweep import expand_points
from harness.scenario.schema import Scenario
from harness.store.build_diff import differing_components
from harness.store.compression import RETAINED_ENTRIES, disk_use
from harness.store.records import describe_read_error, read_measured, read_record_bytes, read_run
from harness.store.results import MEASURED, RUN, disk_error


@dataclass(frozen=True)
class Criteria:
    """Criteria for removing a run; it must meet all that are given."""

    older: datetime.timedelta | None = None
    """Minimum time since the run began."""
    outcomes: frozenset[str] = frozenset()
    """The run's outcome is one of these."""
    unwanted: bool = False
    """No current `harness run` would use it: see `RunPruner.unwanted`."""
    artefacts: bool = False
    """The run still has artefacts, and only these are removed."""


@dataclass(frozen=True)
class PrunableRun:
    """A run that can be removed."""

    folder: Path
    run: Run
    outcome: str
    why: str
    """Why no current `harness run` would use it; empty if `Criteria.unwanted` is not set."""
    size: int
    """Bytes of disk space that become free."""


class RunPruner:
    """Finds and removes runs in the store of a checkout. Runs in progress are not touched."""

    def __init__(self, app: App, criteria: Criteria, now: datetime.datetime) -> None:
        self._app = app
        self._criteria = criteria
        self._now = now
        self._scenarios = {app.catalogue.scenario_name(file): file for file in app.catalogue.scenario_files()}
        self.left: list[str] = []
        """Runs that were skipped, with the reason, in the order in which they were found."""

    def prunable(self, matches: Callable[[Cell], bool]) -> Iterator[PrunableRun]:
        """The runs that can be removed, of the cells for which `matches` is true."""
        for key in self._app.store.cell_keys():
            # All runs of a key have the same cell, apart from titles and other text.
            unwanted: dict[str, str] = {}
            for folder in self._app.store.every_folder(key):
                try:
                    run = read_run(read_record_bytes(folder / RUN))
                    outcome = self._outcome(folder, run)
                    selected = matches(run.cell) and self._meets(folder, run, outcome)
                except (OSError, ValueError) as error:
                    self.left.append(f"{folder}: {describe_read_error(error)}")
                    continue
                if not selected:
                    continue
                why = ""
                if self._criteria.unwanted:
                    if key not in unwanted:
                        unwanted[key] = self.unwanted(run.cell)
                    why = "replaced by a fresh run" if not folder.name.isdecimal() else unwanted[key]
                    if not why:
                        continue
                size = self._artefacts_of(folder) if self._criteria.artefacts else disk_use(folder)
                yield PrunableRun(folder, run, outcome, why, size)

    def unwanted(self, cell: Cell) -> str:
        """Why no current `harness run` would use a cell's runs; empty if one would, or if that is not known.

        A run is in use while the checkout has its scenario and implementations, and the current scenario, images,
        simulator and engine give the same cell. The parameters are those of the cell: users choose them.
        """
        name = cell.scenario.name
        if name not in self._scenarios:
            return f"no scenario is called {name}"
        try:
            current_cells = self._today(cell, self._app.catalogue.scenario(self._scenarios[name]))
        except InputError as error:
            return error.message
        except EngineError:
            return ""
        if any(current.key == cell.key or _has_unknown_image(current) for current in current_cells):
            return ""
        return f"not of today: {', '.join(differing_components(cell, current_cells[0], self._app.ledger))}"

    def _today(self, cell: Cell, scenario: Scenario) -> list[Cell]:
        sweep_points = expand_points(scenario, cell.parameters, {})
        return [
            self._app.current_cell(
                cell.model_copy(update={"scenario": point.scenario, "parameters": dict(point.parameters)})
            )
            for point in sweep_points
        ]

    def remove(self, candidate: PrunableRun) -> bool:
        """Remove a run, or its artefacts; False if another harness is making it again at the moment.

        EngineError if the disk refuses.
        """
        store = self._app.store
        try:
            lock = claim_run(store.root, candidate.run.cell.key, candidate.run.repetition)
        except OSError as error:
            raise disk_error(error, store.root) from error
        if not isinstance(lock, RunLock):
            self.left.append(f"{candidate.folder}: another harness makes this run just now")
            return False
        with lock:
            if self._criteria.artefacts:
                store.strip(candidate.folder)
            else:
                store.remove(candidate.folder)
        return True

    def _meets(self, folder: Path, run: Run, outcome: str) -> bool:
        """Whether a run meets all criteria: age, outcome and remaining artefacts."""
        criteria = self._criteria
        if criteria.older is not None:
            began = datetime.datetime.fromisoformat(run.started_at)
            if self._now - began.replace(tzinfo=began.tzinfo or datetime.UTC) < criteria.older:
                return False
        if criteria.outcomes and outcome not in criteria.outcomes:
            return False
        return not criteria.artefacts or self._artefacts_of(folder) > 0

    @staticmethod
    def _artefacts_of(folder: Path) -> int:
        return sum(disk_use(item) for item in folder.iterdir() if item.name not in RETAINED_ENTRIES)

    @staticmethod
    def _outcome(folder: Path, run: Run) -> str:
        file = folder / MEASURED
        return proven_outcome(run, read_measured(read_record_bytes(file)) if file.exists() else None).status


def _has_unknown_image(cell: Cell) -> bool:
    """Whether an image of a cell is not on this machine, so that its current identity is not known."""
    images = (cell.client_image, cell.server_image, *(contestant.image for contestant in cell.others.values()))
    return any(image.identity.startswith(NOT_PRESENT) for image in images)
