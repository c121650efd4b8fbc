"""How much all senders had in flight."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.network.sums import mean_summed_flight
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView


@metric
def aggregate_in_flight(view: RunView) -> Iterator[Finding]:
    """agg_in_flight (packets): mean over time of the sum over the flows with congestion control.

    Σ Σᵢ in_flightᵢ / n over the points of time at which at least one of them runs; absent where one does not tell.
    Source: qlog and tcp_info, as of mean_in_flight. CCPerf's mean_agg_in_flight_l4.
    """
    yield from mean_summed_flight(view, "agg_in_flight", "packets", lambda flow: flow.points("in_flight").value)
