"""The cost of a transfer to the machines: CPU time, and datagrams that a receiver was too slow for."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.metric_registry import Finding, declare, measures
from harness.analysis.metrics.kinds import transfer_measurement
from harness.analysis.metrics.starvation import containers
from harness.analysis.run_view import RunView
from harness.capture.counters import cumulative_increase

CPU = {
    role: declare(
        f"cpu_{role}",
        layer="flow",
        unit="s",
        better="lower",
        title=f"CPU time of the {subject} during the transfer",
        formula="difference of the samples around it, half a second apart: a short transfer's includes the start",
        source="cgroup",
    )
    for role, subject in (("client", "client"), ("server", "server"), ("sim", "simulator, which serves all flows,"))
}
RECEIVE_DROPS = declare(
    "udp_receive_drops",
    layer="flow",
    unit="packets",
    better="lower",
    title="datagrams dropped at full socket buffers of both endpoints",
    formula="count",
    source="UDP RcvbufErrors, /proc/net/snmp",
)


@measures
def cpu_time(view: RunView) -> Iterator[Finding]:
    """Yield CPU time of each endpoint, and of all simulators together."""
    if view.cpu is None:
        return
    for window in view.windows:
        for role, names in containers(view, window).items():
            used = [
                cumulative_increase(view.cpu, name, "cpu_ns", window.start_ns, window.transfer.ended_ns)
                for name in names
            ]
            available = [ns for ns in used if ns is not None]
            if len(available) == len(names):
                yield transfer_measurement(CPU[role], window, sum(available) / 1e9, "cgroup")


@measures
def receive_drops(view: RunView) -> Iterator[Finding]:
    """Yield udp_receive_drops."""
    if view.cpu is None:
        return
    for window in view.windows:
        flow, end = window.transfer.flow, window.transfer.ended_ns
        counts = [
            cumulative_increase(view.cpu, f"{role}{flow}", "rcvbuf_errors", window.start_ns, end)
            for role in ("client", "server")
        ]
        available = [count for count in counts if count is not None]
        if available:
            yield transfer_measurement(RECEIVE_DROPS, window, sum(available), "cgroup")
