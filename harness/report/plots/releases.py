"""The figure of a history: what every release of an implementation measured, over the days they were published."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from harness.analysis.interop.registry import case_of
from harness.analysis.metric_registry import find_metric
from harness.evaluation.release_history import ReleaseResult, ScenarioHistory
from harness.report.plots.parts import Marks, axis_end, haloed_labels, layer_charts, set_size
from harness.report.plots.theme import INK, SOFT, Panel, add_heading, vega_config
from harness.scenario.metric_names import MetricName
from harness.scenario.schema import Implementation

_WIDTH, _HEIGHT, _COLUMNS = 300, 150, 2
#: Stroke of the line between two releases whose packets are the same, and between others.
_SAME, _OTHER = 3.0, 1.0
#: A never reached milestone stands at this share of the axis.
_NEVER = 0.97


@dataclass(frozen=True)
class _Point:
    """A metric of one release."""

    metric: str
    date: str
    version: str
    value: float
    """Infinite where transfers did not come so far."""
    changed: bool
    """It differs from the release before by enough to be named."""


def history_figure(implementation: Implementation, histories: Sequence[ScenarioHistory]) -> dict[str, Any] | None:
    """Vega-Lite, a panel per scenario: milestones (s) or the headline over days of release; None without runs.

    Test cases of the interop runner have no panel: `harness.report.history` has their grid.
    """
    drawn = [history for history in histories if history.has_runs and case_of(history.scenario.name) is None]
    with warnings.catch_warnings(), debug_mode(False):
        panels = [panel for history in drawn if (panel := _panel(implementation.colour, history)) is not None]
        if not panels:
            return None
        rows = [alt.hconcat(*panels[start : start + _COLUMNS], spacing=70) for start in range(0, len(panels), _COLUMNS)]
        chart = alt.vconcat(*rows, spacing=26)
        add_heading(
            chart,
            f"Releases of {implementation.title or implementation.name}",
            [
                "a point: the median of a release, on the day it was published; ×: not reached; dashed: an objective",
                "a thick line joins releases whose packets are all the same; a version stands where a figure changed",
            ],
        )
        return {**chart.to_dict(validate=False), "config": vega_config()}


def _panel(colour: str, history: ScenarioHistory) -> alt.LayerChart | None:
    """The panel of a scenario; None where no release has a figure, as where none supports it."""
    flows = len(history.scenario.flows)
    first = history.metrics[0]
    declared = find_metric(first.metric)
    unit = declared.unit if declared is not None else ""
    metrics = [
        metric for metric in history.metrics if (definition := find_metric(metric.metric)) and definition.unit == unit
    ]
    points = [point for metric in metrics for point in _points(history, metric)]
    if not points:
        return None
    judged = next(item.result.verdict.objectives for item in history.results if item.result is not None)
    bounds = [objective.bound for objective in judged if objective.metric in {metric.text(flows) for metric in metrics}]
    values = [value for value in (*(point.value for point in points), *bounds) if math.isfinite(value)]
    # Equal shares of a time have equal lengths. A figure from 0 on, such as an index, has no logarithm.
    in_logarithms = unit == "s" and bool(values) and min(values) > 0
    bottom, top = (min(values) / 1.3, max(values) * 1.5) if in_logarithms else (0.0, axis_end(*values))
    frame = pl.DataFrame(
        [
            {**asdict(point), "value": min(point.value, _NEVER * top), "never": math.isinf(point.value)}
            for point in points
        ]
    )
    scale = alt.Scale(type="log" if in_logarithms else "linear", domain=[bottom, top], nice=False)
    ticks = alt.Axis(values=_round_numbers(bottom, top)) if in_logarithms else alt.Axis(tickCount=5)
    x = alt.X("date:T", title=None, axis=alt.Axis(tickCount=4, format="%Y-%m-%d", labelOverlap=True))
    y = alt.Y("value:Q", title=unit if unit != "1" else None, scale=scale, axis=ticks)
    layers: list[Panel] = []
    if bounds:
        layers.append(
            Marks(pl.DataFrame({"value": bounds})).mark_rule(color=SOFT, strokeDash=[4, 3], strokeWidth=1).encode(y=y)
        )
    layers += _lines(history, metrics, top, colour, x, y)
    reached, never = frame.filter(~pl.col("never")), frame.filter("never")
    layers.append(Marks(reached).mark_point(filled=True, size=28, color=colour, opacity=1).encode(x=x, y=y))
    if not never.is_empty():
        layers.append(Marks(never).mark_text(color=INK, fontSize=12).encode(x=x, y=y, text=alt.value("×")))
    # A version stands once, at the lowest of the figures that it changed: a label at each would cover others.
    changed = frame.filter("changed").sort("value").unique("version", keep="first", maintain_order=True)
    if not changed.is_empty():
        label = Marks(changed).mark_text().encode(x=x, y=y, text="version:N")
        layers += haloed_labels(label, dy=-10, fontSize=9, color=INK)
    ends = frame.group_by("metric", maintain_order=True).last()
    ends = ends.with_columns(pl.col("metric").str.replace("milestone_", "").alias("name"))
    layers.append(
        Marks(ends).mark_text(align="left", dx=7, fontSize=10, color=SOFT, clip=False).encode(x=x, y=y, text="name:N")
    )
    chart = set_size(layer_charts(*layers), _HEIGHT, _WIDTH)
    chart.title = alt.TitleParams(history.title, fontSize=12, fontWeight="normal", offset=6)
    return chart


def _round_numbers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten between two numbers."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    numbers = (factor * 10.0**power for power in powers for factor in (1, 2, 5))
    return [number for number in numbers if low <= number <= high]


def _lines(
    history: ScenarioHistory, metrics: Sequence[MetricName], top: float, colour: str, x: alt.X, y: alt.Y
) -> Iterator[alt.Chart]:
    """The lines between neighbours: thin ones, and thick ones where every packet is the same."""
    segments = list[tuple[str, str, float, bool]]()
    measured = [item for item in history.results if item.result is not None]
    for number, ((before, after), metric) in enumerate(itertools.product(itertools.pairwise(measured), metrics)):
        values = before.median(metric), after.median(metric)
        if values[0] is None or values[1] is None:
            continue
        same = after.name in history.changes and history.changes[after.name].identical
        for item, value in zip((before, after), values, strict=True):
            assert value is not None
            segments.append((str(number), _day(item), min(value, _NEVER * top), same))
    frame = pl.DataFrame(
        segments, {"part": pl.String, "date": pl.String, "value": pl.Float64, "same": pl.Boolean}, orient="row"
    )
    for same, width in ((False, _OTHER), (True, _SAME)):
        part = frame.filter(pl.col("same") == same)
        if not part.is_empty():
            yield Marks(part).mark_line(color=colour, strokeWidth=width).encode(x=x, y=y, detail="part:N")


def _points(history: ScenarioHistory, metric: MetricName) -> Iterator[_Point]:
    text = metric.text(len(history.scenario.flows))
    for item in history.results:
        value = item.median(metric)
        if value is None:
            continue
        change = history.changes.get(item.name)
        changed = change is not None and text in change.figures
        yield _Point(text, _day(item), str(item.release.version), value, changed)


def _day(item: ReleaseResult) -> str:
    return item.release.date.isoformat()
