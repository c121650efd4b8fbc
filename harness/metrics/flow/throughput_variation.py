"""How much a flow's throughput varies."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.registry import Finding, metric
from harness.metrics.shared_flow import flows_of
from harness.metrics.view import RunView


@metric
def throughput_variation(view: RunView) -> Iterator[Finding]:
    """cov_throughput (1): coefficient of variation, the standard deviation of the samples of 0.1 s by their mean.

    √(Σ (x - x̄)² / n) / x̄ over the throughput's samples. It grows as samples get shorter; CCPerf's length is not
    published (`series.grid`). Source: the capture at the receiver's side. CCPerf's cov_throughput_l4.
    """
    for flow in flows_of(view):
        value = flow.samples("throughput").value
        if len(value) and value.mean() > 0:
            yield flow.measurement("cov_throughput", value.std() / value.mean(), "1", "lower", flow.at_receiver)
