"""How fast all flows' payload reached their receivers."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.network.sums import mean_summed_rate
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView


@metric
def aggregate_throughput(view: RunView) -> Iterator[Finding]:
    """agg_throughput (Mbit/s): mean over time of the sum over the flows, from the first start to the last end.

    Σ Σᵢ xᵢ / n over the samples. Source: the captures at the receivers' sides. RFC 5166 §2.1.1; CCPerf's
    mean_agg_throughput_l4.
    """
    yield from mean_summed_rate(view, "throughput")
