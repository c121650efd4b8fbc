"""Distributions of throughput and smoothed round-trip time of each flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from harness.report.plots.copied import Marks
from harness.report.plots.parts import looks, present, sized, top
from harness.report.plots.registry import plot
from harness.report.plots.theme import Chart
from harness.report.plots.view import Drawn, DrawnFlow

#: Points of a curve at most.
_POINTS = 200


@plot("Distribution of the operating point", "throughput", note="eCDF: share of the values up to x, from start to stop")
def distribution(run: Drawn) -> Chart | None:
    """ECDFs of throughput (Mbit/s, bins of 0.1 s) and of sRTT (ms) (CCPerf, distribution of the operating point)."""
    curves = {
        title: found
        for name, title in (("throughput", "throughput (Mbit/s)"), ("srtt", "sRTT (ms)"))
        if not (found := ecdf(run, run.of_flows(name))).is_empty()
    }
    if not curves:
        return None
    flows = present(run, pl.concat(curves.values()))
    return alt.hconcat(*(_panel(found, flows, title) for title, found in curves.items()), spacing=30)


def ecdf(run: Drawn, frame: pl.DataFrame) -> pl.DataFrame:
    """flow, x, share: a step curve for each flow over its values between its start and its stop."""
    curves = []
    for flow in present(run, frame):
        last = run.end if flow.stop is None else flow.stop
        inside = frame.filter((pl.col("flow") == flow.name) & pl.col("t").is_between(flow.start, last, closed="left"))
        values = np.sort(inside["value"].to_numpy())
        if not len(values):
            continue
        # Thinned at equal shares, with both ends.
        ranks = np.unique(np.linspace(0, len(values) - 1, min(len(values), _POINTS)).round().astype(int))
        shares = (ranks + 1) / len(values)
        curves.append(
            pl.DataFrame(
                {
                    "flow": [flow.name] * (len(ranks) + 1),
                    "x": np.concatenate([values[:1], values[ranks]]),
                    "share": np.concatenate([[0.0], shares]).round(4),
                }
            )
        )
    schema = {"flow": pl.String, "x": pl.Float64, "share": pl.Float64}
    return pl.concat(curves) if curves else pl.DataFrame(schema=schema)


def _panel(curves: pl.DataFrame, flows: Sequence[DrawnFlow], title: str) -> Any:
    scale = alt.Scale(domain=[0, top(curves["x"].max())], nice=False)
    chart = (
        Marks(curves)
        .mark_line(interpolate="step-after", clip=True)
        .encode(
            x=alt.X("x:Q", title=title, scale=scale, axis=alt.Axis(tickCount=6)),
            y=alt.Y("share:Q", title="share of values", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5)),
            **looks(flows),
        )
    )
    return sized(chart, 260, 300)
