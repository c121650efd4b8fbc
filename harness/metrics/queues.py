"""What the bottleneck's queue did: drops, and how long packets waited."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.metrics.direction import SIDES
from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView
from harness.outcome import Measurement
from harness.traces.counters import total


@metric
def drops(view: RunView) -> Iterator[Finding]:
    """queue_drops_… and loss_drops_… per direction, by the kernel's count, over all flows.

    queue_drops: by the bottleneck's queue (full, or RED's decision); loss_drops: by netem's random loss.
    """
    counters, lab = view.counters, view.lab
    if counters is None or lab is None:
        return
    for index, prefix in ((0, ""), (1, "repeat_")):
        span = view.span(index)
        if span is None:
            continue
        for direction in SIDES:
            asked = getattr(lab.links, direction)
            for kind, device in (("queue", asked.device), ("loss", asked.egress)):
                count = total(counters, device, "drops", *span)
                if count is not None:
                    yield Measurement(
                        name=f"{prefix}{kind}_drops_{direction}", value=count, unit="1",
                        direction="lower" if kind == "queue" else "neutral", vantage="counters",
                    )  # fmt: skip


@metric
def queue_delay(view: RunView) -> Iterator[Finding]:
    """queue_delay_p50/p95/max_to_client (ms): from one capture to the other, less the asked delay.

    Under jitter the jitter is in it. After a scheduled change the asked delay is that of the moment of leaving.
    """
    direction = view.directions.get("to_client")
    if direction is None:
        return
    arrived = direction.passage.arrived
    entered = direction.passage.entered.where(arrived)
    wait_ms = (direction.departures_ns()[arrived] - entered.t_ns) / 1e6
    for window in view.windows:
        mine = (entered.flow == window.transfer.flow) & (entered.t_ns >= window.start_ns)
        mine &= entered.t_ns < window.end_ns
        if not mine.any():
            continue
        p50, p95, longest = np.percentile(wait_ms[mine], [50, 95, 100])
        for label, value in (("p50", p50), ("p95", p95), ("max", longest)):
            yield Measurement(
                name=f"{window.prefix}queue_delay_{label}_to_client", value=float(value), unit="ms",
                direction="lower", vantage="both captures",
            )  # fmt: skip
