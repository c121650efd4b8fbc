"""Packets that the bottleneck's queue drops over time, and whose they were."""

from __future__ import annotations

from typing import cast

import altair as alt
import polars as pl

from harness.report.plots.copied import Marks
from harness.report.plots.parts import looks, present, sized, time_axis, top, value_axis
from harness.report.plots.registry import plot
from harness.report.plots.theme import FILL, INK, WIDTH, Chart
from harness.report.plots.view import Drawn

#: Width of the bins, s.
WINDOW = 0.5


@plot(
    "Drops at the bottleneck",
    "drop",
    note=f"packets dropped by the queue: per second over {WINDOW} s, and below when they came",
)
def drop_rate(run: Drawn) -> Chart | None:
    """Drops of all flows, 1/s, above one row a flow with a tick for each drop (INET link sharing, packet_drop_rate)."""
    drops = run.of_bottleneck("drop")
    if drops.is_empty():
        return None
    shown = rates(drops, run.end)
    area = (
        Marks(shown)
        .mark_area(interpolate="step-after", color=FILL, line={"color": INK, "strokeWidth": 1}, clip=True)
        .encode(x=time_axis((0.0, run.end), labels=False), y=value_axis("drops (1/s)", top(shown["value"].max())))
    )
    return alt.vconcat(sized(area, 180), drop_rows(run, (0.0, run.end)), spacing=6)


def rates(drops: pl.DataFrame, end: float) -> pl.DataFrame:
    """Drops per second in bins of `WINDOW` s from 0 to the end; empty bins are 0."""
    bins = pl.DataFrame({"bin": range(int(end / WINDOW) + 1)}, schema={"bin": pl.Int64})
    counts = drops.group_by((pl.col("t") / WINDOW).floor().cast(pl.Int64).alias("bin")).len("drops")
    return bins.join(counts, on="bin", how="left").select(
        t=pl.col("bin") * WINDOW, value=pl.col("drops").fill_null(0) / WINDOW
    )


def drop_rows(run: Drawn, span: tuple[float, float]) -> Chart:
    """One row a flow, a tick for each of its drops; of those too close to be told apart one."""
    names = {flow.index: flow.name for flow in run.flows}
    spot = ((pl.col("t") - span[0]) / (span[1] - span[0]) * 2 * WIDTH).floor().alias("spot")
    drops = (
        run.of_bottleneck("drop")
        .filter(pl.col("t").is_between(*span))
        .unique(["value", spot], keep="first", maintain_order=True)
        .select("t", flow=pl.col("value").cast(pl.Int16).replace_strict(names, default="", return_dtype=pl.String))
    )
    flows = present(run, drops) or [flow for flow in run.flows if flow.responsive] or list(run.flows)
    # Rows of flows without drops too.
    scale = alt.Scale(domain=[flow.name for flow in flows])
    rows = alt.Y("flow:N", scale=scale, title=None, axis=alt.Axis(ticks=False, domain=False))
    colour = looks(flows, legend=False)["color"]
    ticks = Marks(drops).mark_tick(thickness=1, height=11, opacity=1, clip=True)
    return sized(cast(alt.Chart, ticks.encode(x=time_axis(span), y=rows, color=colour)), max(16 * len(flows), 20))
