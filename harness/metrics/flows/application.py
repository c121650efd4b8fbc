"""What a flow's application got and gave: the file of a download, the bytes of a TCP stream."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from harness.metrics.flows.flow import SharedFlow, flows_of, left_out
from harness.metrics.flows.rates import CAPTURES, mean_rate
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView
from harness.traces.files import find
from harness.traces.growth import growth_of
from harness.traces.tcp import Written, read_iperf3

#: A file larger than this multiple of the payload that had arrived was sized in advance.
_AHEAD = 1.1


@metric
def throughput(view: RunView) -> Iterator[Finding]:
    """mean_throughput_l7 (Mbit/s): what the receiving application got during the flow's life, by its length.

    QUIC: growth of the client's file. TCP: bytes acknowledged cumulatively (RFC 4898 tcpEStatsAppHCThruOctetsAcked),
    which arrived in order; its size where it has one and all of it came. UDP: the same as mean_throughput, for the
    payload is all there is. CCPerf's mean_throughput_l7.
    """
    missing = []
    for flow in flows_of(view):
        kind = flow.facts.kind
        if kind == "udp":
            value: float | None = mean_rate(flow, flow.life.received)
            vantage = CAPTURES[flow.facts.sender][1]
        else:
            size = _file(flow) if kind == "quic" else _acknowledged(flow)
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


def _samples(flow: SharedFlow, *needed: str) -> pl.DataFrame | None:
    """The samples of tcp_info during the flow's life that have these figures; None without any."""
    rows = flow.view.tcp(flow.number)
    if rows is None:
        return None
    during = pl.col("t_ns").is_between(flow.life.zero_ns + flow.life.start_ns, flow.life.zero_ns + flow.life.end_ns)
    rows = rows.filter(during).drop_nulls(list(needed))
    return rows if len(rows) else None


def _acknowledged(flow: SharedFlow) -> float | None:
    asked = flow.view.flows[flow.number].download
    if asked is not None and flow.complete:
        # The last acknowledgements are under way when the flow ends.
        return float(asked.bytes)
    rows = _samples(flow, "bytes_acked")
    return None if rows is None else float(rows["bytes_acked"][-1])


@metric
def delivery_rate(view: RunView) -> Iterator[Finding]:
    """mean_delivery_rate (Mbit/s): bytes acknowledged cumulatively from the first to the last sample, by the time.

    TCP only: acknowledgements of QUIC are encrypted, and its traces do not say what was acknowledged. CCPerf's
    mean_delivery_rate_l4.
    """
    missing = []
    for flow in flows_of(view):
        if flow.facts.kind != "tcp":
            continue
        rows = _samples(flow, "bytes_acked")
        if rows is None or len(rows) < 2:
            missing.append(flow)
            continue
        size = float(rows["bytes_acked"][-1]) - float(rows["bytes_acked"][0])
        seconds = (int(rows["t_ns"][-1]) - int(rows["t_ns"][0])) / 1e9
        yield flow.measurement("mean_delivery_rate", size * 8 / seconds / 1e6, "Mbit/s", "higher", "tcp_info")
    yield from left_out("mean_delivery_rate", missing, "tcp_info shows no bytes acknowledged")
    quic = [flow for flow in flows_of(view) if flow.facts.kind == "quic"]
    yield from left_out("mean_delivery_rate", quic, "acknowledgements of QUIC are encrypted")


@metric
def sending_rate(view: RunView) -> Iterator[Finding]:
    """mean_sending_rate_l7 (Mbit/s): what the sending application gave to its socket, by the generator's report.

    TCP only. More than was sent is what waited in the socket's buffer. CCPerf's mean_sending_rate_l7.
    """
    for flow in flows_of(view):
        if flow.facts.kind == "tcp" and (written := _written(flow)) is not None:
            yield flow.measurement("mean_sending_rate_l7", written.rate_mbps, "Mbit/s", "higher", "iperf3")


def _written(flow: SharedFlow) -> Written | None:
    path = find(flow.view.folder / f"flow{flow.number}" / flow.facts.sender / "iperf3.json")
    return None if path is None else read_iperf3(path)
