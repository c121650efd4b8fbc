"""Series of a run over time: of each flow, of the bottleneck, of all flows together.

One long frame: flow (Int16: a flow's number, or one of the numbers below), name, t (s since time zero), value. Time
zero is chosen so that every flow's client sent its first packet at or after the flow's start. So an event due at t = 5
s in a scenario is at t = 5 s here, or later by as much as its client took to start. The value of a bin is placed at its
beginning; bins and grids start at multiples of their width.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl

from harness.analysis.direction import LinkView, Side
from harness.analysis.timeseries.grid import BIN, GRID, NO_POINTS, Points
from harness.analysis.timeseries.lifetimes import Lifetime, lifetimes_of, zero_of
from harness.analysis.timeseries.network import bottleneck_series, file_series, network_series, wire_series
from harness.analysis.timeseries.sender import sender_series, sender_states
from harness.store.frames import SERIES_SCHEMA

#: In place of a flow's number: the bottleneck towards the clients, all flows together, and the bottleneck in the other
#: direction (only if a flow sends in that direction). Those of several paths have lower numbers (`bottleneck_number`).
BOTTLENECK: Final = -1
NETWORK: Final = -2
RETURN_BOTTLENECK: Final = -3


def bottleneck_number(path: int, paths: int, side: Side) -> int:
    """In place of a flow's number: the number of a path's bottleneck, by the path's index among so many.

    A single path has the two numbers above. With several paths none has them: a query for "the bottleneck" would get
    one of many.
    """
    if paths == 1:
        return BOTTLENECK if side == "to_client" else RETURN_BOTTLENECK
    return RETURN_BOTTLENECK - 1 - 2 * path - (side == "to_server")


SCHEMA: Final = dict(SERIES_SCHEMA)


@dataclass(frozen=True)
class Description:
    """The meaning of a series."""

    unit: str
    meaning: str
    source: str


_CAPTURES = "both captures"
_SENDER = "the sender: qlog's metrics_updated for QUIC, tcp_info for TCP"

#: Name → description. A name may be a flow's and the network's: the network's is the sum over the flows.
SERIES: Final[dict[str, Description]] = {
    "received": Description(
        "B",
        f"size of the client's file every {GRID} s, from each transfer's first datagram (0 B) on; not where the client "
        "sizes its file in advance",
        "the client's file, sampled every 10 ms",
    ),
    "throughput": Description(
        "Mbit/s", f"payload of UDP or TCP that arrived at the receiver's side, per bin of {BIN} s", "capture there"
    ),
    "sending_rate": Description(
        "Mbit/s",
        f"payload of UDP or TCP that left the sender, per bin of {BIN} s; of a bottleneck: frames that left its queue",
        "capture at the sender's side; both captures",
    ),
    "ack_ratio": Description(
        "1",
        f"packets with data that reached the receiver per packet it sent, per bin of {BIN} s that has both; no "
        "packets of handshakes",
        "capture at the receiver's side; RFC 9000 §13.2.2",
    ),
    "cwnd": Description("packets", f"congestion window, last known value every {GRID} s", _SENDER),
    "in_flight": Description("packets", f"sent and not known to have arrived or been lost, every {GRID} s", _SENDER),
    "srtt": Description("ms", f"smoothed round-trip time from the first sample on, every {GRID} s", _SENDER),
    "one_way_delay": Description(
        "ms",
        f"from one interface of the simulator to the other, mean over the packets that left in a bin of {BIN} s",
        _CAPTURES,
    ),
    "drops": Description("packets", f"dropped at the bottleneck's queue, per bin of {BIN} s", _CAPTURES),
    "queued": Description("B", f"the flow's frames in the bottleneck's queue, every {GRID} s", _CAPTURES),
    "queue_length": Description("B", f"frames in the bottleneck's queue, every {GRID} s", _CAPTURES),
    "queue_packets": Description("packets", f"packets in the bottleneck's queue, every {GRID} s", _CAPTURES),
    "queue_delay": Description(
        "ms",
        f"wait of the last packet that left the bottleneck's queue, 0 while it is empty, every {GRID} s",
        _CAPTURES,
    ),
    "drop": Description(
        "flow", "a row for each packet dropped at the bottleneck's queue: when it came, whose it was", _CAPTURES
    ),
    "mark": Description(
        "flow", "a row for each packet that the bottleneck's queue marked (ECN): when it came, whose it was", _CAPTURES
    ),
    "loss": Description(
        "flow", "a row for each packet that random loss took behind the queue: when it came, whose it was", _CAPTURES
    ),
    "too_large": Description(
        "flow",
        "a row for each packet that did not pass because it was larger than the path's MTU: when it came, whose it was",
        _CAPTURES,
    ),
    "datagram_size": Description(
        "B",
        f"largest payload of UDP or TCP that left the sender in one packet, per bin of {BIN} s that has any",
        "capture at the sender's side",
    ),
    "datagram_size_received": Description(
        "B",
        f"the same of what arrived at the receiver's side, per bin of {BIN} s that has any",
        "capture at the receiver's side",
    ),
    "datagram_size_return": Description(
        "B",
        f"the same of what left the receiver towards the sender, per bin of {BIN} s that has any",
        "capture at the receiver's side",
    ),
    "capacity": Description("Mbit/s", "layer-2 rate of the bottleneck, from each change on", "lab.json"),
    "jain": Description(
        "1",
        f"Jain's index of the throughputs of the flows active all through a bin of {BIN} s, if two or more are",
        "captures at the receivers' sides",
    ),
    "jain_responsive": Description(
        "1",
        "the same over flows with congestion control, where others run beside them",
        "captures at the receivers' sides",
    ),
}


@dataclass(frozen=True)
class RunSeries:
    """All series of a run."""

    frame: pl.DataFrame
    lifetimes: dict[int, Lifetime]
    """Flow → its lifetime; without flows that sent nothing."""
    states: dict[int, pl.DataFrame]
    """Flow → the state that its sender reported (see `sender.SenderReport`); without flows that reported none."""
    zero_ns: int
    """Time zero since the epoch."""

    def points(self, flow: int, name: str) -> Points:
        """One series in order of time; empty where there is none."""
        return self._points.get((flow, name), NO_POINTS)

    @cached_property
    def _points(self) -> dict[tuple[object, ...], Points]:
        parts = self.frame.partition_by("flow", "name", as_dict=True)
        return {key: Points(rows["t"].to_numpy(), rows["value"].to_numpy()) for key, rows in parts.items()}


def series_of(view: LinkView) -> RunSeries | None:
    """The series of a run; None without lab.json, without captures, or where no client sent anything."""
    zero_ns = zero_of(view)
    if view.lab is None or zero_ns is None:
        return None
    lifetimes = lifetimes_of(view, zero_ns)
    series: dict[tuple[int, str], Points] = {}
    states: dict[int, pl.DataFrame] = {}
    for flow in view.lab.flows:
        lifetime = lifetimes.get(flow.flow)
        if lifetime is None:
            continue
        flow_series = wire_series(view, flow, lifetime) | file_series(view, lifetime)
        reports = sender_states(view, flow, lifetime)
        if reports:
            states[flow.flow] = pl.concat([report.state for report in reports])
            flow_series |= sender_series(reports)
        for name, points in flow_series.items():
            series[flow.flow, name] = points
    paths = view.every_path
    for place, path in enumerate(paths):
        for side, direction in path.directions.items():
            sender = "server" if side == "to_client" else "client"
            if side == "to_client" or any(flow.sender == sender for flow in view.lab.flows):
                for name, points in bottleneck_series(direction, zero_ns).items():
                    series[bottleneck_number(place, len(paths), side), name] = points
    responsive = {flow.flow for flow in view.lab.flows if flow.kind != "udp"}
    for name, points in network_series(series, lifetimes, responsive).items():
        series[NETWORK, name] = points
    frames = [
        pl.DataFrame(
            {
                "flow": np.full(len(points.t), flow, np.int16),
                "name": [name] * len(points.t),
                "t": points.t,
                "value": points.value,
            },
            schema=SCHEMA,
        )
        for (flow, name), points in series.items()
        if len(points.t)
    ]
    return RunSeries(pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA), lifetimes, states, zero_ns)
