"""What each sender puts into the network over time."""

from __future__ import annotations

from harness.report.plots.parts import rates_over_time
from harness.report.plots.registry import plot
from harness.report.plots.theme import Chart
from harness.report.plots.view import Drawn


@plot("Sending rate", "sending_rate", note="transport payload with retransmissions, per 0.1 s")
def sender_throughput(run: Drawn) -> Chart | None:
    """Sending rate of each flow, Mbit/s (INET link sharing, sender_throughput)."""
    return rates_over_time(run, "sending_rate", "sending rate (Mbit/s)")
