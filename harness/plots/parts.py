"""What several figures are made of: lines of flows over time, the shaded capacity, rulers with a word on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt
import polars as pl

from harness.plots.theme import HEIGHT, INK, SHADE, SOFT, WIDTH
from harness.plots.view import Drawn, DrawnFlow

Span = tuple[float, float]

#: Width of the bins that rates and counts are stored in, s (`harness.metrics.series.grid`).
BIN = 0.1

#: In the interactive page: the wheel and dragging move the time axis, a click on the legend picks a flow.
_MOVED = alt.selection_interval(name="moved", encodings=["x"], bind="scales")
_PICKED = alt.selection_point(name="picked", fields=["flow"], bind="legend")


def rounded_up(value: float) -> float:
    """The next of 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8 times a power of ten: where an axis ends."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 0.1
    while value < power:
        power /= 10
    steps = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
    return next(step * power for step in steps if step * power >= value * (1 - 1e-9))


def top(*values: object) -> float:
    """Where an axis from zero ends so that all these values are on it."""
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    return rounded_up(max(numbers, default=0.0) * 1.02)


def within(frame: pl.DataFrame, span: Span) -> pl.DataFrame:
    """The part of a series within a span, with the last value before it at its beginning."""
    before = (
        frame.filter(pl.col("t") < span[0])
        .group_by("flow", maintain_order=True)
        .last()
        .filter(span[0] - pl.col("t") < 1)
        .with_columns(t=pl.lit(span[0]))
        .select(frame.columns)
    )
    inside = frame.filter(pl.col("t").is_between(*span))
    return pl.concat([before, inside]).sort("flow", "t", maintain_order=True)


def time_axis(span: Span, *, labels: bool = True) -> alt.X:
    """The time axis; of panels above each other only the lowest has labels."""
    axis = alt.Axis(title="time (s)", tickCount=11) if labels else alt.Axis(title=None, labels=False, tickCount=11)
    return alt.X("t:Q", scale=alt.Scale(domain=list(span), nice=False), axis=axis)


def value_axis(title: str, highest: float, lowest: float = 0.0) -> alt.Y:
    """An axis of values."""
    return alt.Y(
        "value:Q", title=title, scale=alt.Scale(domain=[lowest, highest], nice=False), axis=alt.Axis(tickCount=5)
    )


def looks(flows: Iterable[DrawnFlow], *, legend: bool = True, points: bool = False) -> dict[str, Any]:
    """Encodings of `flow`: colour, and dash of a line or shape of a point, with one legend for both."""
    shown = list(flows)
    names = [flow.name for flow in shown]
    symbol: dict[str, Any] = {"symbolSize": 70} if points else {"symbolType": "stroke"}
    key = alt.Legend(columns=min(len(names), 4), **symbol) if legend else None
    colours = alt.Color(
        "flow:N", sort=names, legend=key, scale=alt.Scale(domain=names, range=[flow.look.colour for flow in shown])
    )
    if points:
        shapes = alt.Scale(domain=names, range=[flow.look.shape for flow in shown])
        return {"color": colours, "shape": alt.Shape("flow:N", sort=names, legend=key, scale=shapes)}
    dashes = alt.Scale(domain=names, range=[list(flow.look.dash) or [1, 0] for flow in shown])
    widths = alt.Scale(domain=names, range=[flow.look.width for flow in shown])
    return {
        "color": colours,
        "strokeDash": alt.StrokeDash("flow:N", sort=names, legend=key, scale=dashes),
        "strokeWidth": alt.StrokeWidth("flow:N", sort=names, legend=None, scale=widths),
    }


def present(view: Drawn, frame: pl.DataFrame) -> list[DrawnFlow]:
    """The flows that a frame has, in their order."""
    names = set(frame["flow"].unique())
    return [flow for flow in view.flows if flow.name in names]


def lines(
    view: Drawn,
    frame: pl.DataFrame,
    axis: alt.Y,
    *,
    span: Span | None = None,
    steps: bool = False,
    legend: bool = True,
    labels: bool = True,
) -> alt.Chart:
    """A line a flow over time, each with its colour and dashes."""
    return (
        alt.Chart(frame)
        .mark_line(interpolate="step-after" if steps else "linear", clip=True, strokeJoin="round")
        .encode(
            x=time_axis(span or (0.0, view.end), labels=labels),
            y=axis,
            opacity=alt.when(_PICKED).then(alt.value(1)).otherwise(alt.value(0.12)),
            **looks(present(view, frame), legend=legend),
        )
        .add_params(_PICKED, _MOVED)
    )


def shaded_capacity(view: Drawn) -> alt.LayerChart:
    """Grey up to the bottleneck's rate, with the rate written at its end."""
    steps = view.capacity
    rates = steps["value"].unique().sort()
    text = f"capacity {rates[0]:g} Mbit/s" if len(rates) == 1 else f"capacity {rates[0]:g} to {rates[-1]:g} Mbit/s"
    x = time_axis((0.0, view.end))
    area = alt.Chart(steps).mark_area(interpolate="step-after", color=SHADE).encode(x=x, y="value:Q")
    return alt.layer(area, word(view.end, steps["value"][-1], text))


def ruler(value: float, text: str, at: float, *, dash: Sequence[int] = (4, 3), above: bool = True) -> alt.LayerChart:
    """A thin horizontal line at a value, with a word on it that ends at `at` on the x axis."""
    line = (
        alt.Chart(pl.DataFrame({"value": [value]}))
        .mark_rule(color=SOFT, strokeDash=list(dash), strokeWidth=1)
        .encode(y="value:Q")
    )
    return alt.layer(line, word(at, value, text, above=above))


def word(t: float, value: float, text: str, *, above: bool = True) -> alt.Chart:
    """A word that ends at a place."""
    return (
        alt.Chart(pl.DataFrame({"t": [t], "value": [value], "text": [text]}))
        .mark_text(
            align="right", baseline="bottom" if above else "top", dx=-3, dy=-2 if above else 3, color=SOFT, fontSize=10
        )
        .encode(x="t:Q", y="value:Q", text="text:N")
    )


def sized(chart: alt.LayerChart | alt.Chart, height: int = HEIGHT, width: int = WIDTH) -> Any:
    """A panel of a figure, with its size."""
    return chart.properties(width=width, height=height)


def binned(frame: pl.DataFrame, width: float) -> pl.DataFrame:
    """Means of a series per bin of `width` s, at the middles of the bins; its own bins are equal and narrower."""
    number = (pl.col("t") / width + 1e-6).floor()
    return (
        frame.group_by("flow", number.alias("bin"), maintain_order=True)
        .agg(pl.col("value").mean())
        .select("flow", t=((pl.col("bin") + 0.5) * width).round(4), value=pl.col("value").round(4))
    )


def centred(frame: pl.DataFrame, width: float) -> pl.DataFrame:
    """A series of bins with their values in the middle, where a line is to go through them."""
    return frame.with_columns(t=(pl.col("t") + width / 2).round(4))


def rates_over_time(view: Drawn, name: str, title: str, *, smoothed: float | None = None) -> alt.LayerChart | None:
    """A rate of every flow over the capacity, Mbit/s: in the bins it is stored in, or as means over wider ones."""
    frame = view.of_flows(name)
    if frame.is_empty():
        return None
    frame = centred(frame, BIN) if smoothed is None else binned(frame, smoothed)
    highest = top(frame["value"].max(), view.capacity["value"].max())
    chart: alt.LayerChart = sized(shaded_capacity(view) + lines(view, frame, value_axis(title, highest)))
    return chart


def queue_panel(
    view: Drawn, span: Span, *, labels: bool, highest: float | None = None, height: int = 110, width: int = WIDTH
) -> Any:
    """The bottleneck's queue over time, kB, with its limit and RED's thresholds."""
    frame = within(view.of_bottleneck("queue_length"), span).with_columns(pl.col("value") / 1000)
    limit = view.queue_limit
    axis = value_axis("queue (kB)", highest or top(limit, frame["value"].max()))
    area = (
        alt.Chart(frame)
        .mark_area(interpolate="step-after", color="#c8c8c8", line={"color": INK, "strokeWidth": 0.8}, clip=True)
        .encode(x=time_axis(span, labels=labels), y=axis)
    )
    rulers = [ruler(limit, f"limit {limit:g} kB", span[1], dash=(), above=False)]
    for name, threshold in zip(("min", "max"), view.thresholds or (), strict=False):
        rulers.append(ruler(threshold, f"{name} {threshold:g} kB", span[1]))
    return sized(alt.layer(area, *rulers), height, width)
