"""How long a sender's recovery from loss lasts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.metrics.flow.losses import losses_of_flows
from harness.metrics.registry import Finding, metric
from harness.metrics.shared_flow import NOT_TOLD, left_out
from harness.metrics.view import RunView


@metric
def recovery_time(view: RunView) -> Iterator[Finding]:
    """mean_recovery_time (ms): mean length of the periods of recovery that came to an end.

    Σ (end - begin) / n. TCP: tcpi_ca_state in Recovery or Loss, as sampled every 20 ms. QUIC: qlog's
    congestion_state_updated (RFC 9002 §7.3.2). CCPerf's mean_recovery_time_l4.
    """
    missing = []
    for flow, losses in losses_of_flows(view):
        if losses.recoveries_ms is None:
            missing.append(flow)
        elif losses.recoveries_ms:
            value = float(np.mean(losses.recoveries_ms))
            yield flow.measurement("mean_recovery_time", value, "ms", "lower", flow.sender_tells)
    yield from left_out("mean_recovery_time", missing, NOT_TOLD)
