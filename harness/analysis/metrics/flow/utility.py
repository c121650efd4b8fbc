"""What throughput is worth to a flow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from harness.analysis.metrics.kinds import Figure, Told, flow_metric
from harness.analysis.shared_flow import SharedFlow
from harness.analysis.timeseries.grid import Floats


@flow_metric(
    unit="ln Mbit/s", better="higher", title="the utility that proportional fairness maximises",
    formula="Σ ln x / n over the samples, x the throughput in Mbit/s; those in which nothing arrived are left out",
    source="capture at the receiver's side; RFC 5166 §2.3.1; CCPerf's mean_utility_pf_l4",
)  # fmt: skip
def utility_pf(flow: SharedFlow) -> Told:
    """Proportional fairness."""
    return _mean(flow, logarithm)


@flow_metric(
    unit="s/Mbit", better="higher", title="the utility that minimum potential delay fairness maximises",
    formula="Σ (-1/x) / n over the samples, x the throughput in Mbit/s; those in which nothing arrived are left out",
    source="capture at the receiver's side; RFC 5166 §2.3.1; CCPerf's mean_utility_mpdf_l4",
)  # fmt: skip
def utility_mpdf(flow: SharedFlow) -> Told:
    """Less the time that a bit takes at that rate."""
    return _mean(flow, potential_delay)


def logarithm(rate: Floats) -> Floats:
    """Utility of each rate, Mbit/s, by proportional fairness."""
    return np.log(rate)


def potential_delay(rate: Floats) -> Floats:
    """Utility of each rate, Mbit/s, by minimum potential delay fairness."""
    return -1 / rate


def _mean(flow: SharedFlow, utility: Callable[[Floats], Floats]) -> Told:
    """The mean over a flow's samples; where more than one in a hundred have none, it is said how many."""
    value = flow.samples("throughput").value
    some = value[value > 0]
    if not len(some):
        return None
    left_out = None
    if len(some) < 0.99 * len(value):
        left_out = len(value) - len(some), len(value), "in which nothing arrived"
    return Figure(utility(some).mean(), flow.at_receiver, left_out=left_out)
