"""Tables of stored runs: Parquet files, read and written.

Somebody else may have written these files. One is refused, without waiting, if it is not regular, is larger than any
honest one, or holds content that no table of this format has.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from harness.formatting import format_count, format_size, format_value
from harness.reading import checked_size, open_regular
from harness.reading.parquet import ParquetFooter, read_footer
from harness.writing import replace_file

#: The most bytes of a file with a table.
MAX_TABLE_SIZE = 1 << 30
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


class TableError(ValueError):
    """A file does not hold a table of the required form."""


def read_frame(
    file: Path,
    schema: Mapping[str, pl.DataType],
    *,
    exact: bool = False,
    values: int | None = None,
    keys: Collection[str] | None = None,
) -> pl.DataFrame:
    """A table of a Parquet file: its columns that `schema` has, with the schema's types. Raises OSError, TableError.

    A column that the file lacks is left out, since the file may be older than the column. `exact`: a missing column, or
    a missing value, is an error. NaN is an error in any case. `values`: the most values, MOST_VALUES by default.
    `keys`: only the rows with one of these in the column `key`; a file without that column is read as a whole.
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
            columns = [name for name in schema if name in stored_schema]
            if keys is None or stored_schema.get("key") != pl.String:
                frame = pl.read_parquet(content, columns=columns)
            else:
                chosen = pl.col("key").is_in(list(keys))
                frame = pl.scan_parquet(content, parallel="prefiltered").select(columns).filter(chosen).collect()
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
