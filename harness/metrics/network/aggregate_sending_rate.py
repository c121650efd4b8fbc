"""How fast all flows' payload left their senders."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.network.sums import mean_summed_rate
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView


@metric
def aggregate_sending_rate(view: RunView) -> Iterator[Finding]:
    """agg_sending_rate (Mbit/s): mean over time of the sum over the flows, from the first start to the last end.

    Σ Σᵢ xᵢ / n over the bins, x the rate of payload that left the sender. Source: the captures at the senders' sides.
    Beside agg_throughput: what was lost on the way is the difference.
    """
    yield from mean_summed_rate(view, "sending_rate")
