"""The content of a run's files: its record and its measurements; and reading and writing of tables.

Somebody else may have written these files, or replaced them. A file is refused, without waiting, if it is not regular,
is larger than any honest one, or holds content that no record or table of this format has.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import ValidationError

from harness.formatting import format_count, format_size, format_value
from harness.outcome import MEASURED_SCHEMA, RUN_SCHEMA, MeasuredRun, Run
from harness.reading import checked_size, open_regular, read_regular
from harness.reading.parquet import ParquetFooter, read_footer
from harness.writing import replace_file

#: The most bytes of a record (the largest of the reference's has a thousandth of it), and of a file with a table.
MAX_RECORD_SIZE, MAX_TABLE_SIZE = 64 << 20, 1 << 30
#: Limits of the size that a small file may claim: the most rows of a table, and values of all its columns; and the most
#: values of a table whose rows become objects. The largest of the reference's has a twentieth of the last one.
MAX_ROWS, MAX_VALUES, MAX_OBJECT_VALUES = 100_000_000, 600_000_000, 60_000_000
#: The most unpacked bytes of a page of a table, and of all pages together.
MAX_PAGE_SIZE, MAX_UNPACKED_SIZE = 1 << 30, 4 << 30

#: Column → type of the series of a run (`harness.analysis.timeseries`).
SERIES_SCHEMA: Mapping[str, pl.DataType] = {
    "flow": pl.Int16(),
    "name": pl.String(),
    "t": pl.Float64(),
    "value": pl.Float64(),
}


def read_record_bytes(file: Path) -> bytes:
    """The content of a file with a record. Raises OSError."""
    return read_regular(file, MAX_RECORD_SIZE)


def read_object(file: Path) -> dict[str, Any]:
    """The JSON object that a file holds. Raises OSError, ValueError."""
    return parse_json_object(read_record_bytes(file))


def parse_json(text: bytes | str, *, once: bool = False) -> Any:
    """The plain data of a JSON text, as RFC 8259 has it. Raises ValueError.

    `once`: a duplicate name in an object is an error too, since its meaning is ambiguous (§4).
    """
    text = text if isinstance(text, str) else text.decode()
    try:
        content = (_JSON_ONCE if once else _JSON).decode(text)
        if _SURROGATE.search(text):
            # A lone surrogate is no character, and cannot be encoded (RFC 8259 §8.2).
            json.dumps(content, ensure_ascii=False).encode()
        return content
    except RecursionError as error:
        raise ValueError("brackets within brackets, too many to read") from error


def parse_json_object(text: bytes | str) -> dict[str, Any]:
    """The object that a JSON text is. Raises ValueError."""
    content = parse_json(text)
    if not isinstance(content, dict):
        raise ValueError(f"it holds {'a list' if isinstance(content, list) else 'one value'}, not a record")
    return content


def _refuse_constant(word: str) -> float:
    """Refuse infinity and NaN: the harness writes infinity as a text, and never NaN (RFC 8259 §6 has neither)."""
    raise ValueError(f"it says {word}, which is no number in JSON")


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise ValueError(f"{format_value(twice)} is given twice in one object")
    return members


#: Created once: to create a decoder takes longer than to decode most texts.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_JSON = json.JSONDecoder(parse_constant=_refuse_constant)
_JSON_ONCE = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_unique_members)


class OtherSchemaError(ValueError):
    """A record is of a schema that this harness does not read."""


def require_schema(schema: object, ours: int) -> None:
    """OtherSchemaError unless a record is of the schema that this harness writes: keys of others have other meanings.

    `schema`: as in the record; None where it has none, as in the first schema.
    """
    schema = 1 if schema is None else schema
    if schema != ours:
        newer = isinstance(schema, int) and schema > ours
        hint = "use the newer harness that wrote it" if newer else "it is no longer read"
        raise OtherSchemaError(f"it is of schema {schema!r}, and this harness reads schema {ours}: {hint}")


def read_run(text: bytes) -> Run:
    """A run from its JSON. Raises ValueError."""
    content = parse_json_object(text)
    require_schema(content.get("schema"), RUN_SCHEMA)
    return Run.model_validate(content)


def read_measured(text: bytes) -> MeasuredRun:
    """The measurements of a run, from their JSON. Raises ValueError."""
    content = parse_json_object(text)
    require_schema(content.get("schema"), MEASURED_SCHEMA)
    return MeasuredRun.model_validate(content)


def describe_read_error(error: Exception) -> str:
    """Why a file cannot be read, as half a sentence; for a record with many mistakes, the first one."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"] if part != "[key]")
        if first["type"] == "string_pattern_mismatch":
            return f"{place}: {format_value(first['input'])} is no such name"
        return f"{place}: {first['msg']}"
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


class TableError(ValueError):
    """A file does not hold a table of the required form."""


def read_frame(
    file: Path, schema: Mapping[str, pl.DataType], *, exact: bool = False, values: int | None = None
) -> pl.DataFrame:
    """A table of a Parquet file: its columns that `schema` has, with the schema's types. Raises OSError, TableError.

    A column that the file lacks is left out, since the file may be older than the column. `exact`: a missing column, or
    a missing value, is an error. NaN is an error in any case. `values`: the most values, MOST_VALUES by default.
    """
    try:
        with open_regular(file) as content:
            _require_room(read_footer(content, checked_size(content, MAX_TABLE_SIZE, file)), values or MAX_VALUES)
            content.seek(0)
            stored_schema = pl.read_parquet_schema(content)
            missing = [name for name in schema if name not in stored_schema]
            if missing and exact:
                raise TableError(f"it has no column {format_value(missing[0])}")
            content.seek(0)
            frame = pl.read_parquet(content, columns=[name for name in schema if name in stored_schema])
            return _cast_columns(frame, schema, exact=exact)
    except TableError:
        raise
    # Polars panics on input that it cannot refuse otherwise, and a panic is no Exception.
    except (ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise TableError(f"it is no table: {_first_line(error)}") from error


def _require_room(claim: ParquetFooter, values: int) -> None:
    """TableError for a table that exceeds the limits once it is unpacked."""
    for label, size, limit in (("row", claim.rows, MAX_ROWS), ("value", claim.values, values)):
        if size > limit:
            raise TableError(f"it has {format_count(size, label)}, and there is room for {limit}")
    for label, size, limit in (("a page of it", claim.page, MAX_PAGE_SIZE), ("it", claim.unpacked, MAX_UNPACKED_SIZE)):
        if size > limit:
            raise TableError(
                f"{label} has {format_size(size)} once it is unpacked, and there is room for {format_size(limit)}"
            )


def _cast_columns(frame: pl.DataFrame, schema: Mapping[str, pl.DataType], *, exact: bool) -> pl.DataFrame:
    columns = []
    for column in frame:
        kind = schema[column.name]
        try:
            # Polars can cast any number to a text, but nobody wrote such a text.
            if column.dtype != kind and (column.dtype == pl.String) != (kind == pl.String) and column.dtype != pl.Null:
                raise TableError(f"its column {format_value(column.name)} is of {column.dtype}, not of {kind}")
            cast = column.cast(kind)
        except pl.exceptions.PolarsError as error:
            raise TableError(f"its column {format_value(column.name)} is of {column.dtype}, not of {kind}") from error
        if exact and cast.null_count():
            raise TableError(f"its column {format_value(cast.name)} has rows without a value")
        if cast.dtype.is_float() and cast.is_nan().any():
            raise TableError(f"its column {format_value(cast.name)} has rows that say NaN")
        columns.append(cast)
    return pl.DataFrame(columns)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def write_frame(frame: pl.DataFrame, file: Path, **options: Any) -> None:
    """Write a frame as Parquet, in place of an existing file. `options`: polars'. OSError, also for polars' errors."""
    content = io.BytesIO()
    frame.write_parquet(content, compression="zstd", **options)
    replace_file(file, content.getbuffer())
