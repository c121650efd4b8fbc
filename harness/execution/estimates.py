"""The disk space that a plan needs, from stored runs of its kind, else from the bytes that its runs transfer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

from harness.derived import DERIVED, package_files
from harness.errors import EngineError, ResultError
from harness.evaluation.retention import RequestedEvidence, kept_evidence
from harness.execution.matrix import PlannedRun
from harness.formatting import format_count, format_size
from harness.outcome import Cell
from harness.planning.endpoint_config import UnsupportedError
from harness.planning.estimate import (
    STORED_BESIDE,
    TIMED_OUTCOMES,
    CellKind,
    DurationModel,
    DurationRatio,
    RunDuration,
    duration_ratios,
    stored_bytes,
    written_bytes,
)
from harness.reading import is_regular
from harness.store.compression import RETAINED_ENTRIES, disk_use, is_compressed
from harness.store.provenance import cpu_model
from harness.store.records import read_measured, read_object, read_record_bytes, read_run
from harness.store.results import MEASURED, RUN, Store, disk_error, is_columnar
from harness.topology import Lab, build_lab

#: Runs of one kind have the same scenario, client, server and engine.
Kind = tuple[str, str, str, str]


@dataclass(frozen=True)
class _Footprint:
    """Disk space that a run keeps, in bytes. The two differ only if artefacts of failed runs alone are kept."""

    minimum: int
    """If it does as well as the best run of its kind; a run of an unknown kind meets its objectives."""
    maximum: int
    """If it does as badly as the worst run of its kind; a run of an unknown kind fails."""


@dataclass(frozen=True)
class DiskNeed:
    """Disk space that the runs of a plan need, in bytes."""

    runs: int
    minimum: int
    """Minimum that they keep: if only failed runs keep artefacts, those of kinds of which all runs failed."""
    maximum: int
    """Maximum that they keep."""
    temporary: int
    """Temporary space while they run: received files, and files that are not yet compressed or removed."""
    served_files: int
    """Files for servers that the cache does not have yet."""
    estimated_runs: int
    """Number of runs whose kind has no stored run."""

    @property
    def text(self) -> str:
        """The need as part of a sentence, for people."""
        note = f", {self.estimated_runs} of them by an upper estimate" if self.estimated_runs else ""
        upper, lower = format_size(self.maximum), format_size(self.minimum)
        stays = f"{upper} of disk" if lower == upper else f"{lower} to {upper} of disk, by how many fail"
        served = f", and {format_size(self.served_files)} of the cache for files to serve" if self.served_files else ""
        return f"{stays} (and {format_size(self.temporary)} while they run{note}){served}"


class DiskUse:
    """Disk usage of the runs of one store."""

    def __init__(self, store: Store, evidence: RequestedEvidence = "full", served: Path | None = None) -> None:
        """`evidence`: what new runs keep; `served`: folder of the files that servers serve, if any."""
        self._store = store
        self._evidence = evidence
        self._served = served
        self._known_sizes: dict[tuple[str, str], list[int]] = {}

    def need(self, todo: Sequence[PlannedRun], jobs: int) -> DiskNeed:
        """The disk space that these runs need, with `jobs` of them in parallel."""
        cells = {item.cell.key: item.cell for item in todo}
        served = {key: _served_files(cell) for key, cell in cells.items()}
        observed = {key: self._footprint(cell, served[key] is not None) for key, cell in cells.items()}
        footprints = {key: observed[key] or self._estimate(cell) for key, cell in cells.items()}
        largest = max((written_bytes(cell.scenario) for cell in cells.values()), default=0)
        return DiskNeed(
            runs=len(todo),
            minimum=sum(footprints[item.cell.key].minimum for item in todo),
            maximum=sum(footprints[item.cell.key].maximum for item in todo),
            temporary=min(jobs, len(todo)) * largest,
            served_files=self._missing(files for files in served.values() if files is not None),
            estimated_runs=sum(observed[item.cell.key] is None for item in todo),
        )

    def require(self, need: DiskNeed) -> str:
        """Raise EngineError with a hint if the disk has no room; return a warning if the room may not suffice.

        The text is empty if the room suffices. The disk is checked again before each run.
        """
        free = self.free()
        room = free
        if self._served is not None and need.served_files:
            if _device(self._served) == _device(self._store.root):
                room -= need.served_files
            else:
                require_room(self._served, need.served_files)
        if not need.runs or room >= need.maximum + need.temporary:
            return ""
        message = (
            f"{self._store.root} has {format_size(free)} free, and {format_count(need.runs, 'run')} to do "
            f"take {need.text}"
        )
        if room >= need.minimum + need.temporary:
            return f"{message}: where too many of them fail, it will not do"
        raise EngineError(
            message,
            "free space ('harness prune --dry-run --unwanted' says what could go), keep less (--evidence failed, "
            "or none), or write elsewhere (--store)",
        )

    def free(self) -> int:
        """Free bytes of the disk that runs are written to. EngineError if that is not known."""
        return _free_bytes(self._store.root)

    def fits(self, need: DiskNeed) -> bool | None:
        """Whether the disk has room; None if that depends on how many runs fail. EngineError as `free`."""
        try:
            return not self.require(need) or None
        except EngineError:
            return False

    def _missing(self, served: Iterable[Mapping[str, int]]) -> int:
        if self._served is None:
            return 0
        return missing_bytes(self._served, {name: size for files in served for name, size in files.items()})

    def _footprint(self, cell: Cell, supported: bool) -> _Footprint | None:
        """Size of stored runs of that cell, kept by the current rule; else of its kind; None without such runs."""
        if not supported:
            return _Footprint(STORED_BESIDE, STORED_BESIDE)
        kind = (cell.scenario.name, cell.client.name, cell.server.name, cell.engine)
        for keys in ([cell.key], self._kinds.get(kind, [])):
            sizes = [size for key in keys for size in self._sizes(key, cell)]
            if sizes:
                return _Footprint(min(sizes) if self._evidence == "failed" else max(sizes), max(sizes))
        return None

    def _estimate(self, cell: Cell) -> _Footprint:
        """Estimated size of a run of a cell without stored runs of its kind."""
        whole = STORED_BESIDE if self._evidence == "figures" else stored_bytes(cell.scenario)
        return _Footprint(whole if self._evidence in ("full", "captures") else STORED_BESIDE, whole)

    def _sizes(self, key: str, cell: Cell) -> list[int]:
        """Size of each run of a stored cell, as if made now as a run of `cell`; without runs of unknown size."""
        cache_key = key, cell.key if self._evidence == "failed" else ""
        if cache_key not in self._known_sizes:
            sizes = (self._size(run, cell) for run in self._folders(key))
            self._known_sizes[cache_key] = [size for size in sizes if size is not None]
        return self._known_sizes[cache_key]

    def _folders(self, key: str) -> Iterator[Path]:
        folder = self._store.root / "runs" / key
        for run in folder.iterdir() if folder.is_dir() else ():
            if is_regular(run / RUN):
                yield run

    def _size(self, folder: Path, cell: Cell) -> int | None:
        stays = self._evidence in ("full", "captures") or (
            self._evidence == "failed" and _keeps_artefacts(folder, cell)
        )
        if stays is None:
            return None
        if not stays:
            return sum(disk_use(folder / name) for name in RETAINED_ENTRIES)
        # Older versions of the harness did not compress runs.
        if (folder / "sim").is_dir() and is_compressed(folder):
            return disk_use(folder)
        return stored_bytes(cell.scenario) if self._evidence == "failed" else None

    @cached_property
    def _kinds(self) -> dict[Kind, list[str]]:
        """Keys of the stored cells of each kind."""
        keys_by_kind: dict[Kind, list[str]] = {}
        for key in self._store.cell_keys():
            kind = next(_read_kinds(self._folders(key)), None)
            if kind is not None:
                keys_by_kind.setdefault(kind, []).append(key)
        return keys_by_kind


def _keeps_artefacts(folder: Path, cell: Cell) -> bool | None:
    """Whether a stored run's artefacts stay if only those of failed runs do; None if the run cannot be read."""
    try:
        run = read_run(read_record_bytes(folder / RUN))
        measured = read_measured(read_record_bytes(folder / MEASURED)) if is_regular(folder / MEASURED) else None
    except (OSError, ValueError):
        return None
    return kept_evidence("failed", cell.scenario, run, measured) == "full"


def missing_bytes(folder: Path, files: Mapping[str, int]) -> int:
    """Bytes of the files (name → bytes) that are missing from the folder of served files."""
    return sum(size for name, size in files.items() if not (folder / name).exists())


def served_files(lab: Lab) -> dict[str, int]:
    """File or folder → bytes, for what the servers of a lab serve."""
    return {name: flow.size for flow in lab.flows if (name := flow.file or flow.folder)}


def require_room(served: Path, size: int) -> None:
    """EngineError if the disk of the folder `served` has no room for `size` bytes."""
    free = _free_bytes(served)
    if size > free:
        raise EngineError(
            f"{served} has {format_size(free)} free, and servers are to serve {format_size(size)} that are made first",
            "ask for fewer or smaller files, free space, or let HARNESS_CACHE name another folder",
        )


def _device(folder: Path) -> int:
    """Device number of the disk that a folder is on, or will be on."""
    return _existing_ancestor(folder).stat().st_dev


def _existing_ancestor(folder: Path) -> Path:
    """The folder, or its nearest parent that exists."""
    ancestor = folder.absolute()
    while not ancestor.exists():
        ancestor = ancestor.parent
    return ancestor


def _free_bytes(folder: Path) -> int:
    """Free bytes of the disk that a folder is on, or will be on. EngineError if that is not known."""
    ancestor = _existing_ancestor(folder)
    try:
        return shutil.disk_usage(ancestor).free
    except OSError as error:
        raise disk_error(error, ancestor) from error


def _served_files(cell: Cell) -> dict[str, int] | None:
    """The files of a cell's lab; None if an implementation does not support what is requested, so that nothing runs."""
    try:
        return served_files(build_lab(cell, 0))
    except UnsupportedError:
        return None


def _read_kinds(runs: Iterable[Path]) -> Iterator[Kind]:
    """The kind of each run. A store may have very many runs, so nothing else is read."""
    for run in runs:
        try:
            cell = read_object(run / RUN)["cell"]
            yield cell["scenario"]["name"], cell["client"]["name"], cell["server"]["name"], cell["engine"]
        except (OSError, ValueError, LookupError, TypeError):
            # Unreadable runs are skipped here; they are reported where they are needed.
            continue


# --- How long runs take on this machine, from stored runs.


#: Number of other cells of the store that are read: each takes milliseconds.
MAX_OTHER_CELLS = 60


def load_experience(store: Store, reference: Path, cells: Iterable[Cell]) -> DurationModel:
    """Durations of the runs of these cells, of some other cells of the store, and of similar ones of the reference.

    Unreadable runs are skipped; they are reported where they are needed.
    """
    planned = tuple(cells)
    own_keys = dict.fromkeys(cell.key for cell in planned)
    other_keys = islice((key for key in store.cell_keys() if key not in own_keys), MAX_OTHER_CELLS)
    durations = list[RunDuration]()
    for key in (*own_keys, *other_keys):
        try:
            runs = store.runs(key)
        except ResultError:
            continue
        durations += [
            RunDuration(run.cell, run.wall, str(run.host.get("cpu", "")))
            for run in runs
            if run.outcome.status in TIMED_OUTCOMES
        ]
    return DurationModel(durations, cpu_model(), _reference_ratios(reference, planned))


#: The tables of a store in columns that durations are read from.
_DURATION_TABLES = ("runs", "cells", "definitions")


def _reference_ratios(reference: Path, planned: Sequence[Cell]) -> list[DurationRatio]:
    """Ratios of the reference's runs that are similar to these cells; none of a store that cannot be read.

    They are kept for later plans of such cells: polars takes a fifth of a second to load, and a cell a millisecond.
    """
    if not is_columnar(reference):
        return []

    def derive() -> str:
        from harness.store.parquet import ColumnStore

        return json.dumps(list(duration_ratios(ColumnStore(reference).durations(planned))))

    similar_to = sorted({(cell.engine, cell.server.name, cell.scenario.name) for cell in planned})
    files = [*(reference / f"{name}.parquet" for name in _DURATION_TABLES), *package_files()]
    kept = DERIVED.table("durations", files, str(reference))
    try:
        text = derive() if kept is None else kept.get(json.dumps(similar_to), derive)
    except ResultError:
        return []
    return [
        DurationRatio(CellKind(engine, scenario, client, server, tuple(map(tuple, parameters)), many), ratio, machine)
        for (engine, scenario, client, server, parameters, many), ratio, machine in json.loads(text)
    ]
