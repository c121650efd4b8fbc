"""What the server says of its loss recovery (RFC 9002), from its qlog; of TCP what it sent again."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.arrival import resent_flags
from harness.analysis.metric_registry import Finding, declare, measures
from harness.analysis.metrics.kinds import transfer_measurement
from harness.analysis.run_view import RunView
from harness.analysis.timeseries.sender import traces_of
from harness.capture.artefacts import TransferWindow
from harness.capture.qlog import summarise

RETRANSMITTED_SHARE = declare(
    "retransmitted_share",
    layer="flow",
    unit="1",
    better="lower",
    title="packets declared lost per packet sent, by the server's own account; of HTTPS segments sent again per "
    "segment with data",
    formula="lost / sent",
    source="the server's qlog, RFC 9002 §6.1; of HTTPS the right capture",
)


@measures
def retransmitted_share(view: RunView) -> Iterator[Finding]:
    """Yield retransmitted_share.

    Absent if the server writes no qlog, or none that names losses although packets were lost on the path.
    """
    for window in view.windows:
        if window.over_tcp:
            yield from _segment_share(view, window)
            continue
        counts = _counts(view, window)
        if counts is None:
            continue
        sent, lost = counts
        if lost == 0 and _has_losses(view, window):
            # Some stacks (quiche) log no losses: a share of zero would be wrong, and a warning per run noise.
            continue
        yield transfer_measurement(RETRANSMITTED_SHARE, window, lost / sent, "qlog")


def _segment_share(view: RunView, window: TransferWindow) -> Iterator[Finding]:
    if window.flow.file is None or view.right is None:
        return
    sent = view.right.between(window.start_ns, window.end_ns, window.transfer.flow, to_client=True)
    data = int((sent.payload > 0).sum())
    if data:
        resent = int(resent_flags(sent, sent.destination_port).sum())
        yield transfer_measurement(RETRANSMITTED_SHARE, window, resent / data, "right capture")


def _counts(view: RunView, window: TransferWindow) -> tuple[int, int] | None:
    """Packets sent and lost on one transfer's connection; None if no trace reports them."""
    traces = [summary for path in traces_of(view, window, window.sender) if (summary := summarise(path)).sent]
    return (sum(trace.sent for trace in traces), sum(trace.lost for trace in traces)) if traces else None


def _has_losses(view: RunView, window: TransferWindow) -> bool:
    passage = view.to_client if window.sender == "server" else view.to_server
    if passage is None:
        return False
    entered = passage.entered
    vanished = (entered.flow == window.transfer.flow) & (entered.t_ns >= window.start_ns)
    # Packets in flight at the end are not lost: two seconds cover the longest path.
    vanished &= (entered.t_ns < window.transfer.ended_ns - 2_000_000_000) & ~passage.arrived
    return bool(vanished.any())
