"""Congestion windows of all flows over time."""

from __future__ import annotations

from dataclasses import replace

import altair as alt
import polars as pl

from harness.report.plots.parts import apart, lines, present, sized, top, value_axis
from harness.report.plots.registry import plot
from harness.report.plots.theme import Chart
from harness.report.plots.view import Drawn

#: Height of all rows together, and of one at least and at most, pixels.
_ALL, _LOW, _HIGH = 400, 45, 110


@plot("Congestion windows", "cwnd", note="as the senders state them; the axes are the same")
def congestion_window(run: Drawn) -> Chart | None:
    """The cwnd of each flow in a row of its own, packets (INET link sharing, congestion_window).

    Sawteeth on top of each other cannot be told apart over a whole run.
    """
    frame = run.of_flows("cwnd")
    flows = present(run, frame)
    if not flows:
        return None
    height = min(max(_ALL // len(flows), _LOW), _HIGH)
    axis = value_axis("packets", top(frame["value"].max()), ticks=5 if height > 60 else 2)
    rows = []
    for flow in flows:
        # A row that says whose it is needs no dashes, and knows its own flow only.
        solid, last = replace(flow, look=replace(flow.look, dash=())), flow is flows[-1]
        own = frame.filter(pl.col("flow") == flow.name)
        row = lines(own, [solid], axis, (0.0, run.end), steps=True, legend=False, labels=last)
        title = alt.TitleParams(flow.name, fontSize=11, fontWeight="normal", offset=3)
        rows.append(sized(row, height).properties(title=title))
    return apart(alt.vconcat(*rows, spacing=8))
