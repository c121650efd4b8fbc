"""Two figures of stored runs: packets that stacks take for lost though they come, and what reordering costs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from harness.evaluation.cell_result import CellResult
from harness.report.plots.parts import Marks, layer_charts, set_size
from harness.report.plots.theme import INK, OPTIMUM, SOFT, WIDTH, add_heading, vega_config
from studies.reordering.claims import CASES, Case
from studies.reordering.compared import Stack, stacks

_ROW = 26
_COLOURS, _SHAPES = (INK, "#3a7ca5", OPTIMUM), ("circle", "square", "diamond")


def spurious_counts(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of each stack's spurious losses by kind of reordering (packets); None without runs."""
    # Logarithms have no place for none.
    scale = alt.Scale(type="symlog", constant=1, domainMin=0)
    axis = alt.Axis(values=[0, 1, 10, 100, 1000, 10_000, 100_000], grid=True)
    return _dots(
        results, Stack.spurious, "packets of a download of 20 MB", scale, axis, "Packets taken for lost that came"
    )


def slowdowns(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of how many times as long each stack's download takes as in order; None without runs."""
    scale = alt.Scale(type="log", domainMin=0.95, nice=False)
    axis = alt.Axis(values=[1, 1.5, 2, 3, 5, 7, 10, 15, 20], format="~g", grid=True)
    return _dots(results, Stack.slowdown, "times as long as in order", scale, axis, "What reordering costs a download")


def _dots(
    results: Sequence[CellResult],
    value: Callable[[Stack, Case], float | None],
    label: str,
    scale: alt.Scale,
    axis: alt.Axis,
    title: str,
) -> dict[str, Any] | None:
    """A row per stack, the worst at the top, with a symbol per kind of reordering."""
    shown = stacks(results)
    values = [
        (stack.title, case.title, known)
        for stack in shown
        for case in CASES
        if (known := value(stack, case)) is not None
    ]
    if not values:
        return None
    frame = pl.DataFrame(values, {"stack": pl.String, "case": pl.String, "value": pl.Float64}, orient="row")
    worst = frame.group_by("stack").agg(pl.col("value").max()).sort(["value", "stack"], descending=[True, False])
    names = worst["stack"].to_list()
    ended = frame.filter(pl.col("value").is_finite())
    never = frame.filter(pl.col("value").is_infinite()).group_by("stack", maintain_order=True).agg(pl.col("case"))
    never = never.select("stack", text=pl.lit("never ends: ") + pl.col("case").list.join(", "))
    spans = ended.group_by("stack", maintain_order=True).agg(low=pl.col("value").min(), high=pl.col("value").max())
    titles = [case.title for case in CASES]
    y = alt.Y(
        "stack:N", sort=names, title=None, axis=alt.Axis(domain=False, ticks=False), scale=alt.Scale(domain=names)
    )
    x, low = (alt.X(f"{field}:Q", title=label, scale=scale, axis=axis) for field in ("value", "low"))
    legend = alt.Legend(symbolSize=70)
    colour, shape = (
        encoding("case:N", sort=titles, legend=legend, scale=alt.Scale(domain=titles, range=list(looks)))
        for encoding, looks in ((alt.Color, _COLOURS), (alt.Shape, _SHAPES))
    )
    layers = [
        Marks(spans).mark_rule(color=SOFT, strokeWidth=1, opacity=0.5).encode(x=low, x2="high:Q", y=y),
        Marks(ended).mark_point(filled=True, size=70, opacity=0.85).encode(x=x, y=y, color=colour, shape=shape),
        Marks(never)
        .mark_text(align="right", color=SOFT, fontSize=10)
        .encode(y=y, x=alt.value(WIDTH - 4), text="text:N"),
    ]
    with warnings.catch_warnings(), debug_mode(False):
        chart = add_heading(
            set_size(layer_charts(*layers), _ROW * len(names)), title, ["each stack with itself, medians"]
        )
        return {**chart.to_dict(validate=False), "config": vega_config()}
