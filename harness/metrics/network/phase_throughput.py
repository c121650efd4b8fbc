"""Each flow's throughput while the same flows are active."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.network.sharing import higher, shared_phases, throughput
from harness.metrics.registry import Finding, metric
from harness.metrics.shared_flow import flows_of
from harness.metrics.view import RunView


@metric
def phase_throughput(view: RunView) -> Iterator[Finding]:
    """phaseN_flowM_throughput (Mbit/s): payload of UDP or TCP that arrived in a phase, by its length.

    8·Σ payload / (end - start), of the flows that are active in it and of those without congestion control. Source: the
    capture at the receiver's side.
    """
    flows = flows_of(view)
    for phase in shared_phases(flows):
        for flow in flows:
            if flow in phase.flows or not flow.responsive:
                name = f"phase{phase.number}_flow{flow.number}_throughput"
                yield higher(name, throughput(flow, phase), "Mbit/s")
