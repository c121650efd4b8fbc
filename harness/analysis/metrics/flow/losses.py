"""What a sender took for lost and did about it: from its qlog (QUIC), its kernel (TCP) or its segments."""

from __future__ import annotations

import numpy as np
import polars as pl

from harness.analysis.byte_stream import sent_again
from harness.analysis.metrics.kinds import Absent, Figure, Told, flow_metric
from harness.analysis.shared_flow import NOT_TOLD, SharedFlow
from harness.analysis.timeseries.lifetimes import client_port
from harness.analysis.timeseries.sender import base_rtt_ms, trace_of
from harness.capture.qlog import Losses

#: A recovery period lasts a round trip at least (RFC 9002 §7.3.2); below this part of it a trace shows none.
_SHORT = 0.5


@flow_metric(
    unit="ms", better="lower", title="length of the periods of recovery that came to an end, mean",
    formula="Σ (end - begin) / n",
    source="qlog's congestion_state_updated (RFC 9002 §7.3.2); tcpi_ca_state in Recovery or Loss, as sampled every 20 "
    "ms; CCPerf's mean_recovery_time_l4",
)  # fmt: skip
def mean_recovery_time(flow: SharedFlow) -> Told:
    """How long a sender's recovery from loss lasts."""
    if not flow.responsive:
        return None
    periods = _losses(flow).recoveries_ms
    if periods is None:
        return Absent(NOT_TOLD)
    return Figure(float(np.mean(periods)), flow.sender_tells) if periods else None


@flow_metric(
    unit="packets", better="lower",
    title="segments sent again, or packets declared lost, whose data QUIC sends anew in other packets",
    formula="count over the whole connection",
    source="qlog's packet_lost (RFC 9000 §13.3); tcpi_total_retrans; of HTTPS the capture at the sender's side; "
    "CCPerf's total_retransmissions_l4",
)  # fmt: skip
def retransmissions(flow: SharedFlow) -> Told:
    """What a sender sent again."""
    return _count(flow, _losses(flow).lost) if flow.responsive else None


@flow_metric(
    unit="1", better="lower", title="expired retransmission timers, or probe timeouts",
    formula="count over the whole connection",
    source="qlog's loss_timer_updated, or the steps by which pto_count rose (RFC 9002 §6.2); tcpi_total_rto (RFC 6298 "
    "§5; Linux 6.7 on); CCPerf's total_rtos_l4",
)  # fmt: skip
def timeouts(flow: SharedFlow) -> Told:
    """How often a sender's timer expired."""
    return _count(flow, _losses(flow).timeouts) if flow.responsive else None


def _count(flow: SharedFlow, value: int | None) -> Told:
    return Absent(NOT_TOLD) if value is None else Figure(value, flow.sender_tells)


def _losses(flow: SharedFlow) -> Losses:
    """What the sender of a flow with congestion control told."""
    if flow.facts.kind == "https":
        return _of_segments(flow)
    return _of_kernel(flow) if flow.facts.kind == "tcp" else _of_trace(flow)


def _of_segments(flow: SharedFlow) -> Losses:
    """What went again as the capture has it; no timer expires in it."""
    sent = flow.lifetime.sent
    again = sent_again(sent, client_port(sent, flow.facts.sender == "server"))
    return Losses(int(again.sum()), None, None)


def _of_kernel(flow: SharedFlow) -> Losses:
    rows = flow.view.tcp(flow.number)
    if rows is None or not len(rows):
        return Losses(None, None, None)
    counts = [
        None if (last := rows[name].drop_nulls()).is_empty() else int(last[-1])
        for name in ("total_retrans", "total_rto")
    ]
    states = rows.drop_nulls("ca_state")
    return Losses(counts[0], counts[1], _episodes(states) if len(states) else None)


def _episodes(rows: pl.DataFrame) -> tuple[float, ...]:
    """Lengths, ms, of the runs of samples in Recovery or Loss that ended, from their first to the first one after."""
    inside = np.concatenate(([False], rows["ca_state"].is_in(["recovery", "loss"]).to_numpy())).astype(np.int8)
    begins, ends = np.flatnonzero(np.diff(inside) == 1), np.flatnonzero(np.diff(inside) == -1)
    t_ms = rows["t_ns"].to_numpy() / 1e6
    return tuple(float(t_ms[end] - t_ms[begin]) for begin, end in zip(begins, ends, strict=False))


def _of_trace(flow: SharedFlow) -> Losses:
    trace, rtt_ms = trace_of(flow.view, flow.number), base_rtt_ms(flow.view, flow.facts)
    if trace is None or rtt_ms is None:
        return Losses(None, None, None)
    told = flow.view.losses(trace)
    periods = told.recoveries_ms
    if periods and np.median(periods) < _SHORT * rtt_ms:
        periods = None  # the state is left at once: it marks the reduction, not the period
    lost = told.lost
    if lost is None and not len(flow.points("drops").value.nonzero()[0]):
        lost = 0  # no packet was lost, and none was declared so
    return Losses(lost, told.timeouts, periods)
