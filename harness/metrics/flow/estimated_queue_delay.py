"""The queue's delay as a sender can tell it."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.flow.state import tellers
from harness.metrics.registry import Finding, metric
from harness.metrics.shared_flow import left_out
from harness.metrics.view import RunView


@metric
def estimated_queue_delay(view: RunView) -> Iterator[Finding]:
    """mean_est_queue_delay (ms): mean smoothed round-trip time less the smallest the sender knows of.

    mean_srtt - min(min_rtt); QUIC: qlog's min_rtt (where it has none, latest_rtt), TCP: tcpi_min_rtt. As the sender
    sees it: queues in both directions and delayed acknowledgements are in it. CCPerf's mean_est_qdelay_l4.
    """
    telling, silent = tellers(view, "srtt")
    for flow in telling:
        least = flow.series.states[flow.number]["min_rtt"].min()
        if not isinstance(least, float):
            silent.append(flow)
            continue
        value = flow.points("srtt").value.mean() - least
        yield flow.measurement("mean_est_queue_delay", value, "ms", "lower", flow.sender_tells)
    yield from left_out("mean_est_queue_delay", silent, "the sender tells no round-trip times")
