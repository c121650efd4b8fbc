"""What the files of a run say: its record and what was measured of it; and how tables are written."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import ValidationError

from harness.outcome import MEASURED_SCHEMA, RUN_SCHEMA, MeasuredRun, Run


def _record(text: bytes) -> dict[str, Any]:
    """The object that a file holds. Raises ValueError."""
    try:
        content = json.loads(text)
    except RecursionError as error:
        raise ValueError("brackets within brackets, too many to read") from error
    if not isinstance(content, dict):
        raise ValueError(f"it holds {'a list' if isinstance(content, list) else 'one value'}, not a record")
    return content


class OtherSchemaError(ValueError):
    """A record is of a schema that this harness does not read."""


def require_schema(schema: object, ours: int) -> None:
    """OtherSchemaError unless a record is of the schema that this harness writes: another one's keys mean other things.

    `schema`: as the record has it; None where it has none, as the first schema had.
    """
    schema = 1 if schema is None else schema
    if schema != ours:
        newer = isinstance(schema, int) and schema > ours
        hint = "use the newer harness that wrote it" if newer else "it is no longer read"
        raise OtherSchemaError(f"it is of schema {schema!r}, and this harness reads schema {ours}: {hint}")


def read_run(text: bytes) -> Run:
    """A run from its JSON. Raises ValueError."""
    content = _record(text)
    require_schema(content.get("schema"), RUN_SCHEMA)
    return Run.model_validate(content)


def read_measured(text: bytes) -> MeasuredRun:
    """What was measured of a run, from its JSON. Raises ValueError."""
    content = _record(text)
    require_schema(content.get("schema"), MEASURED_SCHEMA)
    return MeasuredRun.model_validate(content)


def unreadable(error: ValueError | OSError) -> str:
    """Why a file cannot be read, in half a sentence; of a record that is wrong in many places the first."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def write_frame(frame: pl.DataFrame, file: Path, **how: Any) -> None:
    """Write a frame as Parquet; `how`: as polars has it. OSError, where polars would have errors of its own."""
    content = io.BytesIO()
    frame.write_parquet(content, compression="zstd", **how)
    file.write_bytes(content.getbuffer())
