"""Jain's index while the same flows are active."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.network.sharing import higher, shared_phases
from harness.metrics.registry import Finding, metric
from harness.metrics.shared_flow import flows_of
from harness.metrics.view import RunView


@metric
def phase_jain(view: RunView) -> Iterator[Finding]:
    """phaseN_jain (1): Jain's index of the mean throughputs of a phase's flows with congestion control.

    (Σx)² / (n·Σx²), in phases with at least two. Source: the captures at the receivers' sides. R. Jain, D. Chiu,
    W. Hawe, DEC-TR-301, 1984.
    """
    for phase in shared_phases(flows_of(view)):
        if len(phase.flows) > 1:
            yield higher(f"phase{phase.number}_jain", phase.jain(), "1")
