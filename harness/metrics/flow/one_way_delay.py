"""How long a flow's packets took through the path."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from harness.metrics.registry import Finding, metric
from harness.metrics.shared_flow import SharedFlow, flows_of
from harness.metrics.view import RunView


@metric
def one_way_delay(view: RunView) -> Iterator[Finding]:
    """mean_one_way_delay (ms): between both interfaces of the simulator, mean over the packets that got through.

    Σ (out - in) / n of the packets sent during the flow's life, in the direction of its data; with the queue, the
    propagation delay and the flow's own access delay. Source: each packet in both captures, as RFC 7679 has its two
    points. CCPerf's mean_one_way_delay_l7 is between the applications.
    """
    for flow in flows_of(view):
        delay_ms = _delays(flow)
        if len(delay_ms):
            yield flow.measurement("mean_one_way_delay", delay_ms.mean(), "ms", "lower", "both captures")


def _delays(flow: SharedFlow) -> npt.NDArray[np.float64]:
    down = flow.facts.sender == "server"
    passage = flow.view.to_client if down else flow.view.to_server
    if passage is None:
        return np.zeros(0)
    t_ns = passage.entered.t_ns - flow.life.zero_ns
    mine = (passage.entered.flow == flow.number) & passage.arrived
    mine &= (t_ns >= flow.life.start_ns) & (t_ns <= flow.life.end_ns)
    return np.asarray((passage.out_ns[mine] - passage.entered.t_ns[mine]) / 1e6, np.float64)
