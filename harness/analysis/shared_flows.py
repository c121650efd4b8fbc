"""Flows of a run with several flows, or that are cut off: their series, their shared bottleneck, their means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.direction import LinkDirection, Side
from harness.analysis.run_view import RunView
from harness.analysis.timeseries import RunSeries, bottleneck_number
from harness.analysis.timeseries.grid import BIN, Floats, Ints, Points
from harness.analysis.timeseries.lifetimes import Lifetime
from harness.analysis.timeseries.network import queue_times, rate_samples
from harness.capture.capture import Capture
from harness.topology.lab_file import FlowAddresses

#: Why a flow lacks a metric that only its sender could report.
NOT_REPORTED = "neither a qlog nor tcp_info of the sender shows it"
#: Two equal moments may differ by this much in binary, s.
_TIME_TOLERANCE = 1e-9


@dataclass(frozen=True)
class SharedFlow:
    """A flow of a run that has more than one file downloaded to its end."""

    view: RunView
    series: RunSeries
    facts: FlowAddresses
    lifetime: Lifetime

    @property
    def number(self) -> int:
        """The flow's number."""
        return self.facts.flow

    @property
    def complete(self) -> bool:
        """Whether its client exited by itself: all that it was to transfer has arrived."""
        return any(item.flow == self.number and item.exit_code == 0 for item in self.view.run.transfers)

    @property
    def responsive(self) -> bool:
        """Whether it has congestion control."""
        return self.facts.kind != "udp"

    @property
    def at_sender(self) -> str:
        """The vantage where its packets are seen leaving."""
        return "right capture" if self.facts.sender == "server" else "left capture"

    @property
    def at_receiver(self) -> str:
        """The vantage where its packets are seen arriving."""
        return "left capture" if self.facts.sender == "server" else "right capture"

    @property
    def sender_state_vantage(self) -> str:
        """The vantage of the state that its sender, which has congestion control, reports."""
        return {"tcp": "tcp_info", "https": self.at_sender}.get(self.facts.kind, "qlog")

    def points(self, name: str) -> Points:
        """One of its series, in full."""
        return self.series.points(self.number, name)

    def samples(self, name: str) -> Points:
        """The bins of one of its series that lie wholly within its lifetime."""
        return points_within(self.points(name), self.lifetime)

    def mean_rate(self, side: Capture) -> float:
        """Mbit/s of payload at one side during its lifetime."""
        t_ns = side.t_ns - self.lifetime.zero_ns
        during = (t_ns >= self.lifetime.start_ns) & (t_ns <= self.lifetime.end_ns)
        return float(side.payload[during].sum()) * 8 / self.lifetime.seconds / 1e6 if self.lifetime.seconds else 0.0

    @property
    def side(self) -> Side:
        """The direction that its data take."""
        return "to_client" if self.facts.sender == "server" else "to_server"

    def capacity(self, t: Floats) -> Floats:
        """Rate of the bottleneck on its client's path at each moment, Mbit/s; 0 for a path never used.

        With segments in series it is the rate of the slowest.
        """
        side, paths = self.side, self.view.paths
        if self.view.in_sequence:
            return np.asarray(np.min([self._steps(place, side, t) for place in range(len(paths))], axis=0), np.float64)
        capacities = np.zeros(len(t))
        for since, path in self.stays:
            place = paths.index(path) if len(paths) > 1 else 0
            on_path = t >= since - _TIME_TOLERANCE
            capacities[on_path] = self._steps(place, side, t[on_path])
        return capacities

    def _steps(self, place: int, side: Side, t: Floats) -> Floats:
        """The capacity of one path's bottleneck at each moment."""
        steps = self.series.points(bottleneck_number(place, len(self.view.paths), side), "capacity")
        if not len(steps.t):  # a path without packets has no series
            return np.zeros(len(t))
        return np.asarray(
            steps.value[np.maximum(np.searchsorted(steps.t, t + _TIME_TOLERANCE, side="right") - 1, 0)], np.float64
        )

    @property
    def stays(self) -> list[tuple[float, str]]:
        """(since when, path): the paths that its client is on, in order of time; s since time zero."""
        return [(-np.inf, self.facts.path), *((move.at, move.path) for move in self.facts.moves)]


def points_within(points: Points, lifetime: Lifetime) -> Points:
    """The bins of a series that lie wholly within a lifetime."""
    bins = np.round(points.t / BIN).astype(np.int64)
    inside = (bins >= lifetime.bins[0]) & (bins <= lifetime.bins[1])
    return Points(points.t[inside], points.value[inside])


def flows_of(view: RunView) -> tuple[SharedFlow, ...]:
    """The flows of which data arrived; none in a run of one file downloaded to its end."""
    if not view.is_shared or view.lab is None or view.series is None:
        return ()
    series = view.series
    return tuple(
        SharedFlow(view, series, facts, series.lifetimes[facts.flow])
        for facts in view.lab.flows
        if facts.flow in series.lifetimes
    )


# --- The bottleneck during the time in which flows send through it.


@dataclass(frozen=True)
class SharedBottleneck:
    """The direction that the data take (`RunView.data_side`), from the first flow's start to the last one's end."""

    view: RunView
    direction: LinkDirection
    series: RunSeries
    start: float
    end: float
    """s since time zero."""

    def sojourns(self) -> tuple[Ints, Ints, Ints]:
        """When each packet that passed the queue arrived and left (ns since time zero), and its length (bytes)."""
        return queue_times(self.direction, self.series.zero_ns)

    def values(self, name: str) -> Floats:
        """The points of one of its series in that time."""
        points = self.series.points(bottleneck_number(0, 1, self.view.data_side), name)
        return points.value[(points.t >= self.start) & (points.t <= self.end)]


def shared_bottleneck(view: RunView) -> SharedBottleneck | None:
    """The bottleneck that data pass; None if no flow sends in its direction, or the captures do not show it."""
    flows = [flow for flow in flows_of(view) if flow.side == view.data_side]
    direction = view.directions.get(view.data_side)
    if not flows or direction is None:
        return None
    start, end = min(flow.lifetime.start_ns for flow in flows) / 1e9, max(flow.lifetime.end_ns for flow in flows) / 1e9
    return SharedBottleneck(view, direction, flows[0].series, start, end)


# --- The throughputs of flows side by side.


def throughputs(flows: Sequence[SharedFlow]) -> Floats:
    """Throughput of each flow in each sample, NaN where it was not active throughout; shape (samples, flows)."""
    lifetimes = {flow.number: flow.lifetime for flow in flows}
    return rate_samples({flow.number: flow.points("throughput") for flow in flows}, lifetimes, lifetimes)[1]
