"""A few seconds of congestion windows above the queue they fill and the drops that shrink them."""

from __future__ import annotations

import altair as alt

from harness.plots.drop_rate import drop_rows
from harness.plots.parts import lines, queue_panel, sized, top, value_axis, within
from harness.plots.registry import plot
from harness.plots.theme import Chart
from harness.plots.view import Drawn


@plot("Congestion windows, queue and drops in detail", "cwnd", "queue_length", "drop")
def window_queue_drops(run: Drawn) -> Chart | None:
    """cwnd of each flow (packets), the bottleneck's queue (kB) and its drops (INET link sharing, cwnd_queue_drops)."""
    span = run.detail
    windows = within(run.of_flows("cwnd"), span)
    if windows.is_empty():
        return None
    axis = value_axis("cwnd (packets)", top(windows["value"].max()))
    return alt.vconcat(
        sized(lines(run, windows, axis, span=span, steps=True, labels=False), 200),
        queue_panel(run, span, labels=False),
        drop_rows(run, span),
        spacing=10,
    )
