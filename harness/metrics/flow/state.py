"""A sender's window, flight and round trips: from its qlog (QUIC) or its kernel (TCP)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.metrics.registry import Finding
from harness.metrics.series.grid import Floats
from harness.metrics.series.sender import base_rtt_ms, usual_frame
from harness.metrics.shared_flow import NOT_TOLD, SharedFlow, flows_of, left_out
from harness.metrics.view import RunView
from harness.outcome import Direction


def tellers(view: RunView, series: str) -> tuple[list[SharedFlow], list[SharedFlow]]:
    """The flows with congestion control: those whose sender tells a series, and those whose does not."""
    responsive = [flow for flow in flows_of(view) if flow.responsive]
    telling = [flow for flow in responsive if len(flow.points(series).t)]
    return telling, [flow for flow in responsive if flow not in telling]


def mean_state(view: RunView, series: str, unit: str, direction: Direction) -> Iterator[Finding]:
    """The mean of a series over its points, of each flow whose sender tells it."""
    telling, silent = tellers(view, series)
    for flow in telling:
        value = flow.points(series).value.mean()
        yield flow.measurement(f"mean_{series}", value, unit, direction, flow.sender_tells)
    yield from left_out(f"mean_{series}", silent, NOT_TOLD)


def shares_of_bdp(flow: SharedFlow) -> Floats:
    """in_flight at each of its points as a share of the path's BDP; empty without lab.json."""
    rtt_ms = base_rtt_ms(flow.view, flow.facts)
    if rtt_ms is None:
        return np.zeros(0)
    in_flight = flow.points("in_flight")
    bdp = flow.capacity(in_flight.t) * 1e6 / 8 * rtt_ms / 1e3
    return np.asarray(in_flight.value * usual_frame(flow.life.sent) / bdp)
