"""The figures of a notebook on RED and DropTail, from single runs on a fork of mahimahi."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "S. Shanks, Congestion Control at the Router Level (a notebook on a fork of mahimahi)"

#: How long its runs last, s.
DURATION = 120.0
#: Its queues and its cases, as names of scenarios have them.
QUEUES, CASES = ("droptail", "red"), ("low", "high")


@dataclass(frozen=True)
class Notebook:
    """One comparison of the notebook's: throughput (bytes/s) and RTT (ms) of single runs."""

    case: str
    sender: str
    droptail: tuple[float, float]
    red: tuple[float, float]
    beside: str = ""
    """The sender that shares the link, if there is one."""
    mislabelled: bool = False
    """Whether the run that is called RED had `queue_type: droptail`, too: the two are equals."""


#: The notebook's Tahoe is called Reno here.
NOTEBOOK = (
    Notebook("low", "reno", (10910.0, 238.67), (11496.67, 224.01)),
    Notebook("low", "cubic", (14479.33, 255.04), (17792.67, 236.58)),
    Notebook("high", "cubic", (15660.0, 444.20), (36924.67, 468.50)),
    Notebook("high", "cubic", (30038.67, 596.14), (41468.67, 577.18), beside="reno", mislabelled=True),
    Notebook("high", "reno", (4614.67, 485.21), (5400.67, 454.52), beside="cubic", mislabelled=True),
)
