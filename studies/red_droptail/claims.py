"""The figures of a notebook on RED and DropTail, from single runs on a fork of mahimahi."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "S. Shanks, Congestion Control at the Router Level (a notebook on a fork of mahimahi)"


@dataclass(frozen=True)
class Notebook:
    """One comparison of the notebook's: throughput (bytes/s) and RTT (ms) of single runs."""

    case: str
    sender: str
    droptail: tuple[float, float]
    red: tuple[float, float]


#: The last "RED" ran with queue_type droptail.
NOTEBOOK = (
    Notebook("low", "reno", (10910.0, 238.67), (11496.67, 224.01)),
    Notebook("low", "cubic", (14479.33, 255.04), (17792.67, 236.58)),
    Notebook("high", "cubic", (15660.0, 444.20), (36924.67, 468.50)),
)
