"""When a client with a schedule asked for each of its files, and when each came: requests.csv in its logs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from harness.capture.files import read_whole_lines

#: Its name, in the client's folder.
REQUESTS = "requests.csv"
_SCHEMA = {"request": pl.Int64, "asked_ns": pl.Int64, "first_byte_ns": pl.Int64, "complete_ns": pl.Int64}


@dataclass(frozen=True)
class RequestTimes:
    """The times of so many requests, by their numbers: s after a moment, NaN for what did not happen."""

    asked: npt.NDArray[np.float64]
    first_byte: npt.NDArray[np.float64]
    complete: npt.NDArray[np.float64]
    """When the response was whole."""


def read_requests(path: Path) -> pl.DataFrame:
    """Columns request, asked_ns, first_byte_ns, complete_ns (since the epoch). Raises OSError; damaged rows are left
    out.
    """
    data = read_whole_lines(path)
    if data.count(b"\n") < 2:
        return pl.DataFrame(schema=_SCHEMA)
    frame = pl.read_csv(data, schema=_SCHEMA, ignore_errors=True, truncate_ragged_lines=True)
    return frame.filter(pl.col("request").is_not_null())


def request_times(frame: pl.DataFrame, count: int, zero_ns: int) -> RequestTimes:
    """The times of `count` requests after a moment (ns since the epoch)."""
    times = {name: np.full(count, np.nan) for name in ("asked_ns", "first_byte_ns", "complete_ns")}
    rows = frame.filter(pl.col("request").is_between(0, count - 1)).unique("request", keep="last")
    numbers = rows["request"].to_numpy()
    for name, column in times.items():
        # Differences of integers first: as floats the epochs' ns would be off by 200.
        column[numbers] = (rows[name] - zero_ns).cast(pl.Float64).fill_null(np.nan).to_numpy() / 1e9
    return RequestTimes(times["asked_ns"], times["first_byte_ns"], times["complete_ns"])
