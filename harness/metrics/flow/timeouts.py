"""How often a sender's timer expired."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.flow.losses import count
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView


@metric
def timeouts(view: RunView) -> Iterator[Finding]:
    """timeouts: expired retransmission timers, or probe timeouts.

    A count (1) over the whole connection. TCP: tcpi_total_rto (RFC 6298 §5; Linux 6.7 on). QUIC: qlog's
    loss_timer_updated, or the steps by which pto_count rose (RFC 9002 §6.2). CCPerf's total_rtos_l4.
    """
    yield from count(view, "timeouts", lambda losses: losses.timeouts)
