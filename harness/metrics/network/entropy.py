"""The entropy of the flows' shares."""

from __future__ import annotations

from collections.abc import Iterator

from harness import stats
from harness.metrics.network.fairness import over_samples_and_means
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView


@metric
def entropy(view: RunView) -> Iterator[Finding]:
    """entropy_samples, entropy_means (nat): entropy of the shares of the throughput, ln n for equal ones.

    -Σ p·ln p with p = x/Σx, per sample, then the mean; and of the means. Both "_responsive" too (see
    `metrics.network`). Source: the captures at the receivers' sides. CCPerf's mean_entropy_fairness_throughput_l4.
    """
    yield from over_samples_and_means(view, "entropy", stats.entropy, lambda flows: "nat")
