"""The round trip as a sender sees it."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.flow.state import mean_state
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView


@metric
def smoothed_rtt(view: RunView) -> Iterator[Finding]:
    """mean_srtt (ms): mean over time of the smoothed round-trip time (RFC 6298, RFC 9002 §5.3), from its first sample.

    Σ srtt / n over the points of the series srtt. QUIC: qlog's smoothed_rtt. TCP: tcpi_rtt. CCPerf's mean_srtt_l4.
    """
    yield from mean_state(view, "srtt", "ms", "lower")
