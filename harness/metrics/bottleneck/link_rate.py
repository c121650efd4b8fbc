"""How fast the bottleneck sends."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.bottleneck.shared import shared_bottleneck
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView
from harness.outcome import Measurement


@metric
def link_rate(view: RunView) -> Iterator[Finding]:
    """mean_link_rate (Mbit/s): frames that left the queue from the first flow's start to the last end, by the time.

    8·Σ length / (end - start). At layer 2, as the link's own rate. Source: both captures (`series.bottleneck`).
    CCPerf's mean_sending_rate_l1.
    """
    link = shared_bottleneck(view)
    if link is None:
        return
    _, left, length = link.stays()
    during = (left >= link.start * 1e9) & (left <= link.end * 1e9)
    value = float(length[during].sum()) * 8 / (link.end - link.start) / 1e6
    yield Measurement(
        name="mean_link_rate", value=value, unit="Mbit/s", direction="higher", vantage="both captures"
    )  # fmt: skip
