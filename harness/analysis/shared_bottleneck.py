"""The bottleneck towards the clients in the time in which flows send through it."""

from __future__ import annotations

from dataclasses import dataclass

from harness.analysis.direction import Direction
from harness.analysis.run_view import RunView
from harness.analysis.shared_flow import flows_of
from harness.analysis.timeseries import BOTTLENECK, RunSeries
from harness.analysis.timeseries.bottleneck import stays
from harness.analysis.timeseries.grid import Floats, Ints


@dataclass(frozen=True)
class SharedBottleneck:
    """That direction of the link, from the first flow's start to the last one's end."""

    view: RunView
    direction: Direction
    series: RunSeries
    start: float
    end: float
    """s since time zero."""

    def stays(self) -> tuple[Ints, Ints, Ints]:
        """When each packet that passed the queue came and left (ns since time zero), and its length (bytes)."""
        return stays(self.direction, self.series.zero_ns)

    def values(self, name: str) -> Floats:
        """The points of one of its series in that time."""
        points = self.series.points(BOTTLENECK, name)
        return points.value[(points.t >= self.start) & (points.t <= self.end)]


def shared_bottleneck(view: RunView) -> SharedBottleneck | None:
    """The bottleneck towards the clients; None where no flow sends that way, or the captures do not show it."""
    flows = [flow for flow in flows_of(view) if flow.facts.sender == "server"]
    direction = view.directions.get("to_client")
    if not flows or direction is None:
        return None
    start, end = min(flow.lifetime.start_ns for flow in flows) / 1e9, max(flow.lifetime.end_ns for flow in flows) / 1e9
    return SharedBottleneck(view, direction, flows[0].series, start, end)
