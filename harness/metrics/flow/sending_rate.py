"""How fast a flow's payload left its sender."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.registry import Finding, metric
from harness.metrics.shared_flow import flows_of
from harness.metrics.view import RunView


@metric
def sending_rate(view: RunView) -> Iterator[Finding]:
    """mean_sending_rate (Mbit/s): payload of UDP or TCP that left the sender during the flow's life, by its length.

    8·Σ payload / (end - start), retransmissions included. Source: the capture at the sender's side. CCPerf's
    mean_sending_rate_l4.
    """
    for flow in flows_of(view):
        value = flow.mean_rate(flow.life.sent)
        yield flow.measurement("mean_sending_rate", value, "Mbit/s", "higher", flow.at_sender)
