"""Path → path program: the commands of both directions and of the changes in time. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from ipaddress import ip_address

from harness.netem.bottleneck import (
    READY_PORT,
    bottleneck_commands,
    cold_start_commands,
    redirect_commands,
    serial_command,
    tbf_command,
)
from harness.netem.bounds import Server, burst_bytes, netem_limit, queue_bytes
from harness.netem.nftables import DROP_PRIORITIES, fault_setup, link_faults, nat_commands, nat_setup, outage_commands
from harness.netem.program import (
    AddressMapping,
    Command,
    Direction,
    LinkProgram,
    LinkState,
    Outage,
    PathChange,
    PathProgram,
    Side,
    TimedCommands,
)
from harness.scenario.schema import MTU, DropTail, GilbertElliott, Link, LinkChange, Path
from harness.units import Duration, Percentage

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
    slow = max(link.delay + link.jitter + largest_access for link in states) > _GATE_DELAY
    return side == "left" and (slow or states[0].mean_loss >= _GATE_LOSS)


def _percent(fraction: float) -> str:
    return f"{fraction * 100:.9f}".rstrip("0").rstrip(".") + "%"


def _nanoseconds(duration: Duration) -> str:
    return f"{duration.value}ns"


def _loss_words(loss: Percentage | GilbertElliott, seed: int) -> list[str]:
    if isinstance(loss, Percentage):
        words = ["loss", "random", _percent(loss.fraction)] if loss.value else []
    else:
        # tc: gemodel p r 1-h 1-k, where 1-h is the loss in the bad state and 1-k in the good one.
        chances = (loss.good_to_bad, loss.bad_to_good, loss.loss_in_bad, loss.loss_in_good)
        words = ["loss", "gemodel", *(_percent(chance.fraction) for chance in chances)]
    return [*words, "seed", str(seed)] if words else []


def netem_command(
    verb: str, link: Link, side: Side, place: Command, access_delay: Duration, seed: int, room: int = 0
) -> Command:
    """Delay and loss at one place of the egress.

    `access_delay`: on top of the link's own delay. `room`: packets that it must be able to hold at least.
    """
    delay = ["delay", _nanoseconds(link.delay + access_delay)]
    if link.jitter.value:
        delay.append(_nanoseconds(link.jitter))
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
        *delay,
        *_loss_words(link.loss, seed),
    )


def is_serial(link: Link, server: Server) -> bool:
    """Whether the link sends packets one after the other, each in its transmission time."""
    return link.service is None and burst_bytes(link, server) is None


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


def egress_packet_limit(states: Sequence[Link], access: Access) -> int:
    """Packets that the egress of one direction may hold in any state of the path; a netem counts its child's, too."""
    largest_access = max([Duration(0), *access.values()])
    worst_case = {
        "rate": max(link.rate for link in states),
        "delay": max(link.delay for link in states) + largest_access,
    }
    return netem_limit(states[0].model_copy(update=worst_case))


def egress_commands(
    link: Link, side: Side, access: Access, seed: int, room: int, serial: bool, gate: bool = False, *, varies: bool
) -> tuple[Command, ...]:
    """A serial server's transmission; then delay, jitter and loss of one direction, with its flows' access delays.

    `room`: packets that it may hold in any state of the path. `varies`: there are several states. `gate`: whether the
    answers of the simulator's gate bypass all of it but the transmission.
    """
    serializer = (transmission_command("add", link, side, room),) if serial else ()
    places = netem_places(access, serial, gate)
    netems = tuple(
        netem_command("add", link, side, place, access_delay, seed + 2 * band, room if varies else 0)
        for band, (place, access_delay) in enumerate(places)
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


#: Distance of the seeds of service processes from those of the netems behind them.
_SLOT_SEED = 100


def _link_program(link: Link, device: str, ingress: Side, egress: Side, rtt: Duration, server: Server) -> LinkProgram:
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


def _apply_change(link: Link, change: LinkChange | None) -> Link:
    """The link after a change. Its queue keeps its bytes."""
    if change is None:
        return link
    updates: dict[str, object] = {
        name: value for name in ("rate", "delay", "loss") if (value := getattr(change, name)) is not None
    }
    return link.model_copy(update=updates)


def _change_commands(
    before: Link,
    after: Link,
    device: str,
    egress: Side,
    limit: int,
    room: int,
    access: Access,
    seed: int,
    server: Server,
    *,
    transmits: bool,
    gate: bool,
) -> list[Command]:
    """The commands of a change.

    `limit`: of the queue, in its unit; `room`: packets that the egress may hold.
    """
    commands: list[Command] = []
    burst = burst_bytes(after, server)
    if after.rate != before.rate:
        commands.append(
            serial_command("change", device, after.rate)
            if burst is None
            else tbf_command("change", device, after.rate, burst, limit)
        )
    if after.delay != before.delay or after.loss != before.loss:
        commands.extend(
            # Packets in flight at that time came at the former rate and delay.
            netem_command("change", after, egress, place, access_delay, seed + 2 * band, room)
            for band, (place, access_delay) in enumerate(netem_places(access, transmits, gate))
        )
    return commands


def _changed_state(before: Link, after: Link, server: Server) -> LinkState | None:
    if before == after:
        return None
    return LinkState(
        rate_bps=after.rate.value if after.rate != before.rate else None,
        delay_ns=after.delay.value if after.delay != before.delay else None,
        burst_bytes=burst_bytes(after, server) if after.rate != before.rate else None,
        mean_loss=after.mean_loss if after.loss != before.loss else None,
    )


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
) -> PathProgram:
    """The program of a path. `seed` makes netem's loss and service times repeat, packet for packet; each change and
    outage has a seed of its own that follows from it.

    `server`: the server of a queue at a constant rate where the path configures no token bucket (`burst`). `access`:
    addresses of endpoints with an access delay of their own. `outages`: times without forwarding; such a path has no
    changes. `mappings`: how it rewrites clients' addresses. ValueError for a queue that tc cannot express.
    """
    rtt, access = path.rtt, access or {}
    links: dict[Direction, Link] = {"to_client": path.to_client, "to_server": path.to_server}
    # Queues are sized once: a change of rate keeps the bytes.
    limits = {name: _queue_limit(link, rtt) for name, link in links.items()}
    seeds = {"to_client": seed, "to_server": seed + 1}
    states = {name: _states_of_link(path, name) for name in links}
    rooms = {name: egress_packet_limit(states[name], access) for name in links}
    gates = {name: gate_bypasses_egress(states[name], egress, access) for name, _, egress in _DIRECTIONS}
    setup: list[Command] = []
    if path.mtu != MTU:
        setup.extend(("ip", "link", "set", "dev", side, "mtu", str(path.mtu)) for side in ("left", "right"))
    timed: list[tuple[int, Command]] = []
    # Whether the egress takes a packet's transmission time: for a serial server with a constant rate.
    changing = {name: len({state.rate for state in states[name]}) > 1 for name in links}
    transmits = {name: is_serial(link, server) and not changing[name] for name, link in links.items()}
    for name, ingress, egress in _DIRECTIONS:
        link = links[name]
        spare = len(DROP_PRIORITIES) if outages and ingress == "left" else 0
        setup.extend(redirect_commands(ingress, name, spare))
        setup.extend(
            bottleneck_commands(link, name, rtt, path.mtu, seeds[name] + _SLOT_SEED, server, changing=changing[name])
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
            )
            for phase in range(len(outages) + 1)
        ]
        setup.extend(egresses[0])
        if egress == "left":
            timed.extend(outage_commands(outages, egresses[1:]))
        timed.extend(cold_start_commands(link, name, path.mtu, seeds[name] + _SLOT_SEED))
    figures = {
        name: _link_program(links[name], name, ingress, egress, rtt, server) for name, ingress, egress in _DIRECTIONS
    }
    timeline = []
    for index, change in enumerate(path.changes):
        link_states: dict[str, LinkState | None] = {}
        for name, _, egress in _DIRECTIONS:
            before, after = states[name][index : index + 2]
            commands = _change_commands(
                before,
                after,
                name,
                egress,
                limits[name],
                rooms[name],
                access,
                phase_seed(seeds[name], index + 1),
                server,
                transmits=transmits[name],
                gate=gates[name],
            )
            timed.extend((change.at.value, command) for command in commands)
            link_states[name] = _changed_state(before, after, server)
        timeline.append(
            PathChange(at=change.at.seconds, to_client=link_states["to_client"], to_server=link_states["to_server"])
        )
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
    )


def _queue_limit(link: Link, rtt: Duration) -> int:
    """The limit that a change of tbf gives its inner fifo, in that fifo's unit, bytes or packets (fifo_set_limit)."""
    packets = isinstance(link.queue, DropTail) and link.queue.size.unit == "packets"
    return round(link.held.amount) if packets else queue_bytes(link, rtt)


def _states_of_link(path: Path, name: str) -> list[Link]:
    """One direction of the link, at first and after each change."""
    states = [path.to_client if name == "to_client" else path.to_server]
    for change in path.changes:
        side = path.change_to_client(change) if name == "to_client" else path.change_to_server(change)
        states.append(_apply_change(states[-1], side))
    return states


def _group_by_time(timed: list[tuple[int, Command]]) -> tuple[TimedCommands, ...]:
    """Commands in order of time, grouped by moment."""
    moments: dict[int, list[Command]] = {}
    for at_ns, command in sorted(timed, key=lambda item: item[0]):
        moments.setdefault(at_ns, []).append(command)
    return tuple(TimedCommands(at_ns=at_ns, commands=tuple(commands)) for at_ns, commands in moments.items())
