"""How much a sender had in flight."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.flow.state import mean_state
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView


@metric
def in_flight(view: RunView) -> Iterator[Finding]:
    """mean_in_flight (packets): mean over time of what was sent and neither known to have arrived nor lost.

    Σ in_flight / n over the points of the series in_flight. QUIC: qlog's bytes_in_flight (RFC 9002 §2) by the payload
    of its usual datagram. TCP: packets out less those lost (less those selectively acknowledged and more those sent
    again, where the samples have these), by tcp_info. CCPerf's mean_in_flight_l4.
    """
    yield from mean_state(view, "in_flight", "packets", "neutral")
