"""Describe a scenario before it runs: figures of its paths, reference times, path program."""

from __future__ import annotations

import math
from collections.abc import Iterator

from harness.netem import (
    Server,
    bdp_bytes,
    burst_bytes,
    compile_path,
    early_share,
    fault_share,
    ideal_time,
    overtaking_share,
    queue_bytes,
    size_bytes,
    slow_start_time,
)
from harness.netem.bounds import SMALLEST_INITIAL
from harness.netem.mobility import flow_timeline
from harness.outcome import EngineName
from harness.planning.design import max_cells
from harness.planning.sampling import with_plain_changes
from harness.scenario.parameters import Role
from harness.scenario.schema import (
    MTU,
    OPPORTUNITY,
    SMALLEST_MTU,
    Cake,
    Change,
    Codel,
    DualPi2,
    FqCodel,
    FqPie,
    GilbertElliott,
    Jitter,
    Link,
    LinkChange,
    Move,
    Path,
    PathMtu,
    Pie,
    PoissonService,
    Policer,
    Proxy,
    Red,
    Reorder,
    Scenario,
    Sfq,
    Slots,
    StepMarker,
    TimedGilbertElliott,
    Trace,
)
from harness.topology import server_of
from harness.topology.mobility import compile_moves, outages_by_path
from harness.units import Duration, Percentage, Rate, Size


def _slots(slots: Slots) -> str:
    """Opportunities in a sentence."""
    shortest, longest = slots.gaps
    wait = f"{longest}" if shortest == longest else f"{shortest} to {longest} (drawn evenly)"
    limits = [f"{slots.packets} packets"] if slots.packets is not None else []
    limits += [f"{slots.bytes}"] if slots.bytes is not None else []
    most = (
        f", {' or '.join(limits)} at most, which carry {slots.capacity / 1e6:.4g} Mbit/s of 1200-byte datagrams"
        if limits
        else ""
    )
    return (
        f"slots: sent at the rate, packets wait for an opportunity and leave together{most}; it comes {wait} after the "
        "first of them, or after one that was used up"
    )


def _jitter(link: Link) -> list[str]:
    """How the delay varies."""
    variation, lines = link.variation, list[str]()
    if variation.deviation.value:
        drawn = (
            f"drawn evenly from {link.delay} ± {variation.deviation}"
            if variation.distribution == "uniform"
            else f"{link.delay} on average, by a {variation.distribution} distribution with a deviation of "
            f"{variation.deviation}"
        )
        share = overtaking_share(link)
        overtaken = "" if math.isnan(share) else f": on a full link {_share(share)} of the packets are overtaken"
        order = "a packet waits for the one before it" if variation.order == "kept" else "packets overtake each other"
        lines.append(
            f"    jitter: each packet's delay is {drawn}; {order}{overtaken if variation.order == 'free' else ''}"
        )
    if link.reorder is not None:
        ahead = "at once" if link.reorder.ahead is None else f"{link.reorder.ahead} early"
        gap = "" if link.reorder.gap == 1 else f", and no two within {link.reorder.gap}"
        lines.append(f"    reordering: {_share(early_share(link.reorder))} of the packets leave {ahead}{gap}")
    if link.duplicate.value:
        lines.append(f"    duplication: {_share(link.duplicate.fraction)} of the packets arrive twice")
    return lines


def _share(value: float) -> str:
    return f"{value * 100:.5g} %"


def loss_words(loss: Percentage | GilbertElliott | TimedGilbertElliott) -> str:
    """A loss model in a sentence."""
    if isinstance(loss, Percentage):
        if loss.fraction in (0, 1):
            return "every packet is lost" if loss.fraction else "no packet is lost"
        return f"each packet is lost with a probability of {loss}, whatever became of the one before"
    if isinstance(loss, TimedGilbertElliott):
        return (
            f"Gilbert–Elliott in time: the good state lasts {loss.good} on average and loses {loss.loss_in_good}, "
            f"the bad one lasts {loss.bad} and loses {loss.loss_in_bad}; in the long run {_share(loss.mean)} of the "
            "packets are lost"
        )
    leave, enter = loss.bad_to_good.fraction, loss.good_to_bad.fraction
    duration = f"{1 / leave:.3g} packets on average" if leave else "for good"
    frequency = f"after {1 / enter:.3g} packets on average" if enter else "never"
    return (
        f"Gilbert–Elliott: in the good state {loss.loss_in_good} of the packets are lost; the bad one comes "
        f"{frequency}, lasts {duration} and loses {loss.loss_in_bad}; "
        f"in the long run {_share(loss.mean)} are lost, in bursts"
    )


def _course(trace: Trace) -> str:
    """How a trace runs: its file, its size, and where it starts."""
    kind = "opportunities" if trace.opportunities else "rows"
    start = "starts anywhere, by the seed" if trace.offset == "drawn" else f"starts at {trace.offset}"
    end = "begins again at its end" if trace.loop else "is played once"
    return f"{trace.trace} ({trace.entries:,} {kind} in {trace.period}, {start}, {end})"


def _traced_rate(trace: Trace) -> list[str]:
    if trace.opportunities:
        return [
            f"packet-delivery trace: {_course(trace)}; the rate is its mean",
            f"an opportunity carries {OPPORTUNITY} B of one packet or several, and what nobody uses is lost",
        ]
    return [
        f"rate: follows {_course(trace)}, from {trace.least / 1e6:.5g} to {trace.largest / 1e6:.5g} Mbit/s, mean above",
        "serial: a packet leaves when all before it, and then it, have been sent; no credit is saved",
    ]


def _traced_transit(link: Link) -> list[str]:
    """The delay and the loss of a link that follow traces."""
    lines = []
    if link.traced is not None and (trace := link.traced.delay) is not None:
        lines.append(
            f"delay: follows {_course(trace)}, from {trace.least / 1e6:.5g} to {trace.largest / 1e6:.5g} ms, mean "
            "above; no packet overtakes another"
        )
    if link.traced is not None and (trace := link.traced.loss) is not None:
        lines.append(
            f"loss: follows {_course(trace)}, from {_share(trace.least)} to {_share(trace.largest)}, "
            f"mean {_share(trace.mean)}"
        )
    return lines


#: What a node on the way does to ECN, as a sentence.
_ECN = {
    "bleach": "cleared on the way: packets arrive as Not-ECT",
    "ect1-to-ect0": "ECT(1) is rewritten as ECT(0) on the way",
    "mark": "every packet that allows it is marked Congestion Experienced on the way",
    "drop": "packets with ECT or Congestion Experienced are dropped on the way",
}


def _mtu_words(path_mtu: PathMtu) -> str:
    """What becomes of packets that are larger than an MTU, in a sentence."""
    large = f"packets above {path_mtu.size} B"
    if not path_mtu.icmp:
        words = f"{large} vanish without a word (a black hole)"
    else:
        words = (
            f"{large} are not forwarded, and their sender is told (ICMP, Packet Too Big); over IPv4 without DF they "
            "are fragmented"
        )
        if path_mtu.size < SMALLEST_MTU:
            words += f"; over IPv6 no sender is told of less than {SMALLEST_MTU} B"
    refused = [f"IPv{version}" for version, size in SMALLEST_INITIAL.items() if path_mtu.size < size]
    if refused:
        words += (
            f"; no QUIC handshake passes over {' and '.join(refused)}, whose datagrams have 1200 B of payload at least "
            "(RFC 9000 §14.1)"
        )
    return words


def _mtu(link: Link) -> list[str]:
    return [] if link.path_mtu is None else [f"    MTU {link.path_mtu.size} B: {_mtu_words(link.path_mtu)}"]


def _loss(link: Link) -> list[str]:
    lines = [f"    {line}" for line in _traced_transit(link)]
    if link.mean_loss and (link.traced is None or link.traced.loss is None):
        lines.append(f"    loss: {loss_words(link.loss)}")
    if link.ecn is not None:
        lines.append(f"    ECN: {_ECN[link.ecn]}")
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


def _managed(link: Link) -> list[str]:
    """What other active queue management drops or marks, and when."""
    queue = link.queue
    lines: list[str] = []
    if isinstance(queue, Codel):
        lines = [
            f"CoDel: drops from the head once every packet has waited longer than {queue.target} for {queue.interval}, "
            "then more and more often"
        ]
    elif isinstance(queue, Pie):
        lines = [
            f"PIE: drops by chance what arrives; every {queue.tupdate} (in whole ticks of the kernel's clock, 10 ms in "
            f"the lab kernel) it corrects the chance, for a wait of {queue.target}"
        ]
    elif isinstance(queue, Cake):
        lines = [
            f"CAKE: {queue.priorities}, {queue.isolation}; drops from the head of a queue whose packets wait too long "
            f"for a round trip of {queue.rtt}"
        ]
    elif isinstance(queue, Sfq):
        lines = [f"SFQ: flows, chosen by a hash, send {queue.quantum} each in turn; a full queue cuts the longest"]
    elif isinstance(queue, DualPi2):
        lines = [
            "DualPI2: ECT(1) and CE have a queue of low latency, marked by a chance that is coupled to the other's and "
            f"above a wait of {queue.step_threshold}",
            f"the other packets are dropped or marked by chance, for a wait of {queue.target}, corrected every "
            f"{queue.tupdate} (in whole ticks of the kernel's clock)",
        ]
    elif isinstance(queue, StepMarker):
        lines = [f"step: packets that waited longer than {queue.threshold} are marked; a full queue drops what arrives"]
    if isinstance(queue, FqCodel | FqPie):
        lines.append(f"flows: {queue.flows:,} queues, chosen by a hash; each may send {queue.quantum} in its turn")
    if isinstance(queue, Codel) and queue.ce_threshold is not None:
        lines.append(f"ECN: packets that waited longer than {queue.ce_threshold} are marked as well")
    if isinstance(queue, Codel | Pie):
        lines.append("ECN: marks what its sender allows to be marked, instead of a drop" if queue.ecn else "ECN: off")
    return [f"    {line}" for line in lines]


def _policer(queue: Policer, rate: Rate) -> str:
    """A policer in a sentence."""
    fate = "is dropped" if isinstance(queue.exceed, str) else f"gets DSCP {queue.exceed.dscp} and passes"
    return (
        f"policer: {queue.burst.bytes:,} B ({rate.time_for(queue.burst.bytes) * 1000:.1f} ms at the rate) pass at once "
        f"after a rest, and then what the rate allows; what exceeds that {fate}; nothing waits"
    )


def _cold_start(service: PoissonService) -> str:
    """How the service process starts and restarts."""
    if not service.cold_start.value:
        return ""
    restart = "" if service.period is None else f", and again every {service.period}"
    return f"; for the first {service.cold_start} one comes every 100 ms{restart}"


def _server(link: Link, server: Server, mtu: int) -> list[str]:
    """How packets leave the queue, and the effect on them."""
    if link.poisson is not None:
        return [f"    served by a Poisson process: one packet at each opportunity{_cold_start(link.poisson)}"]
    if link.traced is not None and link.traced.rate is not None:
        return [f"    {line}" for line in _traced_rate(link.traced.rate)]
    if isinstance(link.queue, Policer):
        return [f"    {_policer(link.queue, link.rate)}"]
    burst = burst_bytes(link, server, mtu)
    if burst is None:
        return ["    serial: a packet leaves when all before it, and then it, have been sent; no credit is saved"]
    return [
        f"    token bucket {burst:,} B: after a rest so much passes at once; waits are shorter than on a serial link "
        f"by up to {link.rate.time_for(burst) * 1000:.1f} ms"
    ]


def _link(name: str, link: Link, path: Path, server: Server) -> list[str]:
    rtt = path.rtt
    queue = queue_bytes(link, rtt)
    milliseconds = link.rate.time_for(queue) * 1000
    loss = f", loss {_share(link.mean_loss)}" if link.mean_loss else ""
    room = f"queue ({link.queue.discipline}) {queue:,} B = {milliseconds:.1f} ms" if link.queue.holds else "no queue"
    return [
        f"  {name}: {link.rate}, {link.delay} one way{loss}",
        f"    BDP {bdp_bytes(link.rate, rtt):,} B · {room}",
        *_server(link, server, path.mtu),
        *_red(link, rtt),
        *_managed(link),
        *([f"    {_slots(link.slots)}"] if link.slots is not None else []),
        *_jitter(link),
        *_mtu(link),
        *_loss(link),
    ]


def _value_words(name: str, value: object) -> str:
    """A value that a change sets, or what it is drawn from."""
    if isinstance(value, tuple):
        return f"{name} drawn from {value[0]} to {value[1]}"
    if isinstance(value, Percentage | GilbertElliott) and name == "loss":
        return f"loss: {loss_words(value)}"
    if isinstance(value, Jitter):
        return f"jitter {value.deviation} ({value.distribution}, order {value.order})"
    if isinstance(value, Reorder):
        return f"reordering of {value.share}"
    return f"{name} {value}"


def _change_words(new: LinkChange) -> list[str]:
    """What a change sets."""
    words = [_value_words(name, getattr(new, name)) for name in new.named if name not in ("outage", "mtu")]
    if new.path_mtu is not None:
        words.append(f"MTU {new.path_mtu.size} B: {_mtu_words(new.path_mtu)}")
    return words if new.outage is None else [*words, f"nothing passes for {_time_words(new.outage)}"]


def _time_words(time: Duration | tuple[Duration, Duration]) -> str:
    return f"{time[0]} to {time[1]}" if isinstance(time, tuple) else str(time)


def _repetition(change: Change) -> str:
    if change.every is None:
        return ""
    return f", and every {change.every}" + ("" if change.until is None else f" until {change.until}")


def _outages(path: Path) -> list[str]:
    """When nothing passes, apart from the changes; of the whole path where the program alone does not say it."""
    whole = path.blackhole if path.blackhole is not None and not path.is_plain else None
    lines = []
    for name, item in (("both ways", whole), ("forward", path.forward.blackhole), ("return", path.return_.blackhole)):
        if item is None:
            continue
        often = f", every {item.every}" if item.every is not None else f", {item.repeat} times" * (item.repeat > 1)
        lines.append(f"  from {item.after}: {name} nothing passes for {_time_words(item.lasts)}{often}")
    return lines


def _sizes(scenario: Scenario, sender: Role) -> list[Size]:
    """The milestones, and the sizes of the flows from this sender."""
    amounts = (flow.amount for flow in scenario.flows if flow.amount and flow.sender == sender)
    return sorted({*scenario.milestones_within(), *amounts})


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
    interfaces = f", MTU {path.mtu} B" if path.mtu != MTU else ""
    lines = [f"{_path_label(kind, name)} (RTT {path.rtt}{end}{interfaces})"]
    lines += _link("forward (to the terminal)", path.forward, path, server)
    lines += _link("return (from the terminal)", path.return_, path, server)
    for change in path.changes:
        for name, new in change.sides:
            lines.append(f"  after {change.at}{_repetition(change)}: {name} {', '.join(_change_words(new))}")
    lines += _outages(path)
    if path.draws:
        lines.append("  drawn anew for each repetition of a run; the program below and the times are those of seed 0")
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


def _reference_times(scenario: Scenario) -> list[str]:
    """A table of the sizes, with the times of textbook slow start and of the line rate. One for each direction in which
    flows send, by the first of them.
    """
    first = {flow.sender: flow for flow in reversed(scenario.flows)}
    bounds = {item.metric: f"{item.bound:g}" for item in scenario.objectives}
    lines = []
    for sender in sorted(first, key=lambda sender: scenario.flows.index(first[sender])):
        course = flow_timeline(scenario, first[sender])
        way = {"server": "", "client": " of an upload"}[sender]
        lines += ["", f"times{way} from the first datagram, seconds (no headers, loss or overshoot)"]
        lines += ["  size       textbook slow start      ideal  objective"]
        for size in _sizes(scenario, sender):
            objective = bounds.get(f"milestone_{size.label()}", "open")
            slow_start, ideal = slow_start_time(course, size), ideal_time(course, size)
            lines.append(f"  {size.label():8} {slow_start:21.2f} {ideal:10.2f}  {objective}")
    return lines


def scenario_text(scenario: Scenario, engine: EngineName) -> str:
    """The scenario, its paths' figures, reference times for each size, objectives, and the programs under an engine.

    Drawn values appear as the file gives them. Reference times are those of the first path, or of all segments in
    sequence together.
    """
    server = server_of(engine)
    lines = [f"{scenario.name}: {scenario.title}", ""]
    lines += [f"  source: {text}" for text in scenario.references]
    for step in _steps(scenario):
        lines += [_proxy(step)] if isinstance(step, Proxy) else _path(*step, server, scenario)
    draws = (f"{name}: drawn from {low} to {high}" for name, (low, high) in scenario.draw.items())
    cpus = (f"computing costs the {role}s {cpu}, in virtual time" for role, cpu in scenario.cpu.items())
    lines += [*draws, *_flows(scenario), *cpus, *_study(scenario)]
    lines += _reference_times(scenario)
    nat_mappings = [mapping for flow in compile_moves(scenario, 0) for mapping in flow.mappings.items()]
    plain = with_plain_changes(scenario, 0)
    for name, path in plain.every_path.items():
        head = f"path program{f' of {name}' if name else ''}, engine {engine}"
        lines += ["", f"{head} (left: the clients' interface, right: the servers')"]
        mappings = [
            mapping for path_name, path_mappings in nat_mappings for mapping in path_mappings if path_name == name
        ]
        program = compile_path(path, server, outages=outages_by_path(plain).get(name, ()), mappings=mappings)
        lines += [f"  {line}" for line in program.lines()]
    return "\n".join(lines) + "\n"
