"""nftables of a path: datagrams dropped or damaged by rule, rewritten addresses, and outages.

Faults lie behind the bottleneck and before the delay.

A set of small numbers is a counter. `to_server_seen` holds a number for each datagram that has passed, up to the
largest configured number. `to_server_drop` holds one for each of the last datagrams dropped in a row, and is empty once
one has passed. The rules that add the next number also decide about the datagram with that number. A removed number
stays in its bucket until the kernel sweeps the set, and too many in one bucket keep others out (lib/rhashtable.c,
RHT_ELASTICITY), so the set is swept often.

Chance is the kernel's (`meta random`): in virtual time it repeats itself with the seed of the run, on a host it does
not. The values that change bytes are drawn from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from harness.netem.bottleneck import REMARKED
from harness.netem.program import AddressMapping, Command, Direction, Fault, Outage, Side
from harness.scenario.schema import Corrupt, Drop, Link, Policer, Remark

_FAULTS = "inet faults"
#: One of so many first bytes of a UDP payload is changed. Every QUIC packet has the second number of bytes (RFC 9001
#: §5.4.2: a sample for header protection lies within 20 bytes behind the first): shorter datagrams are damaged there.
DAMAGED_BYTES, _SHORTEST = 51, 20
#: The range of `meta random`; bits of a UDP header (RFC 768).
_RANGE, _HEADER = 1 << 32, 64
#: A counter, swept often enough for 10 000 datagrams/s.
_COUNTER = "{ typeof meta mark; flags dynamic, timeout; timeout 1d; gc-interval 10ms; size 65535; }"
#: A Version Negotiation packet: a long header, and the version is 0 (RFC 9000 §17.2.1).
_VERSION_NEGOTIATION = f"@th,{_HEADER},1 1 @th,{_HEADER + 8},32 0"


#: What a node on the way does to ECN → nftables' words for each IP version, whose name comes first.
_ECN = {
    "bleach": "{0} ecn != not-ect {0} ecn set not-ect",
    "ect1-to-ect0": "{0} ecn ect1 {0} ecn set ect0",
    "mark": "{0} ecn != not-ect {0} ecn set ce",
    "drop": "{0} ecn != not-ect drop",
}


def ecn_setup(links: Mapping[Direction, Link], ingress: Mapping[Direction, Side]) -> tuple[Command, ...]:
    """The commands for a path with a node that changes ECN; none for others. `ingress`: where packets enter."""
    lines = [
        f"add rule inet marking through iifname {ingress[direction]} {_ECN[link.ecn].format(version)}"
        for direction, link in links.items()
        if link.ecn is not None
        for version in ("ip", "ip6")
    ]
    if not lines:
        return ()
    # Ahead of faults: what is dropped here is not counted there.
    chain = "add chain inet marking through { type filter hook forward priority 5; }"
    return tuple(("nft", *line.split(" ")) for line in ("add table inet marking", chain, *lines))


def remark_setup(links: Mapping[Direction, Link], ingress: Mapping[Direction, Side]) -> tuple[Command, ...]:
    """The commands for a path with a policer that remarks; none for others. `ingress`: where packets enter."""
    lines = [
        f"add rule inet policing through iifname {ingress[direction]} meta mark {REMARKED} "
        f"{version} dscp set {link.queue.exceed.dscp}"
        for direction, link in links.items()
        if isinstance(link.queue, Policer) and isinstance(link.queue.exceed, Remark)
        for version in ("ip", "ip6")
    ]
    if not lines:
        return ()
    # Ahead of the counters of faults, which use the mark as well.
    chain = "add chain inet policing through { type filter hook forward priority 4; }"
    return tuple(("nft", *line.split(" ")) for line in ("add table inet policing", chain, *lines))


def link_faults(links: Mapping[Direction, Link]) -> tuple[Fault, ...]:
    """The configured faults of a path's links, as figures."""
    faults: list[Fault] = []
    for direction, link in links.items():
        if link.drop is not None:
            faults.append(_fault(direction, "drop", link.drop))
        if link.corrupt is not None:
            faults.append(_fault(direction, "corrupt", link.corrupt))
    return tuple(faults)


def _fault(direction: Direction, kind: str, impairment: Drop | Corrupt) -> Fault:
    packets = impairment.packets if isinstance(impairment, Drop) else ()
    rate = 0.0 if impairment.rate is None else impairment.rate.fraction
    return Fault.model_validate(
        {"direction": direction, "kind": kind, "packets": packets, "rate": rate, "burst": impairment.burst}
    )


def hit_share(rate: float, burst: int | None) -> float:
    """The share of many datagrams that are hit by chance, where at most `burst` in a row are hit.

    After each datagram that passes a run of hits begins; its mean length is rate + rate² + … + rate^burst.
    """
    if burst is None:
        return rate
    mean_run = sum(rate**length for length in range(1, burst + 1))
    return mean_run / (1 + mean_run)


def fault_setup(faults: tuple[Fault, ...], ingress: Mapping[Direction, Side], seed: int) -> tuple[Command, ...]:
    """The commands for a path that drops or damages datagrams; none for others. `ingress`: where they enter."""
    if not faults:
        return ()
    lines = [f"add table {_FAULTS}", f"add chain {_FAULTS} through {{ type filter hook forward priority 10; }}"]
    if any(fault.kind == "corrupt" for fault in faults):
        lines += _damage_chains(random.Random(seed))
    for direction in dict.fromkeys(fault.direction for fault in faults):
        lines.append(f"add chain {_FAULTS} {direction}")
        side = ingress[direction]
        lines.append(f"add rule {_FAULTS} through iifname {side} meta l4proto udp jump {direction}")
        for fault in faults:
            if fault.direction == direction:
                lines += _numbered_rules(fault) if fault.packets else _random_rules(fault)
    return tuple(("nft", *line.split(" ")) for line in lines)


def _numbered_rules(fault: Fault) -> Iterator[str]:
    counter = f"{fault.direction}_seen"
    yield f"add set {_FAULTS} {counter} {_COUNTER}"
    for number in range(1, max(fault.packets) + 1):
        verdict = "drop" if number in fault.packets else "accept"
        yield f"add rule {_FAULTS} {fault.direction} {_next_number_match(number, counter)} {verdict}"


def _random_rules(fault: Fault) -> Iterator[str]:
    threshold = round(fault.rate * _RANGE)
    name = f"{fault.direction}_{fault.kind}"
    verdict = "drop" if fault.kind == "drop" else "goto damage"
    chance_rule = f"add rule {_FAULTS} {fault.direction} meta random < {threshold}"
    exemption = f"{_VERSION_NEGOTIATION} return" if fault.kind == "corrupt" else ""
    yield f"add chain {_FAULTS} {name}_hit"
    if exemption:
        yield f"add rule {_FAULTS} {name}_hit {exemption}"
    yield f"{chance_rule} jump {name}_hit"
    if fault.burst is None:
        yield f"add rule {_FAULTS} {name}_hit {verdict}"
        return
    yield f"add set {_FAULTS} {name} {_COUNTER}"
    for number in range(1, fault.burst + 1):
        yield f"add rule {_FAULTS} {name}_hit {_next_number_match(number, name)} {verdict}"
    # A datagram that returns from that chain passes, and a new run may begin.
    for number in range(1, fault.burst + 1):
        yield f"add rule {_FAULTS} {fault.direction} meta mark set {number} delete @{name} {{ meta mark }}"


def _next_number_match(number: int, counter: str) -> str:
    """Continue only where the counter lacks this number, and add it."""
    return f"meta mark set {number} meta mark != @{counter} add @{counter} {{ meta mark }}"


def _damage_chains(rng: random.Random) -> Iterator[str]:
    """A chain that changes one of the first bytes of a datagram's payload, to another value, and lets it pass.

    The value that a byte is XORed with is drawn for each place and run. A checksum of 0 means none (RFC 768): receivers
    over IPv4 accept such a datagram as it is, just as with a recomputed checksum.
    """
    for place in range(DAMAGED_BYTES):
        yield f"add chain {_FAULTS} byte_{place}"
        if place >= _SHORTEST:
            yield f"add rule {_FAULTS} byte_{place} udp length <= {8 + place} goto byte_{place % _SHORTEST}"
        byte = f"@th,{_HEADER + 8 * place},8"
        yield f"add rule {_FAULTS} byte_{place} {byte} set {byte} ^ {rng.randint(1, 255)} udp checksum set 0 accept"
    edges = [_RANGE * place // DAMAGED_BYTES for place in range(DAMAGED_BYTES + 1)]
    places = ", ".join(f"{edges[place]}-{edges[place + 1] - 1} : goto byte_{place}" for place in range(DAMAGED_BYTES))
    yield f"add chain {_FAULTS} damage"
    yield f"add rule {_FAULTS} damage meta random vmap {{ {places} }}"


# --- A path that rewrites source addresses, and sometimes forgets its mappings (nftables, conntrack).
#
# It acts as a network address translator: the mapping belongs to the flow (RFC 4787 §4.1), replies are rewritten the
# other way round, and datagrams without a mapping are dropped. After a mapping is forgotten, the client's next datagram
# creates a new one.


#: Table and chains: rewriting on the way out, with a chain per client; filtering of forwarded datagrams.
_NAT = ("inet", "nat")
_OUT, _THROUGH = "out", "through"
_FAMILIES = (("ip", "ipv4"), ("ip6", "ipv6"))


def nat_setup(mappings: Sequence[AddressMapping]) -> tuple[Command, ...]:
    """The commands that a path needs from the start; none where it rewrites nothing.

    Connection tracking must see the first datagram of each connection, or it would take the servers' next datagram for
    the first. So these commands apply from the start.
    """
    if not mappings:
        return ()
    commands: list[Command] = [
        ("nft", "add", "table", *_NAT),
        ("nft", "add", "chain", *_NAT, _OUT, *_hook("nat", "postrouting", "srcnat")),
        ("nft", "add", "chain", *_NAT, _THROUGH, *_hook("filter", "forward", "filter")),
        ("nft", "add", "rule", *_NAT, _THROUGH, "iifname", "right", "ct", "state", "new", "drop"),
    ]
    for inner in dict.fromkeys(mapping.inner for mapping in mappings):
        commands.append(("nft", "add", "chain", *_NAT, _chain(inner)))
        commands.extend(
            ("nft", "add", "rule", *_NAT, _OUT, family, "saddr", address, "jump", _chain(inner))
            for (family, _), address in zip(_FAMILIES, inner, strict=True)
        )
    return tuple(commands)


def _hook(kind: str, place: str, priority: str) -> Command:
    return ("{", "type", kind, "hook", place, "priority", priority, ";", "}")


def nat_commands(mappings: Sequence[AddressMapping]) -> list[tuple[int, Command]]:
    """(time in ns, command) for all mappings: each comes into force, and the one before is forgotten."""
    timed: list[tuple[int, Command]] = []
    for mapping in mappings:
        chain = (*_NAT, _chain(mapping.inner))
        commands: list[Command] = [("nft", "flush", "chain", *chain)]
        for (family, _), outer in zip(_FAMILIES, mapping.outer, strict=True):
            place = (f"[{outer}]" if family == "ip6" else outer) + f":{mapping.port}" if mapping.port else outer
            udp = ("meta", "nfproto", "ipv6" if family == "ip6" else "ipv4", "meta", "l4proto", "udp")
            commands.append(("nft", "add", "rule", *chain, *udp, "snat", family, "to", place))
        commands.extend(
            ("conntrack", "-D", "-f", family, "-p", "udp", "-s", inner)
            for (_, family), inner in zip(_FAMILIES, mapping.inner, strict=True)
        )
        timed += [(mapping.at_ns, command) for command in commands]
    return timed


def _chain(inner: tuple[str, str]) -> str:
    """The chain of a client, by its IPv4 address."""
    return "client-" + inner[0].replace(".", "-")


# --- A path that forwards nothing for a while, silently: the carrier stays up, and no ICMP is sent.


#: Priorities of the rules that drop, ahead of those that send packets to the bottleneck
#: (`harness.netem.bottleneck.redirect_commands`).
DROP_PRIORITIES = {"ip": "1", "ipv6": "2"}
#: Drops packets that enter from the clients, and those that leave to them, even if queued or in flight by then.
_OUTAGE_BEGIN: tuple[Command, ...] = (
    *(
        (
            "tc",
            "filter",
            "add",
            "dev",
            "left",
            "parent",
            "ffff:",
            "protocol",
            protocol,
            "prio",
            priority,
            "u32",
            "match",
            "u32",
            "0",
            "0",
            "action",
            "drop",
        )
        for protocol, priority in DROP_PRIORITIES.items()
    ),
    ("tc", "qdisc", "replace", "dev", "left", "root", "blackhole"),
)
_OUTAGE_END: tuple[Command, ...] = (
    ("tc", "qdisc", "del", "dev", "left", "root"),
    *(
        ("tc", "filter", "del", "dev", "left", "parent", "ffff:", "protocol", protocol, "prio", priority)
        for protocol, priority in DROP_PRIORITIES.items()
    ),
)


def outage_commands(outages: Sequence[Outage], egresses: Sequence[Sequence[Command]]) -> list[tuple[int, Command]]:
    """(time in ns, command) for all outages: the path stops forwarding, and starts again.

    `egresses`: for each outage, the commands that rebuild the clients' side, with a seed of its own.

    The servers' side and both queues continue. Packets that the clients sent before stay in flight. Packets for the
    clients pass the bottleneck and are dropped behind it.
    """
    timed: list[tuple[int, Command]] = []
    for outage, egress in zip(outages, egresses, strict=True):
        timed += [(outage.from_ns, command) for command in _OUTAGE_BEGIN]
        if outage.until_ns is not None:
            remove_blackhole, *remove_filters = _OUTAGE_END
            timed += [(outage.until_ns, command) for command in (remove_blackhole, *egress, *remove_filters)]
    return timed


# --- One direction that forwards nothing for a while. What leaves its queue then is dropped; what left before arrives.
#
# No queueing discipline is replaced, so that a path may change as well.


_OUTAGES = "inet outages"


def direction_outage_setup(outages: Sequence[Outage], ingress: Mapping[Direction, Side]) -> tuple[Command, ...]:
    """The commands for a path with outages of one direction; none for others. `ingress`: where packets enter."""
    directions = sorted({outage.direction for outage in outages if outage.direction is not None})
    if not directions:
        return ()
    # Ahead of what changes ECN, and of faults: those count only what passes.
    lines = [f"add table {_OUTAGES}", f"add chain {_OUTAGES} through {{ type filter hook forward priority 4; }}"]
    for direction in directions:
        lines.append(f"add chain {_OUTAGES} {direction}")
        lines.append(f"add rule {_OUTAGES} through iifname {ingress[direction]} jump {direction}")
    return tuple(("nft", *line.split(" ")) for line in lines)


def direction_outage_commands(outages: Sequence[Outage]) -> list[tuple[int, Command]]:
    """(time in ns, command) for the outages of one direction: all packets are dropped, and pass again."""
    timed: list[tuple[int, Command]] = []
    for outage in outages:
        if outage.direction is None:
            continue
        place = (*_OUTAGES.split(" "), outage.direction)
        timed.append((outage.from_ns, ("nft", "add", "rule", *place, "drop")))
        if outage.until_ns is not None:
            timed.append((outage.until_ns, ("nft", "flush", "chain", *place)))
    return timed
