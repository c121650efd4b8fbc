"""Metrics of the bottleneck, towards where the data go, while flows share it: its queue, its rate, its drops."""

from __future__ import annotations

from harness.analysis.link_replay import Fate
from harness.analysis.metrics.kinds import MetricResult, Value, link_metric
from harness.analysis.shared_flows import SharedBottleneck
from harness.capture.counters import count_increase
from harness.scenario.schema import DISCIPLINES

_CAPTURES = "both captures"


@link_metric(
    unit="B",
    better="lower",
    title="frames in the queue, mean over time",
    formula="Σ queue_length / n over the points of that series, from the first flow's start to the last end",
    source="both captures",
)
def mean_queue_length(link: SharedBottleneck) -> MetricResult:
    """How many bytes wait."""
    return _mean(link, "queue_length")


@link_metric(
    unit="packets",
    better="lower",
    title="packets in the queue, mean over time",
    formula="Σ queue_packets / n over the points of that series, from the first flow's start to the last end",
    source="both captures; CCPerf's mean_qdisc_length_l2",
)
def mean_queue_packets(link: SharedBottleneck) -> MetricResult:
    """How many packets wait."""
    return _mean(link, "queue_packets")


def _mean(link: SharedBottleneck, series: str) -> MetricResult:
    values = link.values(series)
    return Value(values.mean(), _CAPTURES) if len(values) else None


@link_metric(
    unit="ms",
    better="lower",
    title="how long a packet was in the queue, mean over the packets that passed",
    formula="Σ (left - came) / n over those that came from the first flow's start to the last end",
    source="both captures; RFC 5166 §2.1.2; CCPerf's mean_qdisc_delay_l2",
)
def mean_queue_delay(link: SharedBottleneck) -> MetricResult:
    """By Little's law about mean_queue_packets divided by the packets that passed in a second."""
    arrivals, departures, _ = link.sojourns()
    during = (arrivals >= link.start * 1e9) & (arrivals <= link.end * 1e9)
    return Value((departures[during] - arrivals[during]).mean() / 1e6, _CAPTURES) if during.any() else None


@link_metric(
    unit="Mbit/s",
    better="higher",
    title="rate of the frames that left the queue",
    formula="8·Σ length / (end - start), from the first flow's start to the last end",
    source="both captures; CCPerf's mean_sending_rate_l1",
)
def mean_link_rate(link: SharedBottleneck) -> MetricResult:
    """At layer 2, like the link's own rate."""
    _, departures, length = link.sojourns()
    during = (departures >= link.start * 1e9) & (departures <= link.end * 1e9)
    return Value(float(length[during].sum()) * 8 / (link.end - link.start) / 1e6, _CAPTURES)


@link_metric(
    unit="packets",
    better="lower",
    title="packets that active queue management dropped early, in all the run",
    formula="drops that the discipline decided while the queue was not full",
    source="the kernel's counters of the discipline (struct tc_red_xstats and its like)",
)
def early_drops_to_client(link: SharedBottleneck) -> MetricResult:
    """Together with limit_drops_to_client they are queue_drops_to_client; a drop-tail queue has only that metric."""
    return _drops(link, "early")


@link_metric(
    unit="packets",
    better="lower",
    title="packets that the hard limit of a managed queue dropped, in all the run",
    formula="drops of a full queue",
    source="the kernel's counters of the discipline (struct tc_red_xstats and its like)",
)
def limit_drops_to_client(link: SharedBottleneck) -> MetricResult:
    """See early_drops_to_client."""
    return _drops(link, "pdrop")


def _drops(link: SharedBottleneck, cause: str) -> MetricResult:
    counters, span = link.view.counters, link.view.span(0)
    managed = DISCIPLINES[link.direction.settings.discipline].drops_early
    if not managed or counters is None or span is None:
        return None
    value = count_increase(counters, link.direction.settings.device, cause, *span)
    return None if value is None else Value(value, "counters")


@link_metric(
    unit="1",
    better="lower",
    title="packets that the queue dropped, by those that came, in all the run",
    formula="dropped / came",
    source="both captures; RFC 5166 §2.1.3",
)
def drop_rate(link: SharedBottleneck) -> MetricResult:
    """The replay tells these drops from losses on the link (`analysis.link_replay`)."""
    fate = link.direction.replay.fate
    return Value(float((fate == Fate.QUEUE_DROP).mean()), _CAPTURES) if len(fate) else None
