"""TCP and QUIC beside UDP, and the figures of seed 003 (CCPerf)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.outcome import Interval
from harness.reports import CellResult
from harness.reports.documents.found import stored_of
from harness.reports.flow_metrics import number, percentage, text
from harness.reports.markdown import line
from harness.stats import interval

#: From this relative difference on a figure beside CCPerf's is explained.
APART = 0.10


@dataclass(frozen=True)
class Reported:
    """One figure of CCPerf's experiment 93 beside ours."""

    metric: str
    """CCPerf's name."""
    ours: str
    """This lab's name of it."""
    values: tuple[float, ...]
    """One per flow of the kind, or one for link or network."""
    unit: str
    why: str = ""
    """What makes ours differ, where it does."""


_TIMEOUTS = "two of the document's flows had timeouts, ours none (Linux probes the tail: RFC 8985)"
_STARVED = "after the document's timeouts little goes through, and samples with little weigh most in 1/x"
_SHARES = "the document's shares differ more: two of its flows had timeouts"
_SAMPLES = "shorter samples vary more: the document's length is not known, ours halved give its figure for UDP"
_HELD = "what the sender's buffer holds at the end: some 4 MB in ns-3, what Linux deems enough here"
_WEIGHT = "the document does not give the weight of its moving average; ours is 1/8"
_HIT = "not explained: as many drops in all, of which TCP has more here and UDP fewer"
#: Seed 003's tables; flows 1–3 are TCP, 4–6 UDP.
TCP = (
    Reported("mean_throughput_l4", "mean_throughput", (8.68, 6.59, 6.82), "Mbit/s"),
    Reported("mean_sending_rate_l4", "mean_sending_rate", (8.77, 6.68, 6.92), "Mbit/s"),
    Reported("mean_sending_rate_l7", "mean_sending_rate_l7", (10.82, 8.72, 8.95), "Mbit/s", _HELD),
    Reported("mean_delivery_rate_l4", "mean_delivery_rate", (8.68, 6.58, 6.81), "Mbit/s"),
    Reported("mean_cwnd_l4", "mean_cwnd", (20.38, 17.04, 16.35), "packets"),
    Reported("mean_in_flight_l4", "mean_in_flight", (19.92, 16.67, 15.95), "packets"),
    Reported("mean_srtt_l4", "mean_srtt", (26.22, 27.08, 26.51), "ms"),
    Reported("mean_est_qdelay_l4", "mean_est_queue_delay", (11.22, 12.08, 11.51), "ms"),
    Reported("mean_idt_ewma_l4", "mean_idt", (1.23, 1.93, 2.40), "ms", _WEIGHT),
    Reported("cov_throughput_l4", "cov_throughput", (0.33, 0.46, 0.46), "", _SAMPLES),
    Reported("cov_in_flight_l4", "cov_in_flight", (0.35, 0.42, 0.45), "", _TIMEOUTS),
    Reported("total_retransmissions_l4", "retransmissions", (113.0, 129.0, 146.0), "packets", _HIT),
    Reported("total_rtos_l4", "timeouts", (0.0, 3.0, 1.0), "", _TIMEOUTS),
    Reported("mean_recovery_time_l4", "mean_recovery_time", (40.75, 142.12, 66.99), "ms", _TIMEOUTS),
    Reported("mean_network_power_l4", "network_power", (336.76, 248.82, 267.34), "Mbit/s²"),
    Reported("mean_utility_pf_l4", "utility_pf", (2.11, 1.75, 1.74), ""),
    Reported("mean_utility_mpdf_l4", "utility_mpdf", (-0.13, -0.21, -0.28), "", _STARVED),
    Reported("mean_utilization_bdp_l4", "utilisation_bdp", (0.35, 0.29, 0.28), ""),
    Reported("mean_utilization_bw_l4", "utilisation_bandwidth", (0.18, 0.14, 0.14), ""),
)  # fmt: skip
UDP = (
    Reported("mean_throughput_l4", "mean_throughput", (7.90, 7.89, 7.86), "Mbit/s"),
    Reported("mean_one_way_delay_l7", "mean_one_way_delay", (18.51, 18.49, 18.51), "ms"),
    Reported("cov_throughput_l4", "cov_throughput", (0.12, 0.12, 0.13), "", _SAMPLES),
)  # fmt: skip
LINK = (
    Reported("mean_qdisc_length_l2", "mean_queue_packets", (83.08,), "packets"),
    Reported("mean_qdisc_delay_l2", "mean_queue_delay", (10.25,), "ms"),
    Reported("mean_sending_rate_l1", "mean_link_rate", (47.97,), "Mbit/s"),
    Reported("total_qdisc_drops_l2", "queue_drops_to_client", (1617.0,), "packets"),
)  # fmt: skip
NETWORK = (
    Reported("mean_agg_throughput_l4", "agg_throughput", (45.74,), "Mbit/s"),
    Reported("mean_agg_in_flight_l4", "agg_in_flight", (52.54,), "packets"),
    Reported("mean_agg_utility_pf_l4", "agg_utility_pf", (11.77,), ""),
    Reported("mean_agg_utility_mpdf_l4", "agg_utility_mpdf", (-1.00,), "", _STARVED),
    Reported("mean_agg_utilization_bw_l4", "agg_utilisation_bandwidth", (0.95,), ""),
    Reported("mean_agg_utilization_bdp_l4", "agg_utilisation_bdp", (0.91,), ""),
    Reported("mean_jains_fairness_throughput_l4", "jain_samples", (0.92,), ""),
    Reported("mean_entropy_fairness_throughput_l4", "entropy_samples", (1.79,), ""),
    Reported("mean_product_fairness_throughput_l4", "product_samples", (142076.76,), "", _SHARES),
)  # fmt: skip


def background(results: Sequence[CellResult]) -> str:
    """CCPerf's experiment 93 beside ours, metric by metric."""
    found = stored_of(results, "dumbbell/udp-background")
    lines = [
        "## UDP background traffic (CCPerf, experiment 93)",
        "",
        "Three flows of TCP NewReno with 16 Mbit/s to send, three of UDP with 8 Mbit/s each, on 48 Mbit/s and 15 ms.",
        "The document is one run of ns-3; ours are medians and intervals of this kernel's TCP over all runs. A row's",
        "flows are compared by their mean; what differs by more than a tenth has a reason. The document does not say",
        "how large its UDP datagrams are. 512 B, ns-3's default, is what its figures tell twice over: UDP loses 1.4 %",
        "of its 45 MB in 1,229 drops, and 83 packets wait 10.25 ms. With 1448 B its delays cannot be had.",
        "",
    ]
    if not found:
        return "\n".join(lines)
    (result,) = found[:1]
    lines += [line(["", "metric", "unit", "CCPerf", "here", "difference", "why"]), line(["---"] * 7)]
    for what, flows, reported in (
        ("TCP", (0, 1, 2), TCP), ("UDP", (3, 4, 5), UDP), ("link", (), LINK), ("network", (), NETWORK),
    ):  # fmt: skip
        lines += [line(_row(result, what, flows, one)) for one in reported]
    return "\n".join([*lines, "", *_quic_beside_udp(results)])


def _quic_beside_udp(results: Sequence[CellResult]) -> list[str]:
    """The same with QUIC: a row a server and congestion control; the mean over the three flows."""
    found = stored_of(results, "dumbbell/udp-background-quic")
    if not found:
        return []
    columns = (
        ("Mbit/s", "mean_throughput"), ("sRTT, ms", "mean_srtt"), ("in flight", "mean_in_flight"),
        ("retransmitted", "retransmissions"), ("timeouts", "timeouts"), ("CoV", "cov_throughput"),
    )  # fmt: skip
    lines = [
        "**QUIC in place of TCP** (`dumbbell/udp-background-quic`): three bulk downloads, each congestion control that",
        "a server has; the mean of the three flows, and what UDP and the link are left with.",
        "",
        line(["server", *(what for what, _ in columns), "Jain, three flows", "UDP, Mbit/s", "queue, ms", "drops"]),
        line(["---", *["---:"] * (len(columns) + 4)]),
    ]
    for result in found:
        names = [[f"flow{flow}_{name}" for flow in range(3)] for _, name in columns]
        rate = _mean_interval(result, [f"flow{flow}_mean_throughput" for flow in range(3, 6)])
        lines.append(
            line([
                f"{result.cell.server.name} ({result.cell.parameters['server.congestion_control']})",
                *(text(_mean_interval(result, flows)) for flows in names),
                text(result.interval("jain_shared")), text(rate), text(result.interval("mean_queue_delay")),
                percentage(result.interval("drop_rate")),
            ])
        )  # fmt: skip
    return [*lines, ""]


def _row(result: CellResult, what: str, flows: tuple[int, ...], one: Reported) -> list[str]:
    names = [f"flow{flow}_{one.ours}" for flow in flows] or [one.ours]
    theirs = sum(one.values) / len(one.values)
    span = _mean_interval(result, names)
    difference = None if span is None or not theirs else span.median / theirs - 1
    apart = difference is not None and abs(difference) > APART
    return [
        what,
        f"`{one.metric}`",
        one.unit,
        " · ".join(number(value) for value in one.values),
        text(span),
        "–" if difference is None else f"{difference:+.0%}",
        (one.why or "not explained") if apart else "",
    ]


def _mean_interval(result: CellResult, names: Sequence[str]) -> Interval | None:
    """Median and interval over the runs of the mean over some flows."""
    columns = [[item.value for item in result.measurements.get(name, [])] for name in names]
    rows = list(zip(*columns, strict=False))
    return interval([sum(row) / len(row) for row in rows]) if rows else None
