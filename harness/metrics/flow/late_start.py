"""Flows that did not begin when they should have."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.registry import Caution, Finding, metric
from harness.metrics.shared_flow import called, flows_of
from harness.metrics.view import RunView

#: From here on it is said, s: a client needs a tenth for its own start in real time.
LATE = 0.25


@metric
def late_start(view: RunView) -> Iterator[Finding]:
    """No figure, only a caution: a flow whose client sent its first packet well after the flow's start.

    On the clock of the flow that began soonest, relative to its start.
    """
    late = {flow.number: flow.life.start_ns / 1e9 - flow.facts.start for flow in flows_of(view)}
    numbers = [number for number, seconds in late.items() if seconds > LATE]
    if numbers:
        yield Caution(f"{called(numbers)} began later than asked, by {max(late.values()):.2f} s at most")
