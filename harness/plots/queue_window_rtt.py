"""Queue, congestion windows and round-trip time over time: of one run, and of RED beside DropTail."""

from __future__ import annotations

import altair as alt

from harness.plots.parts import lines, queue_panel, ruler, sized, top, value_axis
from harness.plots.registry import plot, plot_of_pair
from harness.plots.theme import WIDTH, Chart
from harness.plots.view import Drawn

_NEEDS = ("queue_length", "cwnd", "srtt")


@plot("Queue, congestion windows and round-trip time", *_NEEDS)
def queue_window_rtt(run: Drawn) -> Chart | None:
    """Queue (kB), cwnd (packets) and sRTT (ms) of one run (seed 001's three pictures above each other)."""
    return _columns(run)


@plot_of_pair(
    "RED beside DropTail", *_NEEDS, note="queue, congestion windows and round-trip time; the axes are the same"
)
def red_beside_droptail(red: Drawn, droptail: Drawn) -> Chart | None:
    """The same of two runs that differ in the discipline of the queue alone, on the same axes (seed 001)."""
    return _columns(red, droptail)


def _columns(*runs: Drawn) -> Chart | None:
    windows = top(*(run.of_flows("cwnd")["value"].max() for run in runs))
    trips = top(*(run.of_flows("srtt")["value"].max() for run in runs))
    lengths = top(*(max(run.queue_limit, _longest(run)) for run in runs))
    width = WIDTH if len(runs) == 1 else (WIDTH + 60) // 2
    columns = [_column(run, windows, trips, lengths, width, named=len(runs) > 1) for run in runs]
    return columns[0] if len(columns) == 1 else alt.hconcat(*columns, spacing=24)


def _longest(run: Drawn) -> float:
    longest = run.of_bottleneck("queue_length")["value"].max()
    return float(longest) / 1000 if isinstance(longest, int | float) else 0.0


def _column(run: Drawn, windows: float, trips: float, lengths: float, width: int, *, named: bool) -> Chart:
    whole, base = (0.0, run.end), run.path.rtt.seconds * 1000
    queue = queue_panel(run, whole, labels=False, highest=lengths, height=150, width=width)
    if named:
        queue = queue.properties(title=alt.TitleParams(run.discipline, fontSize=12, offset=6))
    window = lines(
        run, run.of_flows("cwnd"), value_axis("cwnd (packets)", windows), steps=True, labels=False, legend=False
    )
    trip = lines(run, run.of_flows("srtt"), value_axis("sRTT (ms)", trips))
    return alt.vconcat(
        queue,
        sized(window, 150, width),
        sized(ruler(base, f"path alone {base:g} ms", run.end, above=False) + trip, 150, width),
        spacing=10,
    )
