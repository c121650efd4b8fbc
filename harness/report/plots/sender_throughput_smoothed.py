"""What each sender puts into the network over time, with the sawtooth averaged out."""

from __future__ import annotations

from harness.report.plots.parts import rates_over_time
from harness.report.plots.registry import plot
from harness.report.plots.theme import Chart
from harness.report.plots.view import Drawn

#: INET link sharing: "fixed intervals (0.5s)".
WINDOW = 0.5


@plot(
    "Sending rate, smoothed",
    "sending_rate",
    note=f"transport payload with retransmissions, means over {WINDOW} s",
)
def sender_throughput_smoothed(run: Drawn) -> Chart | None:
    """Sending rate of each flow in bins of 0.5 s, Mbit/s (INET link sharing, sender_throughput_smoothed)."""
    return rates_over_time(run, "sending_rate", "sending rate (Mbit/s)", smoothed=WINDOW)
