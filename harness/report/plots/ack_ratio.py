"""How often a receiver acknowledges, over time."""

from __future__ import annotations

import polars as pl

from harness.report.plots.parts import layered, lines, present, sized, top, value_axis
from harness.report.plots.registry import plot
from harness.report.plots.theme import Chart
from harness.report.plots.view import Drawn

#: Bins above this share of all are no strategy's: single packets that end a gap.
_MOST = 0.99
_HEIGHT = 180


@plot("Packets per acknowledgement", "ack_ratio", note="data that came per packet sent back, per 0.1 s")
def ack_ratio(run: Drawn) -> Chart | None:
    """Packets with data that reached each receiver per packet it sent (RFC 9000 §13.2.2)."""
    frame = run.of_flows("ack_ratio")
    flows = present(run, frame)
    if not flows:
        return None
    highest = frame["value"].quantile(_MOST, "higher")
    axis = value_axis("packets per ACK", top(highest))
    shown = frame.with_columns(pl.col("value").clip(upper_bound=highest))
    return sized(layered(lines(shown, flows, axis, (0.0, run.end), steps=True)), _HEIGHT)
