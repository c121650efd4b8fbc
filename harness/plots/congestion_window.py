"""Congestion windows of all flows over time."""

from __future__ import annotations

from harness.plots.parts import lines, sized, top, value_axis
from harness.plots.registry import plot
from harness.plots.theme import Chart
from harness.plots.view import Drawn


@plot("Congestion windows", "cwnd", note="as the senders state them; flows of UDP have none")
def congestion_window(run: Drawn) -> Chart | None:
    """cwnd of each flow, packets (INET link sharing, congestion_window)."""
    frame = run.of_flows("cwnd")
    if frame.is_empty():
        return None
    # What slow start overshoots to must not flatten the rest; the axis says so by ending below it.
    return sized(lines(run, frame, value_axis("cwnd (packets)", top(frame["value"].max())), steps=True))  # type: ignore[no-any-return]
