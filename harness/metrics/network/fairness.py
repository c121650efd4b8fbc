"""An index of fairness over a run: per sample, then the mean; and of the means."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from harness.metrics.network.together import flows_together, measured, throughputs
from harness.metrics.registry import Finding
from harness.metrics.shared_flow import SharedFlow
from harness.metrics.view import RunView

Index = Callable[[Sequence[float]], float]


def over_samples_and_means(
    view: RunView, name: str, index: Index, unit: Callable[[int], str], *, all_active: bool = False
) -> Iterator[Finding]:
    """<name>_samples and <name>_means of the throughputs in Mbit/s; and both "_responsive" (see `metrics.network`).

    `unit` is that of the index over so many flows. With `all_active` samples count in which every flow was active, else
    those in which two were; those in which nothing at all arrived never do.
    """
    flows = flows_together(view)
    responsive = [flow for flow in flows if flow.responsive]
    groups: list[tuple[str, Sequence[SharedFlow]]] = [("", flows)] if flows else []
    if 1 < len(responsive) < len(flows):
        groups.append(("_responsive", responsive))
    for suffix, group in groups:
        active = [row[~np.isnan(row)] for row in throughputs(group)]
        least = len(group) if all_active else 2
        rows = [row for row in active if len(row) >= least and row.any()]
        if rows:
            value = float(np.mean([index(row.tolist()) for row in rows]))
            yield measured(f"{name}_samples{suffix}", value, unit(len(group)))
        means = np.array([flow.mean_rate(flow.life.received) for flow in group])
        if means.any():
            yield measured(f"{name}_means{suffix}", index(means.tolist()), unit(len(group)))
