"""The MTU of a path: packets that a router of it does not forward because of their size. Pure.

The simulator is a router between the bottleneck's queue and the delay. Towards an MTU with ICMP it has a route of that
MTU, as a router has to a link with a smaller one: its kernel answers a larger packet with Fragmentation Needed (RFC
1191) or Packet Too Big (RFC 8201), or fragments one over IPv4 without DF (net/ipv4/ip_forward.c, net/ipv6/ip6_output.c,
ip6_forward). An answer takes the delay of the other direction, and no queue. A black hole is a rule of nftables that
drops larger packets. IPv6 has no message for less than 1280 B (RFC 8201 §4): what is larger than an MTU below that, and
no larger than 1280 B, is dropped without one.

The route is one of a table of its own, for all that enters at one side, so that both directions are independent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.netem.program import Command, Direction, Side, SizeLimit
from harness.scenario.schema import SMALLEST_MTU, PathMtu

_CHAINS = "inet path_mtu"
#: Routing tables with the routes of each direction, and the priority of the rules that lead to them.
_TABLES: dict[Direction, str] = {"to_client": "101", "to_server": "102"}
_PRIORITY = "100"
#: IP version → every address.
_EVERYTHING = {"-4": "0.0.0.0/0", "-6": "::/0"}

Gateways = Mapping[Side, Sequence[str]]
"""Side → the addresses of the next router there, where what lies beyond is not in that side's own network."""


def size_limit(path_mtu: PathMtu | None) -> SizeLimit | None:
    """The figures of an MTU."""
    return None if path_mtu is None else SizeLimit(size=path_mtu.size, icmp=path_mtu.icmp)


def mtu_setup(
    states: Mapping[Direction, Sequence[PathMtu | None]],
    sides: Mapping[Direction, tuple[Side, Side]],
    interface_mtu: int,
    gateways: Gateways,
) -> tuple[Command, ...]:
    """The commands for the MTUs that directions begin with, and what their changes need; none without any.

    `states`: at first and after each change; `sides`: where packets enter and where they leave.
    """
    commands: list[Command] = []
    for direction, mtus in states.items():
        if not any(path_mtu is not None and path_mtu.icmp for path_mtu in mtus):
            continue
        ingress, egress = sides[direction]
        commands += _route_commands("add", direction, egress, _route_mtu(mtus[0], interface_mtu), gateways)
        commands += [
            ("ip", version, "rule", "add", "iif", ingress, "lookup", _TABLES[direction], "pref", _PRIORITY)
            for version in _EVERYTHING
        ]
    lines: list[str] = []
    for direction, mtus in states.items():
        if not any(list(_drop_rules(path_mtu)) for path_mtu in mtus):
            continue
        if not lines:
            # Ahead of what other rules count or change (`harness.netem.nftables`): what is dropped here is not there.
            lines += [
                f"add table {_CHAINS}",
                f"add chain {_CHAINS} through {{ type filter hook forward priority 4; }}",
            ]
        lines += [
            f"add chain {_CHAINS} {direction}",
            f"add rule {_CHAINS} through iifname {sides[direction][0]} jump {direction}",
            *(f"add rule {_CHAINS} {direction} {rule}" for rule in _drop_rules(mtus[0])),
        ]
    return (*commands, *(("nft", *line.split(" ")) for line in lines))


def mtu_change(
    before: PathMtu | None, after: PathMtu | None, direction: Direction, egress: Side, gateways: Gateways, mtu: int
) -> list[Command]:
    """The commands that change an MTU. `mtu`: of the interfaces."""
    commands: list[Command] = []
    route_before, route_after = _route_mtu(before, mtu), _route_mtu(after, mtu)
    if route_before != route_after:
        commands += _route_commands("change", direction, egress, route_after, gateways)
    rules_before, rules_after = list(_drop_rules(before)), list(_drop_rules(after))
    if rules_before != rules_after:
        lines = [
            f"flush chain {_CHAINS} {direction}",
            *(f"add rule {_CHAINS} {direction} {rule}" for rule in rules_after),
        ]
        commands += [("nft", *line.split(" ")) for line in lines]
    return commands


def _route_mtu(path_mtu: PathMtu | None, interface_mtu: int) -> int:
    """The MTU of the route: that of the interfaces unless senders are told of another."""
    return path_mtu.size if path_mtu is not None and path_mtu.icmp else interface_mtu


def _route_commands(verb: str, direction: Direction, egress: Side, mtu: int, gateways: Gateways) -> list[Command]:
    """The routes of a direction, of both IP versions; a locked MTU is not changed by what other routers say."""
    via = {"-6" if ":" in address else "-4": address for address in gateways.get(egress, ())}
    commands: list[Command] = []
    for version, everything in _EVERYTHING.items():
        # IPv6 forwards 1280 B whatever a route says (net/ipv6/ip6_output.c, ip6_forward).
        size = max(mtu, SMALLEST_MTU) if version == "-6" else mtu
        words = ("via", via[version], "dev", egress, "onlink") if version in via else ("dev", egress)
        table = ("table", _TABLES[direction], "mtu", "lock", str(size))
        commands.append(("ip", "route", "replace" if verb == "change" else verb, everything, *words, *table))
    return commands


def _drop_rules(path_mtu: PathMtu | None) -> Iterator[str]:
    """The rules of a direction's chain: what is dropped without a word."""
    if path_mtu is None:
        return
    if not path_mtu.icmp:
        yield f"meta length > {path_mtu.size} drop"
    elif path_mtu.size < SMALLEST_MTU:
        yield f"meta nfproto ipv6 meta length > {path_mtu.size} drop"
