"""What a sender took for lost and did about it: from its qlog (QUIC) or its kernel (TCP)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from harness.metrics.flows.flow import SharedFlow, flows_of, left_out
from harness.metrics.registry import Finding, metric
from harness.metrics.series.sender import base_rtt_ms, trace_of
from harness.metrics.view import RunView
from harness.traces.qlog import Losses, read_losses

#: A recovery period lasts a round trip at least (RFC 9002 §7.3.2); below this part of it a trace shows none.
_SHORT = 0.5


@metric
def losses(view: RunView) -> Iterator[Finding]:
    """retransmissions: segments sent again (tcpi_total_retrans), or packets declared lost in the qlog, whose data QUIC
    sends anew in other packets (RFC 9000 §13.3).

    timeouts: expired retransmission timers (tcpi_total_rto, Linux 6.7 on), or probe timeouts (RFC 9002 §6.2).
    mean_recovery_time (ms): mean length of the periods of recovery (TCP: states Recovery and Loss, as sampled every
    20 ms; QUIC: congestion_state_updated) that came to an end. CCPerf's total_retransmissions_l4, total_rtos_l4 and
    mean_recovery_time_l4.
    """
    missing: dict[str, list[SharedFlow]] = {"retransmissions": [], "timeouts": [], "mean_recovery_time": []}
    for flow in flows_of(view):
        if not flow.responsive:
            continue
        told = _of_kernel(flow) if flow.facts.kind == "tcp" else _of_trace(flow)
        vantage = "tcp_info" if flow.facts.kind == "tcp" else "qlog"
        for name, value in (("retransmissions", told.lost), ("timeouts", told.timeouts)):
            if value is None:
                missing[name].append(flow)
            else:
                yield flow.measurement(name, value, "1", "lower", vantage)
        if told.recoveries_ms is None:
            missing["mean_recovery_time"].append(flow)
        elif told.recoveries_ms:
            mean = float(np.mean(told.recoveries_ms))
            yield flow.measurement("mean_recovery_time", mean, "ms", "lower", vantage)
    for name, flows in missing.items():
        yield from left_out(name, flows, "neither a qlog nor tcp_info of the sender shows it")


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
    trace, rtt_ms = trace_of(flow.view, flow.number, flow.life), base_rtt_ms(flow.view, flow.facts)
    if trace is None or rtt_ms is None:
        return Losses(None, None, None)
    told = read_losses(trace)
    periods = told.recoveries_ms
    if periods and np.median(periods) < _SHORT * rtt_ms:
        periods = None  # the state is left at once: it marks the reduction, not the period
    lost = told.lost
    if lost is None and not len(flow.points("drops").value.nonzero()[0]):
        lost = 0  # no packet was lost, and none was declared so
    return Losses(lost, told.timeouts, periods)
