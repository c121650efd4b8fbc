"""The figure of a trend: the headline figure of each cell over the nights."""

from __future__ import annotations

import math
import warnings
from typing import Any

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from harness.report.plots.parts import Marks, axis_end, layer_charts, set_size
from harness.report.plots.theme import WIDTH, vega_config
from harness.report.trend import ScenarioTrend

_HEIGHT = 220
#: With more servers than that, a legend would say less than a line's own words.
_MOST_SERVERS = 12


def trend_figure(trend: ScenarioTrend) -> dict[str, Any] | None:
    """Vega-Lite: a line a cell, in the colour of its server, over the nights; None with less than two nights of a cell.

    The axis begins at zero, so that a change of 1 % looks like one.
    """
    points = [
        {
            "night": night,
            "cell": row.name,
            "server": tile.result.cell.server.name,
            "value": tile.value,
            "figure": f"{tile.figure} ({tile.result.verdict.status})",
        }
        for row in trend.rows
        if sum(tile is not None and tile.value is not None for tile in row.tiles) > 1
        for night, tile in zip(trend.nights, row.tiles, strict=True)
        if tile is not None and tile.value is not None and math.isfinite(tile.value)
    ]
    if not points:
        return None
    servers = {row.newest.result.cell.server.name: row.newest.result.cell.server.colour for row in trend.rows}
    shown = sorted({str(point["server"]) for point in points})
    legend = alt.Legend(columns=4, symbolSize=80) if len(shown) <= _MOST_SERVERS else None
    colours = alt.Scale(domain=shown, range=[servers[name] for name in shown])
    with warnings.catch_warnings(), debug_mode(False):
        base = Marks(pl.DataFrame(points))
        top = axis_end(*(float(str(point["value"])) for point in points))
        encodings = {
            "x": alt.X(
                "night:O",
                title=None,
                sort=list(trend.nights),
                axis=alt.Axis(labelOverlap=True, labelAngle=0, labelBound=True),
            ),
            "y": alt.Y("value:Q", title=trend.figure, scale=alt.Scale(domain=[0, top], nice=False)),
            "color": alt.Color("server:N", scale=colours, legend=legend),
            "detail": "cell:N",
            "tooltip": ["cell:N", "night:O", "figure:N"],
        }
        chart = layer_charts(
            base.mark_line(strokeWidth=1.5).encode(**encodings),
            base.mark_point(filled=True, size=36, opacity=1).encode(**encodings),
        )
        return {**set_size(chart, _HEIGHT, WIDTH).to_dict(validate=False), "config": vega_config()}
