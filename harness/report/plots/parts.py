"""Parts of several figures: charts that are copied fast, lines of flows over time, the shaded capacity, rulers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Self, TypeVar, cast

import altair as alt
import polars as pl
from altair.utils.schemapi import SchemaBase

from harness.analysis.timeseries.grid import BIN
from harness.report.plots.theme import FILL, HEIGHT, SHADE, SOFT, WIDTH, Panel
from harness.report.plots.view import DrawnFlow, PlotData

P = TypeVar("P", alt.Chart, alt.LayerChart)
Span = tuple[float, float]
Side = Literal["top", "middle", "bottom"]

#: The most points of a line, and of all lines of a panel: more points than pixels only make the files larger.
LINE, PANEL = 1200, 12_000

#: If a name has more characters than this, each name has a line of its own in the legend.
_LONG_NAME = 36

#: In the interactive page: dragging and, with shift, the wheel move the time axis, a click on the legend picks a flow.
_TIME_SELECTION = alt.selection_interval(name="moved", encodings=["x"], bind="scales", zoom="wheel![event.shiftKey]")
_FLOW_SELECTION = alt.selection_point(name="picked", fields=["flow"], bind="legend")


def round_up(value: float) -> float:
    """The end of an axis: the next of 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 0.1
    while value < power:
        power /= 10
    steps = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
    return next(step * power for step in steps if step * power >= value * (1 - 1e-9))


def axis_end(*values: object) -> float:
    """The end of an axis from zero that includes all these values; values that are no numbers are ignored."""
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    return round_up(max(numbers, default=0.0) * 1.02)


def clip_to_span(frame: pl.DataFrame, span: Span) -> pl.DataFrame:
    """The part of a series within a span."""
    return frame.filter(pl.col("t").is_between(*span))


def thin_series(frame: pl.DataFrame, points: int = LINE) -> pl.DataFrame:
    """A series with at most about `points` points per flow: the lowest and the highest value of each interval."""
    stretch = (pl.int_range(pl.len()).over("flow") * (points // 2) // pl.len().over("flow")).alias("stretch")
    spot, dense = pl.int_range(pl.len()).alias("spot"), pl.len().over("flow") > points
    marked = frame.with_columns(stretch, spot, dense.alias("many"))
    extremes = (
        marked.filter("many")
        .group_by("flow", "stretch")
        .agg(
            pl.col("spot").get(pl.col("value").arg_min()).alias("low"),
            pl.col("spot").get(pl.col("value").arg_max()).alias("high"),
        )
        .unpivot(["low", "high"], index="flow", value_name="spot")
        .get_column("spot")
    )
    return marked.filter(~pl.col("many") | pl.col("spot").is_in(extremes.implode())).select(frame.columns)


def format_brief(value: float) -> str:
    """A number for people: three significant digits, or all digits before the decimal point."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def time_axis(span: Span, *, labels: bool = True) -> alt.X:
    """The time axis; in stacked panels only the lowest has labels."""
    axis = alt.Axis(title="time (s)", tickCount=11) if labels else alt.Axis(title=None, labels=False, tickCount=11)
    return alt.X("t:Q", scale=alt.Scale(domain=list(span), nice=False), axis=axis)


def value_axis(title: str, highest: float, ticks: int = 5) -> alt.Y:
    """An axis of values from zero."""
    scale = alt.Scale(domain=[0, highest], nice=False)
    return alt.Y("value:Q", title=title, scale=scale, axis=alt.Axis(tickCount=ticks), stack=False)


def flow_encodings(flows: Iterable[DrawnFlow], *, legend: bool = True, points: bool = False) -> dict[str, Any]:
    """Encodings of `flow` as colour and as dashes of lines or shapes of points, with one legend for both."""
    shown = list(flows)
    names = [flow.name for flow in shown]
    symbol: dict[str, Any] = {"symbolSize": 70, "symbolStrokeWidth": 0.6} if points else {"symbolType": "stroke"}
    if max(map(len, names), default=0) > _LONG_NAME:
        # Long names distinguish runs, so they must not be cut.
        symbol |= {"labelLimit": WIDTH}
    columns = 1 if "labelLimit" in symbol else min(len(names), 4)
    key = alt.Legend(columns=columns, **symbol) if legend else None
    colours = alt.Color(
        "flow:N", sort=names, legend=key, scale=alt.Scale(domain=names, range=[flow.look.colour for flow in shown])
    )
    if points:
        shapes = alt.Scale(domain=names, range=[flow.look.shape for flow in shown])
        return {"color": colours, "shape": alt.Shape("flow:N", sort=names, legend=key, scale=shapes)}
    dashes = alt.Scale(domain=names, range=[list(flow.look.dash) or [1, 0] for flow in shown])
    # The default would be a point scale, which yields no number for a single flow.
    widths = alt.Scale(type="ordinal", domain=names, range=[flow.look.width for flow in shown])
    return {
        "color": colours,
        "strokeDash": alt.StrokeDash("flow:N", sort=names, legend=key, scale=dashes),
        "strokeWidth": alt.StrokeWidth("flow:N", sort=names, legend=key, scale=widths),
    }


def flows_in(view: PlotData, frame: pl.DataFrame) -> list[DrawnFlow]:
    """The flows that occur in a frame, in the run's order."""
    names = set(frame["flow"].unique())
    return [flow for flow in view.flows if flow.name in names]


def lines(
    frame: pl.DataFrame,
    flows: Sequence[DrawnFlow],
    axis: alt.Y,
    span: Span,
    *,
    steps: bool = False,
    legend: bool = True,
    labels: bool = True,
) -> alt.Chart:
    """A line per flow over time, with the flow's colour and dashes; if the frame has parts, a line per part.

    All panels of a figure must get the same flows, because they share one legend.
    """
    chart = (
        Marks(thin_series(frame, min(LINE, PANEL // max(frame["flow"].n_unique(), 1))))
        .mark_line(interpolate="step-after" if steps else "linear", clip=True, strokeJoin="round")
        .encode(
            x=time_axis(span, labels=labels),
            y=axis,
            opacity=alt.when(_FLOW_SELECTION).then(alt.value(1)).otherwise(alt.value(0.12)),
            **flow_encodings(flows, legend=legend),
            **({"detail": "part:N"} if "part" in frame.columns else {}),
        )
        .add_params(_FLOW_SELECTION, _TIME_SELECTION)
    )
    return cast(alt.Chart, chart)


def shaded_capacity(view: PlotData) -> alt.LayerChart:
    """A grey area up to the bottleneck's rate, with the rate as a label at its end."""
    steps = view.capacity
    area = (
        Marks(steps)
        .mark_area(interpolate="step-after", color="black", opacity=SHADE)
        .encode(x=time_axis((0.0, view.end)), y=alt.Y("value:Q", stack=False))
    )
    last = steps["value"][-1]
    return layer_charts(area, margin_label(view.end, last, f"capacity\n{format_brief(last)} Mbit/s"))


def ruler(
    value: float, text: str, end: float, *, dash: Sequence[int] = (4, 3), side: Side = "middle"
) -> alt.LayerChart:
    """A thin horizontal line at a value, with a label at its end."""
    line = (
        Marks(pl.DataFrame({"value": [value]}))
        .mark_rule(color=SOFT, strokeDash=list(dash) or [1, 0], strokeWidth=1)
        .encode(y=alt.Y("value:Q"))
    )
    return layer_charts(line, margin_label(end, value, text, side=side))


def margin_label(t: float, value: float, text: str, *, side: Side = "middle") -> alt.Chart:
    """A label on the right margin, at the height of a value; `side` is its baseline."""
    label = (
        Marks(pl.DataFrame({"t": [t], "value": [value], "text": [text]}))
        .mark_text(align="left", baseline=side, dx=5, color=SOFT, fontSize=10, lineBreak="\n", clip=False)
        .encode(x=alt.X("t:Q"), y=alt.Y("value:Q"), text=alt.Text("text:N"))
    )
    return cast(alt.Chart, label)


def haloed_labels(text: alt.Chart, **mark: Any) -> list[alt.Chart]:
    """Labels on top of other marks, with a white halo below. `text` has the encodings, `mark` the style."""
    halo = text.mark_text(**{**mark, "color": "white", "stroke": "white", "strokeWidth": 3, "strokeJoin": "round"})
    return [halo, text.mark_text(**mark)]


def layer_charts(*layers: Panel) -> alt.LayerChart:
    """Charts on top of each other, the first at the bottom."""
    return Layers(layer=layers)


def set_size(chart: P, height: int = HEIGHT, width: int = WIDTH) -> P:
    """The chart, with its size set in place, pixels."""
    # `properties` would copy the whole chart.
    chart.width, chart.height = width, height
    return chart


def separate_scales(panels: alt.VConcatChart) -> alt.VConcatChart:
    """Panels with different flows, each with scales and a legend of its own."""
    independent: Literal["independent"] = "independent"
    return cast(
        alt.VConcatChart, panels.resolve_scale(color=independent, strokeDash=independent, strokeWidth=independent)
    )


def bin_series(frame: pl.DataFrame, width: float, summary: pl.Expr | None = None) -> pl.DataFrame:
    """A series per bin of `width` s, at the middle of each bin: the mean of its values, or `summary`."""
    number = (pl.col("t") / width + 1e-6).floor()
    return (
        frame.group_by("flow", number.alias("bin"), maintain_order=True)
        .agg(pl.col("value").mean() if summary is None else summary)
        .select("flow", t=((pl.col("bin") + 0.5) * width).round(4), value=pl.col("value").round(4))
    )


def bin_rates(frame: pl.DataFrame, width: float) -> pl.DataFrame:
    """Rates in bins of `width` s: the amount per bin length, also where a flow ran in only a part of the bin."""
    return bin_series(frame, width, pl.col("value").sum() * BIN / width)


def shift_to_centres(frame: pl.DataFrame, width: float) -> pl.DataFrame:
    """A series of bins, moved to the middles of the bins, for a line through them."""
    return frame.with_columns(t=(pl.col("t") + width / 2).round(4))


def rates_over_time(view: PlotData, name: str, title: str, *, smoothed: float | None = None) -> Panel | None:
    """A rate of every flow on top of the capacity, Mbit/s, in its stored bins or as means over `smoothed` s."""
    frame = view.of_flows(name)
    if frame.is_empty():
        return None
    frame = shift_to_centres(frame, BIN) if smoothed is None else bin_rates(frame, smoothed)
    axis = value_axis(title, axis_end(frame["value"].max(), view.capacity["value"].max()))
    return set_size(layer_charts(shaded_capacity(view), lines(frame, flows_in(view, frame), axis, (0.0, view.end))))


def queue_panel(
    view: PlotData, span: Span, *, labels: bool, highest: float | None = None, height: int = 110, width: int = WIDTH
) -> alt.LayerChart:
    """The bottleneck's queue over time, kB, with its limit and RED's thresholds."""
    frame = thin_series(clip_to_span(view.of_bottleneck("queue_length"), span).with_columns(pl.col("value") / 1000))
    limit = view.queue_limit
    area = (
        Marks(frame)
        .mark_area(interpolate="step-after", color=FILL, line={"color": SOFT, "strokeWidth": 0.5}, clip=True)
        .encode(
            x=time_axis(span, labels=labels),
            y=value_axis("queue (kB)", highest or axis_end(limit, frame["value"].max())),
        )
    )
    # RED's max is often just below the limit: their labels must not overlap.
    limit_side: Side = "bottom" if view.thresholds else "middle"
    rulers = [ruler(limit, f"limit {format_brief(limit)} kB", span[1], dash=(), side=limit_side)]
    if view.thresholds is not None:
        low, high = view.thresholds
        rulers.append(ruler(low, f"RED min {format_brief(low)} kB", span[1]))
        rulers.append(ruler(high, f"RED max {format_brief(high)} kB", span[1], side="top"))
    return set_size(layer_charts(area, *rulers), height, width)


# --- Charts with a fast copy.
#
# Altair copies a chart by calling its constructor. The constructor of a layered chart copies its layers again, several
# times and recursively; and every panel of a figure and every nested layer is copied. That took most of the drawing
# time.


class _FastCopy(SchemaBase):
    def copy(self, deep: bool | Iterable[Any] = True, ignore: list[str] | None = None) -> Self:
        """A copy of the chart and of all its mutable parts; data frames are shared."""
        return cast(Self, _deep_copy(self)) if deep is True and not ignore else super().copy(deep, ignore)


class Marks(_FastCopy, alt.Chart):
    """One kind of mark."""


#: Altair names views by a digest of their content, which includes the name of the class.
Marks.__name__ = alt.Chart.__name__


class Layers(_FastCopy, alt.LayerChart):
    """Charts on top of each other."""


def _deep_copy(part: Any) -> Any:
    if isinstance(part, SchemaBase):
        copy = object.__new__(type(part))
        vars(copy).update(_deep_copy(vars(part)))
        return copy
    if isinstance(part, dict):
        return {name: _deep_copy(value) for name, value in part.items()}
    if isinstance(part, list | tuple):
        return type(part)(_deep_copy(value) for value in part)
    return part
