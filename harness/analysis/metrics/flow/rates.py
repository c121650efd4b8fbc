"""How fast a flow's data went: to its receiver, from its sender, between the applications, in acknowledgements."""

from __future__ import annotations

import numpy as np
import polars as pl

from harness.analysis.metrics.kinds import Absent, Figure, Told, flow_metric
from harness.analysis.shared_flow import SharedFlow
from harness.capture import artefacts
from harness.capture.counters import growth_of
from harness.capture.tcp_info import read_iperf3

#: A file larger than this multiple of the payload that had arrived was sized in advance.
_AHEAD = 1.1


@flow_metric(
    unit="Mbit/s", better="higher", title="throughput at the receiver's side",
    formula="8·Σ payload of UDP or TCP that arrived / (end - start), retransmissions included",
    source="capture at the receiver's side; RFC 5166 §2.1.1; CCPerf's mean_throughput_l4",
)  # fmt: skip
def mean_throughput(flow: SharedFlow) -> Told:
    """How fast a flow's payload reached its receiver."""
    return Figure(flow.mean_rate(flow.lifetime.received), flow.at_receiver)


@flow_metric(
    unit="Mbit/s", better="higher", title="what the receiving application got (goodput)",
    formula="8·bytes / (end - start)",
    source="downloads: growth of the client's file; a generator's TCP: bytes acknowledged cumulatively (RFC 4898 "
    "tcpEStatsAppHCThruOctetsAcked), its size where it has one and all of it came; UDP: mean_throughput, for the "
    "payload is all there is; RFC 5166 §2.1.1; CCPerf's mean_throughput_l7",
)  # fmt: skip
def mean_throughput_l7(flow: SharedFlow) -> Told:
    """The file of a download, the bytes of a TCP stream, which arrived in order."""
    if flow.facts.kind == "udp":
        return Figure(flow.mean_rate(flow.lifetime.received), flow.at_receiver)
    downloaded = flow.facts.kind != "tcp"
    size = _file(flow) if downloaded else _stream(flow)
    if size is None:
        return Absent("neither a growing file nor tcp_info shows it")
    return Figure(size * 8 / flow.lifetime.seconds / 1e6, "client file" if downloaded else "tcp_info")


def _file(flow: SharedFlow) -> float | None:
    """Bytes in the file at the flow's end; None where they do not grow with what arrives."""
    if flow.view.growth is None:
        return None
    growth, end_ns = growth_of(flow.view.growth, flow.number, 0), flow.lifetime.zero_ns + flow.lifetime.end_ns
    last = int(np.searchsorted(growth.t_ns, end_ns, side="right")) - 1
    received = flow.lifetime.received
    if last < 0 or growth.size[last] > _AHEAD * received.payload[received.t_ns <= end_ns].sum():
        return None
    return float(growth.size[last])


def _stream(flow: SharedFlow) -> float | None:
    asked = flow.view.flows[flow.number].download
    if asked is not None and flow.complete:
        # The last acknowledgements are under way when the flow ends.
        return float(asked.bytes)
    rows = _acknowledged(flow)
    return None if rows is None else float(rows["bytes_acked"][-1])


def _acknowledged(flow: SharedFlow) -> pl.DataFrame | None:
    """The samples of a TCP flow's sender that have bytes_acked (bytes, cumulative), by t_ns; None without any.

    Source: tcpi_bytes_acked (include/uapi/linux/tcp.h), which is RFC 4898's tcpEStatsAppHCThruOctetsAcked.
    """
    rows = flow.view.tcp(flow.number)
    if rows is None:
        return None
    during = pl.col("t_ns").is_between(
        flow.lifetime.zero_ns + flow.lifetime.start_ns, flow.lifetime.zero_ns + flow.lifetime.end_ns
    )
    rows = rows.filter(during).drop_nulls(["bytes_acked"])
    return rows if len(rows) else None


@flow_metric(
    unit="Mbit/s", better="higher", title="rate at which payload left the sender",
    formula="8·Σ payload of UDP or TCP / (end - start), retransmissions included",
    source="capture at the sender's side; CCPerf's mean_sending_rate_l4",
)  # fmt: skip
def mean_sending_rate(flow: SharedFlow) -> Told:
    """How fast a flow's payload left its sender."""
    return Figure(flow.mean_rate(flow.lifetime.sent), flow.at_sender)


@flow_metric(
    unit="Mbit/s", better="higher", title="what the sending application gave to its socket (TCP only)",
    formula="8·Σ bytes / Σ seconds over the intervals of the generator's report",
    source="iperf3 --json; CCPerf's mean_sending_rate_l7",
)  # fmt: skip
def mean_sending_rate_l7(flow: SharedFlow) -> Told:
    """More than was sent is what waited in the socket's buffer."""
    path = flow.view.path(f"{artefacts.endpoint(flow.number, flow.facts.sender)}/{artefacts.IPERF3}")
    written = None if path is None or flow.facts.kind != "tcp" else read_iperf3(path)
    return None if written is None else Figure(written.rate_mbps, "iperf3")


@flow_metric(
    unit="Mbit/s", better="higher", title="rate at which bytes were acknowledged cumulatively (TCP only)",
    formula="8·(bytes_acked at the last sample - at the first) / (last - first)",
    source="tcpi_bytes_acked; CCPerf's mean_delivery_rate_l4",
)  # fmt: skip
def mean_delivery_rate(flow: SharedFlow) -> Told:
    """QUIC's traces do not say what was acknowledged either."""
    if flow.facts.kind == "udp":
        return None
    if flow.facts.kind == "quic":
        return Absent("acknowledgements of QUIC are encrypted")
    rows = _acknowledged(flow) if flow.facts.kind == "tcp" else None
    if rows is None or len(rows) < 2:
        return Absent("tcp_info shows no bytes acknowledged")
    size = float(rows["bytes_acked"][-1]) - float(rows["bytes_acked"][0])
    seconds = (int(rows["t_ns"][-1]) - int(rows["t_ns"][0])) / 1e9
    return Figure(size * 8 / seconds / 1e6, "tcp_info")


@flow_metric(
    unit="1", better="lower", title="coefficient of variation of the throughput",
    formula="√(Σ (x - x̄)² / n) / x̄ over its samples of 0.1 s",
    source="capture at the receiver's side; CCPerf's cov_throughput_l4",
)  # fmt: skip
def cov_throughput(flow: SharedFlow) -> Told:
    """It grows as samples get shorter; CCPerf's length is not published (`series.grid`)."""
    value = flow.samples("throughput").value
    return Figure(value.std() / value.mean(), flow.at_receiver) if len(value) and value.mean() > 0 else None


@flow_metric(
    unit="1", better="higher", title="share of its link's rate that a flow uses",
    formula="Σ (x / rate) / n over the samples, x the throughput",
    source="capture at the receiver's side; lab.json; CCPerf's mean_utilization_bw_l4",
)  # fmt: skip
def utilisation_bandwidth(flow: SharedFlow) -> Told:
    """The throughput is payload, the rate that of frames: a full packet's headers keep this below 1."""
    samples = flow.samples("throughput")
    capacity = flow.capacity(samples.t)
    if not capacity.all():
        return Absent("nothing went by a path that its client was to be on")
    return Figure((samples.value / capacity).mean(), flow.at_receiver) if len(samples.t) else None
