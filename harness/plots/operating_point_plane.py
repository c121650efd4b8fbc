"""Mean throughput against mean smoothed round-trip time of each flow."""

from __future__ import annotations

from typing import Literal

import altair as alt
import numpy as np
import polars as pl

from harness.plots.parts import layered, looks, present, sized, top
from harness.plots.registry import plot
from harness.plots.theme import INK, SHADE, SOFT, Chart
from harness.plots.view import Drawn

Align = Literal["left", "center", "right"]

#: Flows beyond which numbers beside the markers would only cover each other.
_NUMBERED = 6


@plot("Mean operating points", note="up and to the left is better")
def operating_point_plane(run: Drawn) -> Chart | None:
    """Mean throughput (Mbit/s) v mean sRTT (ms) of each flow (CCPerf, mean operating point plane).

    Shaded is what the path allows: from its own round-trip time to that with a full queue, up to the capacity.
    """
    points = means(run, "mean_srtt", "mean_throughput")
    if points.is_empty():
        return None
    base, rate = run.round_trip, run.link.rate.value / 1e6
    full = base + run.queue_limit * 8 / rate
    room = (full - base) / 10
    lowest, longest = (float(value) for value in (points["x"].min(), points["x"].max()))  # type: ignore[arg-type]
    across = alt.Scale(domain=[max(0.0, min(base, lowest) - room), max(full, longest) + room], nice=False)
    x = alt.X("x:Q", title="mean sRTT (ms)", scale=across, axis=alt.Axis(tickCount=8))
    up = alt.Scale(domain=[0, top(points["y"].max(), rate * 1.05)], nice=False)
    y = alt.Y("y:Q", title="mean throughput (Mbit/s)", scale=up, axis=alt.Axis(tickCount=5))
    box = (
        alt.Chart(pl.DataFrame({"x": [base], "x2": [full], "y": [0.0], "y2": [rate]}))
        .mark_rect(color="black", opacity=SHADE)
        .encode(x=x, x2="x2:Q", y=y, y2="y2:Q")
    )
    words: tuple[tuple[float, str, Align], ...] = (
        (base, f"empty queue {base:g} ms", "left"),
        ((base + full) / 2, f"capacity {rate:g} Mbit/s", "center"),
        (full, f"full queue {full:.3g} ms", "right"),
    )
    edges = [
        alt.Chart(pl.DataFrame({"x": [place], "y": [rate], "text": [text]}))
        .mark_text(align=align, baseline="bottom", dy=-3, fontSize=10, color=SOFT)
        .encode(x=x, y=y, text="text:N")
        for place, text, align in words
    ]
    return sized(layered(box, *edges, *numbered(run, points, x, y)), 320)


def numbered(run: Drawn, points: pl.DataFrame, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """A marker a flow; of a few flows with the flow's number beside it, where neighbours leave room."""
    marks = (
        alt.Chart(points)
        .mark_point(filled=True, size=110, opacity=1, stroke=INK, strokeWidth=0.6)
        .encode(x=x, y=y, tooltip=["flow:N", "x:Q", "y:Q"], **looks(present(run, points), points=True))
    )
    if points.height > _NUMBERED:
        return [marks]
    across, up = (np.ptp(points[axis].to_numpy()) / points[axis].to_numpy().mean() for axis in ("x", "y"))
    right, above = (0, 13) if across > up else (12, 0)
    numbers = alt.Chart(points).mark_text(fontSize=11, color=INK, dx=right, dy=-above)
    return [marks, numbers.encode(x=x, y=y, text=alt.Text("number:N"))]


def means(run: Drawn, x: str, y: str) -> pl.DataFrame:
    """flow, number, x, y: two figures of each flow that has both."""
    found = [
        (flow.name, str(flow.index), across, up)
        for flow in run.flows
        if (across := run.figure(flow, x)) is not None and (up := run.figure(flow, y)) is not None
    ]
    return pl.DataFrame(
        found, schema={"flow": pl.String, "number": pl.String, "x": pl.Float64, "y": pl.Float64}, orient="row"
    )
