"""Figures that studies draw of their runs: a row for each stack or pair, with a mark for each case or stacked parts."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import polars as pl
from altair.utils.schemapi import debug_mode

from harness.outcome import Interval
from harness.report.plots.parts import Marks, layer_charts, set_size
from harness.report.plots.theme import INK, OPTIMUM, SOFT, WIDTH, add_heading, vega_config

_ROW, _LEGEND_COLUMNS = 26, 4
_COLOURS, _SHAPES = (INK, "#3a7ca5", OPTIMUM, "#b5651d"), ("circle", "square", "diamond", "triangle-up")


@dataclass(frozen=True)
class Mark:
    """A value of a row, with its interval."""

    row: str
    case: str
    span: Interval


@dataclass(frozen=True)
class Axis:
    """The axis of the values."""

    title: str
    scale: alt.Scale
    ticks: alt.Axis | None = None
    reference: float | None = None
    """Where a dashed line stands."""


def draw_rows(
    marks: Sequence[Mark], axis: Axis, title: str, notes: Sequence[str], cases: Sequence[str] = ()
) -> dict[str, Any] | None:
    """Vega-Lite of medians and intervals; None without marks. Rows are in the order of marks.

    `cases`: at most four, in order; by default as marks have them. A row whose value is infinite says so at its end.
    """
    if not marks:
        return None
    names = list(dict.fromkeys(mark.row for mark in marks))
    titles = list(cases or dict.fromkeys(mark.case for mark in marks))
    finite = [mark for mark in marks if math.isfinite(mark.span.median)]
    ends = (end for mark in finite for end in (mark.span.median, mark.span.high) if math.isfinite(end))
    most = max(ends, default=0.0)
    frame = pl.DataFrame(
        [(mark.row, mark.case, mark.span.median, mark.span.low, min(mark.span.high, most)) for mark in finite],
        {"row": pl.String, "case": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64},
        orient="row",
    )
    spans = frame.group_by("row", maintain_order=True).agg(low=pl.col("value").min(), high=pl.col("value").max())
    never = pl.DataFrame(
        [
            (name, "never ends: " + ", ".join(mark.case for mark in marks if mark.row == name and mark not in finite))
            for name in dict.fromkeys(mark.row for mark in marks if mark not in finite)
        ],
        {"row": pl.String, "text": pl.String},
        orient="row",
    )
    rows = alt.Axis(domain=False, ticks=False, labelLimit=300)
    y = alt.Y("row:N", sort=names, title=None, axis=rows, scale=alt.Scale(domain=names))
    ticks = axis.ticks or alt.Axis(grid=True)
    x, low = (alt.X(f"{field}:Q", title=axis.title, scale=axis.scale, axis=ticks) for field in ("value", "low"))
    legend = alt.Legend(symbolSize=70) if len(titles) > 1 else None
    colour, shape = (
        encoding("case:N", sort=titles, legend=legend, scale=alt.Scale(domain=titles, range=list(looks[: len(titles)])))
        for encoding, looks in ((alt.Color, _COLOURS), (alt.Shape, _SHAPES))
    )
    reference = pl.DataFrame([] if axis.reference is None else [axis.reference], {"value": pl.Float64})
    layers = [
        Marks(reference).mark_rule(color=SOFT, strokeDash=[4, 3], strokeWidth=1).encode(x=x),
        Marks(spans).mark_rule(color=SOFT, strokeWidth=1, opacity=0.5).encode(x=low, x2="high:Q", y=y),
        Marks(frame).mark_rule(strokeWidth=2.5, opacity=0.6).encode(x=low, x2="high:Q", y=y, color=colour),
        Marks(frame).mark_point(filled=True, size=70, opacity=0.85).encode(x=x, y=y, color=colour, shape=shape),
        Marks(never)
        .mark_text(align="right", color=SOFT, fontSize=10)
        .encode(y=y, x=alt.value(WIDTH - 4), text="text:N"),
    ]
    return _draw(layers, len(names), title, notes)


def draw_stacks(
    rows: Mapping[str, Mapping[str, float]], colours: Mapping[str, str], unit: str, title: str, notes: Sequence[str]
) -> dict[str, Any] | None:
    """Vega-Lite of rows of stacked bars; None without rows. Rows and parts are in the order in which they come.

    `rows`: row → part → its length, in `unit`; `colours`: part → colour. The legend has the parts that are there.
    """
    if not rows:
        return None
    shown = {part: colour for part, colour in colours.items() if any(parts.get(part) for parts in rows.values())}
    spans = []
    for row, parts in rows.items():
        ends = np.cumsum([parts.get(part, 0.0) for part in shown])
        spans += [
            (row, part, end - parts[part], end)
            for part, end in zip(shown, ends.tolist(), strict=True)
            if parts.get(part)
        ]
    columns = {"row": pl.String, "part": pl.String, "start": pl.Float64, "end": pl.Float64}
    legend = alt.Legend(columns=_LEGEND_COLUMNS)
    colour = alt.Scale(domain=list(shown), range=list(shown.values()))
    names = list(rows)
    y = alt.Y("row:N", sort=names, title=None, axis=alt.Axis(domain=False, ticks=False), scale=alt.Scale(domain=names))
    bars = (
        Marks(pl.DataFrame(spans, columns, orient="row"))
        .mark_bar(size=_ROW * 0.6)
        .encode(x=alt.X("start:Q", title=unit), x2="end:Q", y=y, color=alt.Color("part:N", scale=colour, legend=legend))
    )
    zero = Marks(pl.DataFrame({"value": [0.0]})).mark_rule(color=SOFT).encode(x="value:Q")
    return _draw([bars, zero], len(names), title, notes)


def _draw(layers: Sequence[alt.Chart], rows: int, title: str, notes: Sequence[str]) -> dict[str, Any]:
    """Vega-Lite of layers that have this many rows, with a heading."""
    with warnings.catch_warnings(), debug_mode(False):
        chart = add_heading(set_size(layer_charts(*layers), _ROW * rows), title, notes)
        return {**chart.to_dict(validate=False), "config": vega_config()}
