"""Sums over the flows of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from harness.metrics.network.together import flows_together, measured, throughputs
from harness.metrics.registry import Finding
from harness.metrics.series import NETWORK
from harness.metrics.series.grid import BIN, GRID, Floats
from harness.metrics.shared_flow import SharedFlow, left_out
from harness.metrics.view import RunView


def summed_rate(view: RunView, name: str) -> tuple[int, Floats]:
    """Number of the first bin, and the sum of a rate over the flows in each, Mbit/s; empty where there are not several.

    From the first flow's start to the last one's end.
    """
    flows = flows_together(view)
    if not flows:
        return 0, np.zeros(0)
    first, last = min(flow.life.bins[0] for flow in flows), max(flow.life.bins[1] for flow in flows)
    points = flows[0].series.points(NETWORK, name)
    bins = np.round(points.t / BIN)
    inside = (bins >= first) & (bins <= last)
    total = np.zeros(max(last - first + 1, 0))
    total[bins[inside].astype(np.int64) - first] = points.value[inside]
    return first, total


def mean_summed_rate(view: RunView, name: str) -> Iterator[Finding]:
    """agg_<name> (Mbit/s): the mean over time of that sum."""
    _, total = summed_rate(view, name)
    if len(total):
        yield measured(f"agg_{name}", total.mean(), "Mbit/s")


def mean_summed_utility(view: RunView, name: str, unit: str, utility: Callable[[Floats], Floats]) -> Iterator[Finding]:
    """The mean over the samples of the sum over the active flows of the utility of their throughputs in Mbit/s.

    A flow of which nothing arrived in a sample is left out of it.
    """
    table = throughputs(flows_together(view))
    table = table[(~np.isnan(table)).any(axis=1)]
    if len(table):
        some = np.where(table > 0, table, np.nan)
        yield measured(name, np.nansum(utility(some), axis=1).mean(), unit)


def mean_summed_flight(
    view: RunView, name: str, unit: str, amount: Callable[[SharedFlow], Floats]
) -> Iterator[Finding]:
    """The mean over time of the sum of an amount, given at the points of in_flight, over flows with congestion control.

    Over the time in which at least one of them runs; absent where one does not tell, with a caution: the same one from
    both that are made so.
    """
    flows = [flow for flow in flows_together(view) if flow.responsive]
    silent = [flow for flow in flows if not len(flow.points("in_flight").t)]
    yield from left_out("agg_in_flight and agg_utilisation_bdp, for want of in_flight", silent, "its sender tells none")
    if not flows or silent:
        return
    sums: dict[int, float] = {}
    for flow in flows:
        steps = np.round(flow.points("in_flight").t / GRID).astype(np.int64)
        for step, value in zip(steps.tolist(), amount(flow), strict=True):
            sums[step] = sums.get(step, 0.0) + value
    yield measured(name, float(np.mean(list(sums.values()))), unit, "neutral", "qlog, tcp_info")
