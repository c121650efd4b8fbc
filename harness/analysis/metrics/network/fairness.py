"""Indices of how evenly flows share: per sample of 0.1 s, then the mean; and of the flows' means."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from harness.analysis.flow_throughputs import throughputs
from harness.analysis.metrics.registry import Finding, Metric, declare, measures
from harness.analysis.run_view import RunView
from harness.analysis.shared_flow import SharedFlow, flows_of
from harness.stats import intervals

Index = Callable[[Sequence[float]], float]
_AT = "captures at the receivers' sides; "


def _declared(name: str, *, unit: str, title: str, formula: str, source: str) -> dict[tuple[str, str], Metric]:
    """An index as four metrics: over samples and of means, of all flows and of those with congestion control."""
    return {
        (over, among): declare(
            f"{name}_{over}{among}", layer="network", unit=unit, better="higher",
            title=f"{title}; {'mean over the samples' if over == 'samples' else 'of the mean throughputs'}"
            + (", flows with congestion control" if among else ""),
            formula=formula, source=_AT + source,
        )
        for among in ("", "_responsive") for over in ("samples", "means")
    }  # fmt: skip


_JAIN = _declared(
    "jain", unit="1", title="Jain's index, 1 for equal throughputs, 1/n where one flow has all",
    formula="(Σx)² / (n·Σx²)",
    source="RFC 5166 §2.3.1; R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984; CCPerf's mean_jains_fairness_throughput_l4 "
    "is that over samples",
)  # fmt: skip
_ENTROPY = _declared(
    "entropy", unit="nat", title="entropy of the shares of the throughput, ln n for equal ones",
    formula="-Σ p·ln p with p = x/Σx", source="CCPerf's mean_entropy_fairness_throughput_l4",
)  # fmt: skip
_PRODUCT = _declared(
    "product", unit="(Mbit/s)^n", title="product of the throughputs, of one sum the largest for equal ones",
    formula="Πx", source="RFC 5166 §2.3.1; CCPerf's mean_product_fairness_throughput_l4",
)  # fmt: skip


@measures
def jain(view: RunView) -> Iterator[Finding]:
    """Jain's index."""
    return _over_samples_and_means(view, _JAIN, intervals.jain)


@measures
def entropy(view: RunView) -> Iterator[Finding]:
    """The entropy of the flows' shares."""
    return _over_samples_and_means(view, _ENTROPY, intervals.entropy)


@measures
def product(view: RunView) -> Iterator[Finding]:
    """Per sample only where all flows were active, for the unit is another with fewer."""
    return _over_samples_and_means(view, _PRODUCT, intervals.product, all_active=True)


def _over_samples_and_means(
    view: RunView, metrics: dict[tuple[str, str], Metric], index: Index, *, all_active: bool = False
) -> Iterator[Finding]:
    """An index of the throughputs in Mbit/s over samples and of means.

    With `all_active` samples count in which every flow was active, else those in which two were; those in which nothing
    at all arrived never do.
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
