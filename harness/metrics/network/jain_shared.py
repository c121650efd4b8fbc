"""Jain's index while most flows are active."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.network.sharing import higher, shared_phases
from harness.metrics.registry import Finding, metric
from harness.metrics.shared_flow import flows_of
from harness.metrics.view import RunView


@metric
def jain_shared(view: RunView) -> Iterator[Finding]:
    """jain_shared (1): Jain's index in the phase in which most flows are active, the longest of such phases.

    (Σx)² / (n·Σx²) of the mean throughputs of its flows with congestion control. Source: the captures at the receivers'
    sides. R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.
    """
    most = max(shared_phases(flows_of(view)), key=lambda phase: (len(phase.flows), phase.seconds), default=None)
    if most is not None and len(most.flows) > 1:
        yield higher("jain_shared", most.jain(), "1")
