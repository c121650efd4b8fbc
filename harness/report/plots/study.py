"""Figures of a study's effects: ranked effects, a heat map of two factors, the response to one factor."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import vl_convert
from altair.utils.schemapi import debug_mode

from harness.doe.effects import Analysis, Effect, StudySample
from harness.doe.effects.summary import mean_surface, metric_label
from harness.report.plots.parts import Marks, layer_charts, set_size
from harness.report.plots.theme import INK, SOFT, WIDTH, Chart, Panel, add_heading, vega_config
from harness.scenario.parameters import ParameterValue
from harness.store.results import disk_error
from harness.writing import replace_file

#: The most effects of a figure; of more effects, it shows the greatest.
MOST = 16
_ROW, _PANEL, _SQUARE = 20, 240, 54
#: Colours of a factor's bar and of an interaction's.
_MAIN, _TOGETHER = "#4e79a7", "#c8c8c8"
#: From white to a blue on which black text is readable.
_COLOURS = ["#ffffff", "#9ecae1"]
_TEXT_COLUMNS = {"effect", "kind", "text", "level", "one", "other", "time"}


def tornado(analyses: Sequence[Analysis]) -> dict[str, Any] | None:
    """The effects of one study as Vega-Lite, a panel per time, ranked over all times; None without effects."""
    analyses = [analysis for analysis in analyses if analysis.main_effects]
    if not analyses:
        return None

    def chart() -> Chart:
        names = _ranked(analyses)
        highest = max(
            effect.saving.high for analysis in analyses for effect in (*analysis.main_effects, *analysis.interactions)
        )
        lowest = min(
            0.0,
            *(
                effect.saving.low
                for analysis in analyses
                for effect in (*analysis.main_effects, *analysis.interactions)
            ),
        )
        panels = [_bars(analysis, names, (lowest, highest), first=n == 0) for n, analysis in enumerate(analyses)]
        return alt.hconcat(*panels, spacing=12)

    caption = "a bar: seconds from a factor's worse level to its better one; grey: what two are worth beyond both"
    return _to_vega_lite(
        chart,
        f"What factors are worth: {analyses[0].sample.client}→{analyses[0].sample.server}",
        [analyses[0].sample.name, caption, _repetitions(analyses)],
    )


def _ranked(analyses: Sequence[Analysis]) -> list[str]:
    greatest: dict[str, float] = {}
    for analysis in analyses:
        for effect in (*analysis.main_effects, *analysis.interactions):
            name = _name(effect)
            greatest[name] = max(greatest.get(name, 0.0), abs(effect.saving.median))
    return sorted(greatest, key=lambda name: -greatest[name])[:MOST]


def _name(effect: Effect) -> str:
    return " × ".join(effect.factors)


def _bars(analysis: Analysis, names: Sequence[str], span: tuple[float, float], *, first: bool) -> Panel:
    rows = [
        (
            _name(effect),
            effect.saving.low,
            effect.saving.high,
            effect.saving.median,
            0.0,
            "factor" if len(effect.factors) == 1 else "interaction",
            f"{effect.worse[0]} → {effect.better[0]}" if len(effect.factors) == 1 else "",
        )
        for effect in (*analysis.main_effects, *analysis.interactions)
        if _name(effect) in names
    ]
    frame = _frame(rows, "effect", "low", "high", "value", "zero", "kind", "text")
    room = (span[1] - span[0]) * 0.05
    scale = alt.Scale(domain=[span[0] - (room if span[0] < 0 else 0), span[1] + room], nice=False)
    axis = alt.Axis(labelLimit=320, domain=False, ticks=False) if first else None
    y = alt.Y("effect:N", sort=list(names), title=None, axis=axis)
    x = alt.X("value:Q", scale=scale, title=f"seconds of {metric_label(analysis.metric)}", axis=alt.Axis(tickCount=4))
    colour = alt.Color(
        "kind:N", legend=None, scale=alt.Scale(domain=["factor", "interaction"], range=[_MAIN, _TOGETHER])
    )
    bars = Marks(frame).mark_bar(size=_ROW * 0.6).encode(x=x, x2="zero:Q", y=y, color=colour)
    rules = Marks(frame).mark_rule(color=INK).encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y)
    return set_size(layer_charts(bars, rules), _ROW * len(names), _PANEL)


def heat_map(study: StudySample, metric: str, x_factor: str, y_factor: str) -> dict[str, Any] | None:
    """Mean times at the levels of two factors as Vega-Lite; None where no cell has a time.

    Raises KeyError for a name of no factor.
    """
    squares = mean_surface(study, metric, x_factor, y_factor)
    if not squares:
        return None
    rows = [(str(square.first), str(square.second), square.seconds, f"{square.seconds:.2f}") for square in squares]

    def chart() -> Chart:
        frame = _frame(rows, "one", "other", "value", "text")
        x = alt.X("one:N", sort=_texts(study.factors[x_factor]), title=x_factor, axis=alt.Axis(labelAngle=0))
        y = alt.Y("other:N", sort=_texts(study.factors[y_factor])[::-1], title=y_factor)
        colour = alt.Color("value:Q", legend=None, scale=alt.Scale(range=_COLOURS, zero=False))
        fields = Marks(frame).mark_rect(stroke="white").encode(x=x, y=y, color=colour)
        words = Marks(frame).mark_text(color=INK, fontSize=12).encode(x=x, y=y, text="text:N")
        size = max(1, len(study.factors[y_factor])) * _SQUARE, max(2, len(study.factors[x_factor])) * _SQUARE * 2
        return set_size(layer_charts(fields, words), *size)

    lines = [study.name, "mean over all levels of the other factors, of the medians of each cell"]
    return _to_vega_lite(chart, f"Seconds of {metric_label(metric)}", lines)


def response_curves(analyses: Sequence[Analysis], factor: str) -> dict[str, Any] | None:
    """The mean time at each level of one factor as Vega-Lite, a line per time; None without any."""
    rows = [
        (str(level), metric_label(analysis.metric), span.low, span.high, span.median)
        for analysis in analyses
        for response in analysis.responses
        if response.factor == factor
        for level, span in zip(response.levels, response.seconds, strict=True)
    ]
    if not rows:
        return None
    order = list(dict.fromkeys(row[0] for row in rows))

    def chart() -> Chart:
        frame = _frame(rows, "level", "time", "low", "high", "value")
        x = alt.X("level:N", sort=order, title=factor, axis=alt.Axis(labelAngle=0))
        values = [row[4] for row in rows if row[4] > 0]
        log_scale = bool(values) and max(values) / min(values) > 8
        scale = alt.Scale(type="log") if log_scale else alt.Scale(zero=True, nice=True)
        y, low = (alt.Y(f"{name}:Q", title="seconds", scale=scale) for name in ("value", "low"))
        dash = alt.StrokeDash("time:N", sort=None, title=None)
        line = Marks(frame).mark_line(color=INK, point={"color": INK, "size": 30}).encode(x=x, y=y, strokeDash=dash)
        rules = Marks(frame).mark_rule(color=SOFT, strokeWidth=2).encode(x=x, y=low, y2="high:Q", detail="time:N")
        return set_size(layer_charts(rules, line), _PANEL, min(WIDTH, 140 * len(order)))

    caption = "mean over all levels of the other factors, and its interval over repetitions"
    return _to_vega_lite(chart, f"Response to {factor}", [analyses[0].sample.name, caption])


def _texts(levels: Sequence[ParameterValue]) -> list[str]:
    return [str(level) for level in levels]


def _repetitions(analyses: Sequence[Analysis]) -> str:
    counts = sorted({effect.saving.n for analysis in analyses for effect in analysis.main_effects})
    return "one repetition, and no interval" if counts == [1] else f"intervals over {counts[-1]} repetitions"


def _to_vega_lite(chart: Callable[[], Chart], title: str, lines: Sequence[str]) -> dict[str, Any]:
    with warnings.catch_warnings(), debug_mode(False):
        return {**add_heading(chart(), title, lines).to_dict(validate=False), "config": vega_config()}


def _frame(rows: Sequence[tuple[Any, ...]], *names: str) -> pl.DataFrame:
    return pl.DataFrame(
        rows, {name: pl.String if name in _TEXT_COLUMNS else pl.Float64 for name in names}, orient="row"
    )


def write_study_figures(figures: Mapping[str, dict[str, Any] | None], folder: Path) -> list[Path]:
    """Draw figures (name → Vega-Lite) as SVG into a folder, and return the files.

    Raises EngineError for errors of the disk.
    """
    files = []
    for name, specification in figures.items():
        if specification is None:
            continue
        file = folder / (re.sub(r"[^A-Za-z0-9.=_]+", "-", name) + ".svg")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            replace_file(file, str(vl_convert.vegalite_to_svg(specification)).encode())
        except OSError as error:
            raise disk_error(error, file) from error
        files.append(file)
    return files


def study_figures(
    analyses: Sequence[Analysis], pair: tuple[str, str] | None, factor: str
) -> dict[str, dict[str, Any] | None]:
    """Name → figure of one study: its effects, a heat map of two factors, and a response curve.

    `pair`: the factors of the heat map; None for the two with the greatest effects. `factor`: the factor of the
    response curve; empty for the one with the greatest effect.
    """
    study, prefix = (
        analyses[0].sample,
        f"{analyses[0].sample.scenario.name}-{analyses[0].sample.client}-{analyses[0].sample.server}",
    )
    figures = {f"{prefix}-effects": tornado(analyses)}
    for analysis in analyses:
        ranked = [effect.factors[0] for effect in analysis.main_effects]
        factors = pair or (tuple(ranked[:2]) if len(ranked) > 1 else None)
        if factors is not None:
            figures[f"{prefix}-{analysis.metric}-{factors[0]}-{factors[1]}"] = heat_map(
                study, analysis.metric, factors[0], factors[1]
            )
    greatest = max((effect for analysis in analyses for effect in analysis.main_effects), key=_magnitude, default=None)
    if factor or greatest is not None:
        name = factor or (greatest.factors[0] if greatest is not None else "")
        figures[f"{prefix}-{name}"] = response_curves(analyses, name)
    return figures


def _magnitude(effect: Effect) -> float:
    return abs(effect.saving.median) if math.isfinite(effect.saving.median) else 0.0
