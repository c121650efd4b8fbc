"""How many packets wait at the bottleneck."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.bottleneck.shared import mean_over_time
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView


@metric
def queue_packets(view: RunView) -> Iterator[Finding]:
    """mean_queue_packets (packets): mean over time, from the first flow's start to the last end, of those in the queue.

    Σ queue_packets / n over the points of the series queue_packets. Source: both captures (`series.bottleneck`).
    CCPerf's mean_qdisc_length_l2.
    """
    yield from mean_over_time(view, "mean_queue_packets", "queue_packets", "packets")
