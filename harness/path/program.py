"""The path program itself, and the pure function that makes it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

from harness.model import MTU, DropTail, GilbertElliott, Link, LinkChange, Path, Red
from harness.path.arithmetic import (
    FRAME,
    Server,
    burst_bytes,
    curve_rate,
    netem_limit,
    opportunity_gap,
    queue_bytes,
    size_bytes,
)
from harness.units import Duration, Percentage, Rate

#: One command as an argument vector. The interfaces are called `left` (client side) and `right`.
Command = tuple[str, ...]
Side = Literal["left", "right"]
#: TCP port on which the simulator says that the path is up.
READY_PORT = 57832
#: Ahead of a queue with a service process: cuts super-packets and never holds one back (tc tbf rate, burst).
UNLIMITED = ("10gbit", 2 * FRAME)
#: Quantiles of the exponential distribution for netem (images/sim/exponential.py), and what tc is told as mean and
#: deviation, in mean gaps: they give the table the range from nothing to ten mean gaps.
_EXPONENTIAL, _CENTRE, _DEVIATION = "exponential", 5.0, 1.25
#: The kernel cuts a slot's deviation to what 32 bits hold, ns.
_LARGEST_DEVIATION = (1 << 31) - 1
#: One opportunity every so often during a cold start (the traces of Pantheon's --cold-start).
COLD_GAP = Duration.parse("100 ms")
#: Seeds of service processes lie so far from those of the netems behind them.
_SLOT_SEED = 100
#: For how long a cold start comes again.
HORIZON = Duration.parse("10 min")


class Record(BaseModel):
    """A frozen part of the program."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TimedCommands(Record):
    """Commands that apply `at_ns` after the client's first datagram."""

    at_ns: int
    commands: tuple[Command, ...]


class LinkProgram(Record):
    """What one direction was compiled to; the link proof compares against these figures."""

    device: str
    """The ifb that holds the bottleneck queue."""
    ingress: Side
    egress: Side
    rate_bps: int
    delay_ns: int
    jitter_ns: int
    burst_bytes: int | None
    """The token bucket; None for a serial server, and for a service process."""
    limit_bytes: int | None
    limit_packets: int | None
    discipline: Literal["droptail", "red"]
    service: Literal["constant", "poisson"] = "constant"
    mean_loss: float


class LinkState(Record):
    """Figures of a direction from a change on; None where nothing changes."""

    rate_bps: int | None = None
    delay_ns: int | None = None
    burst_bytes: int | None = None
    mean_loss: float | None = None


class PathChange(Record):
    """Figures of a scheduled change."""

    at: float
    to_client: LinkState | None
    to_server: LinkState | None


class PathProgram(Record):
    """The commands, and the figures they stand for."""

    version: Literal[1] = 1
    setup: tuple[Command, ...]
    changes: tuple[TimedCommands, ...]
    links: dict[Literal["to_client", "to_server"], LinkProgram]
    timeline: tuple[PathChange, ...] = ()

    def lines(self) -> list[str]:
        """The program as a person would type it."""
        lines = [" ".join(command) for command in self.setup]
        for change in self.changes:
            lines.append(f"# {change.at_ns / 1e9:g} s after the client's first datagram")
            lines.extend(" ".join(command) for command in change.commands)
        return lines


def _percent(fraction: float) -> str:
    return f"{fraction * 100:.9f}".rstrip("0").rstrip(".") + "%"


def _nanoseconds(duration: Duration) -> str:
    return f"{duration.value}ns"


def _loss(loss: Percentage | GilbertElliott, seed: int) -> list[str]:
    if isinstance(loss, Percentage):
        words = ["loss", "random", _percent(loss.fraction)] if loss.value else []
    else:
        # tc: gemodel p r 1-h 1-k, where 1-h is the loss in the bad state and 1-k in the good one.
        chances = (loss.good_to_bad, loss.bad_to_good, loss.loss_in_bad, loss.loss_in_good)
        words = ["loss", "gemodel", *(_percent(chance.fraction) for chance in chances)]
    return [*words, "seed", str(seed)] if words else []


def _netem(verb: str, link: Link, side: Side, place: Command, more: Duration, seed: int) -> Command:
    """Delay and loss at one place of the egress; `more`: an access delay on top of the link's own."""
    delay = ["delay", _nanoseconds(link.delay + more)]
    if link.jitter.value:
        delay.append(_nanoseconds(link.jitter))
    return (
        "tc", "qdisc", verb, "dev", side, *place, "netem",
        "limit", str(netem_limit(link.model_copy(update={"delay": link.delay + more}))), *delay,
        *_loss(link.loss, seed),
    )  # fmt: skip


def _serial(link: Link, server: Server) -> bool:
    """Whether the link sends one packet after the other, each in its own time."""
    return link.service is None and burst_bytes(link, server) is None


Access = Mapping[str, Duration]
"""Addresses of endpoints with an access delay of their own → the delay."""


def _top(serial: bool) -> tuple[Command, str]:
    """Place and handle of what delays: the egress's root, or below the netem that takes a packet's time."""
    return (("parent", "1:", "handle", "2:"), "2:") if serial else (("root", "handle", "1:"), "1:")


def _places(access: Access, serial: bool) -> list[tuple[Command, Duration]]:
    """Where the netems of an egress are, and their access delays: the top alone, or the classes of a prio."""
    delays = sorted(set(access.values()))
    place, top = _top(serial)
    if not delays:
        return [(place, Duration(0))]
    return [
        (("parent", f"{top}{band:x}", "handle", f"{band + 0x10:x}:"), delay)
        for band, delay in enumerate((Duration(0), *delays), 1)
    ]


def _transmission(verb: str, link: Link, side: Side, limit: int) -> Command:
    """The second half of a serial server: a packet leaves after its own time, and behind the one before.

    net/sched/sch_netem.c, netem_enqueue: max(now, when the last leaves) + length/rate, in ns. It keeps the order of
    packets, which jitter and a falling delay do not, so that it is no part of the netem that delays.
    """
    return (
        "tc", "qdisc", verb, "dev", side, "root", "handle", "1:", "netem", "limit", str(limit),
        "rate", f"{link.rate.value}bit",
    )  # fmt: skip


def _room(states: Sequence[Link], access: Access) -> int:
    """Packets that the egress of one direction may hold in any state of the path; a netem counts those inside it."""
    more = max([Duration(0), *access.values()])
    most = {"rate": max(link.rate for link in states), "delay": max(link.delay for link in states) + more}
    return netem_limit(states[0].model_copy(update=most))


def _egress(link: Link, side: Side, access: Access, seed: int, room: int, serial: bool) -> tuple[Command, ...]:
    """A serial server's transmission; then delay, jitter and loss of one direction, with its flows' access delays."""
    ahead = (_transmission("add", link, side, room),) if serial else ()
    places = _places(access, serial)
    netems = tuple(_netem("add", link, side, place, more, seed + 2 * band) for band, (place, more) in enumerate(places))
    if len(places) == 1:
        return (*ahead, *netems)
    bands = {delay: band for band, (_, delay) in enumerate(places, 1)}
    place, top = _top(serial)
    prio = ("tc", "qdisc", "add", "dev", side, *place, "prio", "bands", str(len(places)), "priomap", *["0"] * 16)
    filters = []
    for address, delay in access.items():
        version = ip_address(address).version
        protocol, order, match, bits = ("ip", "1", "ip", "32") if version == 4 else ("ipv6", "2", "ip6", "128")
        filters.append(
            ("tc", "filter", "add", "dev", side, "parent", top, "protocol", protocol, "prio", order, "u32",
             "match", match, "dst", f"{address}/{bits}", "flowid", f"{top}{bands[delay]:x}")
        )  # fmt: skip
    return (*ahead, prio, *netems, *filters)


def _slot(verb: str, link: Link, device: str, limit: int, mtu: int, seed: int, *, cold: bool) -> Command:
    """The server of a queue with a service process: one packet when an opportunity comes (netem's slots).

    As net/sched/sch_netem.c has it (netem_dequeue, get_slot_next): when a packet leaves, the gap to the next
    opportunity is drawn; a packet that comes to a queue which has been empty beyond that one draws a new gap from
    then on. With exponential gaps, which have no memory, both are what a Poisson process that runs all the time and
    wastes opportunities on an empty queue does. What differs from mahimahi: an opportunity is one packet of any size,
    not 1504 bytes; in a cold start a packet that comes to an empty queue waits 100 ms, where it would wait for what
    is left of them; gaps are not whole milliseconds; and a timer that is late, in real time, makes a gap longer for
    good, by 0.1 ms in the lab kernel, which is 2 % of the mean gap at 2.64 Mbit/s. A change seeds the process anew, so
    that it repeats itself from period to period, as a trace in a loop does, and begins with an opportunity. The limit
    counts the packet in service.
    """
    gap = opportunity_gap(link, mtu).value
    # A change cannot take the table away, so a cold start has it too: with a deviation of nothing, almost.
    mean, deviation = (COLD_GAP.value, 1) if cold else (round(_CENTRE * gap), round(_DEVIATION * gap))
    if deviation > _LARGEST_DEVIATION:
        raise ValueError(f"netem has no Poisson process as slow as {link.rate}: its gaps end at 10 × 1.7 s")
    parent = "10:1" if isinstance(link.queue, Red) else "1:"
    return (
        "tc", "qdisc", verb, "dev", device, "parent", parent, "handle", "20:", "netem", "limit", str(limit),
        "slot", "distribution", _EXPONENTIAL, f"{mean}ns", f"{deviation}ns", "packets", "1", "seed", str(seed),
    )  # fmt: skip


def _tbf(verb: str, device: str, rate: Rate, burst: int, limit: int) -> Command:
    return (
        "tc", "qdisc", verb, "dev", device, "root", "handle", "1:", "tbf",
        "rate", f"{rate.value}bit", "burst", str(burst), "limit", str(limit),
    )  # fmt: skip


def _curve(verb: str, device: str, rate: Rate) -> Command:
    """The first half of a serial server: one class of hfsc, which may have the link's rate and no more.

    net/sched/sch_hfsc.c: a packet leaves the queue when all before it have been sent, as far as the upper limit goes
    (update_vf: rtsc_y2x of the bytes so far), and an idle link saves nothing up (init_vf: rtsc_min). So the packet in
    service is outside the queue, as at a device that transmits, and its own time is the egress's (`_transmission`).
    A real-time curve (rt) would ignore the upper limit. tbf with a bucket of one frame keeps the same times with
    that egress, but lets as many bytes out of the queue ahead of their time: twenty ACKs in place of one packet.
    """
    curve = ("rate", f"{curve_rate(rate)}bit")
    return (
        "tc", "class", verb, "dev", device, "parent", "1:", "classid", "1:1", "hfsc", "ls", *curve, "ul", *curve,
    )  # fmt: skip


def red_log_weight(minimum: int, burst: int, average_packet: int) -> int | None:
    """The Wlog that iproute2 takes for these values (tc/tc_red.c, tc_red_eval_ewma), or None."""
    excess = burst + 1 - minimum / average_packet
    if excess < 1:
        return None
    weight = 0.5
    for log in range(1, 32):
        if excess <= (1 - (1 - weight) ** burst) / weight:
            return log
        weight /= 2
    return None


def red_burst(wq: float, minimum: int, average_packet: int) -> int:
    """The burst for which iproute2 takes the power of two nearest to `wq`; ValueError if there is none."""
    wanted = min(range(1, 32), key=lambda log: abs(wq - 2.0**-log) / wq)

    def weight(burst: int) -> int:
        """What iproute2 takes: the more, the larger the burst; 0 below all bursts that it has one for, 32 above."""
        log = red_log_weight(minimum, burst, average_packet)
        return log if log is not None else 0 if burst + 1 - minimum / average_packet < 1 else 32

    first = max(1, minimum // average_packet)
    bursts = range(first, first + 100_000)
    begin, end = bisect_left(bursts, wanted, key=weight), bisect_right(bursts, wanted, key=weight)
    if begin == end:
        raise ValueError(f"tc has no burst for wq {wq} with min {minimum} B and avpkt {average_packet} B")
    return bursts[begin + (end - begin) // 2]


def _queue(link: Link, device: str, rtt: Duration, parent: str = "1:") -> Command:
    """The queue behind `parent`."""
    child = ("tc", "qdisc", "add", "dev", device, "parent", parent, "handle", "10:")
    queue = link.queue
    if isinstance(queue, DropTail):
        if queue.size.unit == "packets":
            return (*child, "pfifo", "limit", str(round(queue.size.amount)))
        return (*child, "bfifo", "limit", str(queue_bytes(link, rtt)))
    limit, low, high = (size_bytes(size, link, rtt) for size in (queue.limit, queue.min, queue.max))
    average = queue.average_packet.bytes
    burst = queue.burst if queue.burst is not None else red_burst(queue.wq or 0.002, low, average)
    words = [
        "red", "limit", str(limit), "min", str(low), "max", str(high), "avpkt", str(average),
        "burst", str(burst), "bandwidth", f"{link.rate.value}bit", "probability", f"{queue.probability.fraction:g}",
    ]  # fmt: skip
    return (*child, *words, *(["ecn"] if queue.ecn else []))


def _redirect(side: Side, device: str) -> tuple[Command, ...]:
    """Everything that enters goes through the bottleneck, but what endpoints say to their neighbours alone.

    No router forwards that: IPv6's multicast reports and solicitations (RFC 3810, RFC 4861), which a kernel sends at
    times of its own, and what asks the simulator whether the path is up. A report of 110 bytes would hold up the flows'
    packets by 0.18 ms at 5 Mbit/s.
    """
    where = ("tc", "filter", "add", "dev", side, "parent", "ffff:", "protocol")
    mirred = ("action", "mirred", "egress", "redirect", "dev", device)
    everything = ("u32", "match", "u32", "0", "0", *mirred)
    rules = (
        (*where, "ip", "prio", "1", "u32", "match", "ip", "protocol", "6", "0xff",
         "match", "ip", "dport", str(READY_PORT), "0xffff", "action", "pass"),
        (*where, "ip", "prio", "2", *everything),
        (*where, "ipv6", "prio", "3", "u32", "match", "ip6", "dst", "ff00::/8", "action", "pass"),
        (*where, "ipv6", "prio", "4", *everything),
    )  # fmt: skip
    return (
        ("ip", "link", "add", device, "type", "ifb"),
        ("ip", "link", "set", "dev", device, "up"),
        ("tc", "qdisc", "add", "dev", side, "handle", "ffff:", "ingress"),
        *rules,
    )


def _bottleneck(link: Link, device: str, rtt: Duration, mtu: int, seed: int, server: Server) -> tuple[Command, ...]:
    """The queue of one direction and what serves it.

    Below hfsc, too, RED sees neither idle times nor the packet in service: nothing asks an empty queue for a packet.
    With a service process: tbf, which takes whatever its child lets go; RED, if asked for, which sees all that waits
    as the backlog of its child; and the server. tbf peeks, so that RED does not take the time between opportunities
    for idle. RED must then hand over the very packet that was peeked at (net/sched/sch_red.c, red_dequeue:
    qdisc_dequeue_peeked); the lab kernel's does, but on an older one netem's first packet never leaves.
    """
    if link.service is not None:
        return _behind_a_process(link, device, rtt, mtu, seed)
    burst = burst_bytes(link, server)
    if burst is None:
        root = ("tc", "qdisc", "add", "dev", device, "root", "handle", "1:", "hfsc")
        # A default class would do, but tc then writes counters that are no JSON (iproute2, tc/q_hfsc.c).
        everything = ("protocol", "all", "matchall", "classid", "1:1")
        into_class = ("tc", "filter", "add", "dev", device, "parent", "1:", *everything)
        return (root, _curve("add", device, link.rate), into_class, _queue(link, device, rtt, "1:1"))
    bucket = _tbf("add", device, link.rate, burst, queue_bytes(link, rtt))
    # A queue that counts bytes is tbf's own.
    own = isinstance(link.queue, DropTail) and link.queue.size.unit != "packets"
    return (bucket,) if own else (bucket, _queue(link, device, rtt))


def _behind_a_process(link: Link, device: str, rtt: Duration, mtu: int, seed: int) -> tuple[Command, ...]:
    assert link.service is not None
    rate, burst = UNLIMITED
    limit = round(link.held.amount)
    ahead = ("tc", "qdisc", "add", "dev", device, "root", "handle", "1:", "tbf", "rate", rate, "burst", str(burst),
             "limit", str(limit * FRAME))  # fmt: skip
    cold = bool(link.service.cold_start.value)
    # A drop-tail queue is the server's own.
    discipline = (_queue(link, device, rtt),) if isinstance(link.queue, Red) else ()
    return (ahead, *discipline, _slot("add", link, device, limit, mtu, seed, cold=cold))


def _cold_starts(link: Link, device: str, mtu: int, seed: int) -> list[tuple[int, Command]]:
    """When (ns) a service process leaves its cold start and enters it again, and with which command."""
    service = link.service
    if service is None or not service.cold_start.value:
        return []
    limit = round(link.held.amount)
    made, begin = [], 0
    while begin < HORIZON.value:
        if begin:
            made.append((begin, _slot("change", link, device, limit, mtu, seed, cold=True)))
        made.append((begin + service.cold_start.value, _slot("change", link, device, limit, mtu, seed, cold=False)))
        if service.period is None:
            break
        begin += service.period.value
    return made


def _figures(link: Link, device: str, ingress: Side, egress: Side, rtt: Duration, server: Server) -> LinkProgram:
    packets = link.held.unit == "packets" and (isinstance(link.queue, DropTail) or link.service is not None)
    return LinkProgram(
        device=device,
        ingress=ingress,
        egress=egress,
        rate_bps=link.rate.value,
        delay_ns=link.delay.value,
        jitter_ns=link.jitter.value,
        burst_bytes=burst_bytes(link, server),
        limit_bytes=None if packets else queue_bytes(link, rtt),
        limit_packets=round(link.held.amount) if packets else None,
        discipline=link.queue.discipline,
        service="constant" if link.service is None else link.service.process,
        mean_loss=link.mean_loss,
    )


def _apply(link: Link, change: LinkChange | None) -> Link:
    """The link after a change. Its queue keeps the bytes it had."""
    if change is None:
        return link
    new: dict[str, object] = {
        name: value
        for name in ("rate", "delay", "loss")
        if (value := getattr(change, name)) is not None
    }  # fmt: skip
    return link.model_copy(update=new)


def _changed(
    before: Link,
    after: Link,
    device: str,
    egress: Side,
    limit: int,
    room: int,
    access: Access,
    seed: int,
    server: Server,
) -> list[Command]:
    """The commands of a change. A packet that a serial server has begun keeps the end it was given."""
    commands: list[Command] = []
    burst = burst_bytes(after, server)
    if after.rate != before.rate and burst is None:
        # The egress first: a change lets the packet at the head of the queue go.
        commands.append(_transmission("change", after, egress, room))
        commands.append(_curve("change", device, after.rate))
    elif after.rate != before.rate and burst is not None:
        commands.append(_tbf("change", device, after.rate, burst, limit))
    if after.delay != before.delay or after.loss != before.loss:
        commands.extend(
            _netem("change", after, egress, place, more, seed + 2 * band)
            for band, (place, more) in enumerate(_places(access, _serial(after, server)))
        )
    return commands


def _state(before: Link, after: Link, server: Server) -> LinkState | None:
    if before == after:
        return None
    return LinkState(
        rate_bps=after.rate.value if after.rate != before.rate else None,
        delay_ns=after.delay.value if after.delay != before.delay else None,
        burst_bytes=burst_bytes(after, server) if after.rate != before.rate else None,
        mean_loss=after.mean_loss if after.loss != before.loss else None,
    )


_DIRECTIONS: tuple[tuple[Literal["to_client", "to_server"], Side, Side], ...] = (
    ("to_client", "right", "left"),
    ("to_server", "left", "right"),
)


def compile_path(path: Path, server: Server, seed: int = 1, access: Access | None = None) -> PathProgram:
    """The program of a path. `seed` makes netem's loss and service times repeat, packet for packet.

    `server`: what serves a queue at a constant rate where the path asks for no token bucket (`burst`) of its own.
    `access`: addresses of endpoints with an access delay of their own. ValueError for a queue that tc cannot express.
    """
    rtt, access = path.rtt, access or {}
    links = {"to_client": path.to_client, "to_server": path.to_server}
    # Queues are sized once: a change of rate keeps the bytes.
    limits = {name: queue_bytes(link, rtt) for name, link in links.items()}
    seeds = {"to_client": seed, "to_server": seed + 1}
    states = {name: _states(path, name) for name in links}
    rooms = {name: _room(states[name], access) for name in links}
    setup: list[Command] = []
    if path.mtu != MTU:
        setup.extend(("ip", "link", "set", "dev", side, "mtu", str(path.mtu)) for side in ("left", "right"))
    timed: list[tuple[int, Command]] = []
    for name, ingress, egress in _DIRECTIONS:
        link = links[name]
        setup.extend(_redirect(ingress, name))
        setup.extend(_bottleneck(link, name, rtt, path.mtu, seeds[name] + _SLOT_SEED, server))
        setup.extend(_egress(link, egress, access, seeds[name], rooms[name], _serial(link, server)))
        timed.extend(_cold_starts(link, name, path.mtu, seeds[name] + _SLOT_SEED))
    figures = {name: _figures(links[name], name, ingress, egress, rtt, server) for name, ingress, egress in _DIRECTIONS}
    timeline = []
    for index, change in enumerate(path.changes):
        new: dict[str, LinkState | None] = {}
        for name, _, egress in _DIRECTIONS:
            before, after = states[name][index : index + 2]
            commands = _changed(
                before, after, name, egress, limits[name], rooms[name], access, seeds[name], server
            )  # fmt: skip
            timed.extend((change.at.value, command) for command in commands)
            new[name] = _state(before, after, server)
        timeline.append(PathChange(at=change.at.seconds, to_client=new["to_client"], to_server=new["to_server"]))
    return PathProgram(setup=tuple(setup), changes=_together(timed), links=figures, timeline=tuple(timeline))


def inexpressible(path: Path) -> str:
    """Why tc cannot express a path, for one engine or the other; empty when it can for both."""
    for server in get_args(Server):
        try:
            compile_path(path, server)
        except (ValueError, ArithmeticError) as error:
            return str(error)
    return ""


def _states(path: Path, name: str) -> list[Link]:
    """One direction of the link, at first and after each change."""
    towards_terminal = (name == "to_client") == (path.terminal == "client")
    states = [path.to_client if name == "to_client" else path.to_server]
    for change in path.changes:
        states.append(_apply(states[-1], change.forward if towards_terminal else change.return_))
    return states


def _together(timed: list[tuple[int, Command]]) -> tuple[TimedCommands, ...]:
    """Commands in order of time, those of one moment together."""
    moments: dict[int, list[Command]] = {}
    for at_ns, command in sorted(timed, key=lambda item: item[0]):
        moments.setdefault(at_ns, []).append(command)
    return tuple(TimedCommands(at_ns=at_ns, commands=tuple(commands)) for at_ns, commands in moments.items())
