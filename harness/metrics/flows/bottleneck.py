"""The bottleneck towards the clients while flows share it: its queue, its rate, its drops."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.direction import Direction
from harness.metrics.flows.flow import SharedFlow, flows_of
from harness.metrics.registry import Finding, metric
from harness.metrics.replay import Fate
from harness.metrics.series import BOTTLENECK
from harness.metrics.series.bottleneck import stays
from harness.metrics.view import RunView
from harness.outcome import Measurement
from harness.traces.counters import total


def _shared(view: RunView) -> tuple[list[SharedFlow], Direction | None]:
    """The flows that send towards the clients, and that direction; no flows where there is nothing to say."""
    flows = [flow for flow in flows_of(view) if flow.facts.sender == "server"]
    return flows, view.directions.get("to_client")


def _span(flows: list[SharedFlow]) -> tuple[float, float]:
    """From the first flow's start to the last one's end, s since time zero."""
    return min(flow.life.start_ns for flow in flows) / 1e9, max(flow.life.end_ns for flow in flows) / 1e9


@metric
def queue(view: RunView) -> Iterator[Finding]:
    """mean_queue_length (B), mean_queue_packets (packets): mean over time, from the first flow's start to the last end.

    mean_queue_delay (ms): mean over the packets that passed of how long each was in the queue; by Little's law
    mean_queue_packets by the packets that passed in a second, nearly. From both captures (`series.bottleneck`).
    CCPerf's mean_qdisc_length_l2 (in packets) and mean_qdisc_delay_l2.
    """
    flows, direction = _shared(view)
    if not flows or direction is None or view.series is None:
        return
    start, end = _span(flows)
    for name, series, unit in (
        ("mean_queue_length", "queue_length", "B"),
        ("mean_queue_packets", "queue_packets", "packets"),
    ):
        points = view.series.points(BOTTLENECK, series)
        inside = points.value[(points.t >= start) & (points.t <= end)]
        if len(inside):
            yield _measured(name, inside.mean(), unit, "both captures")
    came, left, _ = stays(direction, view.series.zero_ns)
    during = (came >= start * 1e9) & (came <= end * 1e9)
    if during.any():
        wait_ms = (left[during] - came[during]).mean() / 1e6
        yield _measured("mean_queue_delay", wait_ms, "ms", "both captures")


@metric
def rate(view: RunView) -> Iterator[Finding]:
    """mean_link_rate (Mbit/s): frames that left the queue from the first flow's start to the last end, by the time.

    At layer 2, as the link's own rate. CCPerf's mean_sending_rate_l1.
    """
    flows, direction = _shared(view)
    if not flows or direction is None or view.series is None:
        return
    start, end = _span(flows)
    _, left, length = stays(direction, view.series.zero_ns)
    during = (left >= start * 1e9) & (left <= end * 1e9)
    value = float(length[during].sum()) * 8 / (end - start) / 1e6
    yield Measurement(
        name="mean_link_rate", value=value, unit="Mbit/s", direction="higher", vantage="both captures"
    )  # fmt: skip


@metric
def drops(view: RunView) -> Iterator[Finding]:
    """drop_rate (1): packets that the queue dropped by those that came, in all the run.

    Where the queue is RED, by cause, as the kernel counts them (net/sched/sch_red.c): early_drops_to_client, those RED
    decided, with chance or above its upper threshold; limit_drops_to_client, those its hard limit did. Together they
    are queue_drops_to_client, CCPerf's total_qdisc_drops_l2.
    """
    flows, direction = _shared(view)
    if not flows or direction is None:
        return
    fate = direction.replayed.fate
    if len(fate):
        yield _measured("drop_rate", float((fate == Fate.QUEUE_DROP).mean()), "1", "both captures")
    if direction.asked.discipline != "red" or view.counters is None:
        return
    span = view.span(0)
    for name, count in (("early_drops_to_client", "early"), ("limit_drops_to_client", "pdrop")):
        value = None if span is None else total(view.counters, direction.asked.device, count, *span)
        if value is not None:
            yield _measured(name, value, "1", "counters")


def _measured(name: str, value: float, unit: str, vantage: str) -> Measurement:
    return Measurement(name=name, value=float(value), unit=unit, direction="lower", vantage=vantage)
