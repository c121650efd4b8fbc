"""The results on disk: one folder a run, and the only writer under results/.

Layout (documented in results/README.md)::

    runs/<cell key>/<repetition>/run.json, measured.json, series.parquet, artefacts …
    runs/<cell key>/replaced/<time>-<repetition>/   what a fresh run stood in for
    images/<digest>.json                            what was in an image that runs name
    partial/<owner>.<cell key>.<repetition>/        a run in progress
    partial/<owner>.<cell key>.<repetition>.small/  a finished run is being made small

A run's folder is renamed into place when it is finished, so a crash of anything loses no finished run and
leaves no half-written one among them. Its artefacts are made small after that (`harness.packing`).
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from harness import former
from harness.engines.contents import Contents
from harness.engines.owner import lives, owner
from harness.errors import EngineError, ResultError
from harness.outcome import MeasuredRun, Run
from harness.packing import pack, strip

RUN, MEASURED, SERIES = "run.json", "measured.json", "series.parquet"
#: Where in a cell's folder the runs are that others stand in for.
_REPLACED = "replaced"
#: Behind the name of what stands beside a run whose artefacts are being compressed or removed.
_SMALL = ".small"


def disk_error(error: OSError, place: Path) -> EngineError:
    """The error for a disk that does not take what is written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return EngineError(f"the disk is full: {place}", "free space (results/, 'docker system df') and run again")
    return EngineError(f"{place}: {error.strerror or error}", "check the folder's permissions")


def _unused(folder: Path, repetition: int) -> Path:
    """Where a run goes that another stands in for; several may, within a second."""
    folder.mkdir(exist_ok=True)
    name = f"{time.strftime('%Y%m%dT%H%M%S')}-{repetition}"
    names = itertools.chain([name], (f"{name}.{number}" for number in itertools.count(1)))
    return next(folder / one for one in names if not (folder / one).exists())


def _current(content: dict[str, Any]) -> dict[str, Any]:
    """A stored run in today's form. Schema 1 had manifests with other names for parameters: they are left out."""
    if content.get("schema", 1) < 2:
        for role in ("client", "server"):
            for key in ("parameters", "defaults"):
                content["cell"][role].pop(key, None)
    return content


def read_run(text: bytes) -> Run:
    """A run from its JSON. Raises ValueError."""
    return Run.model_validate(_current(json.loads(text)))


def read_measured(text: bytes) -> MeasuredRun:
    """What was measured of a run, from its JSON of any schema. Raises ValueError."""
    return MeasuredRun.model_validate(former.measured(json.loads(text)))


class StoreReader(Protocol):
    """Runs that are kept, in whatever form, for who reads them. What cannot be read is a ResultError."""

    root: Path

    def folder(self, key: str, repetition: int) -> Path:
        """Where a run is, or what it is called by where only its figures are kept."""
        ...

    def cell_keys(self) -> list[str]:
        """Keys of all cells that have runs."""
        ...

    def runs(self, key: str) -> list[Run]:
        """All finished runs of a cell, by repetition."""
        ...

    def measured(self, key: str, repetition: int) -> MeasuredRun | None:
        """What was measured of a run, or None."""
        ...

    def series(self, key: str, repetition: int) -> pl.DataFrame | None:
        """The series of a run (see `harness.analysis.series`), or None."""
        ...

    def contents(self, digest: str) -> Contents | None:
        """What was in an image, by the digest that runs name; None where it is not known."""
        ...


class Store:
    """The runs below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    # --- reading

    def folder(self, key: str, repetition: int) -> Path:
        """Where a run is, or will be."""
        return self.root / "runs" / key / str(repetition)

    def run(self, key: str, repetition: int) -> Run | None:
        """A finished run, or None. ResultError when its file cannot be read."""
        file = self.folder(key, repetition) / RUN
        if not file.exists():
            return None
        try:
            return read_run(file.read_bytes())
        except (ValueError, OSError) as error:
            raise ResultError(
                f"{file}: not a run of this format: {error}", "move it away, or use the harness that wrote it"
            ) from error

    def runs(self, key: str) -> list[Run]:
        """All finished runs of a cell, by repetition."""
        folder = self.root / "runs" / key
        if not folder.is_dir():
            return []
        numbers = sorted(int(item.name) for item in folder.iterdir() if item.name.isdigit())
        return [run for number in numbers if (run := self.run(key, number)) is not None]

    def every_folder(self, key: str) -> list[Path]:
        """The folders of all finished runs of a cell, by repetition, and of those that others stand in for."""
        folder = self.root / "runs" / key
        numbered = sorted((int(item.name), item) for item in folder.iterdir() if item.name.isdigit())
        replaced = sorted((folder / _REPLACED).iterdir()) if (folder / _REPLACED).is_dir() else []
        return [item for item in (*(one for _, one in numbered), *replaced) if (item / RUN).is_file()]

    def cell_keys(self) -> list[str]:
        """Keys of all cells that have runs."""
        folder = self.root / "runs"
        return sorted(item.name for item in folder.iterdir() if item.is_dir()) if folder.is_dir() else []

    def measured(self, key: str, repetition: int) -> MeasuredRun | None:
        """What was measured of a run, or None."""
        file = self.folder(key, repetition) / MEASURED
        try:
            return read_measured(file.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            # Measuring again makes it new.
            return None

    def series(self, key: str, repetition: int) -> pl.DataFrame | None:
        """The series of a run (see `harness.analysis.series`), or None. ResultError when the file cannot be read."""
        file = self.folder(key, repetition) / SERIES
        if not file.exists():
            return None
        try:
            return pl.read_parquet(file)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise ResultError(f"{file}: no series: {error}", "remove it and measure the run again") from error

    def contents(self, digest: str) -> Contents | None:
        """What was in an image, by the digest that runs name; None where it is not known."""
        try:
            return Contents(**json.loads((self.root / "images" / f"{digest}.json").read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    # --- writing

    def require_space(self, needed: int) -> None:
        """EngineError when the disk has less than `needed` bytes free: a run would fail in somebody's name."""
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
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        except OSError as error:
            raise disk_error(error, folder) from error
        return folder

    def finish(
        self,
        partial: Path,
        run: Run,
        measured: MeasuredRun | None,
        series: pl.DataFrame | None = None,
        *,
        artefacts: bool = True,
    ) -> Path:
        """Write run.json, measured.json and series.parquet, put the folder in its place, and compress what is in it.

        `artefacts`: keep what all that was measured from; else it is removed.
        """
        target = self.folder(run.cell.key, run.repetition)
        # By this the next command knows a folder that this process did not come to make small.
        small = partial.with_name(f"{partial.name}{_SMALL}")
        try:
            small.mkdir()
            self.write_measured(partial, measured, series)
            (partial / RUN).write_text(run.model_dump_json(by_alias=True, indent=1))
            if target.exists():
                target.rename(_unused(target.parent / _REPLACED, run.repetition))
            target.parent.mkdir(parents=True, exist_ok=True)
            partial.rename(target)
            if artefacts:
                pack(target)
            else:
                strip(target, small)
            shutil.rmtree(small, ignore_errors=True)
        except OSError as error:
            raise disk_error(error, target) from error
        return target

    def write_measured(self, folder: Path, measured: MeasuredRun | None, series: pl.DataFrame | None = None) -> None:
        """Write what was measured beside its run; its series first, so that whoever sees the figures has them too."""
        if series is not None:
            unfinished = folder / f"{SERIES}.new"
            series.write_parquet(unfinished, compression="zstd")
            unfinished.replace(folder / SERIES)
        if measured is not None:
            unfinished = folder / f"{MEASURED}.new"
            unfinished.write_text(measured.model_dump_json(by_alias=True, indent=1))
            unfinished.replace(folder / MEASURED)

    def keep_contents(self, contents: Iterable[Contents]) -> None:
        """Write what is in images, each once, for the runs that name it by its digest."""
        for one in contents:
            file = self.root / "images" / f"{one.digest}.json"
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                unfinished = file.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
                unfinished.write_text(json.dumps(asdict(one), indent=1))
                unfinished.replace(file)

    def abandon(self, partial: Path) -> None:
        """Drop a run in progress."""
        shutil.rmtree(partial, ignore_errors=True)

    def remove(self, folder: Path) -> None:
        """Remove a finished run, wholly or not at all, by its folder. EngineError when the disk refuses."""
        aside = self._aside(folder)
        try:
            aside.parent.mkdir(exist_ok=True)
            folder.rename(aside)
            shutil.rmtree(aside)
        except OSError as error:
            raise disk_error(error, folder) from error
        for empty in (folder.parent, folder.parent.parent):
            if empty != self.root / "runs":
                with suppress(OSError):
                    empty.rmdir()

    def strip(self, folder: Path) -> None:
        """Remove a finished run's artefacts, by its folder; its figures stay. EngineError when the disk refuses."""
        try:
            strip(folder, self._aside(folder))
        except OSError as error:
            raise disk_error(error, folder) from error

    def _aside(self, folder: Path) -> Path:
        """Where something goes before it is removed: whatever is left there is removed by the next command."""
        name = ".".join(folder.relative_to(self.root / "runs").parts)
        return self.root / "partial" / f"{owner()}.{name}.removed"

    def remove_orphans(self) -> list[str]:
        """Drop runs in progress whose harness process is gone, and compress what it left. The names of the former."""
        removed = []
        for folder in self._partials():
            ended, _, name = folder.name.partition(".")
            if lives(ended):
                continue
            if name.endswith(_SMALL):
                key, repetition = name.removesuffix(_SMALL).split(".")
                pack(self.folder(key, int(repetition)))
            else:
                removed.append(folder.name)
            self.abandon(folder)
        return removed

    def _partials(self) -> Iterator[Path]:
        folder = self.root / "partial"
        if folder.is_dir():
            yield from folder.iterdir()
