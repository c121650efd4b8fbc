"""Describe a scenario before it runs: figures of its paths, reference times, path program."""

from __future__ import annotations

from collections.abc import Iterator

from harness.netem import (
    Server,
    bdp_bytes,
    burst_bytes,
    compile_path,
    fault_share,
    ideal_time,
    queue_bytes,
    size_bytes,
    slow_start_time,
)
from harness.netem.mobility import flow_timeline
from harness.outcome import EngineName
from harness.planning.design import max_cells
from harness.scenario.schema import GilbertElliott, Link, LinkChange, Move, Path, Proxy, Red, Scenario, Service
from harness.topology import server_of
from harness.topology.mobility import compile_moves, outages_by_path
from harness.units import Duration, Percentage, Size


def _jitter(link: Link) -> list[str]:
    """How the delay varies."""
    if not link.jitter.value:
        return []
    return [
        f"    jitter: each packet's delay is drawn evenly from {link.delay} ± {link.jitter}, "
        "so that packets may overtake each other"
    ]


def _share(value: float) -> str:
    return f"{value * 100:.5g} %"


def loss_words(loss: Percentage | GilbertElliott) -> str:
    """A loss model in a sentence."""
    if isinstance(loss, Percentage):
        if loss.fraction in (0, 1):
            return "every packet is lost" if loss.fraction else "no packet is lost"
        return f"each packet is lost with a probability of {loss}, whatever became of the one before"
    leave, enter = loss.bad_to_good.fraction, loss.good_to_bad.fraction
    duration = f"{1 / leave:.3g} packets on average" if leave else "for good"
    frequency = f"after {1 / enter:.3g} packets on average" if enter else "never"
    return (
        f"Gilbert–Elliott: in the good state {loss.loss_in_good} of the packets are lost; the bad one comes "
        f"{frequency}, lasts {duration} and loses {loss.loss_in_bad}; "
        f"in the long run {_share(loss.mean)} are lost, in bursts"
    )


def _loss(link: Link) -> list[str]:
    lines = [f"    loss: {loss_words(link.loss)}"] if link.mean_loss else []
    if link.drop is not None and link.drop.packets:
        lines.append(f"    dropped: UDP datagrams {', '.join(map(str, link.drop.packets))}, counted behind the queue")
    for name, fault in (("dropped", link.drop), ("damaged, in one byte", link.corrupt)):
        if fault is not None and fault.rate is not None:
            limit = f", at most {fault.burst} in a row" if fault.burst is not None else ""
            share = fault_share(fault.rate.fraction, fault.burst)
            lines.append(
                f"    {name}: each UDP datagram with a probability of {fault.rate}{limit}: {_share(share)} of all"
            )
    return lines


def _red(link: Link, rtt: Duration) -> list[str]:
    """What RED drops or marks, and when."""
    queue = link.queue
    if not isinstance(queue, Red):
        return []
    low, high = (
        f"{size:,} B ({link.rate.time_for(size) * 1000:.1f} ms)"
        for size in (size_bytes(threshold, link, rtt) for threshold in (queue.min, queue.max))
    )
    action = "marks (where a packet allows ECN, and drops the others)" if queue.ecn else "drops"
    marking = "are marked Congestion Experienced instead of dropped, if their sender set ECT (RFC 3168)"
    marks = (
        f"    ECN: packets {marking}; what the hard limit takes is dropped" if queue.ecn else "    ECN: off, RED drops"
    )
    weight = f"weight {queue.wq:g}" if queue.wq is not None else f"burst of {queue.burst} packets"
    return [
        f"    RED: {action} nothing while the average queue is below {low}, then more and more, up to "
        f"{queue.probability} of the packets at {high}, and all of them above; average with {weight}",
        marks,
    ]


def _cold_start(service: Service) -> str:
    """How the service process starts and restarts."""
    if not service.cold_start.value:
        return ""
    restart = "" if service.period is None else f", and again every {service.period}"
    return f"; for the first {service.cold_start} one comes every 100 ms{restart}"


def _server(link: Link, server: Server) -> list[str]:
    """How packets leave the queue, and the effect on them."""
    if link.service is not None:
        return [f"    served by a Poisson process: one packet at each opportunity{_cold_start(link.service)}"]
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
    loss = f", loss {_share(link.mean_loss)}" if link.mean_loss else ""
    return [
        f"  {name}: {link.rate}, {link.delay} one way{loss}",
        f"    BDP {bdp_bytes(link.rate, rtt):,} B · queue ({link.queue.discipline}) {queue:,} B = "
        f"{milliseconds:.1f} ms",
        *_server(link, server),
        *_red(link, rtt),
        *_jitter(link),
        *_loss(link),
    ]


def _change_words(new: LinkChange) -> list[str]:
    """What a change sets."""
    settings = (("rate", new.rate), ("delay", new.delay))
    words = [f"{name} {value}" for name, value in settings if value is not None]
    return words if new.loss is None else [*words, f"loss: {loss_words(new.loss)}"]


def _sizes(scenario: Scenario) -> list[Size]:
    return sorted({*scenario.milestones_within(), *(flow.amount for flow in scenario.flows if flow.amount)})


def _path_label(kind: str, name: str) -> str:
    """The kind of a path, with its name where it has one."""
    return f"{kind} {name}".rstrip()


def _steps(scenario: Scenario) -> Iterator[tuple[str, Path] | Proxy]:
    """Yield (name, path). Of segments in sequence also the proxies between them, from the servers' end."""
    if not scenario.in_sequence:
        yield from scenario.every_path.items()
    for step in scenario.steps:
        yield step if isinstance(step, Proxy) else (step.name, step)


def _proxy(proxy: Proxy) -> str:
    """A proxy in a sentence."""
    return (
        f"proxy: splits TCP; send buffer {proxy.tcp_wmem_max}, receive buffer {proxy.tcp_rmem_max}, "
        f"initial windows {proxy.initial_cwnd} and {proxy.initial_rwnd} packets, {proxy.congestion_control}"
    )


def _path(name: str, path: Path, server: Server, scenario: Scenario) -> list[str]:
    kind, end = "path", f", terminal at the {path.terminal}'s end"
    if scenario.in_sequence:
        kind, end = "segment", ""
    lines = [f"{_path_label(kind, name)} (RTT {path.rtt}{end})"]
    lines += _link("forward (to the terminal)", path.forward, path.rtt, server)
    lines += _link("return (from the terminal)", path.return_, path.rtt, server)
    for change in path.changes:
        for name, new in (("forward", change.forward), ("return", change.return_)):
            if new is not None:
                lines.append(f"  after {change.at}: {name} {', '.join(_change_words(new))}")
    return lines


def _move(move: Move) -> str:
    """A move in a sentence."""
    repetition = "" if move.every is None else f", and again every {move.every}"
    actions = {
        "migrate": f"it probes {move.to}, and goes there once that is validated",
        "interface": f"its path is gone, and it goes to {move.to} without probing",
        "nat-port": f"its path gives it another port{repetition}",
        "nat-address": f"its path gives it another address{repetition}",
    }
    gap = "" if move.gap is None else f", {move.gap} later"
    overlap = "" if move.overlap is None else f"; its old path is gone {move.overlap} later"
    return f"at {move.at} {actions[move.how]}{gap}{overlap}"


def _flows(scenario: Scenario) -> list[str]:
    """Where clients start, and their moves."""
    lines = []
    for index, flow in enumerate(scenario.flows):
        if scenario.paths:
            lines.append(f"the client of flow {index} starts on {scenario.start(flow)}")
        lines += [f"  {_move(move)}" for move in flow.moves]
    return lines


def _study(scenario: Scenario) -> list[str]:
    """What a study varies, for a pair that honours all of it."""
    study = scenario.study
    if study is None:
        return []
    variations = {name: ", ".join(map(str, levels)) for name, levels in study.factors.items()}
    variations |= {
        name: ", ".join(f"{full} {value}" for full, value in settings.items())
        for name, settings in study.profiles.items()
    }
    kind = f"{study.design} of {len(study.factors)} factors" if study.factors else f"{len(study.profiles)} profiles"
    cells = f"study: {kind}, {max_cells(study)} cells for a pair that honours everything ('harness plan' says who does)"
    return [cells, *(f"  {name}: {text}" for name, text in variations.items())]


def scenario_text(scenario: Scenario, engine: EngineName) -> str:
    """The scenario, its paths' figures, reference times for each size, objectives, and the programs under an engine.

    Drawn values appear as the file gives them. Reference times are those of the first path, or of all segments in
    sequence together.
    """
    reference_path, server = flow_timeline(scenario), server_of(engine)
    lines = [f"{scenario.name}: {scenario.title}", ""]
    lines += [f"  source: {text}" for text in scenario.references]
    for step in _steps(scenario):
        lines += [_proxy(step)] if isinstance(step, Proxy) else _path(*step, server, scenario)
    draws = (f"{name}: drawn from {low} to {high}" for name, (low, high) in scenario.draw.items())
    lines += [*draws, *_flows(scenario), *_study(scenario)]
    lines += ["", "times from the first datagram, seconds (no headers, loss or overshoot)"]
    lines += ["  size       textbook slow start      ideal  objective"]
    bounds = {item.metric: f"{item.bound:g}" for item in scenario.objectives}
    for size in _sizes(scenario):
        objective = bounds.get(f"milestone_{size.label()}", "open")
        lines.append(
            f"  {size.label():8} {slow_start_time(reference_path, size):21.2f} "
            f"{ideal_time(reference_path, size):10.2f}  {objective}"
        )
    nat_mappings = [mapping for flow in compile_moves(scenario, 0) for mapping in flow.mappings.items()]
    for name, path in scenario.every_path.items():
        head = f"path program{f' of {name}' if name else ''}, engine {engine}"
        lines += ["", f"{head} (left: the clients' interface, right: the servers')"]
        mappings = [
            mapping for path_name, path_mappings in nat_mappings for mapping in path_mappings if path_name == name
        ]
        program = compile_path(path, server, outages=outages_by_path(scenario).get(name, ()), mappings=mappings)
        lines += [f"  {line}" for line in program.lines()]
    return "\n".join(lines) + "\n"
