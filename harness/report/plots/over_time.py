"""Figures over time: windows, rates, ratios, queues and drops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import altair as alt
import polars as pl

from harness.report.plots.curves import stack_panels
from harness.report.plots.parts import (
    Marks,
    axis_end,
    clip_to_span,
    flow_encodings,
    flows_in,
    format_brief,
    layer_charts,
    lines,
    queue_panel,
    rates_over_time,
    ruler,
    separate_scales,
    set_size,
    time_axis,
    value_axis,
)
from harness.report.plots.registry import plot, plot_of_pair, plot_of_runs
from harness.report.plots.theme import FILL, INK, WIDTH, Chart
from harness.report.plots.view import PlotData

#: Height of all rows together, and the least and the greatest height of a row, pixels.
_ALL, _LOW, _HIGH = 400, 45, 110


@plot("Congestion windows", "cwnd", note="as the senders state them; the axes are the same")
def congestion_window(run: PlotData) -> Chart | None:
    """The cwnd of each flow in a row of its own, packets (INET link sharing, congestion_window).

    Sawteeth on top of each other cannot be told apart over a whole run.
    """
    frame = run.of_flows("cwnd")
    flows = flows_in(run, frame)
    if not flows:
        return None
    height = min(max(_ALL // len(flows), _LOW), _HIGH)
    axis = value_axis("packets", axis_end(frame["value"].max()), ticks=5 if height > 60 else 2)
    rows = []
    for flow in flows:
        # The row has the flow's name as title, so it needs no dashes and no other flow's look.
        solid, last = replace(flow, look=replace(flow.look, dash=())), flow is flows[-1]
        own = frame.filter(pl.col("flow") == flow.name)
        row = lines(own, [solid], axis, (0.0, run.end), steps=True, legend=False, labels=last)
        title = alt.TitleParams(flow.name, fontSize=11, fontWeight="normal", offset=3)
        rows.append(set_size(row, height).properties(title=title))
    return separate_scales(alt.vconcat(*rows, spacing=8))


# --- How often a receiver acknowledges, over time.


#: Quantile of the bins above which values are clipped: they are single packets after a gap, not an ACK strategy.
_MOST = 0.99
_RATIO_HEIGHT = 180


@plot("Packets per acknowledgement", "ack_ratio", note="data that came per packet sent back, per 0.1 s")
def ack_ratio(run: PlotData) -> Chart | None:
    """Packets with data that reached each receiver per packet it sent (RFC 9000 §13.2.2)."""
    frame = run.of_flows("ack_ratio")
    flows = flows_in(run, frame)
    if not flows:
        return None
    highest = frame["value"].quantile(_MOST, "higher")
    axis = value_axis("packets per ACK", axis_end(highest))
    shown = frame.with_columns(pl.col("value").clip(upper_bound=highest))
    return set_size(layer_charts(lines(shown, flows, axis, (0.0, run.end), steps=True)), _RATIO_HEIGHT)


# --- Packets that the bottleneck's queue drops over time, by flow.


#: Width of the bins, s.
WINDOW = 0.5


@plot(
    "Drops at the bottleneck",
    "drop",
    note=f"packets dropped by the queue: per second over {WINDOW} s, and below when they came",
)
def drop_rate(run: PlotData) -> Chart | None:
    """Drops of all flows, 1/s, above one row a flow with a tick for each drop (INET link sharing, packet_drop_rate)."""
    drops = run.of_bottleneck("drop")
    if drops.is_empty():
        return None
    shown = rates(drops, run.end)
    area = (
        Marks(shown)
        .mark_area(interpolate="step-after", color=FILL, line={"color": INK, "strokeWidth": 1}, clip=True)
        .encode(x=time_axis((0.0, run.end), labels=False), y=value_axis("drops (1/s)", axis_end(shown["value"].max())))
    )
    return alt.vconcat(set_size(area, 180), drop_rows(run, (0.0, run.end)), spacing=6)


def rates(drops: pl.DataFrame, end: float) -> pl.DataFrame:
    """Drops per second in bins of `WINDOW` s from 0 to the end; empty bins are 0."""
    bins = pl.DataFrame({"bin": range(int(end / WINDOW) + 1)}, schema={"bin": pl.Int64})
    counts = drops.group_by((pl.col("t") / WINDOW).floor().cast(pl.Int64).alias("bin")).len("drops")
    return bins.join(counts, on="bin", how="left").select(
        t=pl.col("bin") * WINDOW, value=pl.col("drops").fill_null(0) / WINDOW
    )


def drop_rows(run: PlotData, span: tuple[float, float]) -> Chart:
    """One row per flow, with a tick for each of its drops; ticks too close to be told apart are drawn once."""
    names = {flow.index: flow.name for flow in run.flows}
    spot = ((pl.col("t") - span[0]) / (span[1] - span[0]) * 2 * WIDTH).floor().alias("spot")
    drops = (
        run.of_bottleneck("drop")
        .filter(pl.col("t").is_between(*span) & pl.col("value").cast(pl.Int16).is_in(list(names)))
        .unique(["value", spot], keep="first", maintain_order=True)
        .select("t", flow=pl.col("value").cast(pl.Int16).replace_strict(names, default="", return_dtype=pl.String))
    )
    flows = flows_in(run, drops) or [flow for flow in run.flows if flow.responsive] or list(run.flows)
    # The domain includes rows of flows without drops.
    scale = alt.Scale(domain=[flow.name for flow in flows])
    rows = alt.Y("flow:N", scale=scale, title=None, axis=alt.Axis(ticks=False, domain=False))
    colour = flow_encodings(flows, legend=False)["color"]
    ticks = Marks(drops).mark_tick(thickness=1, height=11, opacity=1, clip=True)
    return set_size(cast(alt.Chart, ticks.encode(x=time_axis(span), y=rows, color=colour)), max(16 * len(flows), 20))


# --- What became of packets that the path marked or did not carry, over time.


#: Series → what befell its packets, and the axis of their panel.
_FATES = {
    "mark": ("marked by the queue (ECN)", "marks (1/s)"),
    "drop": ("dropped by the queue", "drops (1/s)"),
    "loss": ("lost at random behind it", "losses (1/s)"),
    "too_large": ("too large for the path", "drops (1/s)"),
}
_FATE_HEIGHT = 90


@plot(
    "Marks and drops by cause",
    "queue_length",
    note=f"per second over {WINDOW} s, of all flows; a panel for each cause that there was",
)
def marks_and_drops(run: PlotData) -> Chart | None:
    """Packets that the queue marked, packets that it dropped, and those lost or too large behind it, 1/s."""
    seen = {name: frame for name in _FATES if not (frame := run.of_bottleneck(name)).is_empty()}
    if not seen:
        return None
    panels = [_fate_panel(run, name, frame, labels=name == list(seen)[-1]) for name, frame in seen.items()]
    return separate_scales(alt.vconcat(*panels, spacing=8))


def _fate_panel(run: PlotData, name: str, frame: pl.DataFrame, *, labels: bool) -> Chart:
    shown = rates(frame, run.end)
    # The last bin has a width, too.
    shown = pl.concat([shown, shown.tail(1).with_columns(t=pl.lit(run.end))])
    what, axis = _FATES[name]
    early, limit = (run.network(f"{cause}_drops_to_client") for cause in ("early", "limit"))
    if name == "drop" and early is not None and limit is not None:
        what += f": {early:,.0f} by its discipline, {limit:,.0f} at its limit"
    area = (
        Marks(shown)
        .mark_area(interpolate="step-after", color=FILL, line={"color": INK, "strokeWidth": 1}, clip=True)
        .encode(x=time_axis((0.0, run.end), labels=labels), y=value_axis(axis, axis_end(shown["value"].max()), ticks=3))
    )
    title = alt.TitleParams(f"{len(frame):,} {what}", fontSize=11, fontWeight="normal", anchor="start", offset=3)
    return set_size(cast(alt.Chart, area), _FATE_HEIGHT).properties(title=title)


# --- The queue of each flow over time.


@plot("The queue and each flow's part of it", "queued", "queue_length")
def flow_queues(run: PlotData) -> Chart | None:
    """The bottleneck's queue (kB), and what each flow has in it, which FQ-CoDel and its like keep apart."""
    span = (0.0, run.end)
    queued = run.of_flows("queued").with_columns(pl.col("value") / 1e3)
    axis = value_axis("of each flow (kB)", axis_end(queued["value"].max()))
    own = set_size(lines(queued, flows_in(run, queued), axis, span, steps=True), 160)
    return separate_scales(alt.vconcat(queue_panel(run, span, labels=False), own, spacing=10))


# --- Throughput at each receiver over time.


@plot("Throughput at the receivers", "throughput", note="transport payload that arrived, per 0.1 s")
def receiver_throughput(run: PlotData) -> Chart | None:
    """Throughput of each flow, Mbit/s (INET link sharing, receiver_throughput)."""
    return rates_over_time(run, "throughput", "throughput (Mbit/s)")


# --- Sending rate of each sender over time.


@plot("Sending rate", "sending_rate", note="transport payload with retransmissions, per 0.1 s")
def sender_throughput(run: PlotData) -> Chart | None:
    """Sending rate of each flow, Mbit/s (INET link sharing, sender_throughput)."""
    return rates_over_time(run, "sending_rate", "sending rate (Mbit/s)")


# --- Sending rate of each sender over time, with the sawtooth averaged out.


@plot("Sending rate, smoothed", "sending_rate", note=f"transport payload with retransmissions, means over {WINDOW} s")
def sender_throughput_smoothed(run: PlotData) -> Chart | None:
    """Sending rate of each flow in bins of 0.5 s, Mbit/s (INET link sharing, sender_throughput_smoothed)."""
    return rates_over_time(run, "sending_rate", "sending rate (Mbit/s)", smoothed=WINDOW)


# --- Several runs in one figure.


@plot_of_runs(
    "Runs side by side",
    "throughput",
    note="dots: milestones; triangles: what was demanded; dashed: what slow start and then the line rate allow; "
    "ticks: packets dropped by the queue",
)
def together(runs: Sequence[PlotData]) -> Chart | None:
    """What each client had (MB), cwnd (packets), sRTT (ms), queue (kB) and drops of several runs on the same axes."""
    return stack_panels(runs)


# --- One transfer over time.


@plot(
    "Bytes, window, round trips, queue and drops",
    "throughput",
    note="dots: milestones; triangles: what was demanded of them; dashed: what slow start and then the line rate allow",
    of="transfer",
)
def transfer(run: PlotData) -> Chart | None:
    """What the client had (MB), cwnd (packets), sRTT (ms), the bottleneck's queue (kB), and what it dropped."""
    return stack_panels([run])


# --- A few seconds of congestion windows above the queue they fill and the drops that shrink them.


@plot(
    "Congestion windows, queue and drops in detail",
    "cwnd",
    "queue_length",
    note="ticks: packets that the queue dropped",
)
def window_queue_drops(run: PlotData) -> Chart | None:
    """The cwnd of each flow (packets), the bottleneck's queue (kB), its drops (INET link sharing, cwnd_queue_drops)."""
    span = run.detail
    windows = clip_to_span(run.of_flows("cwnd"), span)
    if windows.is_empty():
        return None
    flows, axis = flows_in(run, windows), value_axis("cwnd (packets)", axis_end(windows["value"].max()))
    panels = alt.vconcat(
        set_size(lines(windows, flows, axis, span, steps=True, labels=False), 200),
        queue_panel(run, span, labels=False),
        drop_rows(run, span),
        spacing=10,
    )
    # Some flows may have no drops, so the panels' scales are independent.
    return separate_scales(panels)


# --- Queue, congestion windows and round-trip time over time: one run, and RED beside DropTail.


_NEEDS = ("queue_length", "cwnd", "srtt")
_PANEL_HEIGHT = 150


@plot("Queue, congestion windows and round-trip time", *_NEEDS)
def queue_window_rtt(run: PlotData) -> Chart | None:
    """Queue (kB), cwnd (packets) and sRTT (ms) of one run (the notebook's three pictures above each other)."""
    return _columns(run)


@plot_of_pair("RED beside DropTail", *_NEEDS, note="left RED, right DropTail; the axes are the same")
def red_beside_droptail(red: PlotData, droptail: PlotData) -> Chart | None:
    """The same of two runs that differ in the discipline of the queue alone."""
    return _columns(red, droptail)


def _columns(*runs: PlotData) -> Chart | None:
    windows, trips = (axis_end(*(run.of_flows(name)["value"].max() for run in runs)) for name in ("cwnd", "srtt"))
    queues = axis_end(*(max(run.queue_limit, _longest(run)) for run in runs))
    width = WIDTH if len(runs) == 1 else WIDTH // 2
    columns = [_column(run, windows, trips, queues, width, named=len(runs) > 1) for run in runs]
    return columns[0] if len(columns) == 1 else alt.hconcat(*columns, spacing=20)


def _longest(run: PlotData) -> float:
    """The longest queue there was, kB."""
    longest = run.of_bottleneck("queue_length").select(pl.col("value").max() / 1000).item()
    return float(longest or 0.0)


def _column(run: PlotData, windows: float, trips: float, queues: float, width: int, *, named: bool) -> Chart:
    whole, base = (0.0, run.end), run.round_trip
    queue = queue_panel(run, whole, labels=False, highest=queues, height=_PANEL_HEIGHT, width=width)
    if named:
        queue = queue.properties(title=alt.TitleParams(run.discipline, fontSize=12, offset=6))
    cwnd, srtt = (run.of_flows(name) for name in ("cwnd", "srtt"))
    flows = flows_in(run, cwnd)
    window = lines(cwnd, flows, value_axis("cwnd (packets)", windows), whole, steps=True, labels=False)
    trip = lines(srtt, flows, value_axis("sRTT (ms)", trips), whole)
    return alt.vconcat(
        queue,
        set_size(window, _PANEL_HEIGHT, width),
        set_size(
            layer_charts(ruler(base, f"empty queue\n{format_brief(base)} ms", run.end), trip), _PANEL_HEIGHT, width
        ),
        spacing=10,
    )
