"""The tables of a store in columns, and the conversion of runs to rows (results/README.md documents them).

A scenario or a manifest is stored once, under the hash of its content; a cell names it by that hash.
"""

from __future__ import annotations

import hashlib
import json
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import polars as pl
from pydantic import BaseModel

from harness.engine.images.contents import Contents
from harness.outcome import (
    MEASURED_SCHEMA,
    RUN_SCHEMA,
    Cell,
    DirectionProof,
    LinkProof,
    MeasuredRun,
    Measurement,
    Observation,
    Outcome,
    Run,
    Transfer,
)
from harness.scenario.schema import Implementation, Scenario
from harness.store.frames import SERIES_SCHEMA
from harness.store.records import parse_json, parse_json_object, require_schema

# --- Records as rows of a table, and back: the columns of a model are its fields.


Record = TypeVar("Record", bound=BaseModel)

#: Suffix of the extra column for the words of a field that may be a number or a word.
_WORD_SUFFIX = "_word"
_SCALARS: dict[type, type[pl.DataType]] = {
    bool: pl.Boolean,
    int: pl.Int64,
    float: pl.Float64,
    str: pl.String,
}


@dataclass(frozen=True)
class _Column:
    """The columns that store one field."""

    field: str
    kind: Literal["plain", "list", "either", "json"]
    dtype: pl.DataType

    @property
    def schema(self) -> dict[str, pl.DataType]:
        if self.kind == "either":
            return {self.field: self.dtype, self.field + _WORD_SUFFIX: pl.String()}
        return {self.field: self.dtype}

    def write(self, value: Any) -> dict[str, Any]:
        if self.kind == "json":
            return {self.field: None if value is None else json.dumps(value, ensure_ascii=False)}
        if self.kind == "either":
            word = isinstance(value, str)
            return {self.field: None if word else value, self.field + _WORD_SUFFIX: value if word else None}
        return {self.field: value}

    def read(self, row: Mapping[str, Any]) -> Any:
        value = row.get(self.field)
        if self.kind == "json":
            return None if value is None else parse_json(value)
        if self.kind == "either" and value is None:
            return row.get(self.field + _WORD_SUFFIX)
        return value


class ModelTable(Generic[Record]):
    """A table of records of one model.

    Numbers, words and lists of them are columns of that type; other values are JSON. If a file is older than a field,
    and lacks its column, the field gets its default. Unknown columns are left out.
    """

    def __init__(self, model: type[Record], without: Iterable[str] = ()) -> None:
        """`without`: fields that are stored elsewhere."""
        self._model = model
        self._excluded = frozenset(without)

    @cached_property
    def _columns(self) -> tuple[_Column, ...]:
        hints = get_type_hints(self._model)
        return tuple(_column(name, hints[name]) for name in self._model.model_fields if name not in self._excluded)

    @cached_property
    def _compound_columns(self) -> tuple[_Column, ...]:
        """Those whose values are no fields as they are. Most rows have none, and there are many."""
        return tuple(column for column in self._columns if column.kind != "plain")

    @property
    def required(self) -> frozenset[str]:
        """The required columns of a record: those of fields without a default."""
        fields = self._model.model_fields
        return frozenset(
            name for column in self._columns if fields[column.field].is_required() for name in column.schema
        )

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """Column → type."""
        return {name: dtype for column in self._columns for name, dtype in column.schema.items()}

    def row(self, record: Record) -> dict[str, Any]:
        """A record as values by column."""
        content = record.model_dump(mode="json", exclude=set(self._excluded))
        # Infinity is a word in JSON, and a number here.
        plain = {
            column.field: getattr(record, column.field)
            for column in self._columns
            if column.kind in ("plain", "either")
        }
        return {
            name: value
            for column in self._columns
            for name, value in column.write((content | plain)[column.field]).items()
        }

    def fields(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of the record of a row, without those whose columns are missing.

        Columns of other records are among them, which every model ignores (`harness.outcome.run.Fact`).
        """
        content = dict(row)
        for column in self._compound_columns:
            if column.field in row:
                value = column.read(row)
                if value is None and column.kind != "either":
                    # None stands for a column that a file's older rows did not have.
                    value = self._model.model_fields[column.field].default
                content[column.field] = value
        return content

    def record(self, row: Mapping[str, Any]) -> Record:
        """The record of a row. Raises ValueError."""
        return self._model.model_validate(self.fields(row))


def _column(name: str, hint: Any) -> _Column:
    options = [option for option in get_args(hint) if option is not type(None)] if _is_union(hint) else [hint]
    scalars = {_scalar(option) for option in options}
    if scalars == {float, str}:
        return _Column(name, "either", pl.Float64())
    if len(scalars) == 1 and (scalar := scalars.pop()) is not None:
        return _Column(name, "plain", _SCALARS[scalar]())
    if len(options) == 1 and get_origin(options[0]) is tuple:
        item = _scalar(get_args(options[0])[0])
        if item is not None and get_args(options[0])[1:] == (Ellipsis,):
            return _Column(name, "list", pl.List(_SCALARS[item]()))
    return _Column(name, "json", pl.String())


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def _scalar(hint: Any) -> type | None:
    """The scalar that a hint stands for; None for a compound type."""
    if get_origin(hint) is Literal:
        kinds = {type(value) for value in get_args(hint)}
        return kinds.pop() if len(kinds) == 1 else None
    return hint if hint in _SCALARS else None


# --- tables


Row = dict[str, Any]

_DEFINITIONS: dict[str, pl.DataType] = {
    "hash": pl.String(),
    "kind": pl.String(),
    "name": pl.String(),
    "content": pl.String(),
}
_CELL = ModelTable(Cell, without=("scenario", "client", "server", "others"))
_OUTCOME = ModelTable(Outcome)
#: The store has no artefacts, and so no digests of them.
_RUN = ModelTable(Run, without=("cell", "outcome", "transfers", "artefacts", "evidence"))
_MEASURED = ModelTable(MeasuredRun, without=("measurements", "observed", "link"))
_LINK = ModelTable(LinkProof, without=("to_client", "to_server", "further"))
_DIRECTION = ModelTable(DirectionProof)
_TRANSFER, _MEASUREMENT, _OBSERVATION = ModelTable(Transfer), ModelTable(Measurement), ModelTable(Observation)
_KEY = {"key": pl.String(), "repetition": pl.Int64()}
_DIRECTIONS = ("to_client", "to_server")
#: Prefixes of the columns of a run's parts, in its row.
_OF_OUTCOME, _OF_MEASURED, _OF_LINK = "outcome_", "measured_", "link_"

#: Table → column → type. A table is a file of that name.
TABLES: dict[str, dict[str, pl.DataType]] = {
    "definitions": _DEFINITIONS,
    "cells": {
        **_CELL.schema,
        "scenario": pl.String(),
        "scenario_hash": pl.String(),
        "client": pl.String(),
        "client_hash": pl.String(),
        "server": pl.String(),
        "server_hash": pl.String(),
        "others": pl.String(),
        "build": pl.Int16(),
    },
    "runs": {
        "key": pl.String(),
        "build": pl.Int16(),
        **_RUN.schema,
        **{_OF_OUTCOME + name: dtype for name, dtype in _OUTCOME.schema.items()},
        "measured": pl.Boolean(),
        **{_OF_MEASURED + name: dtype for name, dtype in _MEASURED.schema.items()},
        "link": pl.Boolean(),
        **{_OF_LINK + name: dtype for name, dtype in _LINK.schema.items()},
    },
    "transfers": _KEY | _TRANSFER.schema,
    "measurements": _KEY | _MEASUREMENT.schema,
    "observations": _KEY | _OBSERVATION.schema,
    "links": _KEY | {"direction": pl.String()} | _DIRECTION.schema,
    "images": {"digest": pl.String(), "kind": pl.String(), "name": pl.String(), "version": pl.String()},
    "series": {**_KEY, **SERIES_SCHEMA},
}
#: Table → its required columns; and the columns that must have a value in every row.
REQUIRED_COLUMNS: dict[str, frozenset[str]] = {
    "definitions": frozenset(_DEFINITIONS),
    "cells": _CELL.required | {"key", "build", "scenario_hash", "client_hash", "server_hash", "others"},
    "runs": _RUN.required
    | {_OF_OUTCOME + name for name in _OUTCOME.required}
    | {_OF_MEASURED + name for name in _MEASURED.required}
    | {_OF_LINK + name for name in _LINK.required}
    | {"key", "build", "measured", "link", "host", "wall"},
    "transfers": _TRANSFER.required | _KEY.keys(),
    "measurements": _MEASUREMENT.required | _KEY.keys(),
    "observations": _OBSERVATION.required | _KEY.keys(),
    "links": _DIRECTION.required | {"direction", *_KEY},
    "images": frozenset(TABLES["images"]),
    "series": frozenset(TABLES["series"]),
}
NON_NULL_COLUMNS = frozenset(
    {
        "key",
        "repetition",
        "build",
        "hash",
        "kind",
        "content",
        "digest",
        "version",
        "direction",
        "measured",
        "link",
        "others",
        "scenario_hash",
        "client_hash",
        "server_hash",
    }
)


@dataclass(frozen=True)
class StoredRun:
    """One run with its measurements."""

    run: Run
    measured: MeasuredRun | None
    series: pl.DataFrame | None = None
    """Columns flow, name, t, value (see `harness.analysis.timeseries`)."""


@dataclass
class Rows:
    """The rows of all tables except series, as they are collected."""

    definitions: dict[str, Row] = field(default_factory=dict)
    cells: dict[str, list[Row]] = field(default_factory=dict)
    """By key. A cell that was run with several digests of one identity has a row for each, told apart by `build`."""
    tables: dict[str, list[Row]] = field(
        default_factory=lambda: {name: [] for name in ("runs", "transfers", "measurements", "observations", "links")}
    )

    def add(self, entry: StoredRun) -> None:
        """Add the rows of one run."""
        run, measured = entry.run, entry.measured
        run_key = {"key": run.cell.key, "repetition": run.repetition}
        self.tables["runs"].append(_run_row(run, measured) | {"build": self._build(run.cell)})
        self.tables["transfers"] += [run_key | _TRANSFER.row(transfer) for transfer in run.transfers]
        if measured is not None:
            self.tables["measurements"] += [
                run_key | _MEASUREMENT.row(measurement) for measurement in measured.measurements
            ]
            self.tables["observations"] += [
                run_key | _OBSERVATION.row(observation) for observation in measured.observed
            ]
            if measured.link is not None:
                path_directions = {name: getattr(measured.link, name) for name in _DIRECTIONS}
                # A direction without any figure needs no row: it reads the same.
                proven = {name: proof for name, proof in path_directions.items() if proof != DirectionProof()}
                self.tables["links"] += [
                    run_key | {"direction": name} | _DIRECTION.row(proof)
                    for name, proof in (proven | measured.link.further).items()
                ]

    def _build(self, cell: Cell) -> int:
        """The number of a cell's row among the rows with its key."""
        rows, row = self.cells.setdefault(cell.key, []), self._cell(cell)
        number = next(
            (candidate["build"] for candidate in rows if candidate == row | {"build": candidate["build"]}), len(rows)
        )
        if number == len(rows):
            rows.append(row | {"build": number})
        return number

    def _cell(self, cell: Cell) -> Row:
        other_endpoints = {
            name: {
                "implementation": self._define(endpoint.implementation),
                "image": endpoint.image.model_dump(mode="json"),
            }
            for name, endpoint in sorted(cell.others.items())
        }
        parts: dict[str, Scenario | Implementation] = {
            "scenario": cell.scenario,
            "client": cell.client,
            "server": cell.server,
        }
        row = _CELL.row(cell) | {"others": json.dumps(other_endpoints)}
        for name, part in parts.items():
            row |= {name: part.name, f"{name}_hash": self._define(part)}
        return row

    def _define(self, part: Scenario | Implementation) -> str:
        """Store a definition, and give its hash, which identifies it."""
        # In its own order, which the display to people follows.
        content = json.dumps(part.model_dump(mode="json", by_alias=True), ensure_ascii=False)
        digest = hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
        kind = "scenario" if isinstance(part, Scenario) else "implementation"
        self.definitions.setdefault(digest, {"hash": digest, "kind": kind, "name": part.name, "content": content})
        return digest

    def frames(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """Each table, in an order that does not depend on the order in which runs came."""
        yield "definitions", _frame("definitions", self.definitions.values()).sort("kind", "name", "hash")
        cells = [row for rows in self.cells.values() for row in rows]
        yield "cells", _frame("cells", cells).sort("key", "build")
        for name, rows in self.tables.items():
            # The order within a run is kept.
            yield name, _frame(name, rows).sort("key", "repetition", maintain_order=True)


def images_frame(contents: Iterable[Contents]) -> pl.DataFrame:
    """The contents of the images that runs name: a row for each package and each program."""
    rows = [
        {"digest": image.digest, "kind": kind, "name": name, "version": version}
        for image in sorted(contents, key=lambda image: image.digest)
        for kind, versions in (("package", image.packages), ("program", image.programs))
        for name, version in sorted(versions.items())
    ]
    return _frame("images", rows)


def _frame(table: str, rows: Iterable[Row]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=TABLES[table])


def _run_row(run: Run, measured: MeasuredRun | None) -> Row:
    row: Row = {"key": run.cell.key, **_RUN.row(run)} | _add_prefix(_OF_OUTCOME, _OUTCOME.row(run.outcome))
    row["measured"] = measured is not None
    row["link"] = measured is not None and measured.link is not None
    if measured is not None:
        row |= _add_prefix(_OF_MEASURED, _MEASURED.row(measured))
        if measured.link is not None:
            row |= _add_prefix(_OF_LINK, _LINK.row(measured.link))
    return row


def _add_prefix(prefix: str, row: Row) -> Row:
    return {prefix + name: value for name, value in row.items()}


def _remove_prefix(prefix: str, row: Row) -> Row:
    return {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}


def read_cell(row: Row, definitions: Mapping[str, BaseModel]) -> Cell:
    """A cell from its row; `definitions`: hash → scenario or implementation. Raises ValueError, KeyError."""
    other_endpoints = {
        name: {**endpoint, "implementation": definitions[endpoint["implementation"]]}
        for name, endpoint in parse_json_object(row["others"]).items()
    }
    parts = {name: definitions[row[f"{name}_hash"]] for name in ("scenario", "client", "server")}
    return Cell.model_validate({**_CELL.fields(row), **parts, "others": other_endpoints})


def read_run(row: Row, cell: Cell, transfers: Iterable[Row]) -> Run:
    """A run from its rows. Raises ValueError."""
    require_schema(row.get("schema_"), RUN_SCHEMA)
    content = _RUN.fields(row)
    content["outcome"] = _OUTCOME.record(_remove_prefix(_OF_OUTCOME, row))
    content["transfers"] = tuple(_TRANSFER.record(transfer) for transfer in transfers)
    return Run.model_validate({**content, "cell": cell})


def read_measured(
    row: Row, measurements: Iterable[Row], observations: Iterable[Row], links: Iterable[Row]
) -> MeasuredRun | None:
    """The measurements of a run, from its rows; None where there are none. Raises ValueError."""
    if not row["measured"]:
        return None
    content = _MEASURED.fields(_remove_prefix(_OF_MEASURED, row))
    require_schema(content.get("schema_"), MEASURED_SCHEMA)
    if row["link"]:
        proofs = {proof["direction"]: _DIRECTION.record(proof) for proof in links}
        directions = {name: proofs.pop(name) for name in _DIRECTIONS if name in proofs}
        link = {**_LINK.fields(_remove_prefix(_OF_LINK, row)), **directions, "further": proofs}
        content["link"] = LinkProof.model_validate(link)
    content["measurements"] = [_MEASUREMENT.fields(measurement) for measurement in measurements]
    content["observed"] = [_OBSERVATION.fields(observation) for observation in observations]
    return MeasuredRun.model_validate(content | {"schema": content.pop("schema_")})
