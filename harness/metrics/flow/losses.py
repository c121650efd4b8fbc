"""What a sender took for lost and did about it: from its qlog (QUIC) or its kernel (TCP)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import polars as pl

from harness.metrics.registry import Finding
from harness.metrics.series.sender import base_rtt_ms, trace_of
from harness.metrics.shared_flow import NOT_TOLD, SharedFlow, flows_of, left_out
from harness.metrics.view import RunView
from harness.traces.qlog import Losses

#: A recovery period lasts a round trip at least (RFC 9002 §7.3.2); below this part of it a trace shows none.
_SHORT = 0.5


def count(view: RunView, name: str, told: Callable[[Losses], int | None]) -> Iterator[Finding]:
    """One of the counts, of each flow whose sender tells it."""
    missing = []
    for flow, losses in losses_of_flows(view):
        value = told(losses)
        if value is None:
            missing.append(flow)
        else:
            yield flow.measurement(name, value, "1", "lower", flow.sender_tells)
    yield from left_out(name, missing, NOT_TOLD)


def losses_of_flows(view: RunView) -> Iterator[tuple[SharedFlow, Losses]]:
    """The flows with congestion control, each with what its sender told."""
    for flow in flows_of(view):
        if flow.responsive:
            yield flow, _of_kernel(flow) if flow.facts.kind == "tcp" else _of_trace(flow)


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
    told = flow.view.losses(trace)
    periods = told.recoveries_ms
    if periods and np.median(periods) < _SHORT * rtt_ms:
        periods = None  # the state is left at once: it marks the reduction, not the period
    lost = told.lost
    if lost is None and not len(flow.points("drops").value.nonzero()[0]):
        lost = 0  # no packet was lost, and none was declared so
    return Losses(lost, told.timeouts, periods)
