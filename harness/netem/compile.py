"""The pure function that makes a path program of a path."""

from __future__ import annotations

from collections.abc import Sequence

from harness.netem.bottleneck import bottleneck, cold_starts, redirect, serial, tbf
from harness.netem.bounds import Server, burst_bytes, queue_bytes
from harness.netem.egress import Access, egress_of, egress_room, is_serial, netem, netem_places, phase_seed, spares_gate
from harness.netem.faults import fault_setup, faults_of
from harness.netem.nat import nat_commands, nat_setup
from harness.netem.outage import PRIORITIES, outage_commands
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
from harness.scenario.schema import MTU, DropTail, Link, LinkChange, Path
from harness.units import Duration

#: Seeds of service processes lie so far from those of the netems behind them.
_SLOT_SEED = 100


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
    *,
    transmits: bool,
    gate: bool,
) -> list[Command]:
    """The commands of a change.

    `limit`: of the queue, in what it counts; `room`: packets that the egress may hold.
    """
    commands: list[Command] = []
    burst = burst_bytes(after, server)
    if after.rate != before.rate:
        commands.append(
            serial("change", device, after.rate) if burst is None else tbf("change", device, after.rate, burst, limit)
        )
    if after.delay != before.delay or after.loss != before.loss:
        commands.extend(
            # What is under way by then came at the former rate and delay.
            netem("change", after, egress, place, more, seed + 2 * band, room)
            for band, (place, more) in enumerate(netem_places(access, transmits, gate))
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

    `server`: what serves a queue at a constant rate where the path asks for no token bucket (`burst`) of its own.
    `access`: addresses of endpoints with an access delay of their own. `outages`: when it forwards nothing; such a path
    has no changes. `mappings`: what it makes of clients' addresses. ValueError for a queue that tc cannot express.
    """
    rtt, access = path.rtt, access or {}
    links: dict[Direction, Link] = {"to_client": path.to_client, "to_server": path.to_server}
    # Queues are sized once: a change of rate keeps the bytes.
    limits = {name: _kept_limit(link, rtt) for name, link in links.items()}
    seeds = {"to_client": seed, "to_server": seed + 1}
    states = {name: _states(path, name) for name in links}
    rooms = {name: egress_room(states[name], access) for name in links}
    gates = {name: spares_gate(states[name], egress, access) for name, _, egress in _DIRECTIONS}
    setup: list[Command] = []
    if path.mtu != MTU:
        setup.extend(("ip", "link", "set", "dev", side, "mtu", str(path.mtu)) for side in ("left", "right"))
    timed: list[tuple[int, Command]] = []
    # Whether the egress takes a packet's own time, of a serial server whose rate stays.
    changing = {name: len({state.rate for state in states[name]}) > 1 for name in links}
    transmits = {name: is_serial(link, server) and not changing[name] for name, link in links.items()}
    for name, ingress, egress in _DIRECTIONS:
        link = links[name]
        spare = len(PRIORITIES) if outages and ingress == "left" else 0
        setup.extend(redirect(ingress, name, spare))
        setup.extend(
            bottleneck(link, name, rtt, path.mtu, seeds[name] + _SLOT_SEED, server, changing=changing[name])
        )  # fmt: skip
        varies = len(set(states[name])) > 1
        ways_out = [
            egress_of(
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
        setup.extend(ways_out[0])
        if egress == "left":
            timed.extend(outage_commands(outages, ways_out[1:]))
        timed.extend(cold_starts(link, name, path.mtu, seeds[name] + _SLOT_SEED))
    figures = {name: _figures(links[name], name, ingress, egress, rtt, server) for name, ingress, egress in _DIRECTIONS}
    timeline = []
    for index, change in enumerate(path.changes):
        new: dict[str, LinkState | None] = {}
        for name, _, egress in _DIRECTIONS:
            before, after = states[name][index : index + 2]
            commands = _changed(
                before, after, name, egress, limits[name], rooms[name], access, phase_seed(seeds[name], index + 1),
                server, transmits=transmits[name], gate=gates[name],
            )  # fmt: skip
            timed.extend((change.at.value, command) for command in commands)
            new[name] = _state(before, after, server)
        timeline.append(PathChange(at=change.at.seconds, to_client=new["to_client"], to_server=new["to_server"]))
    faults = faults_of(links)
    setup.extend(fault_setup(faults, {name: ingress for name, ingress, _ in _DIRECTIONS}, seed))
    setup.extend(nat_setup(mappings))
    timed.extend(nat_commands(mappings))
    return PathProgram(
        setup=tuple(setup), changes=_together(timed), links=figures, timeline=tuple(timeline), outages=tuple(outages),
        mappings=tuple(mappings), faults=faults,
    )  # fmt: skip


def _kept_limit(link: Link, rtt: Duration) -> int:
    """The limit that a change of tbf gives the fifo inside it, in bytes or packets as that counts (fifo_set_limit)."""
    packets = isinstance(link.queue, DropTail) and link.queue.size.unit == "packets"
    return round(link.held.amount) if packets else queue_bytes(link, rtt)


def _states(path: Path, name: str) -> list[Link]:
    """One direction of the link, at first and after each change."""
    states = [path.to_client if name == "to_client" else path.to_server]
    for change in path.changes:
        side = path.change_to_client(change) if name == "to_client" else path.change_to_server(change)
        states.append(_apply(states[-1], side))
    return states


def _together(timed: list[tuple[int, Command]]) -> tuple[TimedCommands, ...]:
    """Commands in order of time, those of one moment together."""
    moments: dict[int, list[Command]] = {}
    for at_ns, command in sorted(timed, key=lambda item: item[0]):
        moments.setdefault(at_ns, []).append(command)
    return tuple(TimedCommands(at_ns=at_ns, commands=tuple(commands)) for at_ns, commands in moments.items())
