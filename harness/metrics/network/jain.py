"""Jain's index of the flows' throughputs."""

from __future__ import annotations

from collections.abc import Iterator

from harness import stats
from harness.metrics.network.fairness import over_samples_and_means
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView


@metric
def jain(view: RunView) -> Iterator[Finding]:
    """jain_samples, jain_means (1): Jain's index of the throughputs, 1 for equal ones, 1/n where one has all.

    (Σx)² / (n·Σx²), per sample, then the mean; and of the means. Both "_responsive" too (see `metrics.network`).
    Source: the captures at the receivers' sides. RFC 5166 §2.3.1; R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984;
    CCPerf's mean_jains_fairness_throughput_l4 is the first.
    """
    yield from over_samples_and_means(view, "jain", stats.jain, lambda flows: "1")
