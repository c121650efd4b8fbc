"""What arrives at each receiver over time."""

from __future__ import annotations

from harness.report.plots.parts import rates_over_time
from harness.report.plots.registry import plot
from harness.report.plots.theme import Chart
from harness.report.plots.view import Drawn


@plot("Throughput at the receivers", "throughput", note="transport payload that arrived, per 0.1 s")
def receiver_throughput(run: Drawn) -> Chart | None:
    """Throughput of each flow, Mbit/s (INET link sharing, receiver_throughput)."""
    return rates_over_time(run, "throughput", "throughput (Mbit/s)")
