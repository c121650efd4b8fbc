"""How much of what the path holds all senders have in flight."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.flow.state import shares_of_bdp
from harness.metrics.network.sums import mean_summed_flight
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView


@metric
def bdp_utilisation(view: RunView) -> Iterator[Finding]:
    """agg_utilisation_bdp (1): mean over time of the sum over the flows with congestion control of their shares.

    Σ Σᵢ (in_flightᵢ·frameᵢ / (rate·rttᵢ)) / n over the points of time at which at least one of them runs (see
    `metrics.flow.bdp_utilisation`); absent where one does not tell. Source: qlog and tcp_info; lab.json. CCPerf's
    mean_agg_utilization_bdp_l4.
    """
    yield from mean_summed_flight(view, "agg_utilisation_bdp", "1", shares_of_bdp)
