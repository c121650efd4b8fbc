"""Why the bottleneck dropped packets."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.bottleneck.shared import lower, shared_bottleneck
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView
from harness.traces.counters import total


@metric
def drops(view: RunView) -> Iterator[Finding]:
    """early_drops_to_client, limit_drops_to_client (1): packets that RED dropped, by cause, in all the run.

    Counts as the kernel keeps them (struct tc_red_xstats, net/sched/sch_red.c): early, those RED decided, with chance
    or above its upper threshold; pdrop, those its hard limit did. Together they are queue_drops_to_client
    (`metrics.queues`), CCPerf's total_qdisc_drops_l2; where the queue is not RED that is all there is, by its limit.
    """
    link = shared_bottleneck(view)
    if link is None or link.direction.asked.discipline != "red" or view.counters is None:
        return
    span = view.span(0)
    for name, cause in (("early_drops_to_client", "early"), ("limit_drops_to_client", "pdrop")):
        value = None if span is None else total(view.counters, link.direction.asked.device, cause, *span)
        if value is not None:
            yield lower(name, value, "1", "counters")
