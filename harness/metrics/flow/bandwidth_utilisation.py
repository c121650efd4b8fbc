"""How much of its link's rate a flow uses."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.registry import Finding, metric
from harness.metrics.shared_flow import flows_of
from harness.metrics.view import RunView


@metric
def bandwidth_utilisation(view: RunView) -> Iterator[Finding]:
    """utilisation_bandwidth (1): mean over the samples of throughput by the link's rate.

    Σ (x / rate) / n. The throughput is payload, the rate that of frames: a full packet's headers keep this below 1.
    Source: the capture at the receiver's side; lab.json. CCPerf's mean_utilization_bw_l4.
    """
    for flow in flows_of(view):
        samples = flow.samples("throughput")
        if len(samples.t):
            share = (samples.value / flow.capacity(samples.t)).mean()
            yield flow.measurement("utilisation_bandwidth", share, "1", "higher", flow.at_receiver)
