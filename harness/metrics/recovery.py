"""What the server says of its loss recovery (RFC 9002), from its qlog."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.registry import Caution, Finding, metric
from harness.metrics.view import RunView, Window
from harness.outcome import Measurement
from harness.traces.qlog import Summary, summarise


@metric
def retransmitted_share(view: RunView) -> Iterator[Finding]:
    """retransmitted_share: packets declared lost per packet sent, by the server's own account.

    Absent where the server writes no qlog, or none that names losses although packets were lost on the path.
    """
    for window in view.windows:
        summary = _summary(view, window)
        if summary is None:
            continue
        name = f"{window.prefix}retransmitted_share"
        if summary.lost == 0 and _vanished(view, window):
            yield Caution(f"{name} is left out: packets vanished on the path, but the server's qlog names no loss")
            continue
        value = summary.lost / summary.sent
        yield Measurement(name=name, value=value, unit="1", direction="lower", vantage="qlog")


def _summary(view: RunView, window: Window) -> Summary | None:
    """The events of one transfer's connection.

    With several transfers a trace belongs to the one in whose window it starts; without times, to none.
    """
    flow = window.transfer.flow
    found = [summary for path in view.qlogs(flow, "server") if (summary := summarise(path)).sent]
    if sum(w.transfer.flow == flow for w in view.windows) > 1:
        found = [s for s in found if s.start_ns is not None and window.start_ns <= s.start_ns < window.end_ns]
    if not found:
        return None
    return Summary(sum(s.sent for s in found), sum(s.lost for s in found), None)


def _vanished(view: RunView, window: Window) -> bool:
    passage = view.to_client
    if passage is None:
        return False
    entered = passage.entered
    mine = (entered.flow == window.transfer.flow) & (entered.t_ns >= window.start_ns)
    # What was under way at the end is not lost: two seconds cover the longest path.
    mine &= (entered.t_ns < window.transfer.ended_ns - 2_000_000_000) & ~passage.arrived
    return bool(mine.any())
