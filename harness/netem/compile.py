"""Path → path program: the commands of both directions and of the changes in time. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from itertools import pairwise
from types import MappingProxyType

from harness.netem.bottleneck import (
    READY_PORT,
    bottleneck_commands,
    cold_start_commands,
    policer_change_command,
    queue_change_command,
    redirect_commands,
    serial_command,
    tbf_command,
)
from harness.netem.bounds import FRAME, Server, burst_bytes, netem_limit, queue_bytes
from harness.netem.link_states import link_states, queue_limit
from harness.netem.nftables import (
    DROP_PRIORITIES,
    direction_outage_commands,
    direction_outage_setup,
    ecn_setup,
    fault_setup,
    link_faults,
    nat_commands,
    nat_setup,
    outage_commands,
    remark_setup,
)
from harness.netem.path_mtu import Gateways, mtu_change, mtu_setup, size_limit
from harness.netem.program import (
    AddressMapping,
    Command,
    Direction,
    LinkProgram,
    LinkSeries,
    LinkState,
    Outage,
    PathChange,
    PathProgram,
    Side,
    TimedCommands,
)
from harness.netem.series import rate_series, transit_series
from harness.scenario.schema import (
    MTU,
    Cake,
    DropTail,
    GilbertElliott,
    Jitter,
    Link,
    Path,
    PathMtu,
    Policer,
    Reorder,
    Slots,
    TimedGilbertElliott,
)
from harness.units import Duration, Percentage, Rate

#: Distance of the seeds of service processes from those of the netems behind them.
_SLOT_SEED = 100


# --- The egress of a path: a packet's transmission time at a serial link, then delay, jitter and loss.


Access = Mapping[str, Duration]
"""Addresses of endpoints with an access delay of their own → the delay."""

#: The longest delay and the largest loss that the answers of the simulator's gate may have; above, they bypass both. A
#: client gives each attempt to reach the gate 10 s, and the gate itself 60 s (images/endpoint/wait-for-sim).
_GATE_DELAY, _GATE_LOSS = Duration.parse("8 s"), 0.5


def gate_bypasses_egress(states: Sequence[Link], side: Side, access: Access) -> bool:
    """Whether the answers of the simulator's gate bypass an egress's delay and loss. The delay counts in any state, the
    loss in the first.

    These are no packets of the emulated path: a client asks the gate whether the path is up. On most paths they are
    delayed all the same, so that the programs of these paths stay as they were.
    """
    largest_access = max([Duration(0), *access.values()])
    slow = max(largest_delay(link) + link.variation.largest + largest_access for link in states) > _GATE_DELAY
    return side == "left" and (slow or states[0].mean_loss >= _GATE_LOSS)


def _percent(fraction: float) -> str:
    return f"{fraction * 100:.9f}".rstrip("0").rstrip(".") + "%"


def _nanoseconds(duration: Duration) -> str:
    return f"{duration.value}ns"


#: A netem with a rate sends packets in the order in which they came (net/sched/sch_netem.c, netem_enqueue). At this one
#: a frame takes 12 ns.
_ORDERING_RATE = "1000gbit"


def _delay_words(link: Link, delay: Duration) -> list[str]:
    """Tc's words for the delay and its variation."""
    words = ["delay", _nanoseconds(delay)]
    variation = link.variation
    if not variation.deviation.value:
        return words
    words.append(_nanoseconds(variation.deviation))
    if variation.correlation.value:
        words.append(_percent(variation.correlation.fraction))
    if variation.distribution != "uniform":
        words += ["distribution", variation.distribution]
    return [*words, "rate", _ORDERING_RATE] if variation.order == "kept" else words


def _reorder_words(reorder: Reorder) -> list[str]:
    correlation = [_percent(reorder.correlation.fraction)] if reorder.correlation.value else []
    return ["reorder", _percent(reorder.share.fraction), *correlation, "gap", str(reorder.gap)]


def _chance_words(link: Link, seed: int) -> list[str]:
    """Tc's words for what becomes of packets by chance, and for the seed of that."""
    words = _loss_words(link.loss)
    if link.reorder is not None and link.reorder.ahead is None:
        words += _reorder_words(link.reorder)
    if link.duplicate.value:
        words += ["duplicate", _percent(link.duplicate.fraction)]
    # A jitter in its short form was never seeded.
    return [*words, "seed", str(seed)] if words or isinstance(link.jitter, Jitter) else []


def _loss_words(loss: Percentage | GilbertElliott | TimedGilbertElliott) -> list[str]:
    assert not isinstance(loss, TimedGilbertElliott), "its losses are in a series"
    if isinstance(loss, Percentage):
        words = ["loss", "random", _percent(loss.fraction)] if loss.value else []
    else:
        # tc: gemodel p r 1-h 1-k, where 1-h is the loss in the bad state and 1-k in the good one.
        chances = (loss.good_to_bad, loss.bad_to_good, loss.loss_in_bad, loss.loss_in_good)
        words = ["loss", "gemodel", *(_percent(chance.fraction) for chance in chances)]
    return words


def netem_command(
    verb: str, link: Link, side: Side, place: Command, access_delay: Duration, seed: int, room: int = 0
) -> Command:
    """Delay and loss at one place of the egress.

    `access_delay`: on top of the link's own delay. `room`: packets that it must be able to hold at least.
    """
    ahead = Duration(0) if link.reorder is None or link.reorder.ahead is None else link.reorder.ahead
    return (
        "tc",
        "qdisc",
        verb,
        "dev",
        side,
        *place,
        "netem",
        "limit",
        str(max(room, netem_limit(link.model_copy(update={"delay": link.delay + access_delay})))),
        *_delay_words(link, Duration(link.delay.value + access_delay.value - ahead.value)),
        *_chance_words(link, seed),
    )


#: Distance of the seeds of netems that let packets overtake from those of the netems that delay.
_REORDER_SEED = 50


def overtaking_command(link: Link, side: Side, place: Command, seed: int, room: int) -> Command | None:
    """The netem behind a delaying one whose packets wait the last part of the delay, or do not; None without one."""
    if link.reorder is None or link.reorder.ahead is None:
        return None
    handle = place[place.index("handle") + 1]
    delay = ("delay", _nanoseconds(link.reorder.ahead), *_reorder_words(link.reorder))
    parent = ("parent", f"{handle}1", "handle", f"{int(handle.rstrip(':'), 16) + 0x100:x}:")
    chance = ("seed", str(seed + _REORDER_SEED))
    return ("tc", "qdisc", "add", "dev", side, *parent, "netem", "limit", str(room), *delay, *chance)


def transit_command(
    link: Link, side: Side, place: Command, access_delay: Duration, seed: int, room: int, series: LinkSeries
) -> Command:
    """The lab kernel's own discipline for delay and loss from a series (images/lab-kernel/sch_transit.c), in order."""
    words = ["trace", series.file, "offset", f"{series.offset_ns}ns", "extra", _nanoseconds(access_delay)]
    return ("tc", "qdisc", "add", "dev", side, *place, "transit", *words, "seed", str(seed), "limit", str(room))


def is_serial(link: Link, server: Server) -> bool:
    """Whether the link sends packets one after the other, each in its transmission time."""
    return link.poisson is None and burst_bytes(link, server) is None


def has_serial_discipline(states: Sequence[Link], server: Server) -> bool:
    """Whether one discipline is the whole serial server of a link (`serial_command`); else hfsc and a netem share it.

    Where the rate changes, where packets wait for slots, and where the queue is managed: hfsc never asks an empty queue
    for a packet, so that RED would take its average for that of a queue that never rests.
    """
    link, varies = states[0], len({state.rate for state in states}) > 1
    managed = not isinstance(link.queue, DropTail)
    # A netem that duplicates packets stands no other on its device (net/sched/sch_netem.c, check_netem_in_tree), and
    # one with a rate makes other gaps between slots (netem_dequeue draws them anew until a packet has been sent).
    alone = any(state.duplicate.value for state in states) or link.slots is not None
    return is_serial(link, server) and (varies or managed or alone or link.follows_rate)


def phase_seed(seed: int, phase: int) -> int:
    """The seed of a netem from its direction's change (or outage) number `phase` on, counted from 1; 0 is the start.

    tc can change a netem only by reseeding it (net/sched/sch_netem.c, netem_change): with the same seed each phase
    would lose the same packets, counted from its beginning.
    """
    if not phase:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed} {phase}".encode()).digest()[:8], "big") >> 1


def _delay_root(serial: bool) -> tuple[Command, str]:
    """Place and handle of the delaying discipline: the egress's root, or below the netem that transmits."""
    return (("parent", "1:", "handle", "2:"), "2:") if serial else (("root", "handle", "1:"), "1:")


def netem_places(access: Access, serial: bool, gate: bool = False) -> list[tuple[Command, Duration]]:
    """The places of an egress's netems, and their access delays: the top alone, or the classes of a prio.

    `gate`: whether the prio has an extra class, without a netem, for the answers of the simulator's gate.
    """
    delays = sorted(set(access.values()))
    place, top = _delay_root(serial)
    if not delays and not gate:
        return [(place, Duration(0))]
    return [
        (("parent", f"{top}{band:x}", "handle", f"{band + 0x10:x}:"), delay)
        for band, delay in enumerate((Duration(0), *delays), 1)
    ]


def transmission_command(verb: str, link: Link, side: Side, limit: int) -> Command:
    """The second half of a serial server: a packet leaves after its transmission time, and behind the one before.

    net/sched/sch_netem.c, netem_enqueue: max(now, when the last leaves) + length/rate, in ns. It keeps the order of
    packets, which jitter and a falling delay do not. So it is not part of the netem that delays.
    """
    return (
        "tc",
        "qdisc",
        verb,
        "dev",
        side,
        "root",
        "handle",
        "1:",
        "netem",
        "limit",
        str(limit),
        "rate",
        f"{link.rate.value}bit",
    )


def _largest_rate(link: Link) -> Rate:
    """The rate, or the largest that a trace has for it."""
    follows = link.traced.rate if link.traced is not None else None
    return link.rate if follows is None else Rate(math.ceil(follows.largest))


def largest_delay(link: Link) -> Duration:
    """The delay, or the largest that a trace has for it."""
    follows = link.traced.delay if link.traced is not None else None
    return link.delay if follows is None else Duration(math.ceil(follows.largest))


def slots_command(slots: Slots, side: Side, limit: int, seed: int) -> Command:
    """A netem that keeps packets until an opportunity comes, ahead of the one that delays them.

    net/sched/sch_netem.c, netem_dequeue: a packet that comes after the last opportunity draws the time until the next
    one, and all that come meanwhile leave with it. An opportunity whose packets or bytes are used up draws the time
    until the next at once (get_slot_next). This netem has no delay: a packet that is not due yet would draw again each
    time that another comes.
    """
    shortest, longest = slots.gaps
    packets = () if slots.packets is None else ("packets", str(slots.packets))
    size = () if slots.bytes is None else ("bytes", str(slots.bytes.bytes))
    gaps = ("slot", _nanoseconds(shortest), _nanoseconds(longest), *packets, *size)
    root = ("tc", "qdisc", "add", "dev", side, "root", "handle", "1:")
    return (*root, "netem", "limit", str(limit), *gaps, "seed", str(seed))


def egress_packet_limit(states: Sequence[Link], access: Access) -> int:
    """Packets that the egress of one direction may hold in any state of the path; a netem counts its child's, too."""
    largest_access = max([Duration(0), *access.values()])
    worst_case = {
        "rate": max(_largest_rate(link) for link in states),
        "delay": max(largest_delay(link) for link in states) + largest_access,
    }
    most_varied = max(states, key=lambda link: link.variation.largest)
    return netem_limit(most_varied.model_copy(update=worst_case))


def egress_commands(
    link: Link,
    side: Side,
    access: Access,
    seed: int,
    room: int,
    serial: bool,
    gate: bool = False,
    *,
    varies: bool,
    series: LinkSeries | None = None,
) -> tuple[Command, ...]:
    """A serial server's transmission, or slots; then delay, jitter and loss of one direction, with its flows' access
    delays.

    `serial`: whether one of these two comes first. `room`: packets that it may hold in any state of the path. `varies`:
    there are several states. `gate`: whether the answers of the simulator's gate bypass all of it but these two.
    `series`: that of the delay and the loss.
    """
    serializer: tuple[Command, ...] = (transmission_command("add", link, side, room),) if serial else ()
    if link.slots is not None:
        serializer = (slots_command(link.slots, side, room, seed + _SLOT_SEED),)
    places = netem_places(access, serial, gate)
    netems = tuple(
        command
        for band, (place, access_delay) in enumerate(places)
        for command in (
            netem_command("add", link, side, place, access_delay, seed + 2 * band, room if varies else 0)
            if series is None
            else transit_command(link, side, place, access_delay, seed + 2 * band, room, series),
            overtaking_command(link, side, place, seed + 2 * band, room),
        )
        if command is not None
    )
    if len(places) == 1 and not gate:
        return (*serializer, *netems)
    bands = {delay: band for band, (_, delay) in enumerate(places, 1)}
    place, top = _delay_root(serial)
    classes = ("prio", "bands", str(len(places) + gate), "priomap", *["0"] * 16)
    prio = ("tc", "qdisc", "add", "dev", side, *place, *classes)
    filters: list[Command] = []
    if gate:
        filters.append(
            (
                "tc",
                "filter",
                "add",
                "dev",
                side,
                "parent",
                top,
                "protocol",
                "ip",
                "prio",
                "1",
                "u32",
                "match",
                "ip",
                "protocol",
                "6",
                "0xff",
                "match",
                "ip",
                "sport",
                str(READY_PORT),
                "0xffff",
                "flowid",
                f"{top}{len(places) + 1:x}",
            )
        )
    for address, delay in access.items():
        version = ip_address(address).version
        protocol, order, match, bits = ("ip", "1", "ip", "32") if version == 4 else ("ipv6", "2", "ip6", "128")
        filters.append(
            (
                "tc",
                "filter",
                "add",
                "dev",
                side,
                "parent",
                top,
                "protocol",
                protocol,
                "prio",
                order,
                "u32",
                "match",
                match,
                "dst",
                f"{address}/{bits}",
                "flowid",
                f"{top}{bands[delay]:x}",
            )
        )
    return (*serializer, prio, *netems, *filters)


# --- compile


def _earliest_ns(link: Link) -> int:
    """How much earlier than the delay a packet may leave."""
    follows = link.traced.delay if link.traced is not None else None
    if follows is not None:
        return link.delay.value - math.floor(follows.least)
    if link.reorder is not None:
        return (link.reorder.ahead or link.delay).value
    return min(link.variation.largest, link.delay).value


def _has_limit(link: Link) -> bool:
    """Whether the bottleneck ever drops a packet for want of room; a policer that remarks takes all."""
    return not isinstance(link.queue, Policer) or link.queue.drops


def _link_program(
    link: Link, device: str, ingress: Side, egress: Side, rtt: Duration, server: Server, mtu: int
) -> LinkProgram:
    packets = link.queue.capacity.unit == "packets" and (isinstance(link.queue, DropTail) or link.poisson is not None)
    return LinkProgram(
        device=device,
        ingress=ingress,
        egress=egress,
        rate_bps=link.rate.value,
        delay_ns=link.delay.value,
        jitter_ns=_earliest_ns(link),
        burst_bytes=burst_bytes(link, server, mtu),
        limit_bytes=None if packets or not _has_limit(link) else queue_bytes(link, rtt),
        limit_packets=round(link.queue.capacity.amount) if packets else None,
        discipline=link.queue.discipline,
        service="constant" if link.service is None else link.service.process,
        mean_loss=_netem_loss(link),
        mtu=size_limit(link.path_mtu),
    )


#: What a netem is told anew.
_NETEM_KEYS = ("delay", "jitter", "reorder", "duplicate", "loss")


def _change_commands(
    before: Link,
    after: Link,
    device: str,
    egress: Side,
    limits: tuple[int, int],
    bucket: int,
    room: int,
    access: Access,
    seed: int,
    server: Server,
    mtu: int,
    *,
    transmits: bool,
    gate: bool,
) -> list[Command]:
    """The commands of a change.

    `limits`: of the queue, in its unit, before and after; `bucket`: the limit that a token bucket is told, which only a
    fifo inside it heeds (net/sched/sch_fifo.c, fifo_set_limit); `room`: packets that the egress may hold.
    """
    commands: list[Command] = []
    burst = burst_bytes(after, server, mtu)
    resized = limits[0] != limits[1]
    if isinstance(after.queue, Policer):
        if after.rate != before.rate:
            commands.append(policer_change_command(after.queue, after.rate, device))
    # A bucket's own queue has its limit.
    elif after.rate != before.rate or (resized and burst is not None and isinstance(after.queue, DropTail)):
        commands.append(
            serial_command("change", device, after.rate)
            if burst is None
            else tbf_command("change", device, after.rate, burst, bucket)
        )
    if resized and (burst is None or not isinstance(after.queue, DropTail)):
        commands.append(queue_change_command(after, device, limits[1], "1:1" if burst is None else "1:"))
    if any(getattr(before, key) != getattr(after, key) for key in _NETEM_KEYS):
        commands.extend(
            # Packets in flight at that time came at the former rate and delay.
            netem_command("change", after, egress, place, access_delay, seed + 2 * band, room)
            for band, (place, access_delay) in enumerate(netem_places(access, transmits, gate))
        )
    return commands


def _changed_state(before: Link, after: Link, limits: tuple[int, int], server: Server, mtu: int) -> LinkState | None:
    resized = limits[0] != limits[1]
    if before == after and not resized:
        return None
    packets = isinstance(after.queue, DropTail) and after.queue.size.unit == "packets"
    return LinkState(
        rate_bps=after.rate.value if after.rate != before.rate else None,
        delay_ns=after.delay.value if after.delay != before.delay else None,
        burst_bytes=burst_bytes(after, server, mtu) if after.rate != before.rate else None,
        mean_loss=_netem_loss(after) if _netem_loss(after) != _netem_loss(before) else None,
        jitter_ns=_earliest_ns(after) if _earliest_ns(after) != _earliest_ns(before) else None,
        limit_packets=limits[1] if resized and packets else None,
        limit_bytes=limits[1] * (1 if isinstance(after.queue, DropTail | Cake) else FRAME)
        if resized and not packets
        else None,
        mtu=size_limit(after.path_mtu) if after.path_mtu != before.path_mtu else None,
    )


def _netem_loss(link: Link) -> float:
    """Share of packets of which nothing arrives: of a packet with a copy one may be lost."""
    return link.mean_loss * (1 - link.duplicate.fraction)


_DIRECTIONS: tuple[tuple[Direction, Side, Side], ...] = (
    ("to_client", "right", "left"),
    ("to_server", "left", "right"),
)


def compile_path(
    path: Path,
    server: Server,
    seed: int = 1,
    access: Access | None = None,
    outages: Sequence[Outage] = (),
    mappings: Sequence[AddressMapping] = (),
    gateways: Gateways = MappingProxyType({}),
) -> PathProgram:
    """The program of a path. `seed` makes netem's loss and service times repeat, packet for packet; each change and
    outage has a seed of its own that follows from it.

    `server`: the server of a queue at a constant rate where the path configures no token bucket (`burst`). `access`:
    addresses of endpoints with an access delay of their own. `outages`: times without forwarding; a path with changes
    has only those of a direction. `mappings`: how it rewrites clients' addresses. `gateways`: the next routers, of
    segments in a row. ValueError for a queue that tc cannot express, and for changes that repeat or are drawn
    (`harness.netem.patterns.realise`).
    """
    if not path.is_plain:
        raise ValueError("changes that repeat, or are drawn, have no commands before they are realised")
    rtt, access = path.rtt, access or {}
    links: dict[Direction, Link] = {"to_client": path.to_client, "to_server": path.to_server}
    seeds = {"to_client": seed, "to_server": seed + 1}
    states = link_states(path)
    limits = {name: _queue_limits(states[name], rtt) for name in links}
    whole_outages = [outage for outage in outages if outage.direction is None]
    rooms = {name: egress_packet_limit(states[name], access) for name in links}
    gates = {name: gate_bypasses_egress(states[name], egress, access) for name, _, egress in _DIRECTIONS}
    setup: list[Command] = []
    if path.mtu != MTU:
        setup.extend(("ip", "link", "set", "dev", side, "mtu", str(path.mtu)) for side in ("left", "right"))
    timed: list[tuple[int, Command]] = []
    # What a router says to senders, and the fragments that it makes, leave with the flows' packets, and must take none
    # of their transmission time.
    routes = any(state.path_mtu is not None and state.path_mtu.icmp for of_link in states.values() for state in of_link)
    # Whether the egress takes a packet's transmission time, or has slots, ahead of the delay.
    serial = {
        name: has_serial_discipline(states[name], server) or (routes and is_serial(link, server))
        for name, link in links.items()
    }
    transmits = {
        name: (is_serial(link, server) and not serial[name]) or link.slots is not None for name, link in links.items()
    }
    rate_of = {name: rate_series(link, name, seed) for name, link in links.items()}
    transit_of = {name: transit_series(link, name, seed, seeds[name]) for name, link in links.items()}
    for name, ingress, egress in _DIRECTIONS:
        link = links[name]
        spare = len(DROP_PRIORITIES) if whole_outages and ingress == "left" else 0
        setup.extend(redirect_commands(ingress, name, spare))
        setup.extend(
            bottleneck_commands(
                link,
                name,
                rtt,
                path.mtu,
                seeds[name] + _SLOT_SEED,
                server,
                serial=serial[name],
                series=rate_of[name],
            )
        )
        varies = len(set(states[name])) > 1
        egresses = [
            egress_commands(
                link,
                egress,
                access,
                phase_seed(seeds[name], phase),
                rooms[name],
                transmits[name],
                gates[name],
                varies=varies,
                series=transit_of[name],
            )
            for phase in range(len(whole_outages) + 1)
        ]
        setup.extend(egresses[0])
        if egress == "left":
            timed.extend(outage_commands(whole_outages, egresses[1:]))
        timed.extend(cold_start_commands(link, name, path.mtu, seeds[name] + _SLOT_SEED))
        timed.extend((0, command) for command in start_commands(setup, {name, egress}))
    figures = {
        name: _link_program(links[name], name, ingress, egress, rtt, server, path.mtu)
        for name, ingress, egress in _DIRECTIONS
    }
    timeline = []
    for index, change in enumerate(path.changes):
        changed: dict[str, LinkState | None] = {}
        for name, _, egress in _DIRECTIONS:
            before, after = states[name][index : index + 2]
            commands = _change_commands(
                before,
                after,
                name,
                egress,
                (limits[name][index], limits[name][index + 1]),
                limits[name][index + 1] if isinstance(links[name].queue, DropTail) else queue_bytes(links[name], rtt),
                rooms[name],
                access,
                phase_seed(seeds[name], index + 1),
                server,
                path.mtu,
                transmits=transmits[name],
                gate=gates[name],
            )
            commands += mtu_change(before.path_mtu, after.path_mtu, name, egress, gateways, path.mtu)
            timed.extend((change.at.value, command) for command in commands)
            limits_now = limits[name][index], limits[name][index + 1]
            changed[name] = _changed_state(before, after, limits_now, server, path.mtu)
        timeline.append(
            PathChange(at=change.at.seconds, to_client=changed["to_client"], to_server=changed["to_server"])
        )
    ingresses = {name: ingress for name, ingress, _ in _DIRECTIONS}
    setup.extend(remark_setup(links, ingresses))
    setup.extend(direction_outage_setup(outages, ingresses))
    timed.extend(direction_outage_commands(outages))
    mtus: dict[Direction, list[PathMtu | None]] = {
        name: [link.path_mtu for link in of_link] for name, of_link in states.items()
    }
    sides = {name: (ingress, egress) for name, ingress, egress in _DIRECTIONS}
    setup.extend(mtu_setup(mtus, sides, path.mtu, gateways))
    setup.extend(ecn_setup(links, {name: ingress for name, ingress, _ in _DIRECTIONS}))
    faults = link_faults(links)
    setup.extend(fault_setup(faults, {name: ingress for name, ingress, _ in _DIRECTIONS}, seed))
    setup.extend(nat_setup(mappings))
    timed.extend(nat_commands(mappings))
    return PathProgram(
        setup=tuple(setup),
        changes=_group_by_time(timed),
        links=figures,
        timeline=tuple(timeline),
        outages=tuple(outages),
        mappings=tuple(mappings),
        faults=faults,
        series=tuple(series for name in links for series in (rate_of[name], transit_of[name]) if series is not None),
    )


def start_commands(setup: Sequence[Command], devices: set[str]) -> list[Command]:
    """The commands that start the series of a direction's devices."""
    return [
        (*command[:2], "change", *command[3 : command.index("trace")], "start")
        for command in setup
        if command[0] == "tc" and "trace" in command and command[4] in devices
    ]


def _queue_limits(states: Sequence[Link], rtt: Duration) -> tuple[int, ...]:
    """The limit of a queue at first and after each change: a change of rate alone keeps the bytes."""
    limits = [queue_limit(states[0], rtt)]
    for before, after in pairwise(states):
        limits.append(limits[-1] if after.queue == before.queue else queue_limit(after, rtt))
    return tuple(limits)


def _group_by_time(timed: list[tuple[int, Command]]) -> tuple[TimedCommands, ...]:
    """Commands in order of time, grouped by moment."""
    moments: dict[int, list[Command]] = {}
    for at_ns, command in sorted(timed, key=lambda item: item[0]):
        moments.setdefault(at_ns, []).append(command)
    return tuple(TimedCommands(at_ns=at_ns, commands=tuple(commands)) for at_ns, commands in moments.items())
