"""Each segment in series: its queue, its losses, and how soon TCP was acknowledged in it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.analysis.direction import SIDES
from harness.analysis.metric_registry import Finding, declare, measures
from harness.analysis.run_view import RunView
from harness.analysis.tcp_split import legs_of, split_flows
from harness.capture.counters import count_increase
from harness.outcome import Absence

DROPS = {
    (kind, to): declare(
        f"{kind}_drops_{to}_in_*",
        layer="link",
        unit="packets",
        better="neutral" if kind == "loss" else "lower",
        title=f"packets {to.replace('_', ' ')} that {cause} of one segment in a row",
        formula="count over all flows, in all the run",
        source="the kernel's counters",
    )
    for kind, cause in (("queue", "were dropped by the queue"), ("loss", "were taken by the random loss"))
    for to in SIDES
}
QUEUE_DELAY = {
    (label, to): declare(
        f"queue_delay_{label}_{to}_in_*",
        layer="link",
        unit="ms",
        better="lower",
        title=f"wait of the packets {to.replace('_', ' ')} at the queue of one segment in a row, {statistic}",
        formula="time from one capture of the segment's simulator to the other, less the asked delay, over all flows",
        source="both captures of the segment",
    )
    for label, statistic in (("p50", "median"), ("p95", "95th percentile"), ("max", "longest"))
    for to in SIDES
}
_ACK_DELAY = declare(
    "ack_delay_in_*",
    layer="flow",
    unit="ms",
    better="neutral",
    title="the soonest that TCP's data were acknowledged, seen where they come to one segment in a row",
    formula="min over the segments of data sent once: time from the one to the acknowledgement of just that one",
    source="capture at the senders' side of the segment; RFC 3135 §3.1 (split connections)",
)


@measures
def segments(view: RunView) -> Iterator[Finding]:
    """Yield drops and waits of each segment in series, in both directions."""
    for segment in view.every_path if view.in_sequence else ():
        name = str(segment.selected_path)
        for side, direction in segment.directions.items():
            settings = direction.settings
            for kind, device in (("queue", settings.device), ("loss", settings.egress)):
                count = (
                    None if segment.counters is None else count_increase(segment.counters, device, "drops", 0, 2**62)
                )
                if count is not None:
                    yield DROPS[kind, side].of(count, "counters", star=name)
            arrived = direction.passage.arrived
            waits = (direction.departures_ns()[arrived] - direction.passage.entered.t_ns[arrived]) / 1e6
            if len(waits):
                percentiles = np.percentile(waits, [50, 95, 100])
                for label, value in zip(("p50", "p95", "max"), percentiles, strict=True):
                    yield QUEUE_DELAY[label, side].of(value, "both captures", star=name)


@measures
def acknowledgements(view: RunView) -> Iterator[Finding]:
    """Yield how soon each segment's data were acknowledged, for each TCP flow."""
    for flow in split_flows(view):
        flow_legs = legs_of(view, flow)
        for leg in flow_legs:
            yield _ACK_DELAY.of(
                leg.ack_delay_ns / 1e6, "capture at the senders' side", flow=flow.flow, star=leg.segment
            )
        if not flow_legs:
            yield Absence(metric=_ACK_DELAY.name, flows=(flow.flow,), why="no data of it were acknowledged")
