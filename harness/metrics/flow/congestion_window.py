"""How much a sender's congestion control allowed it to have in flight."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.flow.state import mean_state
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView


@metric
def congestion_window(view: RunView) -> Iterator[Finding]:
    """mean_cwnd (packets): mean over time of the congestion window.

    Σ cwnd / n over the points of the series cwnd. QUIC: qlog's congestion_window by the payload of its usual datagram
    (RFC 9002 §7). TCP: tcpi_snd_cwnd (RFC 5681 §2). CCPerf's mean_cwnd_l4.
    """
    yield from mean_state(view, "cwnd", "packets", "neutral")
