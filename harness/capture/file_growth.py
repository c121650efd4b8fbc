"""How the client's file grew (growth.csv)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from harness.capture.files import read_whole_lines

_SCHEMA = {"t_ns": pl.Int64, "flow": pl.Int64, "transfer": pl.Int64, "bytes": pl.Int64}


@dataclass(frozen=True)
class Moment:
    """A moment known to lie between two samples."""

    after_ns: int
    """Last sample at which it had not come yet."""
    before_ns: int
    """First sample at which it had."""

    @property
    def middle_ns(self) -> float:
        """The middle: off by at most half the gap."""
        return self.after_ns + self.gap_ns / 2

    @property
    def gap_ns(self) -> int:
        """The resolution of this moment."""
        return self.before_ns - self.after_ns


@dataclass(frozen=True)
class Growth:
    """Samples of the size of one transfer's file, in order of time."""

    t_ns: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    """Bytes in the file at each sample."""

    def reached(self, size: int, start_ns: int) -> Moment | None:
        """When the file first had at least `size` bytes; None where it never did.

        `start_ns`: when it certainly had not, for a file that was as large at its first sample.
        """
        enough = np.flatnonzero(self.size >= size)
        if not len(enough):
            return None
        first = int(enough[0])
        before = int(self.t_ns[first])
        after = max(int(self.t_ns[first - 1]), start_ns) if first else start_ns
        return Moment(min(after, before), before)

    @property
    def typical_step(self) -> int:
        """The step size such that half of the file came in steps at least as large, bytes; 0 for no growth."""
        steps = np.sort(np.diff(self.size, prepend=0))[::-1]
        steps = steps[steps > 0]
        if not len(steps):
            return 0
        return int(steps[np.searchsorted(np.cumsum(steps), steps.sum() / 2)])


def read_growth(path: Path) -> pl.DataFrame:
    """Columns t_ns, flow, transfer, bytes, as written. Raises OSError; damaged rows are left out."""
    data = read_whole_lines(path)
    if data.count(b"\n") < 2:
        return pl.DataFrame(schema=_SCHEMA)
    frame = pl.read_csv(data, schema=_SCHEMA, ignore_errors=True, truncate_ragged_lines=True)
    return frame.drop_nulls()


def growth_of(frame: pl.DataFrame, flow: int, transfer: int) -> Growth:
    """The samples of one transfer, in order of time."""
    rows = frame.filter((pl.col("flow") == flow) & (pl.col("transfer") == transfer)).sort("t_ns", maintain_order=True)
    return Growth(rows["t_ns"].to_numpy(), rows["bytes"].to_numpy())
