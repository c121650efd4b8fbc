"""The sum of the utilities that proportional fairness maximises."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.flow.proportional_fairness import logarithm
from harness.metrics.network.sums import mean_summed_utility
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView


@metric
def proportional_fairness(view: RunView) -> Iterator[Finding]:
    """agg_utility_pf (ln Mbit/s): mean over the samples of the sum over the active flows of ln x.

    Σ Σᵢ ln xᵢ / n, x the throughput in Mbit/s; a flow of which nothing arrived in a sample is left out of it. Source:
    the captures at the receivers' sides. RFC 5166 §2.3.1; CCPerf's mean_agg_utility_pf_l4.
    """
    yield from mean_summed_utility(view, "agg_utility_pf", "ln Mbit/s", logarithm)
