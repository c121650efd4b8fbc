"""Metrics of all flows of a run together: sums, and how evenly they share.

They cover all flows, unresponsive ones too, as CCPerf does it. Fairness among the flows with congestion control is
reported separately, as "…_responsive", if other flows run with them. "…_samples" is the mean of the index over the
samples of 0.1 s in which at least two flows were active throughout. "…_means" is the index of the flows' mean
throughputs. Flows that take turns are unfair by the first and fair by the second.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.metric_registry import Finding, Metric, declare, measures
from harness.analysis.metrics.flow import logarithm, potential_delay, shares_of_bdp
from harness.analysis.metrics.kinds import Absent, MetricResult, Value, network_metric
from harness.analysis.run_view import RunView
from harness.analysis.shared_flows import SharedFlow, flows_of, throughputs
from harness.analysis.timeseries import NETWORK, bottleneck_number
from harness.analysis.timeseries.grid import BIN, GRID, Floats, bin_starts
from harness.formatting import format_flows
from harness.outcome import Absence
from harness.stats import intervals

# --- Indices of how evenly flows share: per sample of 0.1 s, then the mean; and of the flows' means.


Index = Callable[[Sequence[float]], float]
_SOURCE_PREFIX = "captures at the receivers' sides; "


def _declare_index(name: str, *, unit: str, title: str, formula: str, source: str) -> dict[tuple[str, str], Metric]:
    """An index as four metrics: over samples and of means, of all flows and of those with congestion control."""
    return {
        (over, among): declare(
            f"{name}_{over}{among}",
            layer="network",
            unit=unit,
            better="higher",
            title=f"{title}; {'mean over the samples' if over == 'samples' else 'of the mean throughputs'}"
            + (", flows with congestion control" if among else ""),
            formula=formula,
            source=_SOURCE_PREFIX + source,
        )
        for among in ("", "_responsive")
        for over in ("samples", "means")
    }


_JAIN = _declare_index(
    "jain",
    unit="1",
    title="Jain's index, 1 for equal throughputs, 1/n where one flow has all",
    formula="(Σx)² / (n·Σx²)",
    source="RFC 5166 §2.3.1; R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984; CCPerf's mean_jains_fairness_throughput_l4 "
    "is that over samples",
)
_ENTROPY = _declare_index(
    "entropy",
    unit="nat",
    title="entropy of the shares of the throughput, ln n for equal ones",
    formula="-Σ p·ln p with p = x/Σx",
    source="CCPerf's mean_entropy_fairness_throughput_l4",
)
_PRODUCT = _declare_index(
    "product",
    unit="(Mbit/s)^n",
    title="product of the throughputs, of one sum the largest for equal ones",
    formula="Πx",
    source="RFC 5166 §2.3.1; CCPerf's mean_product_fairness_throughput_l4",
)


@measures
def jain(view: RunView) -> Iterator[Finding]:
    """Jain's index."""
    return _over_samples_and_means(view, _JAIN, intervals.jain_index)


@measures
def entropy(view: RunView) -> Iterator[Finding]:
    """The entropy of the flows' shares."""
    return _over_samples_and_means(view, _ENTROPY, intervals.entropy)


@measures
def product(view: RunView) -> Iterator[Finding]:
    """Samples count only if all flows were active, because the unit is different with fewer."""
    return _over_samples_and_means(view, _PRODUCT, intervals.product, all_active=True)


def _over_samples_and_means(
    view: RunView, metrics: dict[tuple[str, str], Metric], index: Index, *, all_active: bool = False
) -> Iterator[Finding]:
    """An index of the throughputs in Mbit/s over samples and of means.

    With `all_active`, samples count in which every flow was active, otherwise those with at least two active flows.
    Samples without any received data never count.
    """
    flows = flows_of(view)
    if len(flows) < 2:
        return
    responsive = [flow for flow in flows if flow.responsive]
    groups: list[tuple[str, Sequence[SharedFlow]]] = [("", flows)]
    if 1 < len(responsive) < len(flows):
        groups.append(("_responsive", responsive))
    for among, group in groups:
        active = [row[~np.isnan(row)] for row in throughputs(group)]
        least = len(group) if all_active else 2
        rows = [row for row in active if len(row) >= least and row.any()]
        if rows:
            value = float(np.mean([index(row.tolist()) for row in rows]))
            yield metrics["samples", among].of(value, "captures", flows=len(group))
        means = np.array([flow.mean_rate(flow.lifetime.received) for flow in group])
        if means.any():
            yield metrics["means", among].of(index(means.tolist()), "captures", flows=len(group))


# --- How flows share a bottleneck while the same ones are active.


_JAIN_SOURCE = "captures at the receivers' sides; R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984"
_THROUGHPUT = declare(
    "throughput",
    layer="flow",
    unit="Mbit/s",
    better="higher",
    title="throughput in a phase",
    formula="8·Σ payload of UDP or TCP that arrived in it / its length",
    source="capture at the receiver's side",
)
_SHARED_JAIN = declare(
    "jain",
    layer="network",
    unit="1",
    better="higher",
    title="Jain's index in a phase, where two flows at least share it",
    formula="(Σx)² / (n·Σx²) of the mean throughputs of its flows with congestion control",
    source=_JAIN_SOURCE,
)


@dataclass(frozen=True)
class Phase:
    """A time in which the same flows with congestion control are active, by their planned starts and stops.

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
        """Its duration, s."""
        return self.end - self.start

    def jain(self) -> float | Absent:
        """Jain's index of the mean throughputs of its flows with congestion control; without data there are no
        shares.
        """
        shares = [throughput(flow, self) for flow in self.flows]
        return (
            intervals.jain_index(shares) if any(shares) else Absent(f"nobody received anything in phase {self.number}")
        )


def phases(flows: Sequence[SharedFlow]) -> list[Phase]:
    """The phases of a run in which at least one flow with congestion control is active."""
    spans = [(flow, flow.facts.start, _end(flow)) for flow in flows if flow.responsive]
    moments = sorted({moment for _, start, end in spans for moment in (start, end)})
    periods: list[Phase] = []
    for begin, end in itertools.pairwise(moments):
        active = tuple(flow for flow, start, stop in spans if start <= begin and end <= stop)
        if active:
            periods.append(Phase(len(periods) + 1, begin, end, active))
    return periods


def contended_phases(flows: Sequence[SharedFlow]) -> list[Phase]:
    """The phases, if there are at least two flows with congestion control in total; otherwise none."""
    return phases(flows) if sum(flow.responsive for flow in flows) > 1 else []


def _end(flow: SharedFlow) -> float:
    """A flow's stop, or its last arrival if it has none, s since time zero."""
    return flow.lifetime.end_ns / 1e9 if flow.facts.stop is None else flow.facts.stop


def throughput(flow: SharedFlow, phase: Phase) -> float:
    """Mbit/s of UDP or TCP payload that arrived at a flow's receiver in a phase."""
    received = flow.lifetime.received
    at = (received.t_ns - flow.lifetime.zero_ns) / 1e9
    inside = (at >= phase.start) & (at < phase.end)
    return float(received.payload[inside].sum()) * 8 / phase.seconds / 1e6


@measures
def by_phase(view: RunView) -> Iterator[Finding]:
    """For each phase the throughput of its flows, and of those without congestion control; and Jain's index."""
    flows = flows_of(view)
    for phase in contended_phases(flows):
        active = {flow.number for flow in phase.flows}
        for flow in flows:
            if flow.number in active or not flow.responsive:
                value = throughput(flow, phase)
                yield _THROUGHPUT.of(value, "both captures", flow=flow.number, phase=phase.number)
        if len(phase.flows) > 1:
            fairness = phase.jain()
            if isinstance(fairness, Absent):
                yield Absence(metric=_SHARED_JAIN.name, why=fairness.why)
            else:
                yield _SHARED_JAIN.of(fairness, "both captures", phase=phase.number)


@network_metric(
    unit="1",
    better="higher",
    title="Jain's index in the phase in which most flows are active, the longest of such phases",
    formula="(Σx)² / (n·Σx²) of the mean throughputs of its flows with congestion control",
    source=_JAIN_SOURCE,
)
def jain_shared(flows: Sequence[SharedFlow]) -> MetricResult:
    """A single figure for a run whose flows come and go."""
    busiest = max(contended_phases(flows), key=lambda phase: (len(phase.flows), phase.seconds), default=None)
    if busiest is None or len(busiest.flows) < 2:
        return None
    fairness = busiest.jain()
    return fairness if isinstance(fairness, Absent) else Value(fairness, "both captures")


@network_metric(
    unit="1",
    better="higher",
    least=1,
    title="share of what the bottleneck's rate allows that left it, in the direction of the data",
    formula="Σ sent / Σ allowed, in frames, over the whole bins in which at least one flow with congestion control "
    "that sends this way is active",
    source="both captures (`series.bottleneck`); lab.json; RFC 9743 §5.1 asks for it beside fairness, which an idle "
    "link has too",
)
def utilisation_shared(flows: Sequence[SharedFlow]) -> MetricResult:
    """A service process counts with its mean rate."""
    side = flows[0].view.data_side
    sending = [flow for flow in flows if flow.responsive and flow.side == side]
    if not sending:
        return None
    rate = sending[0].series.points(bottleneck_number(0, 1, side), "sending_rate")
    active = np.zeros(len(rate.t), np.bool_)
    for phase in phases(sending):
        active |= (rate.t >= phase.start - 1e-9) & (rate.t + BIN <= phase.end + 1e-9)
    if not active.any():
        return None
    allowed = sending[0].capacity(rate.t[active])
    return Value(float(rate.value[active].sum() / allowed.sum()), "both captures")


# --- Sums over the flows of a run with several.


_CAPTURES = "captures"


@network_metric(
    unit="Mbit/s",
    better="higher",
    title="sum of the throughputs, mean over time",
    formula="Σ Σᵢ xᵢ / n over the samples, from the first flow's start to the last one's end",
    source="captures at the receivers' sides; RFC 5166 §2.1.1; CCPerf's mean_agg_throughput_l4",
)
def agg_throughput(flows: Sequence[SharedFlow]) -> MetricResult:
    """How fast all flows' payload reached their receivers."""
    return _mean_rate(flows, "throughput")


@network_metric(
    unit="Mbit/s",
    better="higher",
    title="sum of the rates at which payload left the senders, mean over time",
    formula="Σ Σᵢ xᵢ / n over the bins, from the first flow's start to the last one's end",
    source="captures at the senders' sides",
)
def agg_sending_rate(flows: Sequence[SharedFlow]) -> MetricResult:
    """The difference to agg_throughput was lost on the way."""
    return _mean_rate(flows, "sending_rate")


def _mean_rate(flows: Sequence[SharedFlow], name: str) -> MetricResult:
    _, total = _summed_rate(flows, name)
    return Value(total.mean(), _CAPTURES) if len(total) else None


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
    unit="1",
    better="higher",
    title="share of the link's rate that all flows use together",
    formula="Σ (Σᵢ xᵢ / rate) / n over the samples, x the throughput; only where all flows send in one direction",
    source="captures at the receivers' sides; lab.json; CCPerf's mean_agg_utilization_bw_l4",
)
def agg_utilisation_bandwidth(flows: Sequence[SharedFlow]) -> MetricResult:
    """From the first flow's start to the last one's end."""
    first, total = _summed_rate(flows, "throughput")
    if not len(total) or len({flow.facts.sender for flow in flows}) != 1:
        return None
    if len(flows[0].view.paths) > 1:
        return Absent("there are several paths, and no rate is that of all flows together")
    capacity = flows[0].capacity(bin_starts(first, first + len(total) - 1))
    return Value((total / capacity).mean(), _CAPTURES)


@network_metric(
    unit="packets",
    better="neutral",
    title="sum of what the senders with congestion control have in flight, mean over time",
    formula="Σ Σᵢ in_flightᵢ / n over the points of time at which at least one of them runs",
    source="as mean_in_flight; CCPerf's mean_agg_in_flight_l4",
)
def agg_in_flight(flows: Sequence[SharedFlow]) -> MetricResult:
    """Absent if one sender does not report it."""
    return _mean_flight(flows, lambda flow: flow.points("in_flight").value)


@network_metric(
    unit="1",
    better="neutral",
    title="what the path holds without a queue, and how much of it the senders have in flight",
    formula="Σ Σᵢ (in_flightᵢ·frameᵢ / (rate·rttᵢ)) / n over the points of time at which at least one of them runs",
    source="as utilisation_bdp; CCPerf's mean_agg_utilization_bdp_l4",
)
def agg_utilisation_bdp(flows: Sequence[SharedFlow]) -> MetricResult:
    """Absent if one sender does not report it."""
    return _mean_flight(flows, shares_of_bdp)


def _mean_flight(flows: Sequence[SharedFlow], amount: Callable[[SharedFlow], Floats]) -> MetricResult:
    """The mean over time of the sum of an amount over flows with congestion control, at the points of in_flight."""
    responsive = [flow for flow in flows if flow.responsive]
    silent = [flow.number for flow in responsive if not len(flow.points("in_flight").t)]
    if silent:
        return Absent(f"the sender of {format_flows(silent)} does not tell in_flight")
    if not responsive:
        return None
    sums: dict[int, float] = {}
    for flow in responsive:
        steps = np.round(flow.points("in_flight").t / GRID).astype(np.int64)
        for step, value in zip(steps.tolist(), amount(flow), strict=True):
            sums[step] = sums.get(step, 0.0) + value
    return Value(float(np.mean(list(sums.values()))), "qlog, tcp_info")


@network_metric(
    unit="ln Mbit/s",
    better="higher",
    title="sum of the utilities that proportional fairness maximises",
    formula="Σ Σᵢ ln xᵢ / n over the samples and the active flows, x in Mbit/s; a flow of which nothing arrived in a "
    "sample is left out of it",
    source="captures at the receivers' sides; RFC 5166 §2.3.1; CCPerf's mean_agg_utility_pf_l4",
)
def agg_utility_pf(flows: Sequence[SharedFlow]) -> MetricResult:
    """See utility_pf."""
    return _mean_utility(flows, logarithm)


@network_metric(
    unit="s/Mbit",
    better="higher",
    title="sum of the utilities that minimum potential delay fairness maximises",
    formula="Σ Σᵢ (-1/xᵢ) / n over the samples and the active flows, x in Mbit/s; a flow of which nothing arrived in a "
    "sample is left out of it",
    source="captures at the receivers' sides; RFC 5166 §2.3.1; CCPerf's mean_agg_utility_mpdf_l4",
)
def agg_utility_mpdf(flows: Sequence[SharedFlow]) -> MetricResult:
    """See utility_mpdf."""
    return _mean_utility(flows, potential_delay)


def _mean_utility(flows: Sequence[SharedFlow], utility: Callable[[Floats], Floats]) -> MetricResult:
    table = throughputs(flows)
    table = table[(~np.isnan(table)).any(axis=1)]
    if not len(table):
        return None
    return Value(np.nansum(utility(np.where(table > 0, table, np.nan)), axis=1).mean(), _CAPTURES)
