"""How long packets wait at the bottleneck."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.bottleneck.shared import lower, shared_bottleneck
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView


@metric
def queue_delay(view: RunView) -> Iterator[Finding]:
    """mean_queue_delay (ms): mean over the packets that passed of how long each was in the queue.

    Σ (left - came) / n over those that came from the first flow's start to the last end; by Little's law
    mean_queue_packets by the packets that passed in a second, nearly. Source: both captures (`series.bottleneck`). RFC
    5166 §2.1.2; CCPerf's mean_qdisc_delay_l2.
    """
    link = shared_bottleneck(view)
    if link is None:
        return
    came, left, _ = link.stays()
    during = (came >= link.start * 1e9) & (came <= link.end * 1e9)
    if during.any():
        yield lower("mean_queue_delay", (left[during] - came[during]).mean() / 1e6, "ms", "both captures")
