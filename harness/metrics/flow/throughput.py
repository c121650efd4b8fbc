"""How fast a flow's payload reached its receiver."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.registry import Finding, metric
from harness.metrics.shared_flow import flows_of
from harness.metrics.view import RunView


@metric
def throughput(view: RunView) -> Iterator[Finding]:
    """mean_throughput (Mbit/s): payload of UDP or TCP that arrived during the flow's life, by its length.

    8·Σ payload / (end - start). What arrived at the receiver's side counts, retransmissions included. Source: the
    capture there. RFC 5166 §2.1.1; CCPerf's mean_throughput_l4.
    """
    for flow in flows_of(view):
        value = flow.mean_rate(flow.life.received)
        yield flow.measurement("mean_throughput", value, "Mbit/s", "higher", flow.at_receiver)
