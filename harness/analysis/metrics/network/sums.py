"""Sums over the flows of a run with several."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from harness.analysis.flow_throughputs import throughputs
from harness.analysis.metrics.flow.state import shares_of_bdp
from harness.analysis.metrics.flow.utility import logarithm, potential_delay
from harness.analysis.metrics.kinds import Absent, Figure, Told, network_metric
from harness.analysis.shared_flow import SharedFlow
from harness.analysis.timeseries import NETWORK
from harness.analysis.timeseries.grid import BIN, GRID, Floats, beginnings
from harness.formatting import flows_named

_CAPTURES = "captures"


@network_metric(
    unit="Mbit/s", better="higher", title="sum of the throughputs, mean over time",
    formula="Σ Σᵢ xᵢ / n over the samples, from the first flow's start to the last one's end",
    source="captures at the receivers' sides; RFC 5166 §2.1.1; CCPerf's mean_agg_throughput_l4",
)  # fmt: skip
def agg_throughput(flows: Sequence[SharedFlow]) -> Told:
    """How fast all flows' payload reached their receivers."""
    return _mean_rate(flows, "throughput")


@network_metric(
    unit="Mbit/s", better="higher", title="sum of the rates at which payload left the senders, mean over time",
    formula="Σ Σᵢ xᵢ / n over the bins, from the first flow's start to the last one's end",
    source="captures at the senders' sides",
)  # fmt: skip
def agg_sending_rate(flows: Sequence[SharedFlow]) -> Told:
    """Beside agg_throughput: what was lost on the way is the difference."""
    return _mean_rate(flows, "sending_rate")


def _mean_rate(flows: Sequence[SharedFlow], name: str) -> Told:
    _, total = _summed_rate(flows, name)
    return Figure(total.mean(), _CAPTURES) if len(total) else None


def _summed_rate(flows: Sequence[SharedFlow], name: str) -> tuple[int, Floats]:
    """Number of the first bin, and the sum of a rate over the flows in each, Mbit/s."""
    first, last = min(flow.lifetime.bins[0] for flow in flows), max(flow.lifetime.bins[1] for flow in flows)
    points = flows[0].series.points(NETWORK, name)
    bins = np.round(points.t / BIN)
    inside = (bins >= first) & (bins <= last)
    total = np.zeros(max(last - first + 1, 0))
    total[bins[inside].astype(np.int64) - first] = points.value[inside]
    return first, total


@network_metric(
    unit="1", better="higher", title="share of the link's rate that all flows use together",
    formula="Σ (Σᵢ xᵢ / rate) / n over the samples, x the throughput; only where all flows send in one direction",
    source="captures at the receivers' sides; lab.json; CCPerf's mean_agg_utilization_bw_l4",
)  # fmt: skip
def agg_utilisation_bandwidth(flows: Sequence[SharedFlow]) -> Told:
    """From the first flow's start to the last one's end."""
    first, total = _summed_rate(flows, "throughput")
    if not len(total) or len({flow.facts.sender for flow in flows}) != 1:
        return None
    if len(flows[0].view.paths) > 1:
        return Absent("there are several paths, and no rate is that of all flows together")
    capacity = flows[0].capacity(beginnings(first, first + len(total) - 1))
    return Figure((total / capacity).mean(), _CAPTURES)


@network_metric(
    unit="packets", better="neutral",
    title="sum of what the senders with congestion control have in flight, mean over time",
    formula="Σ Σᵢ in_flightᵢ / n over the points of time at which at least one of them runs",
    source="as mean_in_flight; CCPerf's mean_agg_in_flight_l4",
)  # fmt: skip
def agg_in_flight(flows: Sequence[SharedFlow]) -> Told:
    """Absent where one does not tell."""
    return _mean_flight(flows, lambda flow: flow.points("in_flight").value)


@network_metric(
    unit="1", better="neutral",
    title="what the path holds without a queue, and how much of it the senders have in flight",
    formula="Σ Σᵢ (in_flightᵢ·frameᵢ / (rate·rttᵢ)) / n over the points of time at which at least one of them runs",
    source="as utilisation_bdp; CCPerf's mean_agg_utilization_bdp_l4",
)  # fmt: skip
def agg_utilisation_bdp(flows: Sequence[SharedFlow]) -> Told:
    """Absent where one does not tell."""
    return _mean_flight(flows, shares_of_bdp)


def _mean_flight(flows: Sequence[SharedFlow], amount: Callable[[SharedFlow], Floats]) -> Told:
    """The mean over time of the sum of an amount over flows with congestion control, given where in_flight is."""
    responsive = [flow for flow in flows if flow.responsive]
    silent = [flow.number for flow in responsive if not len(flow.points("in_flight").t)]
    if silent:
        return Absent(f"the sender of {flows_named(silent)} does not tell in_flight")
    if not responsive:
        return None
    sums: dict[int, float] = {}
    for flow in responsive:
        steps = np.round(flow.points("in_flight").t / GRID).astype(np.int64)
        for step, value in zip(steps.tolist(), amount(flow), strict=True):
            sums[step] = sums.get(step, 0.0) + value
    return Figure(float(np.mean(list(sums.values()))), "qlog, tcp_info")


@network_metric(
    unit="ln Mbit/s", better="higher", title="sum of the utilities that proportional fairness maximises",
    formula="Σ Σᵢ ln xᵢ / n over the samples and the active flows, x in Mbit/s; a flow of which nothing arrived in a "
    "sample is left out of it",
    source="captures at the receivers' sides; RFC 5166 §2.3.1; CCPerf's mean_agg_utility_pf_l4",
)  # fmt: skip
def agg_utility_pf(flows: Sequence[SharedFlow]) -> Told:
    """See utility_pf."""
    return _mean_utility(flows, logarithm)


@network_metric(
    unit="s/Mbit", better="higher", title="sum of the utilities that minimum potential delay fairness maximises",
    formula="Σ Σᵢ (-1/xᵢ) / n over the samples and the active flows, x in Mbit/s; a flow of which nothing arrived in a "
    "sample is left out of it",
    source="captures at the receivers' sides; RFC 5166 §2.3.1; CCPerf's mean_agg_utility_mpdf_l4",
)  # fmt: skip
def agg_utility_mpdf(flows: Sequence[SharedFlow]) -> Told:
    """See utility_mpdf."""
    return _mean_utility(flows, potential_delay)


def _mean_utility(flows: Sequence[SharedFlow], utility: Callable[[Floats], Floats]) -> Told:
    table = throughputs(flows)
    table = table[(~np.isnan(table)).any(axis=1)]
    if not len(table):
        return None
    return Figure(np.nansum(utility(np.where(table > 0, table, np.nan)), axis=1).mean(), _CAPTURES)
