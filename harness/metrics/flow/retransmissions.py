"""What a sender sent again."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.flow.losses import count
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView


@metric
def retransmissions(view: RunView) -> Iterator[Finding]:
    """retransmissions: segments sent again, or packets declared lost, whose data QUIC sends anew in other packets.

    A count (1) over the whole connection. TCP: tcpi_total_retrans. QUIC: qlog's packet_lost (RFC 9000 §13.3). CCPerf's
    total_retransmissions_l4.
    """
    yield from count(view, "retransmissions", lambda losses: losses.lost)
