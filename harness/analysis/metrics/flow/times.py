"""How long a flow took, how long its packets did, and how far apart they came; and flows that came late or not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from harness.analysis.metrics.kinds import Absent, Figure, Told, flow_metric
from harness.analysis.metrics.registry import Caution, Finding, measures
from harness.analysis.run_view import RunView
from harness.analysis.shared_flow import SharedFlow, flows_of
from harness.formatting import flows_named

#: Weight of the newest gap in the moving average: that of the smoothed RTT (RFC 6298 §2, RFC 9002 §5.3). CCPerf's
#: own weight is not published.
WEIGHT = 1 / 8
#: From here on a late start is said, s: a client needs a tenth for its own start in real time.
LATE = 0.25


@flow_metric(
    unit="s", better="lower", title="time from the client's first packet to the last payload at the receiver's side",
    formula="last - first", source="captures; CCPerf's flow_completion_time_l4",
)  # fmt: skip
def flow_completion_time(flow: SharedFlow) -> Told:
    """Of a flow that is cut off this is about how long it was let run; what was queued then still arrives.

    Of TCP that ends with its size both are those of the connection that has the data: what its generator arranges on
    another before and after is no part of it.
    """
    if flow.facts.stop is None and not flow.complete:
        return Absent("it did not come to its end")
    seconds = (flow.lifetime.last_ns - flow.lifetime.start_ns) / 1e9
    return Figure(seconds, flow.at_receiver, better=None if flow.facts.stop is None else "neutral")


@flow_metric(
    unit="ms", better="lower",
    title="time between both interfaces of the simulator, mean over the packets that got through",
    formula="Σ (out - in) / n of the packets sent during the flow's lifetime, in the direction of its data",
    source="each packet in both captures (RFC 7679's two points); CCPerf's mean_one_way_delay_l7 is between the "
    "applications",
)  # fmt: skip
def mean_one_way_delay(flow: SharedFlow) -> Told:
    """With the queue, the propagation delay and the flow's own access delay."""
    delay_ms = _delays(flow)
    return Figure(delay_ms.mean(), "both captures") if len(delay_ms) else None


def _delays(flow: SharedFlow) -> npt.NDArray[np.float64]:
    down = flow.facts.sender == "server"
    passage = flow.view.to_client if down else flow.view.to_server
    if passage is None:
        return np.zeros(0)
    t_ns = passage.entered.t_ns - flow.lifetime.zero_ns
    mine = (passage.entered.flow == flow.number) & passage.arrived
    mine &= (t_ns >= flow.lifetime.start_ns) & (t_ns <= flow.lifetime.end_ns)
    return np.asarray((passage.out_ns[mine] - passage.entered.t_ns[mine]) / 1e6, np.float64)


@flow_metric(
    unit="ms", better="lower", title="time between two packets that arrive with payload, moving average",
    formula="mean over the packets of aₖ = 7/8·aₖ₋₁ + 1/8·gapₖ, begun with the first gap",
    source="capture at the receiver's side; CCPerf's mean_idt_ewma_l4, whose weight is not published: the mean hardly "
    "depends on it",
)  # fmt: skip
def mean_idt(flow: SharedFlow) -> Told:
    """How far apart in time a flow's datagrams arrived."""
    received = flow.lifetime.received
    t_ns = received.t_ns[received.payload > 0] - flow.lifetime.zero_ns
    gaps = np.diff(t_ns[(t_ns >= flow.lifetime.start_ns) & (t_ns <= flow.lifetime.end_ns)]) / 1e6
    return Figure(float(np.mean(moving_average(gaps.tolist()))), flow.at_receiver) if len(gaps) else None


def moving_average(values: list[float], weight: float = WEIGHT) -> list[float]:
    """The exponentially weighted moving average after each value, begun with the first."""
    averages, average = [], values[0] if values else 0.0
    for value in values:
        average += weight * (value - average)
        averages.append(average)
    return averages


@measures
def late_start(view: RunView) -> Iterator[Finding]:
    """No figure, only a caution: a flow whose client sent its first packet well after the flow's start.

    On the clock of the flow that began soonest, relative to its start.
    """
    late = {flow.number: flow.lifetime.start_ns / 1e9 - flow.facts.start for flow in flows_of(view)}
    numbers = [number for number, seconds in late.items() if seconds > LATE]
    # A flow alone is late for nobody: of TCP that ends with its size it is what its generator arranges before.
    if numbers and len(late) > 1:
        yield Caution(f"{flows_named(numbers)} began later than asked, by {max(late.values()):.2f} s at most")


@measures
def silent(view: RunView) -> Iterator[Finding]:
    """No figure, only a caution: a flow of which nothing arrived has no metrics."""
    if not view.shared or view.lab is None or view.series is None:
        return
    for facts in view.lab.flows:
        if facts.flow not in view.series.lifetimes:
            yield Caution(f"nothing of flow {facts.flow} arrived at its receiver's side: it has no metrics")
