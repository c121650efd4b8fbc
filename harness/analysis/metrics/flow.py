"""Metrics of each flow that shares a path, or is cut off at a time: CCPerf's, from real stacks.

A run of one file downloaded to its end has none of these; it has metrics of its own. A flow counts from its client's
first packet to its stop, or to its last arrival if it has none (see `harness.analysis.timeseries.lifetimes`). Samples
are the bins and grid points of the series (`harness.analysis.timeseries`) that lie wholly within that time. Means are
arithmetic. A figure that a flow's source does not expose is absent, with a reason. CCPerf: ccperf.net/metrics; most
metrics rest on RFC 5166.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from harness.analysis.arrival import resent_flags
from harness.analysis.delivery import FILE
from harness.analysis.metric_registry import Caution, Finding, measures
from harness.analysis.metrics.kinds import Absent, MetricResult, Value, flow_metric
from harness.analysis.run_view import RunView
from harness.analysis.shared_flows import NOT_REPORTED, SharedFlow, flows_of
from harness.analysis.timeseries.grid import BIN, Floats
from harness.analysis.timeseries.lifetimes import client_port
from harness.analysis.timeseries.sender import base_rtt_ms, trace_of, usual_frame
from harness.capture import artefacts
from harness.capture.counters import transfer_growth
from harness.capture.qlog import Losses
from harness.capture.tcp_info import read_iperf3
from harness.formatting import format_flows
from harness.scenario.parameters import peer_role

# --- Loss detection and recovery of a sender: from its qlog (QUIC), its kernel (TCP) or its segments.


#: A recovery period lasts a round trip at least (RFC 9002 §7.3.2); if a trace's periods are shorter than this share of
#: it, the trace does not show them.
_SHORTEST_PERIOD = 0.5


@flow_metric(
    unit="ms",
    better="lower",
    title="length of the periods of recovery that came to an end, mean",
    formula="Σ (end - begin) / n",
    source="qlog's congestion_state_updated (RFC 9002 §7.3.2); tcpi_ca_state in Recovery or Loss, as sampled every 20 "
    "ms; CCPerf's mean_recovery_time_l4",
)
def mean_recovery_time(flow: SharedFlow) -> MetricResult:
    """How long a sender's recovery from loss lasts."""
    if not flow.responsive:
        return None
    periods = _losses(flow).recoveries_ms
    if periods is None:
        return Absent(NOT_REPORTED)
    return Value(float(np.mean(periods)), flow.sender_state_vantage) if periods else None


@flow_metric(
    unit="packets",
    better="lower",
    title="segments sent again, or packets declared lost, whose data QUIC sends anew in other packets",
    formula="count over the whole connection",
    source="qlog's packet_lost (RFC 9000 §13.3); tcpi_total_retrans; of HTTPS the capture at the sender's side; "
    "CCPerf's total_retransmissions_l4",
)
def retransmissions(flow: SharedFlow) -> MetricResult:
    """The packets that a sender sent again."""
    return _count(flow, _losses(flow).lost) if flow.responsive else None


@flow_metric(
    unit="1",
    better="lower",
    title="expired retransmission timers, or probe timeouts",
    formula="count over the whole connection",
    source="qlog's loss_timer_updated, or the steps by which pto_count rose (RFC 9002 §6.2); tcpi_total_rto (RFC 6298 "
    "§5; Linux 6.7 on); CCPerf's total_rtos_l4",
)
def timeouts(flow: SharedFlow) -> MetricResult:
    """How often a sender's timer expired."""
    return _count(flow, _losses(flow).timeouts) if flow.responsive else None


def _count(flow: SharedFlow, value: int | None) -> MetricResult:
    return Absent(NOT_REPORTED) if value is None else Value(value, flow.sender_state_vantage)


def _losses(flow: SharedFlow) -> Losses:
    """The losses that the sender of a flow with congestion control reported."""
    if flow.facts.kind == "https":
        return _segment_losses(flow)
    return _kernel_losses(flow) if flow.facts.kind == "tcp" else _trace_losses(flow)


def _segment_losses(flow: SharedFlow) -> Losses:
    """Retransmissions by the capture; expired timers are not visible in it."""
    sent = flow.lifetime.sent
    resent = resent_flags(sent, client_port(sent, flow.facts.sender == "server"))
    return Losses(int(resent.sum()), None, None)


def _kernel_losses(flow: SharedFlow) -> Losses:
    rows = flow.view.tcp(flow.number)
    if rows is None or not len(rows):
        return Losses(None, None, None)
    counts = [
        None if (last := rows[name].drop_nulls()).is_empty() else int(last[-1])
        for name in ("total_retrans", "total_rto")
    ]
    states = rows.drop_nulls("ca_state")
    return Losses(counts[0], counts[1], _episodes(states) if len(states) else None)


def _episodes(rows: pl.DataFrame) -> tuple[float, ...]:
    """Lengths, ms, of completed runs of samples in Recovery or Loss, from their first sample to the first one after."""
    inside = np.concatenate(([False], rows["ca_state"].is_in(["recovery", "loss"]).to_numpy())).astype(np.int8)
    begins, ends = np.flatnonzero(np.diff(inside) == 1), np.flatnonzero(np.diff(inside) == -1)
    t_ms = rows["t_ns"].to_numpy() / 1e6
    return tuple(float(t_ms[end] - t_ms[begin]) for begin, end in zip(begins, ends, strict=False))


def _trace_losses(flow: SharedFlow) -> Losses:
    trace, rtt_ms = trace_of(flow.view, flow.number), base_rtt_ms(flow.view, flow.facts)
    if trace is None or rtt_ms is None:
        return Losses(None, None, None)
    logged = flow.view.losses(trace)
    periods = logged.recoveries_ms
    if periods and np.median(periods) < _SHORTEST_PERIOD * rtt_ms:
        periods = None  # the state is left at once: it marks the reduction, not the period
    lost = logged.lost
    if lost is None and not len(flow.points("drops").value.nonzero()[0]):
        lost = 0  # no packet was lost, and none was declared so
    return Losses(lost, logged.timeouts, periods)


# --- Rates of a flow's data: to its receiver, from its sender, between the applications, in acknowledgements.


#: A file larger than this multiple of the received payload was allocated in advance.
_AHEAD = 1.1


@flow_metric(
    unit="Mbit/s",
    better="higher",
    title="throughput at the receiver's side",
    formula="8·Σ payload of UDP or TCP that arrived / (end - start), retransmissions included",
    source="capture at the receiver's side; RFC 5166 §2.1.1; CCPerf's mean_throughput_l4",
)
def mean_throughput(flow: SharedFlow) -> MetricResult:
    """How fast a flow's payload reached its receiver."""
    return Value(flow.mean_rate(flow.lifetime.received), flow.at_receiver)


@flow_metric(
    unit="Mbit/s",
    better="higher",
    title="what the receiving application got (goodput)",
    formula="8·bytes / (end - start)",
    source="files: growth of the receiver's file; a generator's TCP: bytes acknowledged cumulatively (RFC 4898 "
    "tcpEStatsAppHCThruOctetsAcked), its size where it has one and all of it came; UDP: mean_throughput, for the "
    "payload is all there is; RFC 5166 §2.1.1; CCPerf's mean_throughput_l7",
)
def mean_throughput_l7(flow: SharedFlow) -> MetricResult:
    """The file of a QUIC flow, or the in-order bytes of a TCP stream."""
    if flow.facts.kind == "udp":
        return Value(flow.mean_rate(flow.lifetime.received), flow.at_receiver)
    is_file = flow.facts.kind != "tcp"
    size = _file_bytes(flow) if is_file else _stream_bytes(flow)
    if size is None:
        return Absent("neither a growing file nor tcp_info shows it")
    return Value(size * 8 / flow.lifetime.seconds / 1e6, FILE[peer_role(flow.facts.sender)] if is_file else "tcp_info")


def _file_bytes(flow: SharedFlow) -> float | None:
    """Bytes in the file at the flow's end; None if the file does not grow with the received data."""
    if flow.view.growth is None:
        return None
    growth, end_ns = transfer_growth(flow.view.growth, flow.number, 0), flow.lifetime.zero_ns + flow.lifetime.end_ns
    last = int(np.searchsorted(growth.t_ns, end_ns, side="right")) - 1
    received = flow.lifetime.received
    if last < 0 or growth.size[last] > _AHEAD * received.payload[received.t_ns <= end_ns].sum():
        return None
    return float(growth.size[last])


def _stream_bytes(flow: SharedFlow) -> float | None:
    requested = flow.view.flows[flow.number].amount
    if requested is not None and flow.complete:
        # The last acknowledgements are in flight when the flow ends.
        return float(requested.bytes)
    rows = _acknowledged(flow)
    return None if rows is None else float(rows["bytes_acked"][-1])


def _acknowledged(flow: SharedFlow) -> pl.DataFrame | None:
    """The samples of a TCP flow's sender that have bytes_acked (bytes, cumulative), by t_ns; None without any.

    Source: tcpi_bytes_acked (include/uapi/linux/tcp.h), which is RFC 4898's tcpEStatsAppHCThruOctetsAcked.
    """
    rows = flow.view.tcp(flow.number)
    if rows is None:
        return None
    during = pl.col("t_ns").is_between(
        flow.lifetime.zero_ns + flow.lifetime.start_ns, flow.lifetime.zero_ns + flow.lifetime.end_ns
    )
    rows = rows.filter(during).drop_nulls(["bytes_acked"])
    return rows if len(rows) else None


@flow_metric(
    unit="Mbit/s",
    better="higher",
    title="rate at which payload left the sender",
    formula="8·Σ payload of UDP or TCP / (end - start), retransmissions included",
    source="capture at the sender's side; CCPerf's mean_sending_rate_l4",
)
def mean_sending_rate(flow: SharedFlow) -> MetricResult:
    """How fast a flow's payload left its sender."""
    return Value(flow.mean_rate(flow.lifetime.sent), flow.at_sender)


@flow_metric(
    unit="Mbit/s",
    better="higher",
    title="what the sending application gave to its socket (TCP only)",
    formula="8·Σ bytes / Σ seconds over the intervals of the generator's report",
    source="iperf3 --json; CCPerf's mean_sending_rate_l7",
)
def mean_sending_rate_l7(flow: SharedFlow) -> MetricResult:
    """The excess over what was sent waited in the socket's buffer."""
    path = flow.view.path(f"{artefacts.endpoint_path(flow.number, flow.facts.sender)}/{artefacts.IPERF3}")
    report = None if path is None or flow.facts.kind != "tcp" else read_iperf3(path)
    return None if report is None else Value(report.rate_mbps, "iperf3")


@flow_metric(
    unit="Mbit/s",
    better="higher",
    title="rate at which bytes were acknowledged cumulatively (TCP only)",
    formula="8·(bytes_acked at the last sample - at the first) / (last - first)",
    source="tcpi_bytes_acked; CCPerf's mean_delivery_rate_l4",
)
def mean_delivery_rate(flow: SharedFlow) -> MetricResult:
    """QUIC's traces do not report acknowledged bytes either."""
    if flow.facts.kind == "udp":
        return None
    if flow.facts.kind == "quic":
        return Absent("acknowledgements of QUIC are encrypted")
    rows = _acknowledged(flow) if flow.facts.kind == "tcp" else None
    if rows is None or len(rows) < 2:
        return Absent("tcp_info shows no bytes acknowledged")
    size = float(rows["bytes_acked"][-1]) - float(rows["bytes_acked"][0])
    seconds = (int(rows["t_ns"][-1]) - int(rows["t_ns"][0])) / 1e9
    return Value(size * 8 / seconds / 1e6, "tcp_info")


@flow_metric(
    unit="1",
    better="lower",
    title="coefficient of variation of the throughput",
    formula="√(Σ (x - x̄)² / n) / x̄ over its samples of 0.1 s",
    source="capture at the receiver's side; CCPerf's cov_throughput_l4",
)
def cov_throughput(flow: SharedFlow) -> MetricResult:
    """It grows as samples get shorter; CCPerf's sample length is not published (`series.grid`)."""
    value = flow.samples("throughput").value
    return Value(value.std() / value.mean(), flow.at_receiver) if len(value) and value.mean() > 0 else None


@flow_metric(
    unit="1",
    better="higher",
    title="share of its link's rate that a flow uses",
    formula="Σ (x / rate) / n over the samples, x the throughput",
    source="capture at the receiver's side; lab.json; CCPerf's mean_utilization_bw_l4",
)
def utilisation_bandwidth(flow: SharedFlow) -> MetricResult:
    """The throughput is payload and the rate is frames, so a full packet's headers keep this below 1."""
    samples = flow.samples("throughput")
    capacity = flow.capacity(samples.t)
    if not capacity.all():
        return Absent("nothing went by a path that its client was to be on")
    return Value((samples.value / capacity).mean(), flow.at_receiver) if len(samples.t) else None


# --- A sender's window, flight and round trips, by its qlog (QUIC) or its kernel (TCP), and figures from them.


@flow_metric(
    unit="packets",
    better="neutral",
    title="congestion window, mean over time",
    formula="Σ cwnd / n over the points of that series",
    source="qlog's congestion_window by the payload of its usual datagram (RFC 9002 §7); tcpi_snd_cwnd (RFC 5681 §2); "
    "CCPerf's mean_cwnd_l4",
)
def mean_cwnd(flow: SharedFlow) -> MetricResult:
    """How much a sender's congestion control allowed it to have in flight."""
    return _series_mean(flow, "cwnd")


@flow_metric(
    unit="packets",
    better="neutral",
    title="what was sent and neither known to have arrived nor lost, mean over time",
    formula="Σ in_flight / n over the points of that series",
    source="qlog's bytes_in_flight (RFC 9002 §2) by the payload of its usual datagram; tcp_info: packets out less "
    "those lost (less those selectively acknowledged and more those sent again, where the samples have these); "
    "CCPerf's mean_in_flight_l4",
)
def mean_in_flight(flow: SharedFlow) -> MetricResult:
    """How much a sender had in flight."""
    return _series_mean(flow, "in_flight")


@flow_metric(
    unit="ms",
    better="lower",
    title="smoothed round-trip time, mean over time, from its first sample",
    formula="Σ srtt / n over the points of that series",
    source="qlog's smoothed_rtt (RFC 9002 §5.3); tcpi_rtt (RFC 6298); CCPerf's mean_srtt_l4",
)
def mean_srtt(flow: SharedFlow) -> MetricResult:
    """The round trip as a sender sees it."""
    return _series_mean(flow, "srtt")


def _series_mean(flow: SharedFlow, series: str) -> MetricResult:
    if not flow.responsive:
        return None
    points = flow.points(series)
    return Value(points.value.mean(), flow.sender_state_vantage) if len(points.t) else Absent(NOT_REPORTED)


@flow_metric(
    unit="ms",
    better="lower",
    title="the queue's delay as a sender can tell it",
    formula="mean_srtt - min(min_rtt)",
    source="qlog's min_rtt (where it has none, latest_rtt); tcpi_min_rtt; CCPerf's mean_est_qdelay_l4",
)
def mean_est_queue_delay(flow: SharedFlow) -> MetricResult:
    """As the sender sees it: it includes queues in both directions and delayed acknowledgements."""
    if not flow.responsive:
        return None
    srtt = flow.points("srtt").value
    min_rtt = flow.series.states[flow.number]["min_rtt"].min() if len(srtt) else None
    if not isinstance(min_rtt, float):
        return Absent("the sender tells no round-trip times")
    return Value(srtt.mean() - min_rtt, flow.sender_state_vantage)


@flow_metric(
    unit="1",
    better="lower",
    title="coefficient of variation of what is in flight",
    formula="√(Σ (x - x̄)² / n) / x̄ over the points of the series in_flight",
    source="as mean_in_flight; CCPerf's cov_in_flight_l4",
)
def cov_in_flight(flow: SharedFlow) -> MetricResult:
    """How much the bytes in flight vary."""
    value = flow.points("in_flight").value
    return Value(value.std() / value.mean(), flow.sender_state_vantage) if len(value) and value.mean() > 0 else None


@flow_metric(
    unit="Mbit/s²",
    better="higher",
    title="network power: throughput by the mean smoothed round-trip time",
    formula="Σ (x / srtt) / n over the samples, x in Mbit/s, srtt in s; samples without a round-trip time are left out",
    source="capture at the receiver's side, with qlog or tcp_info; L. Kleinrock, Power and deterministic rules of "
    "thumb, ICC 1979; CCPerf's mean_network_power_l4",
)
def network_power(flow: SharedFlow) -> MetricResult:
    """A flow's throughput relative to its delay."""
    rates, srtt = flow.samples("throughput"), flow.points("srtt")
    bins = np.floor(srtt.t / BIN + 1e-6).astype(np.int64)
    ratios = [
        rate / (srtt.value[inside].mean() / 1e3)
        for t, rate in zip(rates.t, rates.value, strict=True)
        if (inside := bins == round(t / BIN)).any()
    ]
    return Value(float(np.mean(ratios)), f"captures, {flow.sender_state_vantage}") if ratios else None


@flow_metric(
    unit="1",
    better="neutral",
    title="what is in flight by what the path holds without a queue, mean over time",
    formula="Σ (in_flight·frame / (rate·rtt)) / n: in packets of the flow's usual frame; the link's rate by the round "
    "trip without queues",
    source="as mean_in_flight; lab.json; CCPerf's mean_utilization_bdp_l4",
)
def utilisation_bdp(flow: SharedFlow) -> MetricResult:
    """How much of its path's BDP a flow has in flight."""
    share = shares_of_bdp(flow)
    return Value(share.mean(), flow.sender_state_vantage) if len(share) else None


def shares_of_bdp(flow: SharedFlow) -> Floats:
    """in_flight at each of its points as a share of the path's BDP; empty without lab.json, and on several paths."""
    rtt_ms = base_rtt_ms(flow.view, flow.facts)
    in_flight = flow.points("in_flight")
    if rtt_ms is None or not len(in_flight.t) or len({path for _, path in flow.stays}) > 1:
        return np.zeros(0)
    bdp = flow.capacity(in_flight.t) * 1e6 / 8 * _round_trips_ms(flow, in_flight.t, rtt_ms) / 1e3
    flight_bytes = in_flight.value * usual_frame(flow.lifetime.sent)
    return np.asarray(flight_bytes[bdp > 0] / bdp[bdp > 0])


def _round_trips_ms(flow: SharedFlow, t: Floats, first_ms: float) -> Floats:
    """The path's round trip without queues at each moment, ms: `first_ms` at first, then adjusted by delay changes."""
    rtt_ms = np.full(len(t), first_ms)
    for direction in flow.view.of_path(flow.facts.path).directions.values():
        for before, after in pairwise(direction.phases):
            rtt_ms[t >= (after.start_ns - flow.series.zero_ns) / 1e9] += (after.delay_ns - before.delay_ns) / 1e6
    return rtt_ms


# --- Completion time of a flow, packet delay and packet spacing; and flows that started late or never.


#: Weight of the newest gap in the moving average: that of the smoothed RTT (RFC 6298 §2, RFC 9002 §5.3). CCPerf's own
#: weight is not published.
WEIGHT = 1 / 8
#: A later start than this is reported, s: a client needs a tenth of a second for its own start in real time.
LATE = 0.25


@flow_metric(
    unit="s",
    better="lower",
    title="time from the client's first packet to the last payload at the receiver's side",
    formula="last - first",
    source="captures; CCPerf's flow_completion_time_l4",
)
def flow_completion_time(flow: SharedFlow) -> MetricResult:
    """For a flow that is cut off this is about its allowed time; packets queued then still arrive.

    For TCP that ends with its size both are those of the data connection: the generator's control connection before and
    after is not part of it.
    """
    if flow.facts.stop is None and not flow.complete:
        return Absent("it did not come to its end")
    seconds = (flow.lifetime.last_ns - flow.lifetime.start_ns) / 1e9
    return Value(seconds, flow.at_receiver, better=None if flow.facts.stop is None else "neutral")


@flow_metric(
    unit="ms",
    better="lower",
    title="time between both interfaces of the simulator, mean over the packets that got through",
    formula="Σ (out - in) / n of the packets sent during the flow's lifetime, in the direction of its data",
    source="each packet in both captures (RFC 7679's two points); CCPerf's mean_one_way_delay_l7 is between the "
    "applications",
)
def mean_one_way_delay(flow: SharedFlow) -> MetricResult:
    """Includes the queue, the propagation delay and the flow's own access delay."""
    delay_ms = _delays(flow)
    return Value(delay_ms.mean(), "both captures") if len(delay_ms) else None


def _delays(flow: SharedFlow) -> npt.NDArray[np.float64]:
    down = flow.facts.sender == "server"
    passage = flow.view.to_client if down else flow.view.to_server
    if passage is None:
        return np.zeros(0)
    t_ns = passage.entered.t_ns - flow.lifetime.zero_ns
    own = (passage.entered.flow == flow.number) & passage.arrived
    own &= (t_ns >= flow.lifetime.start_ns) & (t_ns <= flow.lifetime.end_ns)
    return np.asarray((passage.out_ns[own] - passage.entered.t_ns[own]) / 1e6, np.float64)


@flow_metric(
    unit="ms",
    better="lower",
    title="time between two packets that arrive with payload, moving average",
    formula="mean over the packets of aₖ = 7/8·aₖ₋₁ + 1/8·gapₖ, begun with the first gap",
    source="capture at the receiver's side; CCPerf's mean_idt_ewma_l4, whose weight is not published: the mean hardly "
    "depends on it",
)
def mean_idt(flow: SharedFlow) -> MetricResult:
    """How far apart in time a flow's datagrams arrived."""
    received = flow.lifetime.received
    t_ns = received.t_ns[received.payload > 0] - flow.lifetime.zero_ns
    gaps = np.diff(t_ns[(t_ns >= flow.lifetime.start_ns) & (t_ns <= flow.lifetime.end_ns)]) / 1e6
    return Value(float(np.mean(moving_average(gaps.tolist()))), flow.at_receiver) if len(gaps) else None


def moving_average(values: list[float], weight: float = WEIGHT) -> list[float]:
    """The exponentially weighted moving average after each value, begun with the first."""
    averages, average = [], values[0] if values else 0.0
    for value in values:
        average += weight * (value - average)
        averages.append(average)
    return averages


@measures
def late_start(view: RunView) -> Iterator[Finding]:
    """No figure, only a caution: a flow whose client sent its first packet well after the flow's start.

    On the clock of the flow that began earliest relative to its start.
    """
    late = {flow.number: flow.lifetime.start_ns / 1e9 - flow.facts.start for flow in flows_of(view)}
    numbers = [number for number, seconds in late.items() if seconds > LATE]
    # A single flow is never late: for TCP that ends with its size the delay is the generator's control connection.
    if numbers and len(late) > 1:
        yield Caution(f"{format_flows(numbers)} began later than asked, by {max(late.values()):.2f} s at most")


@measures
def silent_flows(view: RunView) -> Iterator[Finding]:
    """No figure, only a caution: a flow without received data has no metrics."""
    if not view.is_shared or view.lab is None or view.series is None:
        return
    for facts in view.lab.flows:
        if facts.flow not in view.series.lifetimes:
            yield Caution(f"nothing of flow {facts.flow} arrived at its receiver's side: it has no metrics")


# --- The utility of throughput to a flow.


@flow_metric(
    unit="ln Mbit/s",
    better="higher",
    title="the utility that proportional fairness maximises",
    formula="Σ ln x / n over the samples, x the throughput in Mbit/s; those in which nothing arrived are left out",
    source="capture at the receiver's side; RFC 5166 §2.3.1; CCPerf's mean_utility_pf_l4",
)
def utility_pf(flow: SharedFlow) -> MetricResult:
    """Proportional fairness."""
    return _utility_mean(flow, logarithm)


@flow_metric(
    unit="s/Mbit",
    better="higher",
    title="the utility that minimum potential delay fairness maximises",
    formula="Σ (-1/x) / n over the samples, x the throughput in Mbit/s; those in which nothing arrived are left out",
    source="capture at the receiver's side; RFC 5166 §2.3.1; CCPerf's mean_utility_mpdf_l4",
)
def utility_mpdf(flow: SharedFlow) -> MetricResult:
    """The negative time per bit at that rate."""
    return _utility_mean(flow, potential_delay)


def logarithm(rate: Floats) -> Floats:
    """Utility of each rate, Mbit/s, by proportional fairness."""
    return np.log(rate)


def potential_delay(rate: Floats) -> Floats:
    """Utility of each rate, Mbit/s, by minimum potential delay fairness."""
    return -1 / rate


def _utility_mean(flow: SharedFlow, utility: Callable[[Floats], Floats]) -> MetricResult:
    """The mean over a flow's samples; if more than one in a hundred have none, their number is reported."""
    value = flow.samples("throughput").value
    positive = value[value > 0]
    if not len(positive):
        return None
    left_out = None
    if len(positive) < 0.99 * len(value):
        left_out = len(value) - len(positive), len(value), "in which nothing arrived"
    return Value(utility(positive).mean(), flow.at_receiver, excluded=left_out)
