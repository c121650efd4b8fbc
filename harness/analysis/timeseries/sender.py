"""The congestion window, flight and round trips that each sender reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from harness.analysis.timeseries.grid import Floats, Points, grid_ns, last_values
from harness.analysis.timeseries.lifetimes import Lifetime
from harness.capture import qlog
from harness.capture.artefacts import Artefacts, TransferWindow
from harness.capture.capture import Capture
from harness.capture.files import content_size
from harness.scenario.parameters import Role
from harness.topology.lab_file import FlowAddresses

# --- Which of an endpoint's qlog files belong to a transfer's connection. This is decided here and nowhere else.


#: The part of a trace that is read to identify its connection, bytes.
_HEAD = 1 << 16


def traces_of(view: Artefacts, window: TransferWindow, role: Role) -> list[Path]:
    """The traces of one endpoint of a transfer's connection: those that name it first, else the largest first.

    A trace belongs to the connection whose first client Initial packet had the destination ID that it names (RFC 9000
    §7.2), or in whose time it begins. If the flow has one transfer, all of the endpoint's traces belong to it. Raises
    OSError.
    """
    flow = window.transfer.flow
    alone = sum(candidate.transfer.flow == flow for candidate in view.windows) == 1
    name = b""
    if view.left is not None:
        name = view.left.between(window.start_ns, window.end_ns, flow, to_client=False).first_destination()
    traces = []
    for path in view.qlogs(flow, role):
        summary = qlog.summarise_data(path.name, qlog.read_head(path, _HEAD))
        is_named = summary.identifies(name)
        begins = summary.start_ns is not None and window.start_ns <= summary.start_ns < window.end_ns
        if is_named or begins or alone:
            traces.append((not is_named, -content_size(path), path))
    return [path for _, _, path in sorted(traces)]


# --- sender


#: A trace's own clock is trusted if it puts the first event this close to the connection's first packet, ns.
_NEAR = 500_000_000
#: A first round-trip time before this share of the path's RTT has passed is the initial value, not a sample.
_EARLY = 0.98
#: A larger window means that there is none, bytes.
_UNLIMITED = 2.0**50


@dataclass(frozen=True)
class SenderReport:
    """The state that a sender reported in one of its connections, and its time span; ns since time zero."""

    state: pl.DataFrame
    """t_ns, cwnd, in_flight (packets), srtt, min_rtt (ms). Values that are not known yet are null."""
    start_ns: int
    end_ns: int


def sender_series(reports: Sequence[SenderReport]) -> dict[str, Points]:
    """cwnd, in_flight and srtt of one flow, as far as its sender reports them; nothing between two connections."""
    series = {}
    for name in ("cwnd", "in_flight", "srtt"):
        parts = [
            last_values(
                report.state["t_ns"].to_numpy(), _floats(report.state, name), grid_ns(report.start_ns, report.end_ns)
            )
            for report in reports
        ]
        series[name] = Points(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    return {name: points for name, points in series.items() if len(points.t)}


def sender_states(view: Artefacts, flow: FlowAddresses, lifetime: Lifetime) -> list[SenderReport]:
    """A sender's reported state, connection by connection; empty without reports, as for a flow over UDP.

    The kernel's figures are those that a generator records.
    """
    if flow.kind in ("udp", "https"):
        return []
    if flow.kind == "tcp":
        spans = [(_tcp(view, flow.flow, lifetime), lifetime.start_ns, lifetime.end_ns)]
    else:
        spans = [
            (_quic(view, flow, lifetime, window), *_span(window, lifetime, alone=len(windows) == 1))
            for windows in [[candidate for candidate in view.windows if candidate.transfer.flow == flow.flow]]
            for window in windows
        ]
    return [SenderReport(state, start, end) for state, start, end in spans if state is not None and len(state)]


def _span(window: TransferWindow, lifetime: Lifetime, *, alone: bool) -> tuple[int, int]:
    """From a transfer's first datagram to its end; for the only transfer of a flow, from the flow's start to
    its end.
    """
    if alone or window.zero_ns is None:
        return lifetime.start_ns, lifetime.end_ns
    return window.zero_ns - lifetime.zero_ns, window.transfer.ended_ns - lifetime.zero_ns


def _tcp(view: Artefacts, flow: int, lifetime: Lifetime) -> pl.DataFrame | None:
    """From tcp_info. In flight by tcp_packets_in_flight (include/net/tcp.h): packets_out - sacked - lost + retrans.

    If the samples lack sacked and retrans, selectively acknowledged packets are included.
    """
    rows = view.tcp(flow)
    if rows is None:
        return None
    sacked, lost, retransmitted = (pl.col(name).fill_null(0) for name in ("sacked", "lost", "retrans"))
    in_flight = pl.col("unacked") - sacked - lost + retransmitted
    return rows.select(
        t_ns=pl.col("t_ns") - lifetime.zero_ns,
        cwnd=pl.col("cwnd"),
        in_flight=in_flight.clip(lower_bound=0),
        # 0 is a connection without a sample yet, all ones a minimum that is not known (tcp_min_rtt).
        srtt=pl.when(pl.col("srtt_us") > 0).then(pl.col("srtt_us") / 1e3),
        min_rtt=pl.when(pl.col("min_rtt_us").is_between(1, 2**32 - 2)).then(pl.col("min_rtt_us") / 1e3),
    )


def _quic(view: Artefacts, flow: FlowAddresses, lifetime: Lifetime, window: TransferWindow) -> pl.DataFrame | None:
    """From the metrics_updated events of the sender's trace; bytes are divided by the payload of its usual datagram."""
    trace = _trace_of(view, window)
    base_ms = base_rtt_ms(view, flow)
    if trace is None or base_ms is None:
        return None
    rows = qlog.read_recovery(trace, base_ms)
    if not len(rows):
        return None
    size = usual_payload(lifetime.sent)
    # A value set before there can be a sample is the initial value (RFC 9002 §6.2.2).
    sampled = pl.col("t_ms") >= _EARLY * base_ms
    least = pl.col("min_rtt_ms") if rows["min_rtt_ms"].count() else pl.col("latest_rtt_ms")
    return rows.select(
        t_ns=(pl.col("t_ms") * 1e6).round().cast(pl.Int64)
        + (first_event_ns(view, trace, lifetime, window) - lifetime.zero_ns),
        cwnd=pl.when(pl.col("congestion_window") < _UNLIMITED).then(pl.col("congestion_window") / size),
        in_flight=pl.col("bytes_in_flight") / size,
        srtt=pl.when(sampled & (pl.col("smoothed_rtt_ms") > 0)).then(pl.col("smoothed_rtt_ms")),
        min_rtt=pl.when(sampled & (least > 0)).then(least),
    )


def trace_of(view: Artefacts, flow: int) -> Path | None:
    """The largest trace of a flow's sender, of its first connection."""
    window = next((window for window in view.windows if window.transfer.flow == flow), None)
    return None if window is None else _trace_of(view, window)


def _trace_of(view: Artefacts, window: TransferWindow) -> Path | None:
    return next(iter(traces_of(view, window, window.sender)), None)


def first_event_ns(view: Artefacts, trace: Path, lifetime: Lifetime, window: TransferWindow) -> int:
    """When a trace's first event happened, ns since the epoch.

    By the trace's own clock, if it has one that agrees with the captures. Otherwise a client's begins with its first
    packet, and a server's when that left the path at its side.
    """
    first_packet_ns = lifetime.zero_ns + lifetime.start_ns
    if window.sender == "client" and window.zero_ns is not None:
        first_packet_ns = window.zero_ns
    elif view.right is not None:
        from_client = (view.right.flow == lifetime.flow) & ~view.right.to_client
        rows = np.flatnonzero(from_client & (view.right.t_ns >= window.start_ns))
        first_packet_ns = int(view.right.t_ns[rows[0]]) if len(rows) else first_packet_ns
    logged_ns = qlog.first_event_ns(trace)
    return logged_ns if logged_ns is not None and abs(logged_ns - first_packet_ns) < _NEAR else first_packet_ns


def usual_payload(sent: Capture) -> int:
    """Payload of the datagrams or segments that carried most bytes."""
    sizes, counts = np.unique(sent.payload[sent.payload > 0], return_counts=True)
    return int(sizes[(sizes * counts).argmax()])


def usual_frame(sent: Capture) -> int:
    """Frame length of the same packets, bytes."""
    return int(np.median(sent.length[sent.payload == usual_payload(sent)]))


def base_rtt_ms(view: Artefacts, flow: FlowAddresses) -> float | None:
    """The configured round trip without queues; with several paths, that of the path that the client starts on."""
    if view.lab is None:
        return None
    links = next((path.links for path in view.lab.paths if path.path == flow.path), view.lab.links)
    return links.rtt_ns / 1e6 + 2 * flow.access_delay_ns / 1e6


def _floats(frame: pl.DataFrame, name: str) -> Floats:
    return frame[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()
