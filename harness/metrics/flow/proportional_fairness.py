"""The utility that proportional fairness maximises."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.metrics.flow.utility import mean_utility
from harness.metrics.registry import Finding, metric
from harness.metrics.series.grid import Floats
from harness.metrics.view import RunView


@metric
def proportional_fairness(view: RunView) -> Iterator[Finding]:
    """utility_pf (ln Mbit/s): mean over the samples of ln x, x the throughput in Mbit/s.

    Σ ln x / n. Samples in which nothing arrived are left out, and a caution says so. Source: the capture at the
    receiver's side. RFC 5166 §2.3.1; CCPerf's mean_utility_pf_l4.
    """
    yield from mean_utility(view, "utility_pf", "ln Mbit/s", logarithm)


def logarithm(rate: Floats) -> Floats:
    """Utility of each rate, Mbit/s."""
    return np.log(rate)
