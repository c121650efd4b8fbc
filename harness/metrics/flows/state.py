"""A sender's window, flight and round trips: from its qlog (QUIC) or its kernel (TCP)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from harness.metrics.flows.flow import SharedFlow, flows_of, left_out
from harness.metrics.registry import Finding, metric
from harness.metrics.series.grid import BIN
from harness.metrics.series.sender import base_rtt_ms, usual_frame
from harness.metrics.view import RunView

_VANTAGE = {"quic": "qlog", "tcp": "tcp_info"}


def _tellers(view: RunView, series: str) -> tuple[list[SharedFlow], list[SharedFlow]]:
    """The flows with congestion control: those whose sender tells a series, and those whose does not."""
    responsive = [flow for flow in flows_of(view) if flow.responsive]
    telling = [flow for flow in responsive if len(flow.points(series).t)]
    return telling, [flow for flow in responsive if flow not in telling]


def _mean(view: RunView, series: str, unit: str, direction: Literal["higher", "lower", "neutral"]) -> Iterator[Finding]:
    telling, silent = _tellers(view, series)
    for flow in telling:
        value = flow.points(series).value.mean()
        yield flow.measurement(f"mean_{series}", value, unit, direction, _VANTAGE[flow.facts.kind])
    yield from left_out(f"mean_{series}", silent, "neither a qlog nor tcp_info of the sender shows it")


@metric
def window(view: RunView) -> Iterator[Finding]:
    """mean_cwnd (packets): mean over time of the congestion window; QUIC's by the payload of its usual datagram.

    CCPerf's mean_cwnd_l4.
    """
    yield from _mean(view, "cwnd", "packets", "neutral")


@metric
def flight(view: RunView) -> Iterator[Finding]:
    """mean_in_flight (packets): mean over time of what was sent and neither known to have arrived nor lost.

    QUIC: bytes_in_flight by the payload of its usual datagram. TCP: packets out less those lost (less those selectively
    acknowledged and more those sent again, where the samples have these). CCPerf's mean_in_flight_l4.
    """
    yield from _mean(view, "in_flight", "packets", "neutral")


@metric
def round_trips(view: RunView) -> Iterator[Finding]:
    """mean_srtt (ms): mean over time of the smoothed round-trip time (RFC 6298, RFC 9002 §5.3), from its first sample.

    CCPerf's mean_srtt_l4.
    """
    yield from _mean(view, "srtt", "ms", "lower")


@metric
def estimated_queue_delay(view: RunView) -> Iterator[Finding]:
    """mean_est_queue_delay (ms): mean smoothed round-trip time less the smallest the sender knows of.

    As the sender sees it: queues in both directions and delayed acknowledgements are in it. CCPerf's
    mean_est_qdelay_l4.
    """
    telling, silent = _tellers(view, "srtt")
    for flow in telling:
        least = flow.series.states[flow.number]["min_rtt"].min()
        if not isinstance(least, float):
            silent.append(flow)
            continue
        value = flow.points("srtt").value.mean() - least
        yield flow.measurement("mean_est_queue_delay", value, "ms", "lower", _VANTAGE[flow.facts.kind])
    yield from left_out("mean_est_queue_delay", silent, "the sender tells no round-trip times")


@metric
def variation(view: RunView) -> Iterator[Finding]:
    """cov_in_flight (1): standard deviation of in_flight over time by its mean. CCPerf's cov_in_flight_l4."""
    for flow in _tellers(view, "in_flight")[0]:
        value = flow.points("in_flight").value
        if value.mean() > 0:
            vantage = _VANTAGE[flow.facts.kind]
            yield flow.measurement("cov_in_flight", value.std() / value.mean(), "1", "lower", vantage)


@metric
def network_power(view: RunView) -> Iterator[Finding]:
    """network_power (Mbit/s²): mean over the samples of throughput by the mean smoothed round-trip time within each.

    L. Kleinrock, Power and deterministic rules of thumb, ICC 1979; CCPerf's mean_network_power_l4, in Mbit/s by s.
    """
    for flow in _tellers(view, "srtt")[0]:
        rates, srtt = flow.samples("throughput"), flow.points("srtt")
        bins = np.floor(srtt.t / BIN + 1e-6).astype(np.int64)
        ratios = [
            rate / (srtt.value[inside].mean() / 1e3)
            for t, rate in zip(rates.t, rates.value, strict=True)
            if (inside := bins == round(t / BIN)).any()
        ]
        if ratios:
            vantage = f"captures, {_VANTAGE[flow.facts.kind]}"
            yield flow.measurement("network_power", float(np.mean(ratios)), "Mbit/s²", "higher", vantage)


@metric
def utilisation(view: RunView) -> Iterator[Finding]:
    """utilisation_bdp (1): mean over time of what is in flight by what the path holds without a queue.

    In flight in packets of the flow's usual frame; the BDP is the link's rate by the round trip without queues.
    CCPerf's mean_utilization_bdp_l4.
    """
    for flow in _tellers(view, "in_flight")[0]:
        share = shares_of_bdp(flow)
        if len(share):
            yield flow.measurement("utilisation_bdp", share.mean(), "1", "neutral", _VANTAGE[flow.facts.kind])


def shares_of_bdp(flow: SharedFlow) -> np.ndarray:
    """in_flight at each of its points as a share of the path's BDP; empty without lab.json."""
    rtt_ms = base_rtt_ms(flow.view, flow.facts)
    if rtt_ms is None:
        return np.zeros(0)
    in_flight = flow.points("in_flight")
    bdp = flow.capacity(in_flight.t) * 1e6 / 8 * rtt_ms / 1e3
    return np.asarray(in_flight.value * usual_frame(flow.life.sent) / bdp)
