"""Queue, congestion windows and round-trip time over time: of one run, and of RED beside DropTail."""

from __future__ import annotations

import altair as alt
import polars as pl

from harness.report.plots.parts import brief, layered, lines, present, queue_panel, ruler, sized, top, value_axis
from harness.report.plots.registry import plot, plot_of_pair
from harness.report.plots.theme import WIDTH, Chart
from harness.report.plots.view import Drawn

_NEEDS = ("queue_length", "cwnd", "srtt")
_HEIGHT = 150


@plot("Queue, congestion windows and round-trip time", *_NEEDS)
def queue_window_rtt(run: Drawn) -> Chart | None:
    """Queue (kB), cwnd (packets) and sRTT (ms) of one run (the notebook's three pictures above each other)."""
    return _columns(run)


@plot_of_pair("RED beside DropTail", *_NEEDS, note="left RED, right DropTail; the axes are the same")
def red_beside_droptail(red: Drawn, droptail: Drawn) -> Chart | None:
    """The same of two runs that differ in the discipline of the queue alone."""
    return _columns(red, droptail)


def _columns(*runs: Drawn) -> Chart | None:
    windows, trips = (top(*(run.of_flows(name)["value"].max() for run in runs)) for name in ("cwnd", "srtt"))
    queues = top(*(max(run.queue_limit, _longest(run)) for run in runs))
    width = WIDTH if len(runs) == 1 else WIDTH // 2
    columns = [_column(run, windows, trips, queues, width, named=len(runs) > 1) for run in runs]
    return columns[0] if len(columns) == 1 else alt.hconcat(*columns, spacing=20)


def _longest(run: Drawn) -> float:
    """The longest queue there was, kB."""
    longest = run.of_bottleneck("queue_length").select(pl.col("value").max() / 1000).item()
    return float(longest or 0.0)


def _column(run: Drawn, windows: float, trips: float, queues: float, width: int, *, named: bool) -> Chart:
    whole, base = (0.0, run.end), run.round_trip
    queue = queue_panel(run, whole, labels=False, highest=queues, height=_HEIGHT, width=width)
    if named:
        queue = queue.properties(title=alt.TitleParams(run.discipline, fontSize=12, offset=6))
    cwnd, srtt = (run.of_flows(name) for name in ("cwnd", "srtt"))
    flows = present(run, cwnd)
    window = lines(cwnd, flows, value_axis("cwnd (packets)", windows), whole, steps=True, labels=False)
    trip = lines(srtt, flows, value_axis("sRTT (ms)", trips), whole)
    return alt.vconcat(
        queue,
        sized(window, _HEIGHT, width),
        sized(layered(ruler(base, f"empty queue\n{brief(base)} ms", run.end), trip), _HEIGHT, width),
        spacing=10,
    )
