"""How flows share a bottleneck while the same ones are active."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.metrics.flows.flow import SharedFlow, flows_of
from harness.metrics.registry import Finding, metric
from harness.metrics.series import BOTTLENECK
from harness.metrics.series.grid import BIN
from harness.metrics.view import RunView
from harness.outcome import Measurement
from harness.stats import jain


@dataclass(frozen=True)
class Phase:
    """A time in which the same flows with congestion control are active, by their starts and stops as planned."""

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


def _end(flow: SharedFlow) -> float:
    """A flow's stop, or where it has none its last arrival, s since time zero."""
    return flow.life.end_ns / 1e9 if flow.facts.stop is None else flow.facts.stop


def throughput(flow: SharedFlow, phase: Phase) -> float:
    """Mbit/s of UDP or TCP payload that arrived at a flow's receiver in a phase."""
    received = flow.life.received
    at = (received.t_ns - flow.life.zero_ns) / 1e9
    inside = (at >= phase.start) & (at < phase.end)
    return float(received.payload[inside].sum()) * 8 / phase.seconds / 1e6


@metric
def shares(view: RunView) -> Iterator[Finding]:
    """phaseN_flowM_throughput (Mbit/s), phaseN_jain, jain_shared: shares while the same flows are active.

    Jain's index is that of the mean throughputs of a phase's flows with congestion control (R. Jain, D. Chiu,
    W. Hawe, DEC-TR-301, 1984); jain_shared is that of the phase in which most of them are active, the longest of
    such phases. A phase counts from its first moment, convergence included.
    """
    flows = flows_of(view)
    if sum(flow.responsive for flow in flows) < 2:
        return
    indices = {}
    found = phases(flows)
    for phase in found:
        name = f"phase{phase.number}"
        for flow in flows:
            if flow in phase.flows or not flow.responsive:
                yield _of(f"{name}_flow{flow.number}_throughput", throughput(flow, phase), "Mbit/s")
        if len(phase.flows) > 1:
            indices[phase.number] = jain([throughput(flow, phase) for flow in phase.flows])
            yield _of(f"{name}_jain", indices[phase.number], "1")
    most = max(found, key=lambda phase: (len(phase.flows), phase.seconds))
    if most.number in indices:
        yield _of("jain_shared", indices[most.number], "1")


@metric
def utilisation(view: RunView) -> Iterator[Finding]:
    """utilisation_shared: frames that left the bottleneck towards the clients, as a share of what its rate allows.

    Over the whole bins in which at least one flow with congestion control that sends this way is active; RFC 9743
    §5.1 asks for it beside fairness, which an idle link has too. A service process is counted by its mean rate.
    """
    flows = [flow for flow in flows_of(view) if flow.responsive and flow.facts.sender == "server"]
    if not flows:
        return
    rate = flows[0].series.points(BOTTLENECK, "sending_rate")
    active = np.zeros(len(rate.t), np.bool_)
    for phase in phases(flows):
        active |= (rate.t >= phase.start - 1e-9) & (rate.t + BIN <= phase.end + 1e-9)
    if active.any():
        allowed = flows[0].capacity(rate.t[active])
        yield _of("utilisation_shared", float(rate.value[active].sum() / allowed.sum()), "1")


def _of(name: str, value: float, unit: str) -> Measurement:
    return Measurement(name=name, value=value, unit=unit, direction="higher", vantage="both captures")
