"""The sum of the utilities that minimum potential delay fairness maximises."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.flow.minimum_potential_delay import potential_delay
from harness.metrics.network.sums import mean_summed_utility
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView


@metric
def minimum_potential_delay(view: RunView) -> Iterator[Finding]:
    """agg_utility_mpdf (s/Mbit): mean over the samples of the sum over the active flows of -1/x.

    Σ Σᵢ (-1/xᵢ) / n, x the throughput in Mbit/s; a flow of which nothing arrived in a sample is left out of it. Source:
    the captures at the receivers' sides. RFC 5166 §2.3.1; CCPerf's mean_agg_utility_mpdf_l4.
    """
    yield from mean_summed_utility(view, "agg_utility_mpdf", "s/Mbit", potential_delay)
