"""The study's two figures, of stored runs: goodput with and without reconfigurations, and the time that each costs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from harness.evaluation.cell_result import CellResult
from harness.report.plots.parts import Marks, layer_charts, set_size
from harness.report.plots.theme import INK, OPTIMUM, SOFT, Chart, add_heading, vega_config
from studies.leo.claims import SOURCE
from studies.leo.compared import stacks

_ROW = 26


def goodputs(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of each stack's goodput with and without reconfigurations (Mbit/s); None without runs."""
    found = [stack for stack in stacks(results) if stack.goodput is not None and stack.steady is not None]
    if not found:
        return None
    names = [stack.name for stack in found]
    points = pl.DataFrame(
        [
            (stack.name, word, span.median)
            for stack in found
            for word, span in (("every 15 s another satellite", stack.goodput), ("the satellite stays", stack.steady))
            if span is not None
        ],
        {"stack": pl.String, "link": pl.String, "value": pl.Float64},
        orient="row",
    )
    spans = pl.DataFrame(
        [
            (stack.name, min(stack.goodput.median, stack.steady.median), max(stack.goodput.median, stack.steady.median))
            for stack in found
            if stack.goodput is not None and stack.steady is not None
        ],
        {"stack": pl.String, "low": pl.Float64, "high": pl.Float64},
        orient="row",
    )
    y = alt.Y("stack:N", sort=names, title=None, axis=alt.Axis(domain=False, ticks=False))
    x, low = (alt.X(f"{field}:Q", title="goodput, Mbit/s", scale=alt.Scale(domainMin=0)) for field in ("value", "low"))
    links = ["every 15 s another satellite", "the satellite stays"]
    colour = alt.Color("link:N", title=None, scale=alt.Scale(domain=links, range=[OPTIMUM, INK]))
    shape = alt.Shape("link:N", title=None, scale=alt.Scale(domain=links, range=["circle", "diamond"]))
    layers = [
        Marks(spans).mark_rule(color=SOFT, strokeWidth=2).encode(x=low, x2="high:Q", y=y),
        Marks(points).mark_point(filled=True, size=60, opacity=1).encode(x=x, y=y, color=colour, shape=shape),
    ]
    return _made(set_size(layer_charts(*layers), _ROW * len(names)), "Goodput over a low orbit", "medians of 60 s")


def recoveries(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of the time after a reconfiguration until the link is filled again (ms); None without runs."""
    found = [stack for stack in stacks(results) if stack.recovery is not None and stack.longest is not None]
    if not found:
        return None
    found.sort(key=lambda stack: stack.recovery.median if stack.recovery is not None else 0.0)
    frame = pl.DataFrame(
        [
            (stack.name, stack.recovery.median, stack.longest.median)
            for stack in found
            if stack.recovery is not None and stack.longest is not None
        ],
        {"stack": pl.String, "value": pl.Float64, "high": pl.Float64},
        orient="row",
    )
    y = alt.Y("stack:N", sort=[stack.name for stack in found], title=None, axis=alt.Axis(domain=False, ticks=False))
    scale, title = alt.Scale(type="log"), "ms until the link is filled again"
    x, high = (alt.X(f"{field}:Q", title=title, scale=scale) for field in ("value", "high"))
    layers = [
        Marks(frame).mark_rule(color=SOFT, strokeWidth=2).encode(x=x, x2="high:Q", y=y),
        Marks(frame).mark_point(filled=True, color=INK, size=60, opacity=1).encode(x=x, y=y),
        Marks(frame).mark_tick(color=SOFT, thickness=2, size=_ROW * 0.5).encode(x=high, y=y),
    ]
    return _made(
        set_size(layer_charts(*layers), _ROW * len(found)),
        "How soon the link is filled again",
        "after a reconfiguration: a point is the median of a run's, a line ends at its longest",
    )


def _made(chart: Chart, title: str, note: str) -> dict[str, Any]:
    with warnings.catch_warnings(), debug_mode(False):
        return {**add_heading(chart, title, [SOURCE, note]).to_dict(validate=False), "config": vega_config()}
