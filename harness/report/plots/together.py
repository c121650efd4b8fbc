"""Several runs in one figure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report.plots.curves import stacked
from harness.report.plots.registry import plot_of_runs
from harness.report.plots.theme import Chart
from harness.report.plots.view import Drawn


@plot_of_runs(
    "Runs side by side",
    "throughput",
    note="dots: milestones; triangles: what was demanded; dashed: what slow start and then the line rate allow; "
    "ticks: packets dropped by the queue",
)
def together(runs: Sequence[Drawn]) -> Chart | None:
    """What each client had (MB), cwnd (packets), sRTT (ms), queue (kB) and drops of several runs on the same axes."""
    return stacked(runs)
