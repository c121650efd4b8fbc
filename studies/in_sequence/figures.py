"""The document's figures, of stored runs: bars for each size, with the objective as a line."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from harness.evaluation.cell_result import CellResult
from harness.report.plots.parts import Marks, layer_charts, set_size
from harness.report.plots.theme import INK, OPTIMUM, SOFT, vega_config
from studies.in_sequence.claims import SIZES, Path
from studies.in_sequence.compared import Kind, Row, bounds, rows

_COLOURS: dict[Kind, str] = {
    "tcp": "#8a8a8a",
    "tcp split": "#3a7ca5",
    "https": "#bdbdbd",
    "https split": "#81b29a",
    "quic": "#b5651d",
}
_ROW, _WIDTH = 20, 230


def bars(path: Path) -> Callable[[Sequence[CellResult]], dict[str, Any] | None]:
    """A drawing of a path: Vega-Lite of three panels, a size each; None without runs."""

    def draw(results: Sequence[CellResult]) -> dict[str, Any] | None:
        found = rows(results, path)
        return _drawn(path, found) if found else None

    return draw


def _drawn(path: Path, found: list[Row]) -> dict[str, Any]:
    names = [row.name for row in found]
    with warnings.catch_warnings(), debug_mode(False):
        panels = [_panel(found, names, size, first=size == SIZES[0]) for size in SIZES]
        chart = alt.hconcat(*panels)
        chart.title = alt.TitleParams(
            path.title, subtitle=["seconds from the client's first packet, medians; the line is the objective"]
        )
        return {**chart.to_dict(validate=False), "config": vega_config()}


def _panel(found: list[Row], names: list[str], size: str, *, first: bool) -> alt.LayerChart:
    seen = [(row.name, row.kind, span.median) for row in found if (span := row.seconds(size)) is not None]
    ended = [one for one in seen if math.isfinite(one[2])]
    never = [one[:2] for one in seen if not math.isfinite(one[2])]
    limit = next(iter(bounds(row)[size] for row in found), 0.0)
    end = max([limit, *(value for _, _, value in ended)]) * 1.08
    # Its labels stand once.
    labels = alt.Axis(domain=False, ticks=False) if first else None
    y = alt.Y("name:N", sort=names, title=None, axis=labels, scale=alt.Scale(domain=names))
    x = alt.X("value:Q", title=f"{size.removesuffix('MB')} MB, s", scale=alt.Scale(domain=[0, end], nice=False))
    colour = alt.Color("kind:N", legend=None, scale=alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values())))
    frame = pl.DataFrame(ended, {"name": pl.String, "kind": pl.String, "value": pl.Float64}, orient="row")
    missed = pl.DataFrame(never, {"name": pl.String, "kind": pl.String}, orient="row")
    line = pl.DataFrame({"value": [limit]})
    layers = [
        Marks(frame).mark_bar(size=_ROW * 0.6).encode(x=x, y=y, color=colour),
        Marks(missed).mark_text(text="never", align="left", color=SOFT, fontSize=10).encode(y=y, x=alt.value(2)),
        Marks(line).mark_rule(color=OPTIMUM, strokeWidth=2).encode(x=alt.X("value:Q")),
        Marks(frame)
        .mark_text(align="left", dx=3, color=INK, fontSize=9)
        .encode(x=x, y=y, text=alt.Text("value:Q", format=".3g")),
    ]
    return set_size(layer_charts(*layers), _ROW * len(names), _WIDTH)
