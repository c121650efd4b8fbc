"""The flows of a run with several, and their throughputs side by side."""

from __future__ import annotations

from collections.abc import Sequence

from harness.metrics.registry import Finding
from harness.metrics.series.grid import Floats
from harness.metrics.series.network import samples
from harness.metrics.shared_flow import SharedFlow, flows_of
from harness.metrics.view import RunView
from harness.outcome import Direction, Measurement


def flows_together(view: RunView) -> tuple[SharedFlow, ...]:
    """The flows of a run with several; else none."""
    flows = flows_of(view)
    return flows if len(flows) > 1 else ()


def throughputs(flows: Sequence[SharedFlow]) -> Floats:
    """Throughput of each flow in each sample, NaN where it was not active throughout; shape (samples, flows)."""
    lives = {flow.number: flow.life for flow in flows}
    return samples({flow.number: flow.points("throughput") for flow in flows}, lives, lives)[1]


def measured(name: str, value: float, unit: str, direction: Direction = "higher", vantage: str = "captures") -> Finding:
    """A measurement of all flows together."""
    return Measurement(name=name, value=float(value), unit=unit, direction=direction, vantage=vantage)
