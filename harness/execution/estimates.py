"""The disk that a plan takes: from what stored runs of its kind took, else from the bytes that they transfer."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

from harness.errors import EngineError, ResultError
from harness.evaluation.retention import Artefacts, keeps
from harness.execution.matrix import PlannedRun
from harness.execution.runner import cpu_model
from harness.formatting import counted, size_of
from harness.outcome import Cell
from harness.planning.endpoint_config import UnsupportedError
from harness.planning.estimate import ENDED, FIGURES, Experience, Took, stored_bytes, written_bytes
from harness.reading import is_regular
from harness.store.compression import STAYS, disk_use, is_packed
from harness.store.parquet import Columns, is_columnar
from harness.store.records import read_measured, read_object, read_run, record_bytes
from harness.store.results import MEASURED, RUN, Store, disk_error
from harness.topology import Lab, build_lab

#: What one takes for a run of the same kind: scenario, client, server, engine.
Kind = tuple[str, str, str, str]


@dataclass(frozen=True)
class _Left:
    """What a run leaves of the disk, in bytes. Both are the same but where only artefacts of failed runs are kept."""

    least: int
    """Where it does as well as the best of its kind; one of an unknown kind meets its objectives."""
    most: int
    """Where it does as badly as the worst; one of an unknown kind fails."""


@dataclass(frozen=True)
class DiskNeed:
    """What runs that are to be made will take of a disk, in bytes."""

    runs: int
    least: int
    """What they leave at least: artefacts only of those of whose kind all failed, where others' are removed."""
    stay: int
    """What they leave at most."""
    meanwhile: int
    """What they take beside that while they go on: received files, and what is not compressed, or not removed, yet."""
    served: int
    """What servers are to serve and the cache does not hold yet."""
    estimated: int
    """How many of them are of a kind of which none is stored."""

    @property
    def text(self) -> str:
        """In a sentence."""
        how = f", {self.estimated} of them by an upper estimate" if self.estimated else ""
        most, least = size_of(self.stay), size_of(self.least)
        stays = f"{most} of disk" if least == most else f"{least} to {most} of disk, by how many fail"
        served = f", and {size_of(self.served)} of the cache for files to serve" if self.served else ""
        return f"{stays} (and {size_of(self.meanwhile)} while they run{how}){served}"


class DiskUse:
    """What the runs of one store take."""

    def __init__(self, store: Store, artefacts: Artefacts = "all", served: Path | None = None) -> None:
        """`artefacts`: of which further runs they will be kept; `served`: the folder of what servers serve, if any."""
        self._store = store
        self._artefacts = artefacts
        self._served = served
        self._known: dict[tuple[str, str], list[int]] = {}

    def need(self, todo: Sequence[PlannedRun], jobs: int) -> DiskNeed:
        """What these runs need, so many side by side."""
        cells = {item.cell.key: item.cell for item in todo}
        known = {key: self._of(cell) for key, cell in cells.items()}
        left = {key: known[key] or self._estimate(cell) for key, cell in cells.items()}
        largest = max((written_bytes(cell.scenario) for cell in cells.values()), default=0)
        return DiskNeed(
            runs=len(todo),
            least=sum(left[item.cell.key].least for item in todo),
            stay=sum(left[item.cell.key].most for item in todo),
            meanwhile=min(jobs, len(todo)) * largest,
            served=self._missing(cells.values()),
            estimated=sum(known[item.cell.key] is None for item in todo),
        )

    def require(self, need: DiskNeed) -> str:
        """EngineError where the disk has no room for it, with what to do; a caution where it may turn out to have none.

        An empty text where all is well. Before each run it is looked again.
        """
        free = self.free()
        room = free
        if self._served is not None and need.served:
            if _disk(self._served) == _disk(self._store.root):
                room -= need.served
            else:
                require_room(self._served, need.served)
        if not need.runs or room >= need.stay + need.meanwhile:
            return ""
        said = f"{self._store.root} has {size_of(free)} free, and {counted(need.runs, 'run')} to do take {need.text}"
        if room >= need.least + need.meanwhile:
            return f"{said}: where too many of them fail, it will not do"
        raise EngineError(
            said,
            "free space ('harness prune --dry-run --unwanted' says what could go), keep less (--artefacts failed, "
            "or none), or write elsewhere (--store)",
        )

    def free(self) -> int:
        """Bytes that are free where runs are written. EngineError where nobody can say."""
        return _free(self._store.root)

    def fits(self, need: DiskNeed) -> bool | None:
        """Whether the disk has room for it; None where it depends on how many runs fail. EngineError as `free`."""
        try:
            return not self.require(need) or None
        except EngineError:
            return False

    def _missing(self, cells: Iterable[Cell]) -> int:
        if self._served is None:
            return 0
        return missing_bytes(self._served, (lab for cell in cells if (lab := _lab(cell)) is not None))

    def _of(self, cell: Cell) -> _Left | None:
        """What stored runs of that cell left, or would leave now, else those of its kind; None where there is none."""
        if _lab(cell) is None:
            return _Left(FIGURES, FIGURES)
        kind = (cell.scenario.name, cell.client.name, cell.server.name, cell.engine)
        for keys in ([cell.key], self._kinds.get(kind, [])):
            found = [size for key in keys for size in self._sizes(key, cell)]
            if found:
                return _Left(min(found) if self._artefacts == "failed" else max(found), max(found))
        return None

    def _estimate(self, cell: Cell) -> _Left:
        """What a run of a cell may take of whose kind none is stored."""
        whole = FIGURES if self._artefacts == "none" else stored_bytes(cell.scenario)
        return _Left(whole if self._artefacts == "all" else FIGURES, whole)

    def _sizes(self, key: str, cell: Cell) -> list[int]:
        """What each run of a stored cell that tells it would leave if it were made now, as one of `cell`."""
        place = key, cell.key if self._artefacts == "failed" else ""
        if place not in self._known:
            found = (self._size(run, cell) for run in self._folders(key))
            self._known[place] = [size for size in found if size is not None]
        return self._known[place]

    def _folders(self, key: str) -> Iterator[Path]:
        folder = self._store.root / "runs" / key
        for run in folder.iterdir() if folder.is_dir() else ():
            if is_regular(run / RUN):
                yield run

    def _size(self, folder: Path, cell: Cell) -> int | None:
        stays = self._artefacts == "all" or (self._artefacts == "failed" and _would_stay(folder, cell))
        if stays is None:
            return None
        if not stays:
            return sum(disk_use(folder / name) for name in STAYS)
        # What an older harness left was never compressed.
        if (folder / "sim").is_dir() and is_packed(folder):
            return disk_use(folder)
        return stored_bytes(cell.scenario) if self._artefacts == "failed" else None

    @cached_property
    def _kinds(self) -> dict[Kind, list[str]]:
        """Keys of the stored cells of each kind."""
        found: dict[Kind, list[str]] = {}
        for key in self._store.cell_keys():
            kind = next(_kinds_of(self._folders(key)), None)
            if kind is not None:
                found.setdefault(kind, []).append(key)
        return found


def _would_stay(folder: Path, cell: Cell) -> bool | None:
    """Whether the artefacts of a stored run would be kept where only those of failed ones are; None if it is no run."""
    try:
        run = read_run(record_bytes(folder / RUN))
        measured = read_measured(record_bytes(folder / MEASURED)) if is_regular(folder / MEASURED) else None
    except (OSError, ValueError):
        return None
    return keeps("failed", cell.scenario, run, measured)


def missing_bytes(served: Path, labs: Iterable[Lab]) -> int:
    """Bytes of all that the servers of labs serve and that is not there; `served`: the folder for it."""
    wanted = {flow.file or flow.folder: flow.size for lab in labs for flow in lab.flows}
    return sum(size for name, size in wanted.items() if name and not (served / name).exists())


def require_room(served: Path, size: int) -> None:
    """EngineError where the disk has no room for so many bytes that servers are to serve."""
    free = _free(served)
    if size > free:
        raise EngineError(
            f"{served} has {size_of(free)} free, and servers are to serve {size_of(size)} that are made first",
            "ask for fewer or smaller files, free space, or let HARNESS_CACHE name another folder",
        )


def _disk(folder: Path) -> int:
    """The number of the disk that a folder is on, or will be."""
    return _there(folder).stat().st_dev


def _there(folder: Path) -> Path:
    """The folder, or of what is above it the nearest that is there."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return place


def _free(folder: Path) -> int:
    """Bytes that are free where a folder is, or will be. EngineError where nobody can say."""
    place = _there(folder)
    try:
        return shutil.disk_usage(place).free
    except OSError as error:
        raise disk_error(error, place) from error


def _lab(cell: Cell) -> Lab | None:
    """The lab of a cell; None where somebody in it does not offer what is asked, so that nothing runs."""
    try:
        return build_lab(cell, 0)
    except UnsupportedError:
        return None


def _kinds_of(runs: Iterable[Path]) -> Iterator[Kind]:
    """Of what kind runs are. Of a store with very many, so no more is looked at than that."""
    for run in runs:
        try:
            cell = read_object(run / RUN)["cell"]
            yield cell["scenario"]["name"], cell["client"]["name"], cell["server"]["name"], cell["engine"]
        except (OSError, ValueError, LookupError, TypeError):
            # What cannot be read tells nothing here, and is reported where it is asked for.
            continue


# --- How long runs take here, by those that are stored.


#: Other cells of the store that are looked at: each takes milliseconds to read.
OTHERS = 60


def experience(store: Store, reference: Path, cells: Iterable[Cell]) -> Experience:
    """What the runs of these cells took, those of some others in the store, and those of the reference.

    What cannot be read tells nothing, and is told of by those who need it.
    """
    own = dict.fromkeys(cell.key for cell in cells)
    others = islice((key for key in store.cell_keys() if key not in own), OTHERS)
    took = list[Took]()
    for key in (*own, *others):
        try:
            runs = store.runs(key)
        except ResultError:
            continue
        took += [Took(run.cell, run.wall, str(run.host.get("cpu", ""))) for run in runs if run.outcome.status in ENDED]
    if is_columnar(reference):
        with suppress(ResultError):
            took += Columns(reference).took()
    return Experience(took, cpu_model())
