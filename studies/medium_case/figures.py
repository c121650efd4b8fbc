"""The figure of the medium case: initial windows against the three times."""

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
from harness.report.studies import measured_cells
from studies.medium_case.claims import INITIAL_WINDOW, SOURCE
from studies.medium_case.compared import initial_windows as windows_of
from studies.medium_case.compared import targets, textbook

_HEIGHT = 260
_SIZES = ("2 MB", "10 MB", "100 MB")


def initial_windows(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of the times (s) by initial window (packets), a colour for each size; None without runs."""
    rows = windows_of(results)
    if not rows:
        return None
    scenario = measured_cells(results, INITIAL_WINDOW)[0].cell.scenario
    schema = {"server": pl.String, "size": pl.String, "window": pl.Float64, "value": pl.Float64}
    measured = [
        (row.server, size, row.setting, span.median)
        for row in rows
        for size, span in zip(_SIZES, row.seconds, strict=True)
    ]
    expected = [
        ("textbook", size, window, value)
        for window in sorted({row.setting for row in rows})
        for size, value in zip(_SIZES, textbook(scenario, window), strict=True)
    ]
    objectives = [("objective", size, 1.0, goal) for size, goal in zip(_SIZES, targets(scenario), strict=True)]
    frames = [pl.DataFrame(part, schema, orient="row") for part in (measured, expected, objectives)]
    x = alt.X("window:Q", title="initial window, packets", scale=alt.Scale(type="log"))
    y = alt.Y("value:Q", title="time, s", scale=alt.Scale(type="log"))
    detail = alt.Detail("size:N")
    layers = [
        Marks(frames[2]).mark_rule(color=OPTIMUM, strokeDash=[4, 3]).encode(y=y),
        Marks(frames[1]).mark_line(color=SOFT, strokeWidth=3).encode(x=x, y=y, detail=detail),
        Marks(frames[0])
        .mark_line(color=INK, strokeWidth=1, opacity=0.5, point=alt.OverlayMarkDef(size=20, filled=True, color=INK))
        .encode(x=x, y=y, detail=[alt.Detail("size:N"), alt.Detail("server:N")]),
    ]
    chart = set_size(layer_charts(*layers), _HEIGHT)
    with warnings.catch_warnings(), debug_mode(False):
        notes = [SOURCE, "a thin line is a server, the thick one textbook slow start, the dashed one the objective"]
        heading = add_heading(chart, "Time of 2, 10 and 100 MB by initial window", notes)
        return {**heading.to_dict(validate=False), "config": vega_config()}
