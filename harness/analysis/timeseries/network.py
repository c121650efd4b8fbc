"""All flows together: sums, and Jain's index in time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from harness.analysis.timeseries.grid import BIN, GRID, NOTHING, Points, beginnings
from harness.analysis.timeseries.lifetimes import Lifetime
from harness.stats.intervals import jain

#: Name → the width of its steps.
_SUMMED = {"throughput": BIN, "sending_rate": BIN, "drops": BIN, "in_flight": GRID}


def network_series(
    found: Mapping[tuple[int, str], Points], lifetimes: Mapping[int, Lifetime], responsive: set[int]
) -> dict[str, Points]:
    """Sums over the flows that have a series, and jain (jain_responsive where not all flows are responsive)."""
    made = {
        name: _sum([found[flow, name] for flow in lifetimes if (flow, name) in found], width)
        for name, width in _SUMMED.items()
    }
    rates = {flow: found[flow, "throughput"] for flow in lifetimes}
    made["jain"] = _fairness(rates, lifetimes, lifetimes)
    if 0 < len(responsive & set(lifetimes)) < len(lifetimes):
        made["jain_responsive"] = _fairness(rates, lifetimes, responsive & set(lifetimes))
    return made


def _steps(points: Points, width: float) -> np.ndarray:
    return np.round(points.t / width).astype(np.int64)


def _sum(parts: list[Points], width: float) -> Points:
    parts = [part for part in parts if len(part.t)]
    if not parts:
        return NOTHING
    steps = [_steps(part, width) for part in parts]
    first, last = min(step[0] for step in steps), max(step[-1] for step in steps)
    total = np.zeros(last - first + 1)
    for step, part in zip(steps, parts, strict=True):
        total[step - first] += part.value
    return Points(np.arange(first, last + 1) / round(1 / width), total)


def samples(
    rates: Mapping[int, Points], lifetimes: Mapping[int, Lifetime], chosen: Iterable[int]
) -> tuple[int, np.ndarray]:
    """Rates of the chosen flows in each bin from the first one given; NaN where a flow was not active all through.

    Shape (bins, flows).
    """
    flows = [flow for flow in chosen if lifetimes[flow].bins[1] >= lifetimes[flow].bins[0]]
    if not flows:
        return 0, np.zeros((0, 0))
    first, last = min(lifetimes[flow].bins[0] for flow in flows), max(lifetimes[flow].bins[1] for flow in flows)
    table = np.full((last - first + 1, len(flows)), np.nan)
    for column, flow in enumerate(flows):
        steps, (begin, end) = _steps(rates[flow], BIN), lifetimes[flow].bins
        inside = (steps >= begin) & (steps <= end)
        table[steps[inside] - first, column] = rates[flow].value[inside]
    return first, table


def _fairness(rates: Mapping[int, Points], lifetimes: Mapping[int, Lifetime], chosen: Iterable[int]) -> Points:
    first, table = samples(rates, lifetimes, chosen)
    active = [row[~np.isnan(row)] for row in table]
    value = np.array([jain(row) if len(row) > 1 and row.any() else np.nan for row in active])
    some = ~np.isnan(value)
    return Points(beginnings(first, first + len(table) - 1)[some], value[some])
