"""What the bottleneck's queue did: drops, ECN marks, and how long packets waited."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import numpy as np
import numpy.typing as npt

from harness.analysis.direction import SIDES, Side
from harness.analysis.metric_registry import Caution, Finding, declare, measures
from harness.analysis.metrics.kinds import transfer_measurement
from harness.analysis.run_view import RunView
from harness.capture.artefacts import TransferWindow
from harness.capture.capture import NOT_ECT, Capture, ecn
from harness.capture.counters import count_increase
from harness.scenario.metric_names import TransferName
from harness.topology.lab_file import LinkSettings

DROPS = {
    f"queue_drops_{to}": declare(
        f"queue_drops_{to}",
        layer="link",
        unit="packets",
        better="lower",
        title=f"packets {to.replace('_', ' ')} that the bottleneck's queue dropped, full or by its discipline",
        formula="count over all flows, from the start of the first transfer to the end of the last",
        source="the kernel's counters; CCPerf's total_qdisc_drops_l2",
    )
    for to in SIDES
} | {
    f"loss_drops_{to}": declare(
        f"loss_drops_{to}",
        layer="link",
        unit="packets",
        better="neutral",
        title=f"packets {to.replace('_', ' ')} that netem's random loss took",
        formula="count over all flows, from the start of the first transfer to the end of the last",
        source="the kernel's counters",
    )
    for to in SIDES
}
MARKS = {
    to: declare(
        f"ecn_marks_{to}",
        layer="link",
        unit="packets",
        better="neutral",
        title=f"packets {to.replace('_', ' ')} that the bottleneck's queue marked Congestion Experienced",
        formula="count over all flows of those that came without Congestion Experienced and left with it, from the "
        "start of the first transfer to the end of the last; only where the queue may mark",
        source="both captures; RFC 3168 §5",
    )
    for to in SIDES
}
QUEUE_DELAY = {
    (label, to): declare(
        f"queue_delay_{label}_{to}",
        layer="flow",
        unit="ms",
        better="lower",
        title=f"wait of a transfer's packets at the bottleneck towards the {to.removeprefix('to_')}, {statistic}",
        formula="time from one capture to the other, less the asked delay; under jitter the jitter is in it, and after "
        "a scheduled change the asked delay is that of the moment of leaving",
        source="both captures",
    )
    for to in SIDES
    for label, statistic in (("p50", "median"), ("p95", "95th percentile"), ("max", "longest"))
}


@measures
def drops(view: RunView) -> Iterator[Finding]:
    """Yield drops of the queue and of random loss, per direction; with several paths their sum."""
    links = [(path.counters, path.lab) for path in view.every_path]
    for index, transfer in enumerate(get_args(TransferName)):
        span = view.span(index)
        if span is None:
            continue
        for direction in SIDES:
            for kind in ("queue", "loss"):
                counts = [
                    None
                    if counters is None or lab is None
                    else count_increase(counters, _device(getattr(lab.links, direction), kind), "drops", *span)
                    for counters, lab in links
                ]
                available = [count for count in counts if count is not None]
                if len(available) == len(links):
                    yield DROPS[f"{kind}_drops_{direction}"].of(sum(available), "counters", transfer=transfer)


def _device(settings: LinkSettings, kind: str) -> str:
    """The device whose discipline drops: the bottleneck's queue, or netem at the egress."""
    return settings.device if kind == "queue" else settings.egress


@measures
def marks(view: RunView) -> Iterator[Finding]:
    """Yield CE marks per direction whose queue may mark; and a caution if no packet was ECN-capable."""
    path = view.emulated_path
    for to in SIDES:
        link, passage = getattr(path, to), getattr(view, to)
        # A node that marks, clears or drops marks behind the queue hides what the queue did.
        if passage is None or not link.queue.may_mark or link.ecn in ("mark", "bleach", "drop"):
            continue
        entered, marked = passage.entered, passage.marked
        for index, transfer in enumerate(get_args(TransferName)):
            span = view.span(index)
            if span is not None:
                inside = (entered.t_ns >= span[0]) & (entered.t_ns < span[1])
                yield MARKS[to].of((marked & inside).sum(), "both captures", transfer=transfer)
        if len(entered) and (ecn(entered.traffic_class) == NOT_ECT).all():
            yield Caution(f"no packet {to.replace('_', ' ')} was ECN-capable, so that {link.queue.title} marked none")


@measures
def queue_delay(view: RunView) -> Iterator[Finding]:
    """Yield median, 95th percentile and longest wait of a transfer's data, on any path. Nothing for segments in series,
    which have their own metrics (`analysis.metrics.segments`).
    """
    if view.in_sequence:
        return
    waits = {to: _waits(view, to) for to in dict.fromkeys(window.direction for window in view.windows)}
    for window in view.windows:
        paths = waits[window.direction]
        if paths is None:
            continue
        wait_ms = np.concatenate([path_wait_ms[_within(window, entered)] for entered, path_wait_ms in paths])
        if not len(wait_ms):
            continue
        p50, p95, longest = np.percentile(wait_ms, [50, 95, 100])
        for label, value in (("p50", p50), ("p95", p95), ("max", longest)):
            yield transfer_measurement(QUEUE_DELAY[label, window.direction], window, value, "both captures")


def _waits(view: RunView, to: Side) -> list[tuple[Capture, npt.NDArray[np.float64]]] | None:
    """On each path, the packets in one direction that arrived, and how long each waited, ms; None without captures."""
    waits = []
    for path in view.every_path:
        direction = path.directions.get(to)
        if direction is None:
            return None
        arrived = direction.passage.arrived
        entered = direction.passage.entered.select(arrived)
        waits.append((entered, (direction.departures_ns()[arrived] - entered.t_ns) / 1e6))
    return waits


def _within(window: TransferWindow, entered: Capture) -> npt.NDArray[np.bool_]:
    """Which packets belong to a transfer."""
    own = (entered.flow == window.transfer.flow) & (entered.t_ns >= window.start_ns) & (entered.t_ns < window.end_ns)
    return np.asarray(own, np.bool_)
