"""A path that is gone for a while, silently: no carrier is lost, and nobody is told (no ICMP)."""

from __future__ import annotations

from collections.abc import Sequence

from harness.netem.program import Command, Outage

#: Priorities of what drops, ahead of what sends packets to the bottleneck (`harness.netem.bottleneck.redirect`).
PRIORITIES = {"ip": "1", "ipv6": "2"}
#: What enters from the clients; and what leaves to them, whatever is queued or under way in the path by then.
_DOWN: tuple[Command, ...] = (
    *(
        ("tc", "filter", "add", "dev", "left", "parent", "ffff:", "protocol", protocol, "prio", priority,
         "u32", "match", "u32", "0", "0", "action", "drop")
        for protocol, priority in PRIORITIES.items()
    ),
    ("tc", "qdisc", "replace", "dev", "left", "root", "blackhole"),
)  # fmt: skip
_UP: tuple[Command, ...] = (
    ("tc", "qdisc", "del", "dev", "left", "root"),
    *(
        ("tc", "filter", "del", "dev", "left", "parent", "ffff:", "protocol", protocol, "prio", priority)
        for protocol, priority in PRIORITIES.items()
    ),
)


def outage_commands(outages: Sequence[Outage], egresses: Sequence[Sequence[Command]]) -> list[tuple[int, Command]]:
    """When (ns), and with which commands, a path goes and comes back.

    `egresses`: what makes its clients' side anew, for each outage, with a seed of its own.

    The servers' side and both queues go on: what the clients sent before is on its way, and what comes for them
    passes the bottleneck and ends at its far side.
    """
    made: list[tuple[int, Command]] = []
    for outage, egress in zip(outages, egresses, strict=True):
        made += [(outage.from_ns, command) for command in _DOWN]
        if outage.until_ns is not None:
            first, *others = _UP
            made += [(outage.until_ns, command) for command in (first, *egress, *others)]
    return made
