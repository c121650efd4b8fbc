"""A store in columns: many runs in a few files that polars and pandas open in a line, for archives and publication.

It holds what a folder of runs does, except their artefacts. It is read like one, and is written as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
from pydantic import BaseModel

from harness.engine.images.contents import Contents, is_digest
from harness.engine.process_owner import lives, owner
from harness.errors import ResultError
from harness.formatting import format_value
from harness.outcome import Cell, MeasuredRun, Run
from harness.planning.estimate import TIMED_OUTCOMES, RunDuration
from harness.scenario.schema import Implementation, Scenario
from harness.store.cell_names import EVERY_CELL, CellNames
from harness.store.frames import MAX_OBJECT_VALUES, TableError, read_frame, write_frame
from harness.store.parquet.tables import (
    NON_NULL_COLUMNS,
    REQUIRED_COLUMNS,
    TABLES,
    Row,
    Rows,
    StoredRun,
    images_frame,
    read_cell,
    read_measured,
    read_run,
)
from harness.store.records import OtherSchemaError, describe_read_error, parse_json_object

#: Errors of a row that was not written here: a definition that it names is missing, or its texts are no records.
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)
#: Columns of cells by which the runs similar to a planned one are chosen; and the number of cells that stand for all
#: others of a server or an engine.
_SIMILARITY, _STAND_INS = ("engine", "server", "scenario"), 60


class _RunError(ResultError):
    """One run cannot be read; any other ResultError concerns a whole table."""


class ColumnStore:
    """The runs of a store in columns. Its files are read on first access, each once.

    An unreadable run or table is a ResultError. A run's folder is a name only: there are no artefacts.
    """

    def __init__(self, root: Path, warn: Callable[[str], object] = lambda text: None) -> None:
        """`warn` is called, once, for every unreadable run, which is left out."""
        self.root = root.resolve()
        self._warn = warn
        self._warned: set[Path] = set()
        self._expected: frozenset[str] = frozenset()
        """The cells whose rows are read, until those of others are asked for."""

    def folder(self, key: str, repetition: int) -> Path:
        """The name of a run: its path in a folder of runs."""
        return self.root / "runs" / key / str(repetition)

    def cell_keys(self, among: CellNames = EVERY_CELL) -> list[str]:
        """Keys of the cells that have runs, and these names."""
        if among == EVERY_CELL:
            return sorted(self._rows("runs").keys)
        cells = self._table("cells", columns=("key", "scenario", "client", "server"))
        for column, names in (("scenario", among.scenarios), ("client", among.clients), ("server", among.servers)):
            cells = cells if names is None else cells.filter(pl.col(column).is_in(list(names)))
        # Whoever asks reads the runs of these cells next, so the rows of no others need be in memory.
        self._expected = frozenset(cells["key"])
        return sorted(self._expected & self._rows("runs", self._expected).keys)

    def _run_row(self, key: str, repetition: int) -> Row | None:
        rows = self._run_rows("runs", key, repetition)
        return rows[-1] if rows else None

    def run(self, key: str, repetition: int) -> Run | None:
        """A finished run, or None."""
        row = self._run_row(key, repetition)
        if row is None:
            return None
        try:
            return read_run(row, self._cell(key, row["build"]), self._run_rows("transfers", key, repetition))
        except _UNREADABLE as error:
            raise self._unreadable(key, repetition, error) from error

    def runs(self, key: str) -> list[Run]:
        """All readable finished runs of a cell, by repetition."""
        runs = []
        for number in sorted(self._rows("runs", {key}).of_cell(key)):
            try:
                run = self.run(key, number)
            except _RunError as error:
                self.warn_ignored(self.folder(key, number), error.message)
                continue
            if run is not None:
                runs.append(run)
        return runs

    def warn_ignored(self, place: Path, why: str) -> None:
        """Report, once, that a run is ignored, and why."""
        self._warn_once(place, f"the run {place.parent.name}/{place.name} is left out: {why}")

    def _warn_once(self, place: Path, text: str) -> None:
        if place not in self._warned:
            self._warned.add(place)
            self._warn(text)

    def measured(self, key: str, repetition: int) -> MeasuredRun | None:
        """The measurements of a run, or None; those of another schema are reported."""
        row = self._run_row(key, repetition)
        if row is None:
            return None
        try:
            return read_measured(
                row, *(self._run_rows(table, key, repetition) for table in ("measurements", "observations", "links"))
            )
        except OtherSchemaError as error:
            place = self.folder(key, repetition) / "measured"
            self._warn_once(place, f"what was measured of the run {key}/{repetition} is not read: {self.root}: {error}")
            return None
        except _UNREADABLE:
            # The evaluation of runs leaves out measurements that cannot be read.
            return None

    def durations(self, planned: Iterable[Cell] | None = None) -> list[RunDuration]:
        """The durations of runs that ended by themselves or by their time limit; unreadable ones are left out.

        `planned`: of the runs most similar to these cells alone (see `DurationModel`), since a cell takes a
        millisecond to read. They are those of the same scenario and server, and of some other cells of the server
        and of the engine.
        """
        timed = self._timed_runs
        if planned is not None:
            timed = timed.join(_similar_keys(timed, planned), on="key", how="semi", maintain_order="left")
        return list(self._read_durations(timed))

    @cached_property
    def _timed_runs(self) -> pl.DataFrame:
        """The runs that durations are read from, with what says how similar they are to others."""
        runs = self._table("runs").select("key", "build", "repetition", "outcome_status", "wall", "host")
        cells = self._table("cells").select("key", "build", *_SIMILARITY)
        # Releases of one implementation take about as long as each other.
        cells = cells.with_columns(pl.col("server").str.split("@").list.first())
        timed = runs.filter(pl.col("outcome_status").is_in(TIMED_OUTCOMES) & (pl.col("wall") > 0))
        return timed.join(cells, on=("key", "build"), how="left", maintain_order="left")

    def _read_durations(self, timed: pl.DataFrame) -> Iterator[RunDuration]:
        for row in timed.iter_rows(named=True):
            with suppress(*_UNREADABLE):
                machine = str(parse_json_object(row["host"] or "{}").get("cpu", ""))
                yield RunDuration(self._cell(row["key"], row["build"]), row["wall"], machine)

    def series(self, key: str, repetition: int) -> pl.DataFrame | None:
        """The series of a run (see `harness.analysis.timeseries`), or None."""
        frame = self._series.get((key, repetition))
        return None if frame is None else frame.drop("key", "repetition")

    def contents(self, digest: str) -> Contents | None:
        """The contents of an image, by the digest that runs name; None where unknown."""
        return self._contents.get(digest)

    def every_contents(self) -> list[Contents]:
        """The contents of all known images."""
        return list(self._contents.values())

    def entries(self) -> list[StoredRun]:
        """All runs, with their measurements."""
        return [
            StoredRun(run, self.measured(key, run.repetition), self.series(key, run.repetition))
            for key in self.cell_keys()
            for run in self.runs(key)
        ]

    # --- rows

    def _table(self, name: str, keys: Set[str] | None = None, columns: Collection[str] = ()) -> pl.DataFrame:
        """A table, or its rows of some cells, or some of its columns."""
        file = self.root / f"{name}.parquet"
        try:
            # Series stay a frame; rows of other tables become objects.
            most = None if name == "series" else MAX_OBJECT_VALUES
            schema = {column: kind for column, kind in TABLES[name].items() if not columns or column in columns}
            frame = read_frame(file, schema, values=most, keys=keys)
            if missing := sorted((REQUIRED_COLUMNS[name] & {*schema}) - {*frame.columns}):
                raise TableError(f"it has no column {format_value(missing[0])}")
            for column in frame.select(NON_NULL_COLUMNS & {*frame.columns}):
                if column.null_count():
                    raise TableError(f"its column {format_value(column.name)} has rows without a value")
        except (OSError, TableError) as error:
            raise ResultError(
                f"{file}: cannot be read: {describe_read_error(error)}", "take it from the project's history again"
            ) from error
        return frame

    def _unreadable(self, key: str, repetition: int, error: Exception) -> _RunError:
        why = f"it names {error}, which is not there" if isinstance(error, KeyError) else describe_read_error(error)
        return _RunError(
            f"{self.root}: run {key}/{repetition} is none of this format: {why}", "use the harness that wrote it"
        )

    def _rows(self, name: str, keys: Set[str] | None = None) -> _RowsByCell:
        """The rows of a table that has some of every cell: of these cells at least; of all without."""
        known = self._tables.get(name)
        if known is None or not known.covers(keys):
            # The second time somebody asks for others: then the whole table, instead of a part for each.
            part = self._expected if known is None and keys is not None and keys <= self._expected else None
            known = self._tables[name] = _RowsByCell(self._table(name, part), part)
        return known

    @cached_property
    def _tables(self) -> dict[str, _RowsByCell]:
        return {}

    def _run_rows(self, table: str, key: str, repetition: int) -> list[Row]:
        return self._rows(table, {key}).of_cell(key).get(repetition, [])

    @cached_property
    def _definitions(self) -> Mapping[str, BaseModel]:
        return _Definitions(self.root / "definitions.parquet", self._table("definitions"))

    @cached_property
    def _parsed_cells(self) -> dict[tuple[str, int], Cell]:
        return {}

    def _cell(self, key: str, build: int) -> Cell:
        build_key = key, build
        if build_key not in self._parsed_cells:
            self._parsed_cells[build_key] = read_cell(
                self._rows("cells", {key}).of_cell(key)[build][-1], self._definitions
            )
        return self._parsed_cells[build_key]

    @cached_property
    def _series(self) -> dict[tuple[str, int], pl.DataFrame]:
        parts = self._table("series").partition_by("key", "repetition", as_dict=True, maintain_order=True)
        return {(str(key), int(repetition)): frame for (key, repetition), frame in parts.items()}

    @cached_property
    def _contents(self) -> dict[str, Contents]:
        contents: dict[str, Contents] = {}
        for row in self._table("images").iter_rows(named=True):
            if not is_digest(row["digest"]):
                raise ResultError(
                    f"{self.root / 'images.parquet'}: {format_value(row['digest'])} is the digest of no "
                    "image's contents",
                    "take it from the project's history again",
                )
            image = contents.setdefault(row["digest"], Contents(row["digest"], {}, {}))
            (image.packages if row["kind"] == "package" else image.programs)[row["name"]] = row["version"]
        return contents


class _RowsByCell:
    """The rows of a table by cell and repetition, or build for the cells themselves. A cell's become objects when they
    are asked for, since a report of one scenario needs a hundredth of them.
    """

    #: The last cells whose rows are kept: one run after the other is read, with its measurements.
    _KEPT_CELLS = 64

    def __init__(self, frame: pl.DataFrame, part: Set[str] | None) -> None:
        """`part`: the cells whose rows the frame has; None for all."""
        self._part = part
        self._frame = frame.sort("key", maintain_order=True)
        lengths = self._frame["key"].rle().struct.field("len").cast(pl.Int64)
        starts = lengths.cum_sum() - lengths
        names = self._frame["key"].gather(starts)
        self._places = dict(zip(names, zip(starts, lengths, strict=True), strict=True))
        self._columns = self._frame.columns
        self._number = self._columns.index("repetition" if "repetition" in self._columns else "build")
        self._recent: dict[str, dict[int, list[Row]]] = {}

    @property
    def keys(self) -> Set[str]:
        """The keys of all its cells."""
        return self._places.keys()

    def covers(self, keys: Set[str] | None) -> bool:
        """Whether it has all rows of these cells; of all cells for None."""
        return self._part is None or (keys is not None and keys <= self._part)

    def of_cell(self, key: str) -> Mapping[int, list[Row]]:
        """Repetition or build → rows, in the table's order."""
        if key not in self._recent:
            by_number: dict[int, list[Row]] = {}
            for values in self._values_of(*self._places.get(key, (0, 0))):
                by_number.setdefault(values[self._number], []).append(dict(zip(self._columns, values, strict=True)))
            if len(self._recent) >= self._KEPT_CELLS:
                del self._recent[next(iter(self._recent))]
            self._recent[key] = by_number
        return self._recent[key]

    def _values_of(self, start: int, length: int) -> Sequence[tuple[Any, ...]]:
        if self._part is None:
            return self._frame.slice(start, length).rows()
        return self._every_row[start : start + length]

    @cached_property
    def _every_row(self) -> list[tuple[Any, ...]]:
        """All rows of a part, as a slice for each cell takes as long as a hundred rows."""
        return list(zip(*map(_values, self._frame), strict=True))


def _values(column: pl.Series) -> list[Any]:
    """The values of a column. Equal texts are one object, since a few names stand in all rows."""
    values = column.to_list()
    known: dict[str | None, str | None] = {}
    return [known.setdefault(text, text) for text in values] if column.dtype == pl.String else values


class _Definitions(Mapping[str, BaseModel]):
    """Hash → scenario or implementation, each parsed on first access. ResultError for one of another format."""

    _MODELS: ClassVar[Mapping[str, type[BaseModel]]] = {"scenario": Scenario, "implementation": Implementation}

    def __init__(self, file: Path, frame: pl.DataFrame) -> None:
        """`frame`: the table of `file`."""
        self._file = file
        self._rows = {row["hash"]: row for row in frame.iter_rows(named=True)}
        self._parsed: dict[str, BaseModel] = {}

    def __getitem__(self, digest: str) -> BaseModel:
        if digest not in self._parsed:
            row = self._rows[digest]
            try:
                self._parsed[digest] = self._MODELS[row["kind"]].model_validate_json(row["content"])
            except (ValueError, KeyError) as error:
                raise ResultError(
                    f"{self._file}: a definition is none of this format: {describe_read_error(error)}",
                    "use the harness that wrote it",
                ) from error
        return self._parsed[digest]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _similar_keys(timed: pl.DataFrame, planned: Iterable[Cell]) -> pl.DataFrame:
    """Keys of the cells among `timed` that tell most of how long the planned ones take."""
    wanted = pl.DataFrame(
        list({(cell.engine, cell.server.base_name, cell.scenario.name) for cell in planned}),
        schema=dict.fromkeys(_SIMILARITY, pl.String),
        orient="row",
    )
    keys = [timed.join(wanted, on=_SIMILARITY, how="semi").select("key")]
    for columns in (_SIMILARITY[:2], _SIMILARITY[:1]):
        for _, group in timed.join(wanted, on=columns, how="semi").group_by(*columns):
            similar_keys = group.select(pl.col("key").unique().sort())
            keys.append(similar_keys.gather_every(max(1, similar_keys.height // _STAND_INS)))
    return pl.concat(keys).unique()


def write_columns(root: Path, entries: Iterable[StoredRun], contents: Iterable[Contents]) -> None:
    """Write a store in columns, in place of an existing one. OSError.

    All files are written beside the old ones first, and then renamed in a row. The same runs give the same bytes.
    Unfinished files of a process that was killed are removed.
    """
    root.mkdir(parents=True, exist_ok=True)
    root = root.resolve()
    rows, series = Rows(), list[pl.DataFrame]()
    for entry in sorted(entries, key=lambda stored: (stored.run.cell.key, stored.run.repetition)):
        rows.add(entry)
        if entry.series is not None:
            run_columns = (
                pl.lit(entry.run.cell.key).alias("key"),
                pl.lit(entry.run.repetition, pl.Int64).alias("repetition"),
            )
            series.append(entry.series.select(*run_columns, "flow", "name", "t", "value"))
    frames = dict(rows.frames())
    frames["images"] = images_frame(contents)
    frames["series"] = pl.concat(series) if series else pl.DataFrame(schema=TABLES["series"])
    unfinished = {name: root / f".{name}.{owner()}" for name in frames}
    for file in (file for name in frames for file in root.glob(f".{name}.*")):
        if not lives(file.name.rpartition(".")[2]):
            file.unlink(missing_ok=True)
    try:
        for name, frame in frames.items():
            write_frame(frame, unfinished[name], compression_level=19, statistics=False)
        for name, file in unfinished.items():
            file.replace(root / f"{name}.parquet")
    finally:
        for file in unfinished.values():
            file.unlink(missing_ok=True)
