"""The operating point over time: packets in flight, smoothed round-trip time, throughput."""

from __future__ import annotations

import altair as alt

from harness.analysis.timeseries.grid import BIN
from harness.report.plots.parts import (
    binned,
    brief,
    centred,
    layered,
    lines,
    ruler,
    shaded_capacity,
    sized,
    top,
    value_axis,
)
from harness.report.plots.registry import plot
from harness.report.plots.theme import Chart
from harness.report.plots.view import Drawn

_HEIGHT = 150


@plot("Operating point over time", "in_flight", "srtt", "throughput", note="means over 0.1 s")
def operating_point_time(run: Drawn) -> Chart | None:
    """In flight (packets), sRTT (ms), throughput (Mbit/s) of each flow (CCPerf, time series of the operating point)."""
    flight, trip = (binned(run.of_flows(name), BIN) for name in ("in_flight", "srtt"))
    rate = centred(run.of_flows("throughput"), BIN)
    names = {name for frame in (flight, trip, rate) for name in frame["flow"].unique()}
    flows, whole = [flow for flow in run.flows if flow.name in names], (0.0, run.end)
    base = run.round_trip
    flights = value_axis("in flight (packets)", top(flight["value"].max()))
    trips = value_axis("sRTT (ms)", top(trip["value"].max()))
    rates = value_axis("throughput (Mbit/s)", top(rate["value"].max(), run.capacity["value"].max()))
    alone = ruler(base, f"empty queue\n{brief(base)} ms", run.end)
    return alt.vconcat(
        sized(lines(flight, flows, flights, whole, labels=False), _HEIGHT),
        sized(layered(alone, lines(trip, flows, trips, whole, labels=False)), _HEIGHT),
        sized(layered(shaded_capacity(run), lines(rate, flows, rates, whole)), _HEIGHT),
        spacing=10,
    )
