"""How fast a flow's payload left its sender and reached its receiver, from the captures."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.metrics.flows.flow import SharedFlow, flows_of
from harness.metrics.registry import Caution, Finding, metric
from harness.metrics.view import RunView
from harness.traces.capture import Capture

CAPTURES = {"server": ("right capture", "left capture"), "client": ("left capture", "right capture")}
"""Sender → where its packets are seen leaving, and arriving."""


@metric
def mean_rates(view: RunView) -> Iterator[Finding]:
    """mean_throughput, mean_sending_rate (Mbit/s): payload of UDP or TCP during the flow's life, by its length.

    Throughput counts what arrived at the receiver's side, retransmissions included; the sending rate what left the
    sender. CCPerf's mean_throughput_l4 and mean_sending_rate_l4.
    """
    for flow in flows_of(view):
        left, arrived = CAPTURES[flow.facts.sender]
        for name, side, vantage in (
            ("mean_throughput", flow.life.received, arrived),
            ("mean_sending_rate", flow.life.sent, left),
        ):
            yield flow.measurement(name, mean_rate(flow, side), "Mbit/s", "higher", vantage)


def mean_rate(flow: SharedFlow, side: Capture) -> float:
    """Mbit/s of payload at one side during the flow's life."""
    t_ns = side.t_ns - flow.life.zero_ns
    during = (t_ns >= flow.life.start_ns) & (t_ns <= flow.life.end_ns)
    return float(side.payload[during].sum()) * 8 / flow.life.seconds / 1e6 if flow.life.seconds else 0.0


@metric
def variation(view: RunView) -> Iterator[Finding]:
    """cov_throughput (1): standard deviation of the throughput's samples of 0.1 s by their mean.

    CCPerf's cov_throughput_l4. It grows as samples get shorter; CCPerf's length is not published (`series.grid`).
    """
    for flow in flows_of(view):
        value = flow.samples("throughput").value
        if len(value) and value.mean() > 0:
            covariation = value.std() / value.mean()
            yield flow.measurement("cov_throughput", covariation, "1", "lower", CAPTURES[flow.facts.sender][1])


@metric
def utilisation(view: RunView) -> Iterator[Finding]:
    """utilisation_bandwidth (1): mean over the samples of throughput by the link's rate.

    The throughput is payload, the rate that of frames: a full packet's headers keep this below 1. CCPerf's
    mean_utilization_bw_l4.
    """
    for flow in flows_of(view):
        samples = flow.samples("throughput")
        if len(samples.t):
            share = (samples.value / flow.capacity(samples.t)).mean()
            yield flow.measurement("utilisation_bandwidth", share, "1", "higher", CAPTURES[flow.facts.sender][1])


@metric
def utilities(view: RunView) -> Iterator[Finding]:
    """utility_pf (ln Mbit/s): mean over the samples of ln x, x the throughput in Mbit/s (proportional fairness).

    utility_mpdf (s/Mbit): mean over the samples of -1/x (minimum potential delay). RFC 5166 §2.3.1; CCPerf's
    mean_utility_pf_l4 and mean_utility_mpdf_l4. Samples in which nothing arrived have none, and a caution says how
    many they were where they are more than one in a hundred.
    """
    for flow in flows_of(view):
        value = flow.samples("throughput").value
        some = value[value > 0]
        if not len(some):
            continue
        vantage = CAPTURES[flow.facts.sender][1]
        yield flow.measurement("utility_pf", np.log(some).mean(), "ln Mbit/s", "higher", vantage)
        yield flow.measurement("utility_mpdf", (-1 / some).mean(), "s/Mbit", "higher", vantage)
        if len(some) < 0.99 * len(value):
            yield Caution(
                f"{flow.prefix}utility_pf and {flow.prefix}utility_mpdf leave out {len(value) - len(some)} of "
                f"{len(value)} samples in which nothing arrived"
            )


@metric
def silent(view: RunView) -> Iterator[Finding]:
    """No figure, only a caution: a flow of which nothing arrived has no metrics."""
    if not view.shared or view.lab is None or view.series is None:
        return
    for facts in view.lab.flows:
        if facts.flow not in view.series.lives:
            yield Caution(f"nothing of flow {facts.flow} arrived at its receiver's side: it has no metrics")
