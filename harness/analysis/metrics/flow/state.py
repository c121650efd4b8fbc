"""A sender's window, flight and round trips, by its qlog (QUIC) or its kernel (TCP), and what follows from them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from harness.analysis.metrics.kinds import Absent, Figure, Told, flow_metric
from harness.analysis.shared_flow import NOT_TOLD, SharedFlow
from harness.analysis.timeseries.grid import BIN, Floats
from harness.analysis.timeseries.sender import base_rtt_ms, usual_frame


@flow_metric(
    unit="packets", better="neutral", title="congestion window, mean over time",
    formula="Σ cwnd / n over the points of that series",
    source="qlog's congestion_window by the payload of its usual datagram (RFC 9002 §7); tcpi_snd_cwnd (RFC 5681 §2); "
    "CCPerf's mean_cwnd_l4",
)  # fmt: skip
def mean_cwnd(flow: SharedFlow) -> Told:
    """How much a sender's congestion control allowed it to have in flight."""
    return _mean(flow, "cwnd")


@flow_metric(
    unit="packets", better="neutral", title="what was sent and neither known to have arrived nor lost, mean over time",
    formula="Σ in_flight / n over the points of that series",
    source="qlog's bytes_in_flight (RFC 9002 §2) by the payload of its usual datagram; tcp_info: packets out less "
    "those lost (less those selectively acknowledged and more those sent again, where the samples have these); "
    "CCPerf's mean_in_flight_l4",
)  # fmt: skip
def mean_in_flight(flow: SharedFlow) -> Told:
    """How much a sender had in flight."""
    return _mean(flow, "in_flight")


@flow_metric(
    unit="ms", better="lower", title="smoothed round-trip time, mean over time, from its first sample",
    formula="Σ srtt / n over the points of that series",
    source="qlog's smoothed_rtt (RFC 9002 §5.3); tcpi_rtt (RFC 6298); CCPerf's mean_srtt_l4",
)  # fmt: skip
def mean_srtt(flow: SharedFlow) -> Told:
    """The round trip as a sender sees it."""
    return _mean(flow, "srtt")


def _mean(flow: SharedFlow, series: str) -> Told:
    if not flow.responsive:
        return None
    points = flow.points(series)
    return Figure(points.value.mean(), flow.sender_tells) if len(points.t) else Absent(NOT_TOLD)


@flow_metric(
    unit="ms", better="lower", title="the queue's delay as a sender can tell it", formula="mean_srtt - min(min_rtt)",
    source="qlog's min_rtt (where it has none, latest_rtt); tcpi_min_rtt; CCPerf's mean_est_qdelay_l4",
)  # fmt: skip
def mean_est_queue_delay(flow: SharedFlow) -> Told:
    """As the sender sees it: queues in both directions and delayed acknowledgements are in it."""
    if not flow.responsive:
        return None
    srtt = flow.points("srtt").value
    least = flow.series.states[flow.number]["min_rtt"].min() if len(srtt) else None
    if not isinstance(least, float):
        return Absent("the sender tells no round-trip times")
    return Figure(srtt.mean() - least, flow.sender_tells)


@flow_metric(
    unit="1", better="lower", title="coefficient of variation of what is in flight",
    formula="√(Σ (x - x̄)² / n) / x̄ over the points of the series in_flight",
    source="as mean_in_flight; CCPerf's cov_in_flight_l4",
)  # fmt: skip
def cov_in_flight(flow: SharedFlow) -> Told:
    """How much what a sender has in flight varies."""
    value = flow.points("in_flight").value
    return Figure(value.std() / value.mean(), flow.sender_tells) if len(value) and value.mean() > 0 else None


@flow_metric(
    unit="Mbit/s²", better="higher", title="network power: throughput by the mean smoothed round-trip time",
    formula="Σ (x / srtt) / n over the samples, x in Mbit/s, srtt in s; samples without a round-trip time are left out",
    source="capture at the receiver's side, with qlog or tcp_info; L. Kleinrock, Power and deterministic rules of "
    "thumb, ICC 1979; CCPerf's mean_network_power_l4",
)  # fmt: skip
def network_power(flow: SharedFlow) -> Told:
    """What throughput a flow gets for its delay."""
    rates, srtt = flow.samples("throughput"), flow.points("srtt")
    bins = np.floor(srtt.t / BIN + 1e-6).astype(np.int64)
    ratios = [
        rate / (srtt.value[inside].mean() / 1e3)
        for t, rate in zip(rates.t, rates.value, strict=True)
        if (inside := bins == round(t / BIN)).any()
    ]
    return Figure(float(np.mean(ratios)), f"captures, {flow.sender_tells}") if ratios else None


@flow_metric(
    unit="1", better="neutral", title="what is in flight by what the path holds without a queue, mean over time",
    formula="Σ (in_flight·frame / (rate·rtt)) / n: in packets of the flow's usual frame; the link's rate by the round "
    "trip without queues",
    source="as mean_in_flight; lab.json; CCPerf's mean_utilization_bdp_l4",
)  # fmt: skip
def utilisation_bdp(flow: SharedFlow) -> Told:
    """How much of what its path holds a flow has in flight."""
    share = shares_of_bdp(flow)
    return Figure(share.mean(), flow.sender_tells) if len(share) else None


def shares_of_bdp(flow: SharedFlow) -> Floats:
    """in_flight at each of its points as a share of the path's BDP; empty without lab.json, and on several paths."""
    rtt_ms = base_rtt_ms(flow.view, flow.facts)
    in_flight = flow.points("in_flight")
    if rtt_ms is None or not len(in_flight.t) or len({path for _, path in flow.stays}) > 1:
        return np.zeros(0)
    bdp = flow.capacity(in_flight.t) * 1e6 / 8 * _round_trips_ms(flow, in_flight.t, rtt_ms) / 1e3
    held = in_flight.value * usual_frame(flow.lifetime.sent)
    return np.asarray(held[bdp > 0] / bdp[bdp > 0])


def _round_trips_ms(flow: SharedFlow, t: Floats, first_ms: float) -> Floats:
    """The path's round trip without queues at each moment, ms: `first_ms` at first, then as its delays change."""
    found = np.full(len(t), first_ms)
    for direction in flow.view.of_path(flow.facts.path).directions.values():
        for before, after in pairwise(direction.phases):
            found[t >= (after.start_ns - flow.series.zero_ns) / 1e9] += (after.delay_ns - before.delay_ns) / 1e6
    return found
