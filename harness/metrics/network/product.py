"""The product of the flows' throughputs."""

from __future__ import annotations

from collections.abc import Iterator

from harness import stats
from harness.metrics.network.fairness import over_samples_and_means
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView


@metric
def product(view: RunView) -> Iterator[Finding]:
    """product_samples, product_means ((Mbit/s)ⁿ): product of the throughputs, of one sum the largest for equal ones.

    Πx, per sample, then the mean; and of the means. Both "_responsive" too (see `metrics.network`). Per sample only
    where all flows were active, for the unit is another with fewer. Source: the captures at the receivers' sides.
    RFC 5166 §2.3.1; CCPerf's mean_product_fairness_throughput_l4.
    """
    yield from over_samples_and_means(
        view, "product", stats.product, lambda flows: f"(Mbit/s)^{flows}", all_active=True
    )
