"""Mean throughput against mean smoothed round-trip time of each flow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import polars as pl

from harness.report.plots.copied import Marks
from harness.report.plots.parts import brief, haloed, layered, looks, present, sized, top
from harness.report.plots.registry import plot
from harness.report.plots.theme import INK, SHADE, SOFT, WIDTH, Chart
from harness.report.plots.view import Drawn

Align = Literal["left", "center", "right"]
Spot = tuple[float, float]

_HEIGHT = 320

#: Flows beyond which numbers beside the markers would only cover each other.
_NUMBERED = 6
#: From a marker to its number, pixels.
_NEAR = 13.0
#: From a number to other markers and numbers, where it has room, pixels.
_FREE = 12.0


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
        Marks(pl.DataFrame({"x": [base], "x2": [full], "y": [0.0], "y2": [rate]}))
        .mark_rect(color="black", opacity=SHADE)
        .encode(x=x, x2="x2:Q", y=y, y2="y2:Q")
    )
    words: tuple[tuple[float, str, Align], ...] = (
        (base, f"empty queue {brief(base)} ms", "left"),
        ((base + full) / 2, f"capacity {brief(rate)} Mbit/s", "center"),
        (full, f"full queue {brief(full)} ms", "right"),
    )
    edges = [
        layer
        for place, text, align in words
        for layer in haloed(
            Marks(pl.DataFrame({"x": [place], "y": [rate], "text": [text]})).encode(x=x, y=y, text="text:N"),
            align=align, baseline="bottom", dy=-3, fontSize=10, color=SOFT,
        )
    ]  # fmt: skip
    return sized(layered(box, *edges, *numbered(run, points, x, y, (WIDTH, _HEIGHT))), _HEIGHT)


def numbered(run: Drawn, points: pl.DataFrame, x: alt.X, y: alt.Y, size: tuple[int, int]) -> list[alt.Chart]:
    """A marker a flow; of a few flows with the flow's number near it, where neighbours leave room.

    `size` is that of the panel, pixels; the axes have their domains.
    """
    marks = (
        Marks(points)
        .mark_point(filled=True, size=110, opacity=1, stroke=INK, strokeWidth=0.6)
        .encode(x=x, y=y, tooltip=["flow:N", "x:Q", "y:Q"], **looks(present(run, points), points=True))
    )
    if points.height > _NUMBERED:
        return [marks]
    (left, right), (low, high) = (_domain(axis) for axis in (x, y))
    across, up = size[0] / (right - left), size[1] / (high - low)
    spots = [((one - left) * across, (other - low) * up) for one, other in points.select("x", "y").iter_rows()]
    placed = pl.DataFrame(
        [
            (number, left + spot[0] / across, low + spot[1] / up)
            for number, spot in zip(points["number"], beside_markers(spots), strict=True)
        ],
        schema={"number": pl.String, "x": pl.Float64, "y": pl.Float64}, orient="row",
    )  # fmt: skip
    return [marks, *haloed(Marks(placed).encode(x=x, y=y, text="number:N"), fontSize=11, color=INK)]


def _domain(axis: alt.X | alt.Y) -> tuple[float, float]:
    """Where an axis begins and ends."""
    content: Any = axis.to_dict()
    low, high = content["scale"]["domain"]
    return low, high


def beside_markers(spots: Sequence[Spot]) -> list[Spot]:
    """A place for a number near each of these markers (pixels): the first that is free, or the one with most room."""
    taken: list[Spot] = []
    for own in spots:
        around = [
            (own[0] + far * math.cos(turn * math.pi / 4), own[1] + far * math.sin(turn * math.pi / 4))
            for far in (_NEAR, 1.4 * _NEAR)
            for turn in range(8)
        ]
        rooms = [min([_FREE, *(math.dist(place, other) for other in (*spots, *taken))]) for place in around]
        taken.append(around[rooms.index(max(rooms))])
    return taken


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
