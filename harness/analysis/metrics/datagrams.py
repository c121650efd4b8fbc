"""What becomes of datagrams that a server sends at equal times: loss, delay and jitter, by the client's own log."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.analysis.metric_registry import Finding, declare, measures
from harness.analysis.metrics.kinds import transfer_absences, transfer_measurement
from harness.analysis.run_view import RunView

_LOG = "client's datagrams.csv"
LOSS = declare(
    "datagram_loss",
    layer="flow",
    unit="1",
    better="lower",
    title="share of the datagrams that never came to the receiving application",
    formula="1 - received / asked for; those that a sender gave up are among them",
    source=f"{_LOG}; RFC 9221",
)
DELAY = {
    label: declare(
        f"datagram_delay_{label}",
        layer="flow",
        unit="ms",
        better="lower",
        title=f"one-way delay of a datagram from application to application, {statistic}",
        formula="received - given to the sender's stack, of those that came",
        source=_LOG,
    )
    for label, statistic in (("p50", "median"), ("p95", "95th percentile"), ("max", "longest"))
}
JITTER = declare(
    "datagram_jitter",
    layer="flow",
    unit="ms",
    better="lower",
    title="interarrival jitter at the end of the flow",
    formula="J = J + (|D(i-1, i)| - J) / 16 over the datagrams in the order of their arrival",
    source=f"{_LOG}; RFC 3550 §6.4.1",
)


@measures
def datagrams(view: RunView) -> Iterator[Finding]:
    """Yield loss, delays and jitter of each flow of datagrams."""
    for window in view.windows:
        asked = window.flow.datagrams
        if asked is None:
            continue
        received = view.datagrams(window.transfer.flow)
        if received is None:
            why = "the client left no log of its datagrams"
            yield from transfer_absences((LOSS, *DELAY.values(), JITTER), window, why)
            continue
        came = len(received.sequence)
        yield transfer_measurement(LOSS, window, 1 - came / (asked.packets * asked.count), _LOG)
        if came:
            values = np.percentile(received.delays * 1e3, [50, 95, 100])
            for metric, value in zip(DELAY.values(), values, strict=True):
                yield transfer_measurement(metric, window, float(value), _LOG)
            yield transfer_measurement(JITTER, window, received.jitter * 1e3, _LOG)
