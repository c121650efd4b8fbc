"""What each sender says of its window, its flight and its round trips."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from harness.analysis.connection_traces import traces_of
from harness.analysis.series.grid import Floats, Points, grid_ns, held
from harness.analysis.series.lifetimes import Lifetime
from harness.artefacts.run import Artefacts
from harness.traces import qlog
from harness.traces.capture import Capture
from harness.traces.lab import FlowAddresses

#: A trace's own clock is believed where it puts the trace's first event so close to the connection's first packet, ns.
_NEAR = 500_000_000
#: A first sample of the round-trip time before this part of the path's is the initial value, no sample.
_EARLY = 0.98
#: A window above this stands for none, bytes.
_UNLIMITED = 2.0**50


def sender_series(state: pl.DataFrame, lifetime: Lifetime) -> dict[str, Points]:
    """cwnd, in_flight and srtt of one flow, as far as its sender tells."""
    t_ns, moments = state["t_ns"].to_numpy(), grid_ns(lifetime.start_ns, lifetime.end_ns)
    made = {name: held(t_ns, _floats(state, name), moments) for name in ("cwnd", "in_flight", "srtt")}
    return {name: points for name, points in made.items() if len(points.t)}


def sender_state(view: Artefacts, flow: FlowAddresses, lifetime: Lifetime) -> pl.DataFrame | None:
    """A sender's state as it told it: t_ns (since time zero), cwnd, in_flight (packets), srtt, min_rtt (ms).

    None where nothing tells, as for a flow over UDP. Values that are not known yet are null.
    """
    if flow.kind == "udp":
        return None
    return _tcp(view, flow.flow, lifetime) if flow.kind == "tcp" else _quic(view, flow, lifetime)


def _tcp(view: Artefacts, flow: int, lifetime: Lifetime) -> pl.DataFrame | None:
    """From tcp_info. In flight by tcp_packets_in_flight (include/net/tcp.h): packets_out - sacked - lost + retrans.

    Where the samples have no sacked and retrans, what was acknowledged selectively is in it.
    """
    rows = view.tcp(flow)
    if rows is None:
        return None
    sacked, lost, again = (pl.col(name).fill_null(0) for name in ("sacked", "lost", "retrans"))
    out = pl.col("unacked") - sacked - lost + again
    return rows.select(
        t_ns=pl.col("t_ns") - lifetime.zero_ns, cwnd=pl.col("cwnd"), in_flight=out.clip(lower_bound=0),
        # 0 is a connection without a sample yet, all ones a minimum that is not known (tcp_min_rtt).
        srtt=pl.when(pl.col("srtt_us") > 0).then(pl.col("srtt_us") / 1e3),
        min_rtt=pl.when(pl.col("min_rtt_us").is_between(1, 2**32 - 2)).then(pl.col("min_rtt_us") / 1e3),
    )  # fmt: skip


def _quic(view: Artefacts, flow: FlowAddresses, lifetime: Lifetime) -> pl.DataFrame | None:
    """From the metrics_updated events of the server's trace; bytes divided by the payload of its usual datagram."""
    trace = trace_of(view, flow.flow)
    base_ms = base_rtt_ms(view, flow)
    if trace is None or base_ms is None:
        return None
    rows = qlog.read_recovery(trace, base_ms)
    if not len(rows):
        return None
    size = usual_payload(lifetime.sent)
    # What was set before there can have been a sample is the initial value (RFC 9002 §6.2.2).
    sampled = pl.col("t_ms") >= _EARLY * base_ms
    least = pl.col("min_rtt_ms") if rows["min_rtt_ms"].count() else pl.col("latest_rtt_ms")
    return rows.select(
        t_ns=(pl.col("t_ms") * 1e6).round().cast(pl.Int64) + (first_event_ns(view, trace, lifetime) - lifetime.zero_ns),
        cwnd=pl.when(pl.col("congestion_window") < _UNLIMITED).then(pl.col("congestion_window") / size),
        in_flight=pl.col("bytes_in_flight") / size,
        srtt=pl.when(sampled & (pl.col("smoothed_rtt_ms") > 0)).then(pl.col("smoothed_rtt_ms")),
        min_rtt=pl.when(sampled & (least > 0)).then(least),
    )


def trace_of(view: Artefacts, flow: int) -> Path | None:
    """The trace of a flow's server with the most in it, of its first connection."""
    window = next((window for window in view.windows if window.transfer.flow == flow), None)
    return None if window is None else next(iter(traces_of(view, window, "server")), None)


def first_event_ns(view: Artefacts, trace: Path, lifetime: Lifetime) -> int:
    """When a trace's first event happened, ns since the epoch.

    By the trace's own clock, if it has one and that agrees with the captures; else when the client's first packet came
    out at the server's side, with which a server's trace begins.
    """
    seen = lifetime.zero_ns + lifetime.start_ns
    if view.right is not None:
        rows = np.flatnonzero((view.right.flow == lifetime.flow) & ~view.right.to_client)
        seen = int(view.right.t_ns[rows[0]]) if len(rows) else seen
    told = qlog.first_event_ns(trace)
    return told if told is not None and abs(told - seen) < _NEAR else seen


def usual_payload(sent: Capture) -> int:
    """Payload of the datagrams or segments in which most bytes went."""
    sizes, counts = np.unique(sent.payload[sent.payload > 0], return_counts=True)
    return int(sizes[(sizes * counts).argmax()])


def usual_frame(sent: Capture) -> int:
    """The same packets' length as frames, bytes."""
    return int(np.median(sent.length[sent.payload == usual_payload(sent)]))


def base_rtt_ms(view: Artefacts, flow: FlowAddresses) -> float | None:
    """The round trip that was asked for, without any queue."""
    if view.lab is None:
        return None
    links = view.lab.links
    return sum(link.delay_ns - link.jitter_ns for link in (links.to_client, links.to_server)) / 1e6 + (
        2 * flow.access_delay_ns / 1e6
    )


def _floats(frame: pl.DataFrame, name: str) -> Floats:
    return frame[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()
