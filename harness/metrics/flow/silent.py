"""Flows that have no metrics."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.registry import Caution, Finding, metric
from harness.metrics.view import RunView


@metric
def silent(view: RunView) -> Iterator[Finding]:
    """No figure, only a caution: a flow of which nothing arrived has no metrics."""
    if not view.shared or view.lab is None or view.series is None:
        return
    for facts in view.lab.flows:
        if facts.flow not in view.series.lives:
            yield Caution(f"nothing of flow {facts.flow} arrived at its receiver's side: it has no metrics")
