"""The study's figure: response times by queue."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from harness.evaluation.cell_result import CellResult
from harness.report.plots.parts import Marks, layer_charts, set_size
from harness.report.plots.theme import INK, SOFT, add_heading, vega_config
from studies.latency.claims import SOURCE
from studies.latency.compared import responses

_ROW = 40


def response_times(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of median and 95th percentile (ms), a row for each queue; None without runs."""
    rows = [row for row in responses(results) if row.late is not None]
    if not rows:
        return None
    frame = pl.DataFrame(
        [(row.load, row.pair, row.median.median, row.late.median) for row in rows if row.late is not None],
        {"queue": pl.String, "pair": pl.String, "value": pl.Float64, "high": pl.Float64},
        orient="row",
    )
    names = list(dict.fromkeys(row.load for row in rows))
    y = alt.Y("queue:N", sort=names, title=None, axis=alt.Axis(domain=False, ticks=False))
    offset = alt.YOffset("pair:N")
    scale = alt.Scale(type="log")
    x, high = (alt.X(f"{field}:Q", title="response time, ms", scale=scale) for field in ("value", "high"))
    layers = [
        Marks(frame).mark_rule(color=SOFT, strokeWidth=2).encode(x=x, x2="high:Q", y=y, yOffset=offset),
        Marks(frame).mark_point(filled=True, color=INK, size=40, opacity=1).encode(x=x, y=y, yOffset=offset),
        Marks(frame).mark_tick(color=SOFT, thickness=2, size=8).encode(x=high, y=y, yOffset=offset),
    ]
    chart = set_size(layer_charts(*layers), _ROW * len(names))
    with warnings.catch_warnings(), debug_mode(False):
        notes = [SOURCE, "a point is a pair's median, and its line ends at the 95th percentile"]
        return {**add_heading(chart, "Response time", notes).to_dict(validate=False), "config": vega_config()}
