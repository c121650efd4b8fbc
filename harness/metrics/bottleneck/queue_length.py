"""How many bytes wait at the bottleneck."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.bottleneck.shared import mean_over_time
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView


@metric
def queue_length(view: RunView) -> Iterator[Finding]:
    """mean_queue_length (B): mean over time, from the first flow's start to the last end, of the frames in the queue.

    Σ queue_length / n over the points of the series queue_length. Source: both captures (`series.bottleneck`).
    """
    yield from mean_over_time(view, "mean_queue_length", "queue_length", "B")
