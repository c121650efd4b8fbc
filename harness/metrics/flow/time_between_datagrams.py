"""How far apart in time a flow's datagrams arrived."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.metrics.registry import Finding, metric
from harness.metrics.shared_flow import flows_of
from harness.metrics.view import RunView

#: Weight of the newest gap in the moving average: that of the smoothed RTT (RFC 6298 §2, RFC 9002 §5.3). CCPerf's
#: own weight is not published.
WEIGHT = 1 / 8


@metric
def time_between_datagrams(view: RunView) -> Iterator[Finding]:
    """mean_idt (ms): mean over the packets of the moving average of the time between two that arrive with payload.

    aₖ = 7/8·aₖ₋₁ + 1/8·gapₖ, begun with the first gap, during the flow's life. Source: the capture at the receiver's
    side. CCPerf's mean_idt_ewma_l4, whose weight is not published: the mean hardly depends on it.
    """
    for flow in flows_of(view):
        received = flow.life.received
        t_ns = received.t_ns[received.payload > 0] - flow.life.zero_ns
        gaps = np.diff(t_ns[(t_ns >= flow.life.start_ns) & (t_ns <= flow.life.end_ns)]) / 1e6
        if len(gaps):
            value = float(np.mean(moving_average(gaps.tolist())))
            yield flow.measurement("mean_idt", value, "ms", "lower", flow.at_receiver)


def moving_average(values: list[float], weight: float = WEIGHT) -> list[float]:
    """The exponentially weighted moving average after each value, begun with the first."""
    averages, average = [], values[0] if values else 0.0
    for value in values:
        average += weight * (value - average)
        averages.append(average)
    return averages
