"""Kleinrock's operating point: throughput and round-trip time against packets in flight, with the optimum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import polars as pl

from harness.analysis.timeseries.grid import BIN
from harness.report.plots.parts import (
    Marks,
    axis_end,
    bin_series,
    flow_encodings,
    flows_in,
    format_brief,
    haloed_labels,
    layer_charts,
    lines,
    ruler,
    set_size,
    shaded_capacity,
    shift_to_centres,
    value_axis,
)
from harness.report.plots.registry import plot
from harness.report.plots.theme import INK, OPTIMUM, SHADE, SOFT, WIDTH, Chart
from harness.report.plots.view import PlotData

# --- Mean throughput against mean smoothed round-trip time of each flow.


Align = Literal["left", "center", "right"]
Spot = tuple[float, float]

_PLANE_HEIGHT = 320

#: The most flows whose markers have numbers beside them; more numbers would overlap.
_MAX_NUMBERED = 6
#: Distance from a marker to its number, pixels.
_NEAR = 13.0
#: Distance from a number to other markers and numbers that is enough, pixels.
_CLEARANCE = 12.0


@plot("Mean operating points", note="up and to the left is better")
def operating_point_plane(run: PlotData) -> Chart | None:
    """Mean throughput (Mbit/s) v mean sRTT (ms) of each flow (CCPerf, mean operating point plane).

    Shaded is what the path allows: from its own round-trip time to that with a full queue, up to the capacity.
    """
    points = metric_pairs(run, "mean_srtt", "mean_throughput")
    if points.is_empty():
        return None
    base, rate = run.round_trip, run.link.rate.value / 1e6
    full = base + run.queue_limit * 8 / rate
    room = (full - base) / 10
    lowest, longest = (float(value) for value in (points["x"].min(), points["x"].max()))  # type: ignore[arg-type]
    across = alt.Scale(domain=[max(0.0, min(base, lowest) - room), max(full, longest) + room], nice=False)
    x = alt.X("x:Q", title="mean sRTT (ms)", scale=across, axis=alt.Axis(tickCount=8))
    up = alt.Scale(domain=[0, axis_end(points["y"].max(), rate * 1.05)], nice=False)
    y = alt.Y("y:Q", title="mean throughput (Mbit/s)", scale=up, axis=alt.Axis(tickCount=5))
    box = (
        Marks(pl.DataFrame({"x": [base], "x2": [full], "y": [0.0], "y2": [rate]}))
        .mark_rect(color="black", opacity=SHADE)
        .encode(x=x, x2="x2:Q", y=y, y2="y2:Q")
    )
    words: tuple[tuple[float, str, Align], ...] = (
        (base, f"empty queue {format_brief(base)} ms", "left"),
        ((base + full) / 2, f"capacity {format_brief(rate)} Mbit/s", "center"),
        (full, f"full queue {format_brief(full)} ms", "right"),
    )
    edges = [
        layer
        for place, text, align in words
        for layer in haloed_labels(
            Marks(pl.DataFrame({"x": [place], "y": [rate], "text": [text]})).encode(x=x, y=y, text="text:N"),
            align=align,
            baseline="bottom",
            dy=-3,
            fontSize=10,
            color=SOFT,
        )
    ]
    return set_size(
        layer_charts(box, *edges, *numbered_markers(run, points, x, y, (WIDTH, _PLANE_HEIGHT))), _PLANE_HEIGHT
    )


def numbered_markers(run: PlotData, points: pl.DataFrame, x: alt.X, y: alt.Y, size: tuple[int, int]) -> list[alt.Chart]:
    """A marker per flow; with few flows, also the flow's number near it, where neighbours leave room.

    `size`: width and height of the panel, pixels. The axes must have their domains.
    """
    marks = (
        Marks(points)
        .mark_point(filled=True, size=110, opacity=1, stroke=INK, strokeWidth=0.6)
        .encode(x=x, y=y, tooltip=["flow:N", "x:Q", "y:Q"], **flow_encodings(flows_in(run, points), points=True))
    )
    if points.height > _MAX_NUMBERED:
        return [marks]
    (left, right), (low, high) = (_domain(axis) for axis in (x, y))
    across, up = size[0] / (right - left), size[1] / (high - low)
    spots = [
        ((value_x - left) * across, (value_y - low) * up) for value_x, value_y in points.select("x", "y").iter_rows()
    ]
    placed = pl.DataFrame(
        [
            (number, left + spot[0] / across, low + spot[1] / up)
            for number, spot in zip(points["number"], beside_markers(spots), strict=True)
        ],
        schema={"number": pl.String, "x": pl.Float64, "y": pl.Float64},
        orient="row",
    )
    return [marks, *haloed_labels(Marks(placed).encode(x=x, y=y, text="number:N"), fontSize=11, color=INK)]


def _domain(axis: alt.X | alt.Y) -> tuple[float, float]:
    """The first and the last value of an axis."""
    content: Any = axis.to_dict()
    low, high = content["scale"]["domain"]
    return low, high


def beside_markers(spots: Sequence[Spot]) -> list[Spot]:
    """Places for numbers near markers, all in pixels: per marker the first with enough room, or that with most."""
    places: list[Spot] = []
    for marker in spots:
        around = [
            (marker[0] + distance * math.cos(turn * math.pi / 4), marker[1] + distance * math.sin(turn * math.pi / 4))
            for distance in (_NEAR, 1.4 * _NEAR)
            for turn in range(8)
        ]
        rooms = [
            min([_CLEARANCE, *(math.dist(place, neighbour) for neighbour in (*spots, *places))]) for place in around
        ]
        places.append(around[rooms.index(max(rooms))])
    return places


def metric_pairs(run: PlotData, x: str, y: str) -> pl.DataFrame:
    """Two metrics of each flow that has both: a frame of flow, number, x, y."""
    rows = [
        (flow.name, str(flow.index), across, up)
        for flow in run.flows
        if (across := run.figure(flow, x)) is not None and (up := run.figure(flow, y)) is not None
    ]
    return pl.DataFrame(
        rows, schema={"flow": pl.String, "number": pl.String, "x": pl.Float64, "y": pl.Float64}, orient="row"
    )


# --- in flight operating point


#: Width and height of a panel, pixels.
_SIZE = (300, 280)


@plot(
    "In flight and mean operating point",
    note="grey: what the path makes of so many packets in flight; star: one bandwidth-delay product, the optimum",
)
def in_flight_operating_point(run: PlotData) -> Chart | None:
    """Mean sRTT (ms) and mean throughput (Mbit/s) v mean packets in flight (CCPerf, in flight v mean operating point).

    The grey line is the ideal path's: below one bandwidth-delay product (BDP) the round trip takes the path's own
    time and throughput grows with what is in flight, above it the queue and with it the round trip grow (L. Kleinrock,
    Power and deterministic rules of thumb, ICC 1979). A cross marks all flows together.
    """
    base, rate, bdp = run.round_trip, run.link.rate.value / 1e6, run.bdp
    trips, rates = (
        metric_pairs(run, "mean_in_flight", "mean_srtt"),
        metric_pairs(run, "mean_in_flight", "mean_throughput"),
    )
    if trips.is_empty() or rates.is_empty() or bdp <= 0:
        return None
    joint = _network_point(run, trips)
    widest = axis_end(trips["x"].max(), joint["x"].max(), bdp + run.queue_limit * 1000 / run.packet)
    x = alt.X(
        "x:Q",
        title="mean in flight (packets)",
        scale=alt.Scale(domain=[0, widest], nice=False),
        axis=alt.Axis(tickCount=6),
    )
    kinds = (
        ("mean sRTT (ms)", trips, "trip", [(0.0, base), (bdp, base), (widest, base * widest / bdp)]),
        ("mean throughput (Mbit/s)", rates, "rate", [(0.0, 0.0), (bdp, rate), (widest, rate)]),
    )
    panels = []
    for title, points, column, ideal in kinds:
        curve = pl.DataFrame(ideal, schema={"x": pl.Float64, "y": pl.Float64}, orient="row")
        whole = joint.select("x", y=pl.col(column), text=pl.lit("all flows")).drop_nulls()
        up = alt.Scale(domain=[0, axis_end(points["y"].max(), whole["y"].max(), 1.05 * curve["y"][2])], nice=False)
        y = alt.Y("y:Q", title=title, scale=up, axis=alt.Axis(tickCount=5))
        panels.append(set_size(_panel(run, points, curve, whole, x, y), *reversed(_SIZE)))
    return alt.hconcat(*panels, spacing=30)


def _network_point(run: PlotData, trips: pl.DataFrame) -> pl.DataFrame:
    """All flows together, a frame of x, trip and rate: the network's mean packets in flight and mean throughput, both
    summed over flows, and the mean of the flows' sRTTs.
    """
    flight = run.network("agg_in_flight")
    if flight is None:
        return pl.DataFrame(schema={"x": pl.Float64, "trip": pl.Float64, "rate": pl.Float64})
    rate = run.network("agg_throughput")
    return pl.DataFrame(
        [(flight, trips["y"].mean(), rate)],
        schema={"x": pl.Float64, "trip": pl.Float64, "rate": pl.Float64},
        orient="row",
    )


def _panel(
    run: PlotData, points: pl.DataFrame, curve: pl.DataFrame, whole: pl.DataFrame, x: alt.X, y: alt.Y
) -> alt.LayerChart:
    line = Marks(curve).mark_line(color=SOFT, strokeWidth=1, clip=True).encode(x=x, y=y)
    optimum = Marks(curve[[1]]).mark_point(shape=_STAR, filled=True, size=260, color=OPTIMUM, opacity=1)
    joint = Marks(whole).mark_point(shape="cross", size=130, filled=True, color=INK, opacity=1)
    label = haloed_labels(Marks(whole).encode(x=x, y=y, text="text:N"), dy=16, fontSize=11, color=INK)
    return layer_charts(
        line, optimum.encode(x=x, y=y), *numbered_markers(run, points, x, y, _SIZE), joint.encode(x=x, y=y), *label
    )


#: A star with five points around the origin, as a path in Vega's square of 2 × 2.
_STAR = (
    "M0,-1L0.2245,-0.309L0.9511,-0.309L0.3633,0.118L0.5878,0.809L0,0.3819L-0.5878,0.809L-0.3633,0.118"
    "L-0.9511,-0.309L-0.2245,-0.309Z"
)


# --- The operating point over time: packets in flight, smoothed round-trip time, throughput.


_TIME_HEIGHT = 150


@plot("Operating point over time", "in_flight", "srtt", "throughput", note="means over 0.1 s")
def operating_point_time(run: PlotData) -> Chart | None:
    """In flight (packets), sRTT (ms), throughput (Mbit/s) of each flow (CCPerf, time series of the operating point)."""
    flight, trip = (bin_series(run.of_flows(name), BIN) for name in ("in_flight", "srtt"))
    rate = shift_to_centres(run.of_flows("throughput"), BIN)
    names = {name for frame in (flight, trip, rate) for name in frame["flow"].unique()}
    flows, whole = [flow for flow in run.flows if flow.name in names], (0.0, run.end)
    base = run.round_trip
    flights = value_axis("in flight (packets)", axis_end(flight["value"].max()))
    trips = value_axis("sRTT (ms)", axis_end(trip["value"].max()))
    rates = value_axis("throughput (Mbit/s)", axis_end(rate["value"].max(), run.capacity["value"].max()))
    alone = ruler(base, f"empty queue\n{format_brief(base)} ms", run.end)
    return alt.vconcat(
        set_size(lines(flight, flows, flights, whole, labels=False), _TIME_HEIGHT),
        set_size(layer_charts(alone, lines(trip, flows, trips, whole, labels=False)), _TIME_HEIGHT),
        set_size(layer_charts(shaded_capacity(run), lines(rate, flows, rates, whole)), _TIME_HEIGHT),
        spacing=10,
    )
