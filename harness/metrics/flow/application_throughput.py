"""What a flow's receiving application got: the file of a download, the bytes of a TCP stream."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.metrics.flow.acknowledged import acknowledged
from harness.metrics.registry import Finding, metric
from harness.metrics.shared_flow import SharedFlow, flows_of, left_out
from harness.metrics.view import RunView
from harness.traces.growth import growth_of

#: A file larger than this multiple of the payload that had arrived was sized in advance.
_AHEAD = 1.1


@metric
def application_throughput(view: RunView) -> Iterator[Finding]:
    """mean_throughput_l7 (Mbit/s): what the receiving application got during the flow's life, by its length.

    8·bytes / (end - start). QUIC: growth of the client's file. TCP: bytes acknowledged cumulatively (RFC 4898
    tcpEStatsAppHCThruOctetsAcked), which arrived in order; its size where it has one and all of it came. UDP: the same
    as mean_throughput, for the payload is all there is. RFC 5166 §2.1.1 calls it goodput; CCPerf's mean_throughput_l7.
    """
    missing = []
    for flow in flows_of(view):
        kind = flow.facts.kind
        if kind == "udp":
            value: float | None = flow.mean_rate(flow.life.received)
            vantage = flow.at_receiver
        else:
            size = _file(flow) if kind == "quic" else _stream(flow)
            value = None if size is None else size * 8 / flow.life.seconds / 1e6
            vantage = "client file" if kind == "quic" else "tcp_info"
        if value is None:
            missing.append(flow)
        else:
            yield flow.measurement("mean_throughput_l7", value, "Mbit/s", "higher", vantage)
    yield from left_out("mean_throughput_l7", missing, "neither a growing file nor tcp_info shows it")


def _file(flow: SharedFlow) -> float | None:
    """Bytes in the file at the flow's end; None where they do not grow with what arrives."""
    if flow.view.growth is None:
        return None
    growth, end_ns = growth_of(flow.view.growth, flow.number, 0), flow.life.zero_ns + flow.life.end_ns
    last = int(np.searchsorted(growth.t_ns, end_ns, side="right")) - 1
    received = flow.life.received
    if last < 0 or growth.size[last] > _AHEAD * received.payload[received.t_ns <= end_ns].sum():
        return None
    return float(growth.size[last])


def _stream(flow: SharedFlow) -> float | None:
    asked = flow.view.flows[flow.number].download
    if asked is not None and flow.complete:
        # The last acknowledgements are under way when the flow ends.
        return float(asked.bytes)
    rows = acknowledged(flow)
    return None if rows is None else float(rows["bytes_acked"][-1])
