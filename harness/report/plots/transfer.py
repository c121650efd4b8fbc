"""One transfer over time."""

from __future__ import annotations

from harness.report.plots.curves import stacked
from harness.report.plots.registry import plot
from harness.report.plots.theme import Chart
from harness.report.plots.view import Drawn


@plot(
    "Bytes, window, round trips, queue and drops",
    "throughput",
    note="dots: milestones; triangles: what was demanded of them; dashed: what slow start and then the line rate allow",
    of="transfer",
)
def transfer(run: Drawn) -> Chart | None:
    """What the client had (MB), cwnd (packets), sRTT (ms), the bottleneck's queue (kB), and what it dropped."""
    return stacked([run])
