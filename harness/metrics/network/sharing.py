"""How flows share a bottleneck while the same ones are active."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from harness.metrics.shared_flow import SharedFlow
from harness.outcome import Measurement
from harness.stats import jain


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

    def jain(self) -> float:
        """Jain's index of the mean throughputs of its flows with congestion control."""
        return jain([throughput(flow, self) for flow in self.flows])


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


def shared_phases(flows: Sequence[SharedFlow]) -> list[Phase]:
    """The same, where there are at least two flows with congestion control in all; else none."""
    return phases(flows) if sum(flow.responsive for flow in flows) > 1 else []


def _end(flow: SharedFlow) -> float:
    """A flow's stop, or where it has none its last arrival, s since time zero."""
    return flow.life.end_ns / 1e9 if flow.facts.stop is None else flow.facts.stop


def throughput(flow: SharedFlow, phase: Phase) -> float:
    """Mbit/s of UDP or TCP payload that arrived at a flow's receiver in a phase."""
    received = flow.life.received
    at = (received.t_ns - flow.life.zero_ns) / 1e9
    inside = (at >= phase.start) & (at < phase.end)
    return float(received.payload[inside].sum()) * 8 / phase.seconds / 1e6


def higher(name: str, value: float, unit: str) -> Measurement:
    """A measurement of which more is better."""
    return Measurement(name=name, value=value, unit=unit, direction="higher", vantage="both captures")
