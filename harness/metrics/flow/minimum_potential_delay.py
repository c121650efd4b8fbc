"""The utility that minimum potential delay fairness maximises."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.flow.utility import mean_utility
from harness.metrics.registry import Finding, metric
from harness.metrics.series.grid import Floats
from harness.metrics.view import RunView


@metric
def minimum_potential_delay(view: RunView) -> Iterator[Finding]:
    """utility_mpdf (s/Mbit): mean over the samples of -1/x, x the throughput in Mbit/s.

    Σ (-1/x) / n: less the time that a bit takes at that rate. Samples in which nothing arrived are left out, and a
    caution says so. Source: the capture at the receiver's side. RFC 5166 §2.3.1; CCPerf's mean_utility_mpdf_l4.
    """
    yield from mean_utility(view, "utility_mpdf", "s/Mbit", potential_delay)


def potential_delay(rate: Floats) -> Floats:
    """Utility of each rate, Mbit/s."""
    return -1 / rate
