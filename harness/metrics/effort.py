"""What a transfer cost the machines: CPU time, and datagrams a receiver was too slow for."""

from __future__ import annotations

from collections.abc import Iterator

from harness.metrics.registry import Finding, metric
from harness.metrics.view import RunView
from harness.outcome import Measurement
from harness.traces.cpu import spent


@metric
def cpu_time(view: RunView) -> Iterator[Finding]:
    """cpu_client, cpu_server, cpu_sim (s): CPU time of the container during the transfer.

    Sampled every half second, so a short transfer's value includes the endpoint's start. The simulator serves
    all flows; its time stands with the first flow.
    """
    if view.cpu is None:
        return
    for window in view.windows:
        flow = window.transfer.flow
        names = {"client": f"client{flow}", "server": f"server{flow}", **({} if flow else {"sim": "sim"})}
        for role, container in names.items():
            used = spent(view.cpu, container, "cpu_ns", window.start_ns, window.transfer.ended_ns)
            if used is not None:
                name = f"{window.prefix}cpu_{role}"
                yield Measurement(name=name, value=used / 1e9, unit="s", direction="lower", vantage="cgroup")


@metric
def receive_drops(view: RunView) -> Iterator[Finding]:
    """udp_receive_drops: datagrams dropped at full socket buffers of both endpoints (UDP RcvbufErrors)."""
    if view.cpu is None:
        return
    for window in view.windows:
        flow, end = window.transfer.flow, window.transfer.ended_ns
        counts = [
            spent(view.cpu, f"{role}{flow}", "rcvbuf_errors", window.start_ns, end) for role in ("client", "server")
        ]
        known = [count for count in counts if count is not None]
        if known:
            name = f"{window.prefix}udp_receive_drops"
            yield Measurement(name=name, value=sum(known), unit="1", direction="lower", vantage="cgroup")
