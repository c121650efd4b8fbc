"""Mean throughput against mean smoothed round-trip time of each flow."""

from __future__ import annotations

import altair as alt
import polars as pl

from harness.plots.parts import looks, sized, top
from harness.plots.registry import plot
from harness.plots.theme import INK, SHADE, SOFT, Chart
from harness.plots.view import Drawn


@plot("Mean operating points", note="up and to the left is better")
def operating_point_plane(run: Drawn) -> Chart | None:
    """Mean throughput (Mbit/s) v mean sRTT (ms) of each flow (CCPerf, mean operating point plane).

    Shaded is what the path allows: from its own round-trip time to that with a full queue, up to the capacity.
    """
    points = means(run, "mean_srtt", "mean_throughput")
    if points.is_empty():
        return None
    shown = [flow for flow in run.flows if flow.name in set(points["flow"])]
    base, rate = run.path.rtt.seconds * 1000, run.link.rate.value / 1e6
    full = base + run.queue_limit * 8 / rate
    x = alt.X("x:Q", title="mean sRTT (ms)", scale=alt.Scale(domain=[0, top(points["x"].max(), full)], nice=False))
    y = alt.Y(
        "y:Q", title="mean throughput (Mbit/s)", scale=alt.Scale(domain=[0, top(points["y"].max(), rate)], nice=False)
    )
    box = (
        alt.Chart(pl.DataFrame({"x": [base], "x2": [full], "y": [0.0], "y2": [rate]}))
        .mark_rect(color=SHADE)
        .encode(x=x, x2="x2:Q", y=y, y2="y2:Q")
    )
    words = pl.DataFrame(
        {
            "x": [base, full],
            "y": [rate, rate],
            "text": [f"empty queue {base:g} ms", f"full queue {full:.0f} ms, {rate:g} Mbit/s"],
        }
    )
    edges = alt.layer(
        *(
            alt.Chart(words[[place]])
            .mark_text(align=align, baseline="bottom", dy=-3, fontSize=10, color=SOFT)
            .encode(x=x, y=y, text="text:N")
            for place, align in ((0, "left"), (1, "right"))
        )
    )
    marks = (
        alt.Chart(points)
        .mark_point(filled=True, size=110, opacity=0.95, stroke=INK, strokeWidth=0.6)
        .encode(x=x, y=y, tooltip=["flow:N", "x:Q", "y:Q"], **looks(shown, points=True))
    )
    numbers = alt.Chart(points).mark_text(align="left", dx=9, fontSize=11, color=INK).encode(x=x, y=y, text="number:N")
    return sized(box + edges + marks + numbers, 320)  # type: ignore[no-any-return]


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
