"""Flows of one or several runs as curves over one time axis: bytes, window, round-trip time, queue, drops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from harness.analysis.timeseries.grid import BIN
from harness.evaluation.cell_result import initial_window_bytes
from harness.netem import slow_start_time
from harness.netem.mobility import flow_timeline
from harness.planning.sampling import with_drawn_values
from harness.report.plots.parts import (
    Marks,
    axis_end,
    format_brief,
    haloed_labels,
    layer_charts,
    lines,
    queue_panel,
    ruler,
    set_size,
    time_axis,
    value_axis,
)
from harness.report.plots.theme import INK, OPTIMUM, SOFT, WIDTH, Chart, Panel, choose_look
from harness.report.plots.view import DrawnFlow, PlotData
from harness.units import Size

#: The most runs in one figure that a reader can tell apart.
MOST = 8
#: Heights of the panels, and of a row of ticks, pixels.
_BYTES, _PANEL, _ROW = 200, 110, 16
#: Ratio of the time axis' length to the time shown.
_ROOM = 1.015
#: Share of the time axis beyond which words stand to the left of their point.
_RIGHT = 0.7
#: Share of the highest value below which words stand above their point.
_LOW = 0.08
#: Points of the textbook's curve.
_POINTS = 120
#: Rows of ticks for one run: (series, name, colour).
_KINDS = (("drop", "dropped", INK), ("mark", "marked", OPTIMUM), ("loss", "lost at random", SOFT))
_FRAME = {"flow": pl.String, "t": pl.Float64, "value": pl.Float64}


@dataclass(frozen=True)
class Curve:
    """A flow of a run, as one line of a figure."""

    run: PlotData
    flow: DrawnFlow
    """The flow as it appears in its run."""
    shown: DrawnFlow
    """The flow with the name and look of this figure."""

    def series(self, name: str) -> pl.DataFrame:
        """One of its series, a frame of flow, t (s), value and part (index of the transfer)."""
        own = self._own(name).with_columns(flow=pl.lit(self.shown.name))
        begins = np.array(self.begins[1:])
        return own.with_columns(part=pl.Series(np.searchsorted(begins, own["t"].to_numpy(), side="right")))

    def _own(self, name: str) -> pl.DataFrame:
        return self.run.of_flows(name).filter(pl.col("flow") == self.flow.name)

    @cached_property
    def received(self) -> pl.DataFrame:
        """MB of the file that its client had received; without a file, the payload that had arrived on the wire."""
        file = self.series("received")
        if not file.is_empty():
            return file.with_columns(pl.col("value") / 1e6)
        rates = self.series("throughput")
        return rates.with_columns(t=pl.col("t") + BIN, value=pl.col("value").cum_sum() * BIN / 8)

    @cached_property
    def begins(self) -> list[float]:
        """When each of its transfers began, s: at the first datagram, before any byte was received."""
        file = self._own("received")
        empty = (pl.col("value") == 0) & (pl.col("value").shift(1, fill_value=1.0) > 0)
        return file.filter(empty)["t"].to_list() or [self.flow.start]

    @cached_property
    def milestones(self) -> pl.DataFrame:
        """Measured milestones: a frame of flow, t (s), value (MB received) and text."""
        begins, rows = self.begins, []
        for measurement in () if self.run.measured is None else self.run.measured.measurements:
            size = _size_of(measurement.name, self)
            number = 0 if measurement.transfer == "first" else 1
            if measurement.flow == self.flow.index and size is not None and number < len(begins):
                rows.append(
                    (
                        self.shown.name,
                        begins[number] + measurement.value,
                        size.bytes / 1e6,
                        f"{measurement.value:.2f} s",
                    )
                )
        schema = {**_FRAME, "text": pl.String}
        return pl.DataFrame(rows, schema=schema, orient="row").unique(["t", "value"], keep="first", maintain_order=True)

    @cached_property
    def textbook(self) -> pl.DataFrame:
        """Bytes that ideal slow start and then the line rate allow: a frame of flow (the transfer), t (s), value (MB).

        Empty for a flow beside other flows, which has no line rate of its own, and for a flow without a file.
        """
        cell = self.run.run.cell
        flow_spec = cell.scenario.flows[self.flow.index]
        if flow_spec.file is None or len(self.run.flows) > 1:
            return pl.DataFrame(schema=_FRAME)
        sizes = [Size(round(flow_spec.file.bytes * part / _POINTS)) for part in range(1, _POINTS + 1)]
        path_course = flow_timeline(with_drawn_values(cell.scenario, self.run.run.effective), flow_spec)
        times = [(slow_start_time(path_course, size, initial_window_bytes(cell)), size.bytes / 1e6) for size in sizes]
        points = [(f"{begin}", begin + t, value) for begin in self.begins for t, value in times]
        return pl.DataFrame(points, schema=_FRAME, orient="row")


def _size_of(metric: str, curve: Curve) -> Size | None:
    """The bytes that had been received when a time metric was reached; None for other metrics."""
    name, _, label = metric.partition("_")
    if metric == "completion":
        return curve.run.run.cell.scenario.flows[curve.flow.index].file
    return Size.parse(label) if name == "milestone" else None


def build_curves(runs: Sequence[PlotData]) -> list[Curve]:
    """A curve for each flow. With several runs, names say how the runs differ, and every curve has its own look."""
    if len(runs) == 1:
        flows = runs[0].flows
        # A single flow needs no number.
        bare = len(flows) == 1
        return [
            Curve(runs[0], flow, replace(flow, name=flow.name.removeprefix(f"{flow.index} ")) if bare else flow)
            for flow in flows
        ]
    curves, alike, order = list[Curve](), Counter[str](), 0
    for run, label in zip(runs, run_labels(runs), strict=True):
        for flow in run.flows:
            flow_spec = run.run.cell.scenario.flows[flow.index]
            sender = run.run.cell.implementation(flow_spec.sender, flow.index)
            name = label if len(run.flows) == 1 else f"{label} · {flow.name}"
            flow_look = choose_look(sender, flow_spec.kind, alike[sender.name], order)
            curves.append(Curve(run, flow, replace(flow, name=name, look=flow_look)))
            alike[sender.name] += 1
            order += 1
    return curves


def run_labels(runs: Sequence[PlotData]) -> list[str]:
    """A name for each run: the words that differ between the runs; its cell's key where only code or images differ."""
    shared = set(common_words(runs))
    names = [" · ".join(word for key, word in run.words.items() if (key, word) not in shared) for run in runs]
    counts = Counter(names)
    keys = [f"cell {run.run.cell.key[:8]}" for run in runs]
    return [
        name if counts[name] == 1 else " · ".join(part for part in (name, key) if part)
        for name, key in zip(names, keys, strict=True)
    ]


def common_words(runs: Sequence[PlotData]) -> list[tuple[str, str]]:
    """The words that the names of all runs have in common: (kind of word, word)."""
    return [item for item in runs[0].words.items() if all(item in run.words.items() for run in runs)]


def stack_panels(runs: Sequence[PlotData]) -> Chart | None:
    """The panels of these runs, stacked vertically; None where nothing was received."""
    curves = build_curves(runs)
    received = _concatenate(curve.received for curve in curves)
    if received.is_empty():
        return None
    # A little longer, to leave room for points at the very end.
    span = (0.0, _ROOM * max(_end_time(curve) for curve in curves))
    flows = [curve.shown for curve in curves]
    panels: list[Panel] = [_received_panel(curves, received, span)]
    for name, title, value, text in (
        ("cwnd", "cwnd (packets)", _common_value(run.bdp for run in runs), "1 BDP\n{} packets"),
        ("srtt", "sRTT (ms)", _common_value(run.round_trip for run in runs), "empty queue\n{} ms"),
    ):
        frame = _concatenate(curve.series(name) for curve in curves)
        if frame.is_empty():
            continue
        highest = axis_end(frame["value"].max())
        panel = lines(frame, flows, value_axis(title, highest), span, steps=name == "cwnd", labels=False)
        rulers = (
            [ruler(value, text.format(format_brief(value)), span[1])] if value is not None and value <= highest else []
        )
        panels.append(set_size(layer_charts(*rulers, panel), _PANEL))
    queue = _queue(runs, curves, span)
    panels += [] if queue is None else [queue]
    return alt.vconcat(*panels, _tick_rows(runs, curves, span), spacing=10)


def _concatenate(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames)


def _common_value(values: Iterable[float]) -> float | None:
    """The common value; None where the values differ."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def _end_time(curve: Curve) -> float:
    """Where a curve ends, s: at its last packet, or at the end of a run that did not complete."""
    if curve.run.run.outcome.status != "completed":
        return curve.run.end
    ends = [curve.received["t"].max(), curve.series("throughput")["t"].max()]
    return max((float(t) for t in ends if isinstance(t, int | float)), default=curve.run.end)


def _received_panel(curves: Sequence[Curve], received: pl.DataFrame, span: tuple[float, float]) -> alt.LayerChart:
    """Bytes received over time, with milestones, their objectives, and the limit by slow start and line rate."""
    flows = [curve.shown for curve in curves]
    axis = value_axis("received (MB)", axis_end(received["value"].max()))
    textbooks: dict[tuple[object, ...], pl.DataFrame] = {}
    for curve in curves:
        textbooks.setdefault(tuple(curve.textbook.rows()), curve.textbook)
    drawn = [book for book in textbooks.values() if not book.is_empty()]
    layers: list[Panel] = [
        Marks(book)
        .mark_line(color=SOFT, strokeDash=[4, 3], strokeWidth=1, clip=True)
        .encode(x=time_axis(span, labels=False), y=axis, detail="flow:N")
        for book in drawn
    ]
    layers.append(lines(received, flows, axis, span, steps=True, labels=False))
    milestones = _concatenate(curve.milestones for curve in curves)
    if not milestones.is_empty():
        points = Marks(milestones).encode(x=time_axis(span, labels=False), y=axis)
        layers.append(points.mark_point(filled=True, size=36, color=INK, opacity=1, clip=True))
        layers += _milestone_labels(milestones, span, axis) if len(curves) == 1 else []
    objectives = _objective_points(curves, span)
    if not objectives.is_empty():
        place = Marks(objectives).encode(x=time_axis(span, labels=False), y=axis)
        layers.append(place.mark_point(shape="triangle-left", filled=False, size=50, color=OPTIMUM, opacity=1))
    return set_size(layer_charts(*layers), _BYTES)


def _milestone_labels(milestones: pl.DataFrame, span: tuple[float, float], axis: alt.Y) -> list[alt.Chart]:
    """Texts with times beside the milestones, on the side that has room."""
    layers = []
    # There is room below a rising curve, but not at the right edge, and not on the axis.
    below = (pl.col("t") <= _RIGHT * span[1]) & (pl.col("value") > _LOW * pl.lit(milestones["value"].max()))
    for align, sign, mask in (("left", 1, below), ("right", -1, ~below)):
        side = milestones.filter(mask)
        if not side.is_empty():
            place = Marks(side).encode(x=time_axis(span, labels=False), y=axis, text="text:N")
            looks: dict[str, Any] = {"baseline": "top" if sign > 0 else "bottom", "dx": 5 * sign, "dy": 3 * sign}
            layers += haloed_labels(place, align=align, fontSize=10, color=INK, **looks)
    return layers


def _objective_points(curves: Sequence[Curve], span: tuple[float, float]) -> pl.DataFrame:
    """Objectives on milestones of the first transfer that all runs share: a frame of flow, t (s), value (MB)."""
    per_curve: list[set[tuple[float, float]]] = []
    for curve in curves:
        scenario = curve.run.run.cell.scenario
        bounds = {(item.metric, item.bound) for item in scenario.objectives if item.at_most is not None}
        sizes = {(bound, _size_of(metric, curve)) for metric, bound in bounds}
        per_curve.append({(curve.begins[0] + bound, size.bytes / 1e6) for bound, size in sizes if size is not None})
    shared = set.intersection(*per_curve) if per_curve else set()
    points = [("", t, value) for t, value in sorted(shared) if t <= span[1]]
    return pl.DataFrame(points, schema=_FRAME, orient="row")


def _queue(runs: Sequence[PlotData], curves: Sequence[Curve], span: tuple[float, float]) -> Panel | None:
    """The bottleneck's queue: a filled area for one run, a line for each of several runs."""
    if not all(run.has("queue_length") for run in runs):
        return None
    if len(runs) == 1:
        return queue_panel(runs[0], span, labels=False, height=_PANEL)
    first = {curve.run.run.name: curve.shown for curve in reversed(curves)}
    frame = _concatenate(
        run.of_bottleneck("queue_length").with_columns(
            flow=pl.lit(first[run.run.name].name), value=pl.col("value") / 1000
        )
        for run in runs
    )
    limit = _common_value(run.queue_limit for run in runs)
    axis = value_axis("queue (kB)", axis_end(limit, frame["value"].max()))
    chart = lines(frame, [curve.shown for curve in curves], axis, span, steps=True, labels=False)
    if limit is None:
        return set_size(chart, _PANEL)
    return set_size(layer_charts(chart, ruler(limit, f"limit {format_brief(limit)} kB", span[1], dash=())), _PANEL)


def _thin_ticks(frame: pl.DataFrame, span: tuple[float, float]) -> pl.DataFrame:
    """Ticks without those that are too close to another to be told apart."""
    spot = (pl.col("t") / span[1] * 2 * WIDTH).floor().alias("spot")
    return frame.unique([spot], keep="first", maintain_order=True)


def _tick_rows(runs: Sequence[PlotData], curves: Sequence[Curve], span: tuple[float, float]) -> Chart:
    """Rows of ticks: for one run the fates of packets at the bottleneck, for several runs the drops of each."""
    if len(runs) == 1:
        rows = [(name, colour, runs[0].of_bottleneck(series)) for series, name, colour in _KINDS]
        rows = [row for row in rows if row[0] == _KINDS[0][1] or not row[2].is_empty()]
    else:
        first = {curve.run.run.name: curve.shown for curve in reversed(curves)}
        shown = [first[run.run.name] for run in runs]
        drops = [run.of_bottleneck("drop") for run in runs]
        rows = [(f"dropped · {flow.name}", flow.look.colour, frame) for flow, frame in zip(shown, drops, strict=True)]
    # The number comes first, because a long name is cut. The colour identifies the row.
    named = [(f"{frame.height:,} {name}", colour, _thin_ticks(frame, span)) for name, colour, frame in rows]
    scale = alt.Scale(domain=[name for name, _, _ in named])
    axis = alt.Axis(ticks=False, domain=False, labelLimit=200)
    layers = [
        Marks(frame.select("t", row=pl.lit(name)))
        .mark_tick(thickness=1, height=11, opacity=1, color=colour, clip=True)
        .encode(x=time_axis(span), y=alt.Y("row:N", scale=scale, title=None, axis=axis))
        for name, colour, frame in named
    ]
    return set_size(layer_charts(*layers), max(_ROW * len(layers), 20))
