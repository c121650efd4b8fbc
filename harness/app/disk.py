"""The disk that a plan takes: from what stored runs of its kind took, else from the bytes that they transfer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.app.options import Artefacts
from harness.arguments import UnsupportedError
from harness.errors import EngineError
from harness.estimate import FIGURES, stored_bytes, written_bytes
from harness.lab import build_lab
from harness.outcome import Cell
from harness.packing import STAYS, disk_use, is_packed
from harness.plan import PlannedRun
from harness.store import RUN, Store, disk_error
from harness.text import counted, size_of

#: What one takes for a run of the same kind: scenario, client, server, engine.
Kind = tuple[str, str, str, str]


@dataclass(frozen=True)
class DiskNeed:
    """What runs that are to be made will take of a disk, in bytes."""

    runs: int
    stay: int
    """What they leave."""
    meanwhile: int
    """What they take beside that while they go on: received files, and what is not compressed yet."""
    estimated: int
    """How many of them are of a kind of which none is stored."""

    @property
    def text(self) -> str:
        """In a sentence."""
        how = f", {self.estimated} of them by an upper estimate" if self.estimated else ""
        return f"{size_of(self.stay)} of disk (and {size_of(self.meanwhile)} while they run{how})"


class DiskUse:
    """What the runs of one store take."""

    def __init__(self, store: Store, artefacts: Artefacts = "all") -> None:
        """`artefacts`: of which further runs they will be kept; what fails may be all, so that is what is counted."""
        self._store = store
        self._figures_only = artefacts == "none"
        self._known: dict[str, int | None] = {}

    def need(self, todo: Sequence[PlannedRun], jobs: int) -> DiskNeed:
        """What these runs need, so many side by side."""
        cells = {item.cell.key: item.cell for item in todo}
        known = {key: self._of(cell) for key, cell in cells.items()}
        stay = {key: self._estimate(cell) if (size := known[key]) is None else size for key, cell in cells.items()}
        largest = max((written_bytes(cell.scenario) for cell in cells.values()), default=0)
        return DiskNeed(
            runs=len(todo),
            stay=sum(stay[item.cell.key] for item in todo),
            meanwhile=min(jobs, len(todo)) * largest,
            estimated=sum(known[item.cell.key] is None for item in todo),
        )

    def require(self, need: DiskNeed) -> None:
        """EngineError where the disk has no room for it, with what to do."""
        free = self.free()
        if need.runs and free < need.stay + need.meanwhile:
            raise EngineError(
                f"{self._store.root} has {size_of(free)} free, and {counted(need.runs, 'run')} to do take {need.text}",
                "free space ('harness prune --dry-run --unwanted' says what could go), keep less (--artefacts failed, "
                "or none), or write elsewhere (--store)",
            )

    def free(self) -> int:
        """Bytes that are free where runs are written. EngineError where nobody can say."""
        folder = self._store.root.absolute()
        while not folder.exists():
            folder = folder.parent
        try:
            return shutil.disk_usage(folder).free
        except OSError as error:
            raise disk_error(error, folder) from error

    def _of(self, cell: Cell) -> int | None:
        """The most that a stored run of that cell took, or one of its kind; None where there is none."""
        if _refused(cell):
            return FIGURES
        kind = (cell.scenario.name, cell.client.name, cell.server.name, cell.engine)
        for keys in ([cell.key], self._kinds.get(kind, [])):
            found = [size for key in keys if (size := self._largest(key)) is not None]
            if found:
                return max(found)
        return None

    def _estimate(self, cell: Cell) -> int:
        """The most that a run of a cell may take."""
        return FIGURES if self._figures_only else stored_bytes(cell.scenario)

    def _largest(self, key: str) -> int | None:
        if key not in self._known:
            self._known[key] = max((self._took(folder) for folder in self._runs(key)), default=None)
        return self._known[key]

    def _runs(self, key: str) -> Iterator[Path]:
        """The runs of a cell by which one can tell: what an older harness left was never compressed."""
        folder = self._store.root / "runs" / key
        for run in folder.iterdir() if folder.is_dir() else ():
            complete = (run / "sim").is_dir() and is_packed(run)
            if (run / RUN).is_file() and (complete or self._figures_only):
                yield run

    def _took(self, run: Path) -> int:
        return sum(disk_use(run / name) for name in STAYS) if self._figures_only else disk_use(run)

    @cached_property
    def _kinds(self) -> dict[Kind, list[str]]:
        """Keys of the stored cells of each kind."""
        found: dict[Kind, list[str]] = {}
        for key in self._store.cell_keys():
            kind = next(_kinds_of(self._runs(key)), None)
            if kind is not None:
                found.setdefault(kind, []).append(key)
        return found


def _refused(cell: Cell) -> bool:
    """Whether somebody in it does not offer what is asked, so that nothing runs."""
    try:
        build_lab(cell, 0)
    except UnsupportedError:
        return True
    return False


def _kinds_of(runs: Iterable[Path]) -> Iterator[Kind]:
    """Of what kind runs are. Of a store with very many, so no more is looked at than that."""
    for run in runs:
        try:
            cell = json.loads((run / RUN).read_bytes())["cell"]
            yield cell["scenario"]["name"], cell["client"]["name"], cell["server"]["name"], cell["engine"]
        except (OSError, ValueError, LookupError, TypeError):
            # What cannot be read tells nothing here, and is reported where it is asked for.
            continue
