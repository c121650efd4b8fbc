"""The document's two figures, of stored runs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from harness.evaluation.cell_result import CellResult
from harness.outcome.measured import TRACE_FROM, TRACE_STEP
from harness.report.plots.parts import Marks, layer_charts, set_size
from harness.report.plots.theme import INK, OPTIMUM, SOFT, Chart, add_heading, vega_config
from harness.stats.intervals import interval
from studies.handover.claims import DOCUMENT, RULES
from studies.handover.compared import by_rule, handovers, values

#: Rule → colour.
_COLOURS = {"reset": INK, "adaptive": OPTIMUM, "keep": "#3a7ca5"}
_DASHES = {"reset": [6, 2], "adaptive": [1, 0], "keep": [2, 2]}
_HEIGHT, _ROW = 240, 34


def windows(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of the mean congestion window (kB) of each rule over time, the move marked; None without runs."""
    frame = mean_windows(results)
    if frame.is_empty():
        return None
    cell_results = by_rule(results, DOCUMENT.scenario)
    at = next(handover.at for result in cell_results.values() for handover in handovers(result)) * 1e3
    rules = [rule for rule in RULES if rule in cell_results]
    colour = alt.Color("rule:N", scale=alt.Scale(domain=rules, range=[_COLOURS[rule] for rule in rules]))
    dash = alt.StrokeDash("rule:N", scale=alt.Scale(domain=rules, range=[_DASHES[rule] for rule in rules]))
    lines = (
        Marks(frame)
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("t:Q", title="ms after the client's first datagram", scale=alt.Scale(zero=False, nice=False)),
            y=alt.Y("value:Q", title="congestion window, kB"),
            color=colour,
            strokeDash=dash,
        )
    )
    move = Marks(pl.DataFrame({"t": [at]})).mark_rule(color=SOFT, strokeDash=[2, 2]).encode(x=alt.X("t:Q"))
    runs = max(len(handovers(result)) for result in cell_results.values())
    return _made(
        set_size(layer_charts(lines, move), _HEIGHT),
        "Congestion window through a handover",
        f"mean of {runs} runs each",
    )


def mean_windows(results: Sequence[CellResult]) -> pl.DataFrame:
    """rule, t (ms after the first datagram), value (kB): the mean over the runs that tell a window then."""
    rows = []
    for rule, result in by_rule(results, DOCUMENT.scenario).items():
        seen = handovers(result)
        for step in range(max((len(handover.window_trace) for handover in seen), default=0)):
            told = [
                (handover.at, handover.window_trace[step]) for handover in seen if step < len(handover.window_trace)
            ]
            known = [value for _, value in told if value is not None]
            if known:
                rows.append(
                    (rule, told[0][0] * 1e3 + TRACE_FROM + TRACE_STEP * step, math.fsum(known) / len(known) / 1e3)
                )
    return pl.DataFrame(rows, {"rule": pl.String, "t": pl.Float64, "value": pl.Float64}, orient="row")


def throughputs(results: Sequence[CellResult]) -> dict[str, Any] | None:
    """Vega-Lite of the throughput of each rule's first 100 ms: every run, median and interval; None without runs."""
    cell_results = by_rule(results, DOCUMENT.scenario)
    seen = {
        rule: [*values(cell_results[rule], "handover_throughput").values()] for rule in RULES if rule in cell_results
    }
    seen = {rule: each for rule, each in seen.items() if each}
    if not seen:
        return None
    each_run = [(rule, value) for rule, each in seen.items() for value in each]
    points = pl.DataFrame(each_run, {"rule": pl.String, "value": pl.Float64}, orient="row")
    spans = pl.DataFrame(
        [(rule, span.low, span.high, span.median) for rule, each in seen.items() for span in [interval(each)]],
        {"rule": pl.String, "low": pl.Float64, "high": pl.Float64, "value": pl.Float64},
        orient="row",
    )
    y = alt.Y("rule:N", sort=[*seen], title=None, axis=alt.Axis(domain=False, ticks=False))
    x, low = (alt.X(f"{field}:Q", title="Mbit/s in the first 100 ms") for field in ("value", "low"))
    layers = [
        Marks(spans).mark_rule(color=SOFT, strokeWidth=2).encode(x=low, x2="high:Q", y=y),
        Marks(points).mark_point(color=INK, size=24, opacity=0.5).encode(x=x, y=y),
        Marks(spans).mark_tick(color=INK, thickness=2.5, size=_ROW * 0.7).encode(x=x, y=y),
    ]
    return _made(
        set_size(layer_charts(*layers), _ROW * len(seen)), "Handover throughput", "a point a run; median and interval"
    )


def _made(chart: Chart, title: str, note: str) -> dict[str, Any]:
    with warnings.catch_warnings(), debug_mode(False):
        return {**add_heading(chart, title, [DOCUMENT.title, note]).to_dict(validate=False), "config": vega_config()}
