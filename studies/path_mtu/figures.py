"""Two figures of stored runs: how long downloads take, and after how long data come again, told and not told."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from harness.evaluation.cell_result import CellResult
from harness.report.plots.parts import Marks, layer_charts, set_size
from harness.report.plots.theme import INK, SOFT, vega_config
from studies.path_mtu.claims import CASES
from studies.path_mtu.compared import Row, rows

Amount = Literal["seconds", "recovery"]
_COLOURS = {"told": "#3a7ca5", "silent": "#b5651d"}
_ROW, _WIDTH = 20, 300


def bars(amount: Amount, title: str) -> Callable[[Sequence[CellResult]], dict[str, Any] | None]:
    """A drawing of an amount: Vega-Lite of two panels, with and without ICMP; None without runs."""

    def draw(results: Sequence[CellResult]) -> dict[str, Any] | None:
        found = {case.name: rows(results, case) for case in CASES}
        return _drawn(amount, title, found) if any(found.values()) else None

    return draw


def _drawn(amount: Amount, title: str, found: dict[str, list[Row]]) -> dict[str, Any]:
    # In both panels the same order.
    names = list(dict.fromkeys(row.name for case in CASES for row in found[case.name]))
    names.sort(key=lambda name: name.startswith("TCP"))
    ends = [value for of_case in found.values() for value in _values(of_case, amount).values() if math.isfinite(value)]
    end = max(ends, default=1.0) * 1.12
    with warnings.catch_warnings(), debug_mode(False):
        panels = [
            _panel(_values(found[case.name], amount), names, case.title, _COLOURS[case.name], end, first=number == 0)
            for number, case in enumerate(CASES)
        ]
        chart = alt.hconcat(*panels)
        chart.title = alt.TitleParams(title, subtitle=["seconds, medians"])
        return {**chart.to_dict(validate=False), "config": vega_config()}


def _values(found: Sequence[Row], amount: Amount) -> dict[str, float]:
    spans = {row.name: row.seconds if amount == "seconds" else row.recovery for row in found}
    return {name: span.median for name, span in spans.items() if span is not None}


def _panel(
    values: dict[str, float], names: list[str], title: str, colour: str, end: float, *, first: bool
) -> alt.LayerChart:
    seen = [(name, value) for name, value in values.items() if math.isfinite(value)]
    never = [(name,) for name, value in values.items() if not math.isfinite(value)]
    # Its labels stand once.
    labels = alt.Axis(domain=False, ticks=False) if first else None
    y = alt.Y("name:N", sort=names, title=None, axis=labels, scale=alt.Scale(domain=names))
    x = alt.X("value:Q", title=f"{title}, s", scale=alt.Scale(domain=[0, end], nice=False))
    frame = pl.DataFrame(seen, {"name": pl.String, "value": pl.Float64}, orient="row")
    missed = pl.DataFrame(never, {"name": pl.String}, orient="row")
    layers = [
        Marks(frame).mark_bar(size=_ROW * 0.6, color=colour).encode(x=x, y=y),
        Marks(missed).mark_text(text="never", align="left", color=SOFT, fontSize=10).encode(y=y, x=alt.value(2)),
        Marks(frame)
        .mark_text(align="left", dx=3, color=INK, fontSize=9)
        .encode(x=x, y=y, text=alt.Text("value:Q", format=".3g")),
    ]
    return set_size(layer_charts(*layers), _ROW * len(names), _WIDTH)
