"""When a flow's packets came: completion, delay through the path, time between datagrams."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from harness.metrics.flows.flow import SharedFlow, flows_of, left_out
from harness.metrics.flows.rates import CAPTURES
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView
from harness.outcome import Direction

#: Weight of the newest gap in the moving average: that of the smoothed RTT (RFC 6298 §2, RFC 9002 §5.3). CCPerf's
#: own weight is not published.
WEIGHT = 1 / 8


@metric
def completion(view: RunView) -> Iterator[Finding]:
    """flow_completion_time (s): from the client's first packet to the last payload at the receiver's side.

    Of a flow that is cut off this is about how long it was let run; what was queued then still arrives. Of TCP that
    ends with its size both are those of the connection that has the data: what its generator arranges on another
    before and after is no part of it. CCPerf's flow_completion_time_l4.
    """
    flows = flows_of(view)
    broken = [flow for flow in flows if flow.facts.stop is None and not flow.complete]
    yield from left_out("flow_completion_time", broken, "it did not come to its end")
    for flow in flows:
        if flow in broken:
            continue
        seconds = (flow.life.last_ns - flow.life.start_ns) / 1e9
        direction: Direction = "lower" if flow.facts.stop is None else "neutral"
        vantage = CAPTURES[flow.facts.sender][1]
        yield flow.measurement("flow_completion_time", seconds, "s", direction, vantage)


@metric
def one_way_delay(view: RunView) -> Iterator[Finding]:
    """mean_one_way_delay (ms): between both interfaces of the simulator, mean over the packets that got through.

    Of those sent during the flow's life, in the direction of its data; with the queue, the propagation delay and the
    flow's own access delay.
    """
    for flow in flows_of(view):
        delay_ms = _delays(flow)
        if len(delay_ms):
            yield flow.measurement("mean_one_way_delay", delay_ms.mean(), "ms", "lower", "both captures")


def _delays(flow: SharedFlow) -> npt.NDArray[np.float64]:
    down = flow.facts.sender == "server"
    passage = flow.view.to_client if down else flow.view.to_server
    if passage is None:
        return np.zeros(0)
    t_ns = passage.entered.t_ns - flow.life.zero_ns
    mine = (passage.entered.flow == flow.number) & passage.arrived
    mine &= (t_ns >= flow.life.start_ns) & (t_ns <= flow.life.end_ns)
    return np.asarray((passage.out_ns[mine] - passage.entered.t_ns[mine]) / 1e6, np.float64)


@metric
def time_between_datagrams(view: RunView) -> Iterator[Finding]:
    """mean_idt (ms): mean over the packets of the moving average of the time between two that arrive with payload.

    aₖ = 7/8·aₖ₋₁ + 1/8·gapₖ, begun with the first gap, during the flow's life. CCPerf's mean_idt_ewma_l4, whose weight
    is not published: the mean hardly depends on it.
    """
    for flow in flows_of(view):
        received = flow.life.received
        t_ns = received.t_ns[received.payload > 0] - flow.life.zero_ns
        gaps = np.diff(t_ns[(t_ns >= flow.life.start_ns) & (t_ns <= flow.life.end_ns)]) / 1e6
        if len(gaps):
            vantage = CAPTURES[flow.facts.sender][1]
            yield flow.measurement("mean_idt", float(np.mean(moving_average(gaps.tolist()))), "ms", "lower", vantage)


def moving_average(values: list[float], weight: float = WEIGHT) -> list[float]:
    """The exponentially weighted moving average after each value, begun with the first."""
    averages, average = [], values[0] if values else 0.0
    for value in values:
        average += weight * (value - average)
        averages.append(average)
    return averages
