"""How much of what comes to the bottleneck it drops."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.bottleneck.shared import lower, shared_bottleneck
from harness.metrics.registry import Finding, metric
from harness.metrics.replay import Fate
from harness.metrics.view import RunView


@metric
def drop_rate(view: RunView) -> Iterator[Finding]:
    """drop_rate (1): packets that the queue dropped by those that came, in all the run.

    dropped / came. Source: both captures, told from losses on the link by the replay (`metrics.replay`). RFC 5166
    §2.1.3.
    """
    link = shared_bottleneck(view)
    if link is None:
        return
    fate = link.direction.replayed.fate
    if len(fate):
        yield lower("drop_rate", float((fate == Fate.QUEUE_DROP).mean()), "1", "both captures")
