"""The figures of CCPerf's UDP background traffic, experiment 93, and why ours differ where they do."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "CCPerf, UDP background traffic, experiment 93 (ns-3, TcpNewReno, three flows of TCP and three of UDP)"


@dataclass(frozen=True)
class Reported:
    """One figure of CCPerf's experiment 93 beside ours."""

    metric: str
    """CCPerf's name."""
    ours: str
    """This lab's name of it."""
    values: tuple[float, ...]
    """One per flow of the kind, or one for link or network, in the unit of ours."""
    why: str = ""
    """What makes ours differ, where it does."""


_TIMEOUTS = "two of the document's flows had timeouts, ours none (Linux probes the tail: RFC 8985)"
_STARVED = "after the document's timeouts little goes through, and samples with little weigh most in 1/x"
_SHARES = "the document's shares differ more: two of its flows had timeouts"
_SAMPLES = "shorter samples vary more: the document's length is not known, ours halved give its figure for UDP"
_HELD = "what the sender's buffer holds at the end: some 4 MB in ns-3, what Linux deems enough here"
_BUFFERED = (
    "the document counts from the application's write, and some 4 MB wait in ns-3's send buffer; ours counts a "
    "packet from the sender's interface to the receiver's, which is what the network does"
)
_WEIGHT = "the document does not give the weight of its moving average; ours is 1/8"
_HIT = "not explained: as many drops in all, of which TCP has more here and UDP fewer"
#: The experiment's tables; flows 1–3 are TCP, 4–6 UDP.
TCP = (
    Reported("mean_throughput_l4", "mean_throughput", (8.68, 6.59, 6.82)),
    Reported("mean_sending_rate_l4", "mean_sending_rate", (8.77, 6.68, 6.92)),
    Reported("mean_sending_rate_l7", "mean_sending_rate_l7", (10.82, 8.72, 8.95), _HELD),
    Reported("mean_delivery_rate_l4", "mean_delivery_rate", (8.68, 6.58, 6.81)),
    Reported("mean_cwnd_l4", "mean_cwnd", (20.38, 17.04, 16.35)),
    Reported("mean_in_flight_l4", "mean_in_flight", (19.92, 16.67, 15.95)),
    Reported("mean_srtt_l4", "mean_srtt", (26.22, 27.08, 26.51)),
    Reported("mean_est_qdelay_l4", "mean_est_queue_delay", (11.22, 12.08, 11.51)),
    Reported("mean_idt_ewma_l4", "mean_idt", (1.23, 1.93, 2.40), _WEIGHT),
    Reported("cov_throughput_l4", "cov_throughput", (0.33, 0.46, 0.46), _SAMPLES),
    Reported("cov_in_flight_l4", "cov_in_flight", (0.35, 0.42, 0.45), _TIMEOUTS),
    Reported("total_retransmissions_l4", "retransmissions", (113.0, 129.0, 146.0), _HIT),
    Reported("total_rtos_l4", "timeouts", (0.0, 3.0, 1.0), _TIMEOUTS),
    Reported("mean_recovery_time_l4", "mean_recovery_time", (40.75, 142.12, 66.99), _TIMEOUTS),
    Reported("mean_throughput_l7", "mean_throughput_l7", (8.68, 6.59, 6.82)),
    Reported("mean_one_way_delay_l7", "mean_one_way_delay", (2678.10, 3429.28, 3239.28), _BUFFERED),
    Reported("flow_completion_time_l4", "flow_completion_time", (15.00, 14.99, 14.99)),
    Reported("mean_network_power_l4", "network_power", (336.76, 248.82, 267.34)),
    Reported("mean_utility_pf_l4", "utility_pf", (2.11, 1.75, 1.74)),
    Reported("mean_utility_mpdf_l4", "utility_mpdf", (-0.13, -0.21, -0.28), _STARVED),
    Reported("mean_utilization_bdp_l4", "utilisation_bdp", (0.35, 0.29, 0.28)),
    Reported("mean_utilization_bw_l4", "utilisation_bandwidth", (0.18, 0.14, 0.14)),
)
UDP = (
    Reported("mean_throughput_l4", "mean_throughput", (7.90, 7.89, 7.86)),
    Reported("mean_one_way_delay_l7", "mean_one_way_delay", (18.51, 18.49, 18.51)),
    Reported("cov_throughput_l4", "cov_throughput", (0.12, 0.12, 0.13), _SAMPLES),
    Reported("flow_completion_time_l4", "flow_completion_time", (15.00, 15.00, 15.00)),
    Reported("mean_sending_rate_l7", "mean_sending_rate", (8.02, 8.00, 7.97)),
    Reported("mean_throughput_l7", "mean_throughput_l7", (7.90, 7.89, 7.86)),
    Reported("mean_utility_mpdf_l4", "utility_mpdf", (-0.13, -0.13, -0.13)),
    Reported("mean_utility_pf_l4", "utility_pf", (2.06, 2.06, 2.05)),
    Reported("mean_utilization_bw_l4", "utilisation_bandwidth", (0.16, 0.16, 0.16)),
)
LINK = (
    Reported("mean_qdisc_length_l2", "mean_queue_packets", (83.08,)),
    Reported("mean_qdisc_delay_l2", "mean_queue_delay", (10.25,)),
    Reported("mean_sending_rate_l1", "mean_link_rate", (47.97,)),
    Reported("total_qdisc_drops_l2", "queue_drops_to_client", (1617.0,)),
)
NETWORK = (
    Reported("mean_agg_throughput_l4", "agg_throughput", (45.74,)),
    Reported("mean_agg_in_flight_l4", "agg_in_flight", (52.54,)),
    Reported("mean_agg_utility_pf_l4", "agg_utility_pf", (11.77,)),
    Reported("mean_agg_utility_mpdf_l4", "agg_utility_mpdf", (-1.00,), _STARVED),
    Reported("mean_agg_utilization_bw_l4", "agg_utilisation_bandwidth", (0.95,)),
    Reported("mean_agg_utilization_bdp_l4", "agg_utilisation_bdp", (0.91,)),
    Reported("mean_jains_fairness_throughput_l4", "jain_samples", (0.92,)),
    Reported("mean_entropy_fairness_throughput_l4", "entropy_samples", (1.79,)),
    Reported("mean_product_fairness_throughput_l4", "product_samples", (142076.76,), _SHARES),
)
