"""What the files of a run say: its record and what was measured of it, of any schema; and how tables are written."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import ValidationError

from harness import former
from harness.outcome import MeasuredRun, Run


def _record(text: bytes) -> dict[str, Any]:
    """The object that a file holds. Raises ValueError."""
    try:
        content = json.loads(text)
    except RecursionError as error:
        raise ValueError("brackets within brackets, too many to read") from error
    if not isinstance(content, dict):
        raise ValueError(f"it holds {'a list' if isinstance(content, list) else 'one value'}, not a record")
    return content


def _current(content: dict[str, Any]) -> dict[str, Any]:
    """A stored run in today's form. Schema 1 had manifests with other names for parameters: they are left out."""
    if content.get("schema", 1) < 2:
        for role in ("client", "server"):
            for key in ("parameters", "defaults"):
                content["cell"][role].pop(key, None)
    return content


def read_run(text: bytes) -> Run:
    """A run from its JSON. Raises ValueError."""
    content = _record(text)
    try:
        return Run.model_validate(_current(content))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("it lacks what every run has") from error


def read_measured(text: bytes) -> MeasuredRun:
    """What was measured of a run, from its JSON of any schema. Raises ValueError."""
    content = _record(text)
    try:
        return MeasuredRun.model_validate(former.measured(content))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("it lacks what all that was measured has") from error


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
