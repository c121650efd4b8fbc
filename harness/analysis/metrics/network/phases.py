"""How flows share a bottleneck while the same ones are active."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.metrics.kinds import Absent, Figure, Told, network_metric
from harness.analysis.metrics.registry import Finding, declare, measures
from harness.analysis.run_view import RunView
from harness.analysis.shared_flow import SharedFlow, flows_of
from harness.analysis.timeseries import BOTTLENECK
from harness.analysis.timeseries.grid import BIN
from harness.outcome import Absence
from harness.stats import intervals

_JAIN_SOURCE = "captures at the receivers' sides; R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984"
_THROUGHPUT = declare(
    "throughput", layer="flow", unit="Mbit/s", better="higher", title="throughput in a phase",
    formula="8·Σ payload of UDP or TCP that arrived in it / its length", source="capture at the receiver's side",
)  # fmt: skip
_JAIN = declare(
    "jain", layer="network", unit="1", better="higher",
    title="Jain's index in a phase, where two flows at least share it",
    formula="(Σx)² / (n·Σx²) of the mean throughputs of its flows with congestion control", source=_JAIN_SOURCE,
)  # fmt: skip


@dataclass(frozen=True)
class Phase:
    """A time in which the same flows with congestion control are active, by their starts and stops as planned.

    It counts from its first moment, convergence included.
    """

    number: int
    """From 1, in order of time."""
    start: float
    end: float
    """s since time zero."""
    flows: tuple[SharedFlow, ...]

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end - self.start

    def jain(self) -> float | Absent:
        """Jain's index of the mean throughputs of its flows with congestion control; of nothing there are no shares."""
        shares = [throughput(flow, self) for flow in self.flows]
        return intervals.jain(shares) if any(shares) else Absent(f"nobody received anything in phase {self.number}")


def phases(flows: Sequence[SharedFlow]) -> list[Phase]:
    """The phases of a run in which at least one flow with congestion control is active."""
    spans = [(flow, flow.facts.start, _end(flow)) for flow in flows if flow.responsive]
    moments = sorted({moment for _, start, end in spans for moment in (start, end)})
    found: list[Phase] = []
    for begin, end in itertools.pairwise(moments):
        active = tuple(flow for flow, start, stop in spans if start <= begin and end <= stop)
        if active:
            found.append(Phase(len(found) + 1, begin, end, active))
    return found


def _shared(flows: Sequence[SharedFlow]) -> list[Phase]:
    """The same, where there are at least two flows with congestion control in all; else none."""
    return phases(flows) if sum(flow.responsive for flow in flows) > 1 else []


def _end(flow: SharedFlow) -> float:
    """A flow's stop, or where it has none its last arrival, s since time zero."""
    return flow.lifetime.end_ns / 1e9 if flow.facts.stop is None else flow.facts.stop


def throughput(flow: SharedFlow, phase: Phase) -> float:
    """Mbit/s of UDP or TCP payload that arrived at a flow's receiver in a phase."""
    received = flow.lifetime.received
    at = (received.t_ns - flow.lifetime.zero_ns) / 1e9
    inside = (at >= phase.start) & (at < phase.end)
    return float(received.payload[inside].sum()) * 8 / phase.seconds / 1e6


@measures
def by_phase(view: RunView) -> Iterator[Finding]:
    """In each phase the throughput of its flows, and of those without congestion control; and Jain's index."""
    flows = flows_of(view)
    for phase in _shared(flows):
        for flow in flows:
            if flow in phase.flows or not flow.responsive:
                value = throughput(flow, phase)
                yield _THROUGHPUT.of(value, "both captures", flow=flow.number, phase=phase.number)
        if len(phase.flows) > 1:
            found = phase.jain()
            if isinstance(found, Absent):
                yield Absence(metric=_JAIN.name, why=found.why)
            else:
                yield _JAIN.of(found, "both captures", phase=phase.number)


@network_metric(
    unit="1", better="higher",
    title="Jain's index in the phase in which most flows are active, the longest of such phases",
    formula="(Σx)² / (n·Σx²) of the mean throughputs of its flows with congestion control", source=_JAIN_SOURCE,
)  # fmt: skip
def jain_shared(flows: Sequence[SharedFlow]) -> Told:
    """The one figure for a run whose flows come and go."""
    most = max(_shared(flows), key=lambda phase: (len(phase.flows), phase.seconds), default=None)
    if most is None or len(most.flows) < 2:
        return None
    found = most.jain()
    return found if isinstance(found, Absent) else Figure(found, "both captures")


@network_metric(
    unit="1", better="higher", least=1,
    title="share of what the bottleneck's rate allows that left it towards the clients",
    formula="Σ sent / Σ allowed, in frames, over the whole bins in which at least one flow with congestion control "
    "that sends this way is active",
    source="both captures (`series.bottleneck`); lab.json; RFC 9743 §5.1 asks for it beside fairness, which an idle "
    "link has too",
)  # fmt: skip
def utilisation_shared(flows: Sequence[SharedFlow]) -> Told:
    """A service process is counted by its mean rate."""
    sending = [flow for flow in flows if flow.responsive and flow.facts.sender == "server"]
    if not sending:
        return None
    rate = sending[0].series.points(BOTTLENECK, "sending_rate")
    active = np.zeros(len(rate.t), np.bool_)
    for phase in phases(sending):
        active |= (rate.t >= phase.start - 1e-9) & (rate.t + BIN <= phase.end + 1e-9)
    if not active.any():
        return None
    allowed = sending[0].capacity(rate.t[active])
    return Figure(float(rate.value[active].sum() / allowed.sum()), "both captures")
