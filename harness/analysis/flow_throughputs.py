"""The throughputs of flows side by side."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.shared_flow import SharedFlow
from harness.analysis.timeseries.grid import Floats
from harness.analysis.timeseries.network import samples


def throughputs(flows: Sequence[SharedFlow]) -> Floats:
    """Throughput of each flow in each sample, NaN where it was not active throughout; shape (samples, flows)."""
    lifetimes = {flow.number: flow.lifetime for flow in flows}
    return samples({flow.number: flow.points("throughput") for flow in flows}, lifetimes, lifetimes)[1]
