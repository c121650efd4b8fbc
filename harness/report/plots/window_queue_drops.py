"""A few seconds of congestion windows above the queue they fill and the drops that shrink them."""

from __future__ import annotations

import altair as alt

from harness.report.plots.drop_rate import drop_rows
from harness.report.plots.parts import apart, lines, present, queue_panel, sized, top, value_axis, within
from harness.report.plots.registry import plot
from harness.report.plots.theme import Chart
from harness.report.plots.view import Drawn


@plot(
    "Congestion windows, queue and drops in detail",
    "cwnd",
    "queue_length",
    note="ticks: packets that the queue dropped",
)
def window_queue_drops(run: Drawn) -> Chart | None:
    """The cwnd of each flow (packets), the bottleneck's queue (kB), its drops (INET link sharing, cwnd_queue_drops)."""
    span = run.detail
    windows = within(run.of_flows("cwnd"), span)
    if windows.is_empty():
        return None
    flows, axis = present(run, windows), value_axis("cwnd (packets)", top(windows["value"].max()))
    made = alt.vconcat(
        sized(lines(windows, flows, axis, span, steps=True, labels=False), 200),
        queue_panel(run, span, labels=False),
        drop_rows(run, span),
        spacing=10,
    )
    # Not all flows need have drops.
    return apart(made)
