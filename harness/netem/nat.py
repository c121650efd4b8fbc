"""A path that rewrites where datagrams come from, and now and then forgets what it wrote (nftables, conntrack).

As a network address translator does: the mapping belongs to the flow (RFC 4787 §4.1), what comes back is rewritten the
other way round, and what comes for no mapping is dropped. A mapping that is forgotten lives again, as another one, with
the client's next datagram.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.netem.program import AddressMapping, Command

#: Table and chains: what is rewritten on the way out, in a chain a client; what passes.
_TABLE = ("inet", "nat")
_OUT, _THROUGH = "out", "through"
_FAMILIES = (("ip", "ipv4"), ("ip6", "ipv6"))


def nat_setup(mappings: Sequence[AddressMapping]) -> tuple[Command, ...]:
    """What a path needs from the beginning; nothing where it rewrites nothing.

    From the beginning: connection tracking must know each connection by its first datagram, or it would take the
    servers' next one for the first.
    """
    if not mappings:
        return ()
    commands: list[Command] = [
        ("nft", "add", "table", *_TABLE),
        ("nft", "add", "chain", *_TABLE, _OUT, *_hook("nat", "postrouting", "srcnat")),
        ("nft", "add", "chain", *_TABLE, _THROUGH, *_hook("filter", "forward", "filter")),
        ("nft", "add", "rule", *_TABLE, _THROUGH, "iifname", "right", "ct", "state", "new", "drop"),
    ]
    for inner in dict.fromkeys(mapping.inner for mapping in mappings):
        commands.append(("nft", "add", "chain", *_TABLE, _chain(inner)))
        commands.extend(
            ("nft", "add", "rule", *_TABLE, _OUT, family, "saddr", address, "jump", _chain(inner))
            for (family, _), address in zip(_FAMILIES, inner, strict=True)
        )
    return tuple(commands)


def _hook(kind: str, place: str, priority: str) -> Command:
    return ("{", "type", kind, "hook", place, "priority", priority, ";", "}")


def nat_commands(mappings: Sequence[AddressMapping]) -> list[tuple[int, Command]]:
    """When (ns), and with which commands, mappings come into force and those before them are forgotten."""
    made: list[tuple[int, Command]] = []
    for mapping in mappings:
        chain = (*_TABLE, _chain(mapping.inner))
        commands: list[Command] = [("nft", "flush", "chain", *chain)]
        for (family, _), outer in zip(_FAMILIES, mapping.outer, strict=True):
            place = (f"[{outer}]" if family == "ip6" else outer) + f":{mapping.port}" if mapping.port else outer
            udp = ("meta", "nfproto", "ipv6" if family == "ip6" else "ipv4", "meta", "l4proto", "udp")
            commands.append(("nft", "add", "rule", *chain, *udp, "snat", family, "to", place))
        commands.extend(
            ("conntrack", "-D", "-f", family, "-p", "udp", "-s", inner)
            for (_, family), inner in zip(_FAMILIES, mapping.inner, strict=True)
        )
        made += [(mapping.at_ns, command) for command in commands]
    return made


def _chain(inner: tuple[str, str]) -> str:
    """The chain of a client, by its IPv4 address."""
    return "client-" + inner[0].replace(".", "-")
