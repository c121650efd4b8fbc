"""What a flow's sending application gave to its socket."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.registry import Finding, metric
from harness.metrics.shared_flow import SharedFlow, flows_of
from harness.metrics.view import RunView
from harness.traces.files import find
from harness.traces.tcp import Written, read_iperf3


@metric
def application_sending_rate(view: RunView) -> Iterator[Finding]:
    """mean_sending_rate_l7 (Mbit/s): what the sending application gave to its socket, by the time it took.

    8·Σ bytes / Σ seconds over the intervals of the generator's report (iperf3 --json); TCP only. More than was sent is
    what waited in the socket's buffer. CCPerf's mean_sending_rate_l7.
    """
    for flow in flows_of(view):
        if flow.facts.kind == "tcp" and (written := _written(flow)) is not None:
            yield flow.measurement("mean_sending_rate_l7", written.rate_mbps, "Mbit/s", "higher", "iperf3")


def _written(flow: SharedFlow) -> Written | None:
    path = find(flow.view.folder / f"flow{flow.number}" / flow.facts.sender / "iperf3.json")
    return None if path is None else read_iperf3(path)
