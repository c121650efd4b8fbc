"""All flows of a run together: sums, and how evenly they share.

Over all flows, unresponsive ones too, as CCPerf does it; fairness among the flows with congestion control stands
beside it, as "…_responsive", where others run with them. "…_samples" is the mean of the index over the samples of 0.1 s
in which at least two flows were active throughout, "…_means" the index of the flows' mean throughputs: flows that
take turns are unfair by the first and fair by the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from harness.metrics.flows.flow import SharedFlow, flows_of, left_out
from harness.metrics.flows.rates import mean_rate
from harness.metrics.flows.state import shares_of_bdp
from harness.metrics.registry import Finding, metric
from harness.metrics.series import NETWORK
from harness.metrics.series.grid import BIN, GRID, beginnings
from harness.metrics.series.network import samples
from harness.metrics.view import RunView
from harness.outcome import Direction, Measurement
from harness.stats import entropy, jain, product


def _together(view: RunView) -> tuple[SharedFlow, ...]:
    """The flows of a run with several; else none."""
    flows = flows_of(view)
    return flows if len(flows) > 1 else ()


def _table(flows: Sequence[SharedFlow]) -> tuple[int, np.ndarray]:
    """Number of the first sample; throughput of each flow in each sample, NaN where it was not active throughout."""
    lives = {flow.number: flow.life for flow in flows}
    return samples({flow.number: flow.points("throughput") for flow in flows}, lives, lives)


def _measured(
    name: str, value: float, unit: str, direction: Direction = "higher", vantage: str = "captures"
) -> Finding:
    return Measurement(name=name, value=float(value), unit=unit, direction=direction, vantage=vantage)


@metric
def rates(view: RunView) -> Iterator[Finding]:
    """agg_throughput, agg_sending_rate (Mbit/s): mean over time of the sum over the flows.

    From the first flow's start to the last one's end. CCPerf's mean_agg_throughput_l4.
    agg_utilisation_bandwidth (1): that throughput by the rate of the link, mean over the samples; only where all flows
    send in one direction. CCPerf's mean_agg_utilization_bw_l4.
    """
    flows = _together(view)
    if not flows or view.series is None:
        return
    first, last = min(flow.life.bins[0] for flow in flows), max(flow.life.bins[1] for flow in flows)
    for name in ("throughput", "sending_rate"):
        points = view.series.points(NETWORK, name)
        inside = (np.round(points.t / BIN) >= first) & (np.round(points.t / BIN) <= last)
        total = np.zeros(max(last - first + 1, 0))
        total[np.round(points.t[inside] / BIN).astype(np.int64) - first] = points.value[inside]
        if not len(total):
            continue
        yield _measured(f"agg_{name}", total.mean(), "Mbit/s")
        if name == "throughput" and len({flow.facts.sender for flow in flows}) == 1:
            capacity = flows[0].capacity(beginnings(first, last))
            yield _measured("agg_utilisation_bandwidth", (total / capacity).mean(), "1")


@metric
def utilities(view: RunView) -> Iterator[Finding]:
    """agg_utility_pf (ln Mbit/s), agg_utility_mpdf (s/Mbit): mean over the samples of the sum over the active flows.

    Of ln x and -1/x (see `flows.rates.utilities`); a flow of which nothing arrived in a sample is left out of it.
    CCPerf's mean_agg_utility_pf_l4 and mean_agg_utility_mpdf_l4.
    """
    flows = _together(view)
    if not flows:
        return
    _, table = _table(flows)
    table = table[(~np.isnan(table)).any(axis=1)]
    if not len(table):
        return
    some = np.where(table > 0, table, np.nan)
    yield _measured("agg_utility_pf", np.nansum(np.log(some), axis=1).mean(), "ln Mbit/s")
    yield _measured("agg_utility_mpdf", np.nansum(-1 / some, axis=1).mean(), "s/Mbit")


@metric
def flight(view: RunView) -> Iterator[Finding]:
    """agg_in_flight (packets), agg_utilisation_bdp (1): mean over time of the sum over flows with congestion control.

    Over the time in which at least one of them runs; absent where one does not tell. CCPerf's mean_agg_in_flight_l4
    and mean_agg_utilization_bdp_l4.
    """
    flows = [flow for flow in _together(view) if flow.responsive]
    silent = [flow for flow in flows if not len(flow.points("in_flight").t)]
    yield from left_out("agg_in_flight and agg_utilisation_bdp, for want of in_flight", silent, "its sender tells none")
    if not flows or silent:
        return
    sums: dict[int, float] = {}
    shares: dict[int, float] = {}
    for flow in flows:
        points = flow.points("in_flight")
        for step, value, share in zip(
            np.round(points.t / GRID).astype(np.int64).tolist(), points.value, shares_of_bdp(flow), strict=True
        ):
            sums[step] = sums.get(step, 0.0) + value
            shares[step] = shares.get(step, 0.0) + share
    vantage = "qlog, tcp_info"
    yield _measured("agg_in_flight", float(np.mean(list(sums.values()))), "packets", "neutral", vantage)
    yield _measured("agg_utilisation_bdp", float(np.mean(list(shares.values()))), "1", "neutral", vantage)


@metric
def fairness(view: RunView) -> Iterator[Finding]:
    """jain_samples, jain_means (1): Jain's index (Σx)²/(n·Σx²) of the throughputs (RFC 5166 §2.3.1).

    entropy_samples, entropy_means (nat): -Σ p·ln p of their shares p = x/Σx, at most ln n. product_samples,
    product_means ((Mbit/s)ⁿ): Πx; per sample only where all flows were active, for the unit is another with fewer.
    CCPerf's mean_jains_fairness, mean_entropy_fairness and mean_product_fairness of throughput_l4.
    """
    flows = _together(view)
    yield from _fairness(flows, "")
    responsive = [flow for flow in flows if flow.responsive]
    if 1 < len(responsive) < len(flows):
        yield from _fairness(responsive, "_responsive")


def _fairness(flows: Sequence[SharedFlow], suffix: str) -> Iterator[Finding]:
    if not flows:
        return
    _, table = _table(flows)
    active = [row[~np.isnan(row)] for row in table]
    several = [row for row in active if len(row) > 1 and row.any()]
    whole = [row for row in several if len(row) == len(flows)]
    means = np.array([mean_rate(flow, flow.life.received) for flow in flows])
    indices: tuple[tuple[str, Callable[[Sequence[float]], float], str, list[np.ndarray]], ...] = (
        ("jain", jain, "1", several),
        ("entropy", entropy, "nat", several),
        ("product", product, f"(Mbit/s)^{len(flows)}", whole),
    )
    for name, index, unit, rows in indices:
        if rows:
            yield _measured(f"{name}_samples{suffix}", float(np.mean([index(row.tolist()) for row in rows])), unit)
        if means.any():
            yield _measured(f"{name}_means{suffix}", index(means.tolist()), unit)
