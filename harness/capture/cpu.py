"""CPU time and lost datagrams of each container (cpu.csv)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from harness.capture.files import read_whole_lines

_SCHEMA = {"t_ns": pl.Int64, "container": pl.String, "cpu_ns": pl.Int64, "rcvbuf_errors": pl.Int64}


def read_cpu(path: Path) -> pl.DataFrame:
    """Columns t_ns, container, cpu_ns (cumulative), rcvbuf_errors (cumulative or null). Raises OSError."""
    data = read_whole_lines(path)
    if data.count(b"\n") < 2:
        return pl.DataFrame(schema=_SCHEMA)
    frame = pl.read_csv(data, schema=_SCHEMA, ignore_errors=True, truncate_ragged_lines=True)
    return frame.drop_nulls(["t_ns", "container"])


def spent(
    frame: pl.DataFrame, container: str, column: Literal["cpu_ns", "rcvbuf_errors"], start_ns: int, end_ns: int
) -> int | None:
    """How much a cumulative column grew from start to end; None where it was not sampled in between.

    Taken from the last sample at or before start (0 for a container first sampled later: it is new) to the
    first sample at or after end. A value that falls belongs to a new container of the same name.
    """
    rows = frame.filter(pl.col("container") == container).drop_nulls(column).sort("t_ns", maintain_order=True)
    times, values = rows["t_ns"].to_numpy(), rows[column].to_numpy().astype(np.int64)
    after = min(int(np.searchsorted(times, end_ns)), len(times) - 1)
    if after < 0 or times[after] < start_ns:
        return None
    before = int(np.searchsorted(times, start_ns, side="right")) - 1
    steps = np.diff(values, prepend=0)
    grown = np.where(steps < 0, values, steps)
    return int(grown[before + 1 : after + 1].sum())
