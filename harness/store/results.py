"""The results on disk: one folder a run, and the only writer under results/.

Layout (documented in results/README.md)::

    runs/<cell key>/<repetition>/run.json, measured.json, series.parquet, artefacts …
    runs/<cell key>/replaced/<time>-<repetition>/   a run that a new one replaced
    runs/equivalences.json                          the ledger that the keys were made by (`harness.store.identity`)
    images/<digest>.json                            the contents of an image that runs name
    partial/<owner>.<cell key>.<repetition>/        a run in progress
    partial/<owner>.<cell key>.<repetition>.small/  a finished run is being compressed

A run's folder is renamed into place when it is finished. So a crash loses no finished run, and leaves no
half-written one among them. Its artefacts are compressed after that (`harness.store.compression`).
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pydantic import TypeAdapter

from harness.engine.images.contents import Contents, is_digest
from harness.engine.process_owner import lives, owner
from harness.errors import EngineError, ResultError
from harness.errors import disk_error as disk_error
from harness.outcome import MeasuredRun, Run
from harness.reading import UnfitFileError, file_status, is_regular, open_folder
from harness.store.cell_names import EVERY_CELL, CellNames
from harness.store.compression import compress_artefacts, remove_artefacts, remove_qlogs
from harness.store.identity import Ledger, cell_key
from harness.store.records import (
    OtherSchemaError,
    describe_read_error,
    read_measured,
    read_object,
    read_record_bytes,
    read_run,
)
from harness.writing import limit_modes, replace_file

if TYPE_CHECKING:
    import polars as pl

# Tables are read and written where they are used: polars takes a fifth of a second, and plans need none of it.

RUN, MEASURED, SERIES = "run.json", "measured.json", "series.parquet"
#: The file that marks a folder as a store in columns (`harness.store.parquet`).
COLUMNS_MARKER = "runs.parquet"
#: The lab of a run in real time, to be brought up by hand: files and folders in the run's folder.
BY_HAND = ("compose.yaml", "cell.env", "plan", "by-hand")
#: The folder of a cell's replaced runs, in the cell's folder.
_REPLACED_FOLDER = "replaced"
#: Suffix of the marker of a run whose artefacts are being compressed or removed.
_COMPRESSING_SUFFIX = ".small"
#: Runs that a store keeps in memory: those of a cell, and of its neighbour that another job makes.
_REMEMBERED_RUNS = 128
_CONTENTS, _KNOWN_LINKS = TypeAdapter(Contents), TypeAdapter(tuple[tuple[str, ...], ...])
#: File among the cells' folders: the links of the ledger from which their keys were computed.
_LINKS = "equivalences.json"


def _free_path(folder: Path, repetition: int) -> Path:
    """A free path for a replaced run; there may be several within a second."""
    folder.mkdir(exist_ok=True)
    name = f"{time.strftime('%Y%m%dT%H%M%S')}-{repetition}"
    names = itertools.chain([name], (f"{name}.{number}" for number in itertools.count(1)))
    return next(folder / candidate for candidate in names if not (folder / candidate).exists())


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes. OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _stamp_of(status: os.stat_result) -> tuple[int, int]:
    """Inode and time of a file: a file that replaces it has others."""
    return status.st_ino, status.st_mtime_ns


def _is_folder(place: Path) -> bool:
    """Whether it is a folder, and not a link to one."""
    try:
        status = file_status(place)
    except OSError:
        return False
    return status is not None and stat.S_ISDIR(status.st_mode)


def is_columnar(root: Path) -> bool:
    """Whether a folder holds a store in columns."""
    return (root / COLUMNS_MARKER).is_file()


class StoreReader(Protocol):
    """Read access to stored runs, in any form. An unreadable run is a ResultError."""

    root: Path

    def folder(self, key: str, repetition: int) -> Path:
        """The folder of a run; only a name where nothing but its figures is kept."""
        ...

    def cell_keys(self, among: CellNames = EVERY_CELL) -> list[str]:
        """Keys of all cells that have runs. `among`: others may be left out."""
        ...

    def runs(self, key: str) -> list[Run]:
        """All readable finished runs of a cell, by repetition."""
        ...

    def measured(self, key: str, repetition: int) -> MeasuredRun | None:
        """The measurements of a run, or None."""
        ...

    def series(self, key: str, repetition: int) -> pl.DataFrame | None:
        """The series of a run (see `harness.analysis.timeseries`), or None."""
        ...

    def contents(self, digest: str) -> Contents | None:
        """The contents of an image, by the digest that runs name; None where unknown."""
        ...

    def warn_ignored(self, place: Path, why: str) -> None:
        """Report, once, that a stored run is ignored, and why."""
        ...


class Store:
    """The runs below one folder.

    The folder's own path may be a link. Below it no link is followed.
    """

    def __init__(self, root: Path, warn: Callable[[str], object] = lambda text: None) -> None:
        """`warn` is called, once, for every unreadable run, which is left out."""
        self.root = root.resolve()
        self._warn = warn
        self._warned: set[Path] = set()
        self._ledger: Ledger | None = None
        """The ledger for the keys of a store that has no runs yet."""
        # After each run its cell is judged anew, with all runs before: without this, reading grows with their square.
        self._read_once = lru_cache(maxsize=_REMEMBERED_RUNS)(self._read)

    # --- reading

    def folder(self, key: str, repetition: int) -> Path:
        """The folder of a run, which need not exist yet."""
        return self.root / "runs" / key / str(repetition)

    def run(self, key: str, repetition: int) -> Run | None:
        """A finished run, or None. ResultError when its file cannot be read."""
        file = self.folder(key, repetition) / RUN
        try:
            if (status := file_status(file)) is None:
                return None
            return self._read_once(key, repetition, _stamp_of(status))
        except (ValueError, OSError) as error:
            raise ResultError(
                f"{file}: not a run of this format: {describe_read_error(error)}",
                "move it away, or use the harness that wrote it",
            ) from error

    def _read(self, key: str, repetition: int, _stamp: tuple[int, int]) -> Run:
        """A finished run. `_stamp` tells its files apart for what remembers the result."""
        run = read_run(read_record_bytes(self.folder(key, repetition) / RUN))
        if (run.cell.key, run.repetition) != (key, repetition):
            raise ValueError(f"it is {run.name}, in the folder of another run")
        return run

    def stamp(self, key: str, repetition: int) -> tuple[int, int] | None:
        """A value that distinguishes a run from its later replacement; None where there is no run."""
        try:
            status = file_status(self.folder(key, repetition) / RUN)
        except OSError:
            return None
        return None if status is None else _stamp_of(status)

    def runs(self, key: str) -> list[Run]:
        """All readable finished runs of a cell, by repetition."""
        folder = self.root / "runs" / key
        try:
            with open_folder(folder):
                numbers = sorted(int(item.name) for item in folder.iterdir() if item.name.isdecimal())
        except FileNotFoundError:
            return []
        except OSError as error:
            self.warn_ignored(folder, describe_read_error(error))
            return []
        runs = []
        for number in numbers:
            try:
                run = self.run(key, number)
            except ResultError as error:
                self.warn_ignored(self.folder(key, number), error.message)
                continue
            if run is None:
                self.warn_ignored(self.folder(key, number), f"there is no {RUN}")
            else:
                runs.append(run)
        return runs

    def warn_ignored(self, place: Path, why: str) -> None:
        """Report, once, that a stored run is ignored, and why."""
        name = "/".join(place.relative_to(self.root / "runs").parts)
        self._warn_once(place, f"the run {name} is left out: {why} ('harness run' makes it again)")

    def _warn_once(self, place: Path, text: str) -> None:
        if place not in self._warned:
            self._warned.add(place)
            self._warn(text)

    def every_folder(self, key: str) -> list[Path]:
        """The folders of all finished runs of a cell, by repetition, and then of its replaced runs."""
        folder = self.root / "runs" / key
        repetitions = sorted((int(item.name), item) for item in folder.iterdir() if item.name.isdecimal())
        replaced = sorted((folder / _REPLACED_FOLDER).iterdir()) if _is_folder(folder / _REPLACED_FOLDER) else []
        return [item for item in (*(entry for _, entry in repetitions), *replaced) if is_regular(item / RUN)]

    def cell_keys(self, among: CellNames = EVERY_CELL) -> list[str]:
        """Keys of all cells that have runs, whatever `among`: a folder does not say what is in it."""
        folder = self.root / "runs"
        if folder.is_symlink():
            # Links below it are reported when its runs are read.
            self._warn_once(
                folder, f"no run is read: {folder} is a link, which is not followed (--store names its target)"
            )
            return []
        return sorted(item.name for item in folder.iterdir() if item.is_dir()) if folder.is_dir() else []

    def measured(self, key: str, repetition: int) -> MeasuredRun | None:
        """The measurements of a run, or None; a file of another schema is reported."""
        file = self.folder(key, repetition) / MEASURED
        try:
            return read_measured(read_record_bytes(file))
        except OtherSchemaError as error:
            self._warn_once(file, f"what was measured of the run {key}/{repetition} is not read: {file}: {error}")
            return None
        except (OSError, ValueError):
            # Measuring again replaces it.
            return None

    def series(self, key: str, repetition: int) -> pl.DataFrame | None:
        """The series of a run (see `harness.analysis.timeseries`), or None; an unreadable file is reported."""
        from harness.store.frames import SERIES_SCHEMA, TableError, read_frame

        file = self.folder(key, repetition) / SERIES
        try:
            return None if file_status(file) is None else read_frame(file, SERIES_SCHEMA, exact=True)
        except (OSError, TableError) as error:
            self._warn_once(
                file, f"the series of the run {key}/{repetition} are left out: {file}: {describe_read_error(error)}"
            )
            return None

    def contents(self, digest: str) -> Contents | None:
        """The contents of an image, by the digest that runs name; None where unknown."""
        if not is_digest(digest):
            return None
        try:
            contents = _CONTENTS.validate_python(read_object(self.root / "images" / f"{digest}.json"))
        except (OSError, ValueError):
            return None
        return contents if contents.digest == digest else None

    # --- keys

    def rekey(self, ledger: Ledger) -> int:
        """Give runs their keys by a ledger, where these differ from their keys by the ledger before.

        Gives the number of renamed runs. EngineError when the disk refuses.
        """
        folder = self.root / "runs"
        try:
            if not folder.is_dir():
                # The first run will record this ledger.
                self._ledger = ledger
                return 0
            if ledger.links == (before := self._links()):
                return 0
            with _lock_folder(folder):
                count = self._rekey(ledger, {digest.encode() for digest in ledger.affected(before)})
                self._note(ledger)
            return count
        except OSError as error:
            raise disk_error(error, folder) from error

    def _note(self, ledger: Ledger) -> None:
        replace_file(self.root / "runs" / _LINKS, json.dumps(ledger.links).encode(), f".{_LINKS}.{owner()}")

    def _links(self) -> tuple[tuple[str, ...], ...]:
        """The links of the ledger that the keys were computed from; none where there was no ledger."""
        try:
            return _KNOWN_LINKS.validate_json(read_record_bytes(self.root / "runs" / _LINKS))
        except (FileNotFoundError, ValueError):
            return ()

    def _rekey(self, ledger: Ledger, digests: set[bytes]) -> int:
        count = 0
        for key in self.cell_keys():
            for folder in self.every_folder(key):
                try:
                    text = read_record_bytes(folder / RUN)
                    if not any(digest in text for digest in digests):
                        continue
                    run = read_run(text)
                except (ValueError, UnfitFileError):
                    # It is reported when the cell's runs are read.
                    continue
                new_key = cell_key(run.cell, ledger) if run.cell.compiled else key
                if new_key != key:
                    self._move(folder, run.model_copy(update={"cell": run.cell.model_copy(update={"key": new_key})}))
                    count += 1
        return count

    def _move(self, folder: Path, run: Run) -> None:
        """Move a run to its folder under another key, or among the replaced runs if that folder exists."""
        replace_file(folder / RUN, run.model_dump_json(by_alias=True, indent=1).encode())
        target = self.folder(run.cell.key, run.repetition)
        target.parent.mkdir(parents=True, exist_ok=True)
        replaced = folder.parent.name == _REPLACED_FOLDER or target.exists()
        folder.rename(_free_path(target.parent / _REPLACED_FOLDER, run.repetition) if replaced else target)
        for empty in (folder.parent, folder.parent.parent):
            if empty != self.root / "runs":
                with suppress(OSError):
                    empty.rmdir()

    # --- writing

    def require_space(self, needed: int) -> None:
        """EngineError when the disk has less than `needed` bytes free: an implementation might be blamed for that."""
        folder = self.root
        try:
            folder.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(folder).free
        except OSError as error:
            raise disk_error(error, folder) from error
        if free < needed:
            raise EngineError(
                f"{folder} has {free / 1e6:.0f} MB free, and a run may need {needed / 1e6:.0f} MB",
                "free space (older results, 'docker system df') and run again",
            )

    def begin(self, key: str, repetition: int) -> Path:
        """A new, empty folder for a run in progress. EngineError when the disk refuses."""
        folder = self.root / "partial" / f"{owner()}.{key}.{repetition}"
        self._require_no_links()
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        except OSError as error:
            raise disk_error(error, folder) from error
        return folder

    def _require_no_links(self) -> None:
        """EngineError where a folder of the store is a link: nothing is written through it."""
        for name in ("runs", "partial", "images", "claims"):
            if (self.root / name).is_symlink():
                raise EngineError(
                    f"{self.root / name} is a link, and no run is written through one",
                    "put a folder in its place; the store itself (--store) may be a link",
                )

    def finish(
        self,
        partial: Path,
        run: Run,
        measured: MeasuredRun | None,
        series: pl.DataFrame | None = None,
    ) -> Path:
        """Write run.json, measured.json and series.parquet, move the folder into place, and reduce its content.

        What the run was measured from is compressed, or removed as far as `run.evidence` says.
        """
        target = self.folder(run.cell.key, run.repetition)
        # This marker shows the next command a folder that this process did not manage to compress.
        small = partial.with_name(f"{partial.name}{_COMPRESSING_SUFFIX}")
        try:
            small.mkdir()
            self.write_measured(partial, measured, series)
            replace_file(partial / RUN, run.model_dump_json(by_alias=True, indent=1).encode())
            self._move_into_place(partial, target, run.repetition)
            if run.evidence == "figures":
                remove_artefacts(target, small)
            else:
                if run.evidence == "captures":
                    remove_qlogs(target)
                compress_artefacts(target)
            shutil.rmtree(small, ignore_errors=True)
        except OSError as error:
            raise disk_error(error, target) from error
        return target

    def adopt(self, partial: Path, run: Run) -> Path:
        """Move the folder of a run into place that was finished already, in another store. EngineError."""
        target = self.folder(run.cell.key, run.repetition)
        try:
            self._move_into_place(partial, target, run.repetition)
        except OSError as error:
            raise disk_error(error, target) from error
        return target

    def _move_into_place(self, partial: Path, target: Path, repetition: int) -> None:
        if target.exists():
            target.rename(_free_path(target.parent / _REPLACED_FOLDER, repetition))
        if self._ledger is not None:
            with suppress(FileExistsError):
                (self.root / "runs").mkdir(parents=True)
                self._note(self._ledger)
        target.parent.mkdir(parents=True, exist_ok=True)
        limit_modes(partial)
        partial.rename(target)

    def write_measured(self, folder: Path, measured: MeasuredRun | None, series: pl.DataFrame | None = None) -> None:
        """Write the measurements of a run, its series first: readers that see the figures find the series, too.

        EngineError when the disk refuses.
        """
        try:
            if series is not None:
                from harness.store.frames import write_frame

                write_frame(series, folder / SERIES)
            if measured is not None:
                replace_file(folder / MEASURED, measured.model_dump_json(by_alias=True, indent=1).encode())
        except OSError as error:
            raise disk_error(error, folder) from error

    def keep_contents(self, contents: Iterable[Contents]) -> None:
        """Write the contents of images, each once, for the runs that name them by digest."""
        for image in contents:
            if not is_digest(image.digest):
                # It could be the name of some other file.
                continue
            file = self.root / "images" / f"{image.digest}.json"
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                unfinished = f"{image.digest}.{os.getpid()}.{threading.get_ident()}"
                replace_file(file, json.dumps(asdict(image), indent=1).encode(), unfinished)

    def abandon(self, partial: Path) -> None:
        """Drop a run in progress."""
        shutil.rmtree(partial, ignore_errors=True)

    def remove(self, folder: Path) -> None:
        """Remove a finished run, completely or not at all, by its folder. EngineError when the disk refuses."""
        trash = self._removal_path(folder)
        try:
            trash.parent.mkdir(exist_ok=True)
            folder.rename(trash)
            shutil.rmtree(trash)
        except OSError as error:
            raise disk_error(error, folder) from error
        for empty in (folder.parent, folder.parent.parent):
            if empty != self.root / "runs":
                with suppress(OSError):
                    empty.rmdir()

    def strip(self, folder: Path) -> None:
        """Remove a finished run's artefacts, by its folder; its figures stay. EngineError when the disk refuses."""
        try:
            remove_artefacts(folder, self._removal_path(folder))
        except OSError as error:
            raise disk_error(error, folder) from error

    def _removal_path(self, folder: Path) -> Path:
        """The path for something that is being removed; the next command removes what is left there."""
        name = ".".join(folder.relative_to(self.root / "runs").parts)
        return self.root / "partial" / f"{owner()}.{name}.removed"

    def remove_orphans(self, needed: Callable[[str], bool] = lives) -> list[str]:
        """Drop runs in progress whose owner is not `needed` (by default: has ended), and compress those it finished.

        Gives the names of the dropped ones.
        """
        removed = []
        for folder in self._partials():
            ended, _, name = folder.name.partition(".")
            if needed(ended) or (name.endswith(_COMPRESSING_SUFFIX) and lives(ended)):
                continue
            if name.endswith(_COMPRESSING_SUFFIX):
                key, _, repetition = name.removesuffix(_COMPRESSING_SUFFIX).partition(".")
                if repetition.isdecimal():
                    compress_artefacts(self.folder(key, int(repetition)))
            else:
                removed.append(folder.name)
            self.abandon(folder)
        return removed

    def _partials(self) -> Iterator[Path]:
        folder = self.root / "partial"
        # Behind a link there would be somebody else's files, not runs in progress.
        if _is_folder(folder):
            yield from folder.iterdir()
