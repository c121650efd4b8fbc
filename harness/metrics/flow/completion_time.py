"""How long a flow took."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.registry import Finding, metric
from harness.metrics.shared_flow import flows_of, left_out
from harness.metrics.view import RunView
from harness.outcome import Direction


@metric
def completion_time(view: RunView) -> Iterator[Finding]:
    """flow_completion_time (s): from the client's first packet to the last payload at the receiver's side.

    Of a flow that is cut off this is about how long it was let run; what was queued then still arrives. Of TCP that
    ends with its size both are those of the connection that has the data: what its generator arranges on another
    before and after is no part of it. Source: the captures. CCPerf's flow_completion_time_l4.
    """
    flows = flows_of(view)
    broken = [flow for flow in flows if flow.facts.stop is None and not flow.complete]
    yield from left_out("flow_completion_time", broken, "it did not come to its end")
    for flow in flows:
        if flow in broken:
            continue
        seconds = (flow.life.last_ns - flow.life.start_ns) / 1e9
        direction: Direction = "lower" if flow.facts.stop is None else "neutral"
        yield flow.measurement("flow_completion_time", seconds, "s", direction, flow.at_receiver)
