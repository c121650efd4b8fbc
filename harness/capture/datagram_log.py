"""Which datagrams a client received, and when each was sent: datagrams.csv in its logs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from harness.capture.files import read_whole_lines

#: Its name, in the client's folder.
DATAGRAMS = "datagrams.csv"
_SCHEMA = {"sequence": pl.Int64, "sent_ns": pl.Int64, "received_ns": pl.Int64}


@dataclass(frozen=True)
class ReceivedDatagrams:
    """The datagrams that came, each once, in the order of their arrival."""

    sequence: npt.NDArray[np.int64]
    sent_ns: npt.NDArray[np.int64]
    """By the sender's clock, since the epoch."""
    received_ns: npt.NDArray[np.int64]

    @property
    def delays(self) -> npt.NDArray[np.float64]:
        """From sender to receiver, s. Both have the clock of the machine."""
        return (self.received_ns - self.sent_ns) / 1e9

    @property
    def jitter(self) -> float:
        """The interarrival jitter after the last one, s (RFC 3550 §6.4.1)."""
        jitter = 0.0
        for difference in np.abs(np.diff(self.delays)).tolist():
            jitter += (difference - jitter) / 16
        return jitter


def read_datagrams(path: Path) -> ReceivedDatagrams:
    """Raises OSError; damaged rows are left out."""
    data = read_whole_lines(path)
    frame = pl.DataFrame(schema=_SCHEMA)
    if data.count(b"\n") > 1:
        frame = pl.read_csv(data, schema=_SCHEMA, ignore_errors=True, truncate_ragged_lines=True).drop_nulls()
    frame = frame.unique("sequence", keep="first", maintain_order=True)
    return ReceivedDatagrams(*(frame[name].to_numpy() for name in _SCHEMA))
