"""The bottleneck towards the clients in the time in which flows send through it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.metrics.direction import Direction
from harness.metrics.registry import Finding
from harness.metrics.series import BOTTLENECK, RunSeries
from harness.metrics.series.bottleneck import stays
from harness.metrics.series.grid import Ints
from harness.metrics.shared_flow import flows_of
from harness.metrics.view import RunView
from harness.outcome import Measurement


@dataclass(frozen=True)
class SharedBottleneck:
    """That direction of the link, from the first flow's start to the last one's end."""

    direction: Direction
    series: RunSeries
    start: float
    end: float
    """s since time zero."""

    def stays(self) -> tuple[Ints, Ints, Ints]:
        """When each packet that passed the queue came and left (ns since time zero), and its length (bytes)."""
        return stays(self.direction, self.series.zero_ns)


def shared_bottleneck(view: RunView) -> SharedBottleneck | None:
    """The bottleneck towards the clients; None where no flow sends that way, or the captures do not show it."""
    flows = [flow for flow in flows_of(view) if flow.facts.sender == "server"]
    direction = view.directions.get("to_client")
    if not flows or direction is None:
        return None
    start, end = min(flow.life.start_ns for flow in flows) / 1e9, max(flow.life.end_ns for flow in flows) / 1e9
    return SharedBottleneck(direction, flows[0].series, start, end)


def mean_over_time(view: RunView, name: str, series: str, unit: str) -> Iterator[Finding]:
    """The mean of one of the bottleneck's series over its points in that time."""
    link = shared_bottleneck(view)
    if link is None:
        return
    points = link.series.points(BOTTLENECK, series)
    inside = points.value[(points.t >= link.start) & (points.t <= link.end)]
    if len(inside):
        yield lower(name, inside.mean(), unit, "both captures")


def lower(name: str, value: float, unit: str, vantage: str) -> Measurement:
    """A measurement of which less is better."""
    return Measurement(name=name, value=float(value), unit=unit, direction="lower", vantage=vantage)
