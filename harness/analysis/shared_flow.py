"""One flow of a run that has several, or that is cut off; and the sentence for a metric that it has not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.metrics.registry import Caution, Finding
from harness.metrics.series import BOTTLENECK, RETURN_BOTTLENECK, RunSeries
from harness.metrics.series.grid import BIN, Floats, Points
from harness.metrics.series.lives import Life
from harness.metrics.view import RunView
from harness.outcome import Direction, Measurement, flow_prefix
from harness.traces.capture import Capture
from harness.traces.lab import FlowAddresses

#: Why a flow has no metric that only its sender could tell.
NOT_TOLD = "neither a qlog nor tcp_info of the sender shows it"


@dataclass(frozen=True)
class SharedFlow:
    """A flow of a run that has more than one file downloaded to its end."""

    view: RunView
    series: RunSeries
    facts: FlowAddresses
    life: Life

    @property
    def number(self) -> int:
        """The flow's number."""
        return self.facts.flow

    @property
    def prefix(self) -> str:
        """What stands before the names of its metrics."""
        return flow_prefix(self.number, len(self.view.flows))

    @property
    def complete(self) -> bool:
        """Whether its client came to an end of its own: all that it was to transfer has arrived."""
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
    def sender_tells(self) -> str:
        """The vantage of what its sender, which has congestion control, tells of its own state."""
        return "tcp_info" if self.facts.kind == "tcp" else "qlog"

    def points(self, name: str) -> Points:
        """One of its series, whole."""
        return self.series.points(self.number, name)

    def samples(self, name: str) -> Points:
        """The bins of one of its series that lie wholly within its life."""
        return within(self.points(name), self.life)

    def mean_rate(self, side: Capture) -> float:
        """Mbit/s of payload at one side during its life."""
        t_ns = side.t_ns - self.life.zero_ns
        during = (t_ns >= self.life.start_ns) & (t_ns <= self.life.end_ns)
        return float(side.payload[during].sum()) * 8 / self.life.seconds / 1e6 if self.life.seconds else 0.0

    def capacity(self, t: Floats) -> Floats:
        """Rate of its bottleneck at each moment, Mbit/s."""
        link = BOTTLENECK if self.facts.sender == "server" else RETURN_BOTTLENECK
        steps = self.series.points(link, "capacity")
        return steps.value[np.maximum(np.searchsorted(steps.t, t + 1e-9, side="right") - 1, 0)]

    def measurement(self, name: str, value: float, unit: str, direction: Direction, vantage: str) -> Measurement:
        """A measurement with the flow's prefix."""
        return Measurement(
            name=f"{self.prefix}{name}", value=float(value), unit=unit, direction=direction, vantage=vantage
        )


def within(points: Points, life: Life) -> Points:
    """The bins of a series that lie wholly within a life."""
    bins = np.round(points.t / BIN).astype(np.int64)
    chosen = (bins >= life.bins[0]) & (bins <= life.bins[1])
    return Points(points.t[chosen], points.value[chosen])


def flows_of(view: RunView) -> tuple[SharedFlow, ...]:
    """The flows of which something arrived; none in a run of one file downloaded to its end."""
    if not view.shared or view.lab is None or view.series is None:
        return ()
    series = view.series
    return tuple(
        SharedFlow(view, series, facts, series.lives[facts.flow])
        for facts in view.lab.flows
        if facts.flow in series.lives
    )


def left_out(names: str, flows: Iterable[SharedFlow], why: str) -> Iterator[Finding]:
    """The sentence for metrics that some flows have not; nothing where it is about none."""
    numbers = [flow.number for flow in flows]
    if numbers:
        yield Caution(f"{names} of {called(numbers)}: left out, {why}")


def called(numbers: Sequence[int]) -> str:
    """Flows in a sentence: 'flow 1', 'flows 0, 2'."""
    return f"flow {numbers[0]}" if len(numbers) == 1 else f"flows {', '.join(map(str, numbers))}"
