"""How much of the link's rate all flows use together."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.network.sums import summed_rate
from harness.metrics.network.together import flows_together, measured
from harness.metrics.registry import Finding, metric
from harness.metrics.series.grid import beginnings
from harness.metrics.view import RunView


@metric
def bandwidth_utilisation(view: RunView) -> Iterator[Finding]:
    """agg_utilisation_bandwidth (1): the sum of the throughputs by the rate of the link, mean over the samples.

    Σ (Σᵢ xᵢ / rate) / n, from the first flow's start to the last one's end; only where all flows send in one direction.
    Source: the captures at the receivers' sides; lab.json. CCPerf's mean_agg_utilization_bw_l4.
    """
    flows = flows_together(view)
    first, total = summed_rate(view, "throughput")
    if len(total) and len({flow.facts.sender for flow in flows}) == 1:
        capacity = flows[0].capacity(beginnings(first, first + len(total) - 1))
        yield measured("agg_utilisation_bandwidth", (total / capacity).mean(), "1")
