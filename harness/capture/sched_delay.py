"""How long each container's processes waited for a processor, and what the hypervisor took of it (waits.csv)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from harness.capture.files import read_whole_lines

Kind = Literal["run_delay", "longest", "pressure", "stopped", "steal"]
"""What a sum counts (see `harness.engine.docker.sched_delay`, which writes them)."""
#: What stands in place of a container's name for figures of the whole machine.
MACHINE = "machine"
_SCHEMA = {"t_ns": pl.Int64, "container": pl.String, "kind": pl.String, "ns": pl.Int64}


@dataclass(frozen=True)
class Waited:
    """How much one sum grew between the first and the last sample of a span."""

    ns: int
    sampled_ns: int
    """From the one to the other."""

    @property
    def share(self) -> float:
        """Of the time sampled; of `run_delay` above 1 where several threads waited at once."""
        return self.ns / self.sampled_ns


def read_waits(path: Path) -> pl.DataFrame:
    """Columns t_ns, container, kind, ns (cumulative). Raises OSError."""
    data = read_whole_lines(path)
    if data.count(b"\n") < 2:
        return pl.DataFrame(schema=_SCHEMA)
    frame = pl.read_csv(data, schema=_SCHEMA, ignore_errors=True, truncate_ragged_lines=True)
    return frame.drop_nulls()


def waited(frame: pl.DataFrame, container: str, kind: Kind, start_ns: int, end_ns: int) -> Waited | None:
    """How much a sum grew within a span; None where fewer than two samples are in it.

    A sum that falls belongs to a new container of the same name, and counts from 0.
    """
    rows = frame.filter(
        (pl.col("container") == container) & (pl.col("kind") == kind) & pl.col("t_ns").is_between(start_ns, end_ns)
    ).sort("t_ns", maintain_order=True)
    if len(rows) < 2:
        return None
    times, sums = rows["t_ns"].to_numpy(), rows["ns"].to_numpy()
    steps = np.diff(sums)
    return Waited(int(np.where(steps < 0, sums[1:], steps).sum()), int(times[-1] - times[0]))
