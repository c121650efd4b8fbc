"""What throughput a flow gets for its delay."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.metrics.flow.state import tellers
from harness.metrics.registry import Finding, metric
from harness.metrics.series.grid import BIN
from harness.metrics.view import RunView


@metric
def network_power(view: RunView) -> Iterator[Finding]:
    """network_power (Mbit/s²): mean over the samples of throughput by the mean smoothed round-trip time within each.

    Σ (x / srtt) / n, x in Mbit/s, srtt in s; samples without a round-trip time are left out. Source: the capture at the
    receiver's side, with qlog or tcp_info. L. Kleinrock, Power and deterministic rules of thumb, ICC 1979; CCPerf's
    mean_network_power_l4.
    """
    for flow in tellers(view, "srtt")[0]:
        rates, srtt = flow.samples("throughput"), flow.points("srtt")
        bins = np.floor(srtt.t / BIN + 1e-6).astype(np.int64)
        ratios = [
            rate / (srtt.value[inside].mean() / 1e3)
            for t, rate in zip(rates.t, rates.value, strict=True)
            if (inside := bins == round(t / BIN)).any()
        ]
        if ratios:
            vantage = f"captures, {flow.sender_tells}"
            yield flow.measurement("network_power", float(np.mean(ratios)), "Mbit/s²", "higher", vantage)
