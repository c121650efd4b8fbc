"""What a scenario amounts to, before anything runs: figures, reference times, path program."""

from __future__ import annotations

from harness.lab import SERVERS
from harness.model import Link, Scenario
from harness.outcome import EngineName
from harness.path import Server, bdp_bytes, burst_bytes, compile_path, ideal_time, queue_bytes, slow_start_time
from harness.units import Duration, Size


def _server(link: Link, server: Server) -> list[str]:
    """What lets packets go, and what that does to them."""
    if link.service is not None:
        return ["    served by a Poisson process: one packet at each opportunity"]
    burst = burst_bytes(link, server)
    if burst is None:
        return ["    serial: a packet leaves when all before it, and then it, have been sent; no credit is saved"]
    return [
        f"    token bucket {burst:,} B: after a rest so much passes at once; waits are shorter than on a serial link "
        f"by up to {link.rate.time_for(burst) * 1000:.1f} ms"
    ]


def _link(name: str, link: Link, rtt: Duration, server: Server) -> list[str]:
    queue = queue_bytes(link, rtt)
    milliseconds = link.rate.time_for(queue) * 1000
    loss = f", loss {link.mean_loss * 100:g} %" if link.mean_loss else ""
    return [
        f"  {name}: {link.rate}, {link.delay} one way{loss}",
        f"    BDP {bdp_bytes(link.rate, rtt):,} B · queue ({link.queue.discipline}) {queue:,} B = "
        f"{milliseconds:.1f} ms",
        *_server(link, server),
    ]


def _sizes(scenario: Scenario) -> list[Size]:
    return sorted({*scenario.milestones_within(), *(flow.file for flow in scenario.flows if flow.file)})


def explain(scenario: Scenario, engine: EngineName) -> str:
    """The scenario, its path's figures, reference times for each size, objectives, and the program under an engine."""
    path, server = scenario.path, SERVERS[engine]
    lines = [f"{scenario.name}: {scenario.title}", ""]
    lines += [f"  source: {text}" for text in scenario.references]
    lines += [f"path (RTT {path.rtt}, terminal at the {path.terminal}'s end)"]
    lines += _link("forward (to the terminal)", path.forward, path.rtt, server)
    lines += _link("return (from the terminal)", path.return_, path.rtt, server)
    for change in path.changes:
        for name, new in (("forward", change.forward), ("return", change.return_)):
            if new is not None:
                values = new.model_dump(exclude_none=True, mode="json")
                lines.append(f"  after {change.at}: {name} " + ", ".join(f"{key} {values[key]}" for key in values))
    lines += ["", "times from the first datagram, seconds (no headers, loss or overshoot)"]
    lines += ["  size       textbook slow start      ideal  objective"]
    bounds = {item.metric: f"{item.bound:g}" for item in scenario.objectives}
    for size in _sizes(scenario):
        objective = bounds.get(f"milestone_{size.label()}", "open")
        lines.append(
            f"  {size.label():8} {slow_start_time(path, size):21.2f} {ideal_time(path, size):10.2f}  {objective}"
        )
    lines += ["", f"path program, engine {engine} (left: the clients' interface, right: the servers')"]
    lines += [f"  {line}" for line in compile_path(path, server).lines()]
    return "\n".join(lines) + "\n"
