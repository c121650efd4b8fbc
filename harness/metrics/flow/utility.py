"""What throughput is worth to a flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from harness.metrics.registry import Caution, Finding
from harness.metrics.series.grid import Floats
from harness.metrics.shared_flow import flows_of
from harness.metrics.view import RunView


def mean_utility(view: RunView, name: str, unit: str, utility: Callable[[Floats], Floats]) -> Iterator[Finding]:
    """The mean over a flow's samples of the utility of its throughput in Mbit/s.

    Samples in which nothing arrived have none, and a caution says how many they were where they are more than one in a
    hundred: the same one from both utilities.
    """
    for flow in flows_of(view):
        value = flow.samples("throughput").value
        some = value[value > 0]
        if not len(some):
            continue
        yield flow.measurement(name, utility(some).mean(), unit, "higher", flow.at_receiver)
        if len(some) < 0.99 * len(value):
            yield Caution(
                f"{flow.prefix}utility_pf and {flow.prefix}utility_mpdf leave out {len(value) - len(some)} of "
                f"{len(value)} samples in which nothing arrived"
            )
