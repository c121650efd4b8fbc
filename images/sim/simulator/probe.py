"""Does this kernel have the queues a path program needs? Ask it, do not guess."""

from __future__ import annotations

import contextlib

from simulator.shell import CommandError, run

_PROBES: tuple[tuple[str, ...], ...] = (
    ("ip", "link", "add", "probe", "type", "ifb"),
    ("ip", "link", "set", "dev", "probe", "up"),
    ("tc", "qdisc", "add", "dev", "probe", "handle", "ffff:", "ingress"),
    ("tc", "filter", "add", "dev", "probe", "parent", "ffff:", "protocol", "ip", "prio", "1", "u32",
     "match", "u32", "0", "0", "action", "mirred", "egress", "redirect", "dev", "probe"),
    ("tc", "qdisc", "add", "dev", "probe", "root", "handle", "1:", "tbf", "rate", "1mbit", "burst", "3kb",
     "limit", "10kb"),
    ("tc", "qdisc", "add", "dev", "probe", "parent", "1:", "handle", "10:", "red", "limit", "50000", "min", "15000",
     "max", "40000", "avpkt", "1280", "burst", "85", "bandwidth", "1mbit", "probability", "0.1"),
    ("tc", "qdisc", "del", "dev", "probe", "root"),
    ("tc", "qdisc", "add", "dev", "probe", "root", "netem", "limit", "10", "delay", "1ms", "loss", "random", "1%",
     "seed", "1"),
    ("tc", "qdisc", "del", "dev", "probe", "root"),
    ("tc", "qdisc", "add", "dev", "probe", "root", "handle", "1:", "prio", "bands", "2", "priomap", *["0"] * 16),
    ("tc", "qdisc", "add", "dev", "probe", "parent", "1:1", "handle", "20:", "netem", "limit", "10",
     "slot", "distribution", "exponential", "5ms", "1ms", "packets", "1", "seed", "1"),
    ("tc", "filter", "add", "dev", "probe", "parent", "1:", "protocol", "ipv6", "prio", "2", "u32",
     "match", "ip6", "dst", "fd00:cafe:cafe:0::100/128", "flowid", "1:2"),
)  # fmt: skip


#: What a path needs that rewrites addresses.
_NAT: tuple[tuple[str, ...], ...] = (
    ("nft", "add table inet probe; add chain inet probe out { type nat hook postrouting priority srcnat; }; "
     "add rule inet probe out meta nfproto ipv6 meta l4proto udp snat ip6 to [fd00::1]:1; "
     "add chain inet probe through { type filter hook forward priority filter; }; "
     "add rule inet probe through ct state new drop; delete table inet probe"),
    ("conntrack", "-L"),
)  # fmt: skip


def missing(nat: bool = False) -> str | None:
    """What this kernel lacks, as the failing command and its message; None when it has everything.

    `nat`: whether addresses are to be rewritten.
    """
    try:
        for command in (*_PROBES, *(_NAT if nat else ())):
            run(command)
    except CommandError as error:
        return str(error)
    finally:
        with contextlib.suppress(CommandError):
            run(("ip", "link", "del", "probe"))
    return None


if __name__ == "__main__":
    reason = missing()
    print(reason or "complete")
    raise SystemExit(0 if reason is None else 1)
