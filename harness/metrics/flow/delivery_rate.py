"""How fast a flow's data was acknowledged."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.flow.acknowledged import acknowledged
from harness.metrics.registry import Finding, metric
from harness.metrics.shared_flow import flows_of, left_out
from harness.metrics.view import RunView


@metric
def delivery_rate(view: RunView) -> Iterator[Finding]:
    """mean_delivery_rate (Mbit/s): bytes acknowledged cumulatively from the first to the last sample, by the time.

    8·(bytes_acked at the last - at the first) / (last - first), from tcpi_bytes_acked. TCP only: acknowledgements of
    QUIC are encrypted, and its traces do not say what was acknowledged. CCPerf's mean_delivery_rate_l4.
    """
    missing = []
    for flow in flows_of(view):
        if flow.facts.kind != "tcp":
            continue
        rows = acknowledged(flow)
        if rows is None or len(rows) < 2:
            missing.append(flow)
            continue
        size = float(rows["bytes_acked"][-1]) - float(rows["bytes_acked"][0])
        seconds = (int(rows["t_ns"][-1]) - int(rows["t_ns"][0])) / 1e9
        yield flow.measurement("mean_delivery_rate", size * 8 / seconds / 1e6, "Mbit/s", "higher", "tcp_info")
    yield from left_out("mean_delivery_rate", missing, "tcp_info shows no bytes acknowledged")
    quic = [flow for flow in flows_of(view) if flow.facts.kind == "quic"]
    yield from left_out("mean_delivery_rate", quic, "acknowledgements of QUIC are encrypted")
