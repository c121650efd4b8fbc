"""How much what a sender has in flight varies."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.flow.state import tellers
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView


@metric
def in_flight_variation(view: RunView) -> Iterator[Finding]:
    """cov_in_flight (1): coefficient of variation of in_flight, its standard deviation over time by its mean.

    √(Σ (x - x̄)² / n) / x̄ over the points of the series in_flight. Source: qlog or tcp_info, as of mean_in_flight.
    CCPerf's cov_in_flight_l4.
    """
    for flow in tellers(view, "in_flight")[0]:
        value = flow.points("in_flight").value
        if value.mean() > 0:
            yield flow.measurement("cov_in_flight", value.std() / value.mean(), "1", "lower", flow.sender_tells)
