"""How much of what its path holds a flow has in flight."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.flow.state import shares_of_bdp, tellers
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView


@metric
def bdp_utilisation(view: RunView) -> Iterator[Finding]:
    """utilisation_bdp (1): mean over time of what is in flight by what the path holds without a queue.

    Σ (in_flight·frame / (rate·rtt)) / n: in flight in packets of the flow's usual frame; the BDP is the link's rate by
    the round trip without queues. Source: qlog or tcp_info, as of mean_in_flight; lab.json. CCPerf's
    mean_utilization_bdp_l4.
    """
    for flow in tellers(view, "in_flight")[0]:
        share = shares_of_bdp(flow)
        if len(share):
            yield flow.measurement("utilisation_bdp", share.mean(), "1", "neutral", flow.sender_tells)
