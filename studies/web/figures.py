"""The study's figure: page load of every pair, by path, QUIC beside TCP."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from harness.evaluation.cell_result import CellResult
from harness.report.plots.parts import Marks, layer_charts, set_size
from harness.report.plots.theme import INK, OPTIMUM, SOFT, add_heading, vega_config
from studies.web.claims import PATHS, SOURCE
from studies.web.compared import page_loads_of

_ROW = 40
_KINDS = ("QUIC", "TCP", "TCP with proxies")


def page_loads(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of the page loads (s), a row for each path and a mark for each pair; None without runs."""
    loads = page_loads_of(results)
    if not loads:
        return None
    frame = pl.DataFrame(
        [(PATHS[load.scenario], load.kind, load.load.median) for load in loads],
        {"path": pl.String, "kind": pl.String, "value": pl.Float64},
        orient="row",
    )
    names = [path for path in PATHS.values() if path in set(frame["path"])]
    spans = frame.group_by("path").agg(pl.col("value").min().alias("low"), pl.col("value").max().alias("high"))
    y = alt.Y("path:N", sort=names, title=None, axis=alt.Axis(domain=False, ticks=False))
    scale = alt.Scale(type="log")
    x, low = (alt.X(f"{field}:Q", title="page load, s", scale=scale) for field in ("value", "low"))
    colour = alt.Color("kind:N", title=None, scale=alt.Scale(domain=_KINDS, range=[INK, OPTIMUM, OPTIMUM]))
    shape = alt.Shape("kind:N", title=None, scale=alt.Scale(domain=_KINDS, range=["circle", "diamond", "cross"]))
    layers = [
        Marks(spans.sort("path")).mark_rule(color=SOFT, strokeWidth=2).encode(x=low, x2="high:Q", y=y),
        Marks(frame).mark_point(filled=True, size=60, opacity=0.8).encode(x=x, y=y, color=colour, shape=shape),
    ]
    chart = set_size(layer_charts(*layers), _ROW * len(names))
    with warnings.catch_warnings(), debug_mode(False):
        notes = [SOURCE, "a mark is a pair's median"]
        return {**add_heading(chart, "Page load", notes).to_dict(validate=False), "config": vega_config()}
