"""What the server says of its loss recovery (RFC 9002), from its qlog."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView, Window
from harness.outcome import Measurement
from harness.traces.qlog import Summary, summarise


@metric
def retransmitted_share(view: RunView) -> Iterator[Finding]:
    """retransmitted_share: packets declared lost per packet sent, by the server's own account.

    Absent where the server writes no qlog, or none that names losses although packets were lost on the path.
    """
    for window in view.windows:
        counts = _summary(view, window)
        if counts is None:
            continue
        sent, lost = counts
        name = f"{window.prefix}retransmitted_share"
        if lost == 0 and _vanished(view, window):
            # Some stacks (quiche) log no losses: a share of nought would be wrong, and a warning per run noise.
            continue
        yield Measurement(name=name, value=lost / sent, unit="1", direction="lower", vantage="qlog")


def _summary(view: RunView, window: Window) -> tuple[int, int] | None:
    """Packets sent and lost on one transfer's connection; None where no trace tells.

    With several transfers a trace belongs to the one whose client's first Initial packet it names the
    connection by, or in whose window it starts.
    """
    flow = window.transfer.flow
    found = [summary for path in view.qlogs(flow, "server") if (summary := summarise(path)).sent]
    if sum(other.transfer.flow == flow for other in view.windows) > 1:
        found = [summary for summary in found if _belongs(view, window, summary)]
    return (sum(s.sent for s in found), sum(s.lost for s in found)) if found else None


def _belongs(view: RunView, window: Window, summary: Summary) -> bool:
    if view.left is not None:
        sent = view.left.between(window.start_ns, window.end_ns, window.transfer.flow, to_client=False)
        if summary.names(sent.first_destination()):
            return True
    return summary.start_ns is not None and window.start_ns <= summary.start_ns < window.end_ns


def _vanished(view: RunView, window: Window) -> bool:
    passage = view.to_client
    if passage is None:
        return False
    entered = passage.entered
    mine = (entered.flow == window.transfer.flow) & (entered.t_ns >= window.start_ns)
    # What was under way at the end is not lost: two seconds cover the longest path.
    mine &= (entered.t_ns < window.transfer.ended_ns - 2_000_000_000) & ~passage.arrived
    return bool(mine.any())
