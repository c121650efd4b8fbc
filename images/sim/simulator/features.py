"""What a path program needs of a kernel, and whether this one has it. Ask the kernel, do not guess.

`python3 -m simulator.features [FEATURE …]` prints a JSON object: feature → why the kernel lacks it, or null.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from simulator.shell import CommandError, run

Command = tuple[str, ...]
#: The interface that features are tried on.
_DEVICE = "probe"
_SEED = 7


@dataclass(frozen=True)
class Feature:
    """Something of a kernel that path programs use."""

    option: str
    """Its option in the kernel's configuration (Kconfig); empty where only the lab kernel has it."""
    trial: tuple[Command, ...]
    """Commands that only a kernel with the feature takes, on an interface without queueing disciplines."""


def _qdisc(*words: str) -> tuple[Command, ...]:
    return (("tc", "qdisc", "add", "dev", _DEVICE, *words),)


_INGRESS = _qdisc("handle", "ffff:", "ingress")
_MATCH_ALL = ("tc", "filter", "add", "dev", _DEVICE, "parent", "ffff:", "protocol", "ip", "prio", "1")
_U32 = (*_MATCH_ALL, "u32", "match", "u32", "0", "0")


def _nft(text: str) -> tuple[Command, ...]:
    return (("nft", f"add table inet probe; {text} delete table inet probe"),)


#: By name. That of a queueing discipline is tc's.
#: Disciplines of a queue that few paths need, and that not every kernel has.
MANAGED_QUEUES = ("codel", "fq_codel", "pie", "fq_pie", "cake", "sfq", "dualpi2")
#: Disciplines that only the lab kernel has → words with which tc takes them.
LAB_DISCIPLINES = {"serial": ("rate", "1000000bit"), "transit": ()}
FEATURES: Mapping[str, Feature] = {
    "ifb": Feature(
        "CONFIG_IFB", (("ip", "link", "add", "probe_ifb", "type", "ifb"), ("ip", "link", "del", "probe_ifb"))
    ),
    "rule": Feature(
        "CONFIG_IP_MULTIPLE_TABLES",
        tuple(
            ("ip", version, "rule", verb, "iif", _DEVICE, "lookup", "101", "pref", "100")
            for version in ("-4", "-6") for verb in ("add", "del")
        ),
    ),
    "ingress": Feature("CONFIG_NET_SCH_INGRESS", _INGRESS),
    "u32": Feature("CONFIG_NET_CLS_U32", (*_INGRESS, (*_U32, "flowid", "ffff:1"))),
    "matchall": Feature("CONFIG_NET_CLS_MATCHALL", (*_INGRESS, (*_MATCH_ALL, "matchall", "flowid", "ffff:1"))),
    # tc's word for its action.
    "pass": Feature("CONFIG_NET_ACT_GACT", (*_INGRESS, (*_U32, "action", "pass"))),
    "mirred": Feature(
        "CONFIG_NET_ACT_MIRRED", (*_INGRESS, (*_U32, "action", "mirred", "egress", "redirect", "dev", _DEVICE))
    ),
    "police": Feature(
        "CONFIG_NET_ACT_POLICE",
        (*_INGRESS, (*_U32, "action", "police", "rate", "1mbit", "burst", "10kb", "conform-exceed", "drop/ok")),
    ),
    "skbedit": Feature("CONFIG_NET_ACT_SKBEDIT", (*_INGRESS, (*_U32, "action", "skbedit", "mark", "1"))),
    "tbf": Feature("CONFIG_NET_SCH_TBF", _qdisc("root", "tbf", "rate", "1mbit", "burst", "3kb", "limit", "10kb")),
    "hfsc": Feature("CONFIG_NET_SCH_HFSC", _qdisc("root", "handle", "1:", "hfsc")),
    "prio": Feature("CONFIG_NET_SCH_PRIO", _qdisc("root", "prio", "bands", "2", "priomap", *["0"] * 16)),
    "pfifo": Feature("CONFIG_NET_SCHED", _qdisc("root", "pfifo", "limit", "10")),
    "bfifo": Feature("CONFIG_NET_SCHED", _qdisc("root", "bfifo", "limit", "10kb")),
    "red": Feature(
        "CONFIG_NET_SCH_RED",
        _qdisc("root", "red", "limit", "50000", "min", "15000", "max", "40000", "avpkt", "1280", "burst", "85",
               "bandwidth", "1mbit", "probability", "0.1"),
    ),
    **{
        name: Feature(f"CONFIG_NET_SCH_{name.upper()}", _qdisc("root", name))
        for name in MANAGED_QUEUES
    },
    **{name: Feature("", _qdisc("root", name, *words)) for name, words in LAB_DISCIPLINES.items()},
    "netem": Feature("CONFIG_NET_SCH_NETEM", _qdisc("root", "netem", "limit", "10", "delay", "1ms")),
    "netem slot": Feature(
        "CONFIG_NET_SCH_NETEM",
        _qdisc("root", "netem", "limit", "10", "slot", "distribution", "exponential", "5ms", "1ms", "packets", "1"),
    ),
    "netem seed": Feature(
        "CONFIG_NET_SCH_NETEM", _qdisc("root", "netem", "limit", "10", "loss", "random", "1%", "seed", str(_SEED))
    ),
    "nft": Feature(
        "CONFIG_NF_TABLES_INET",
        _nft("add chain inet probe through { type filter hook forward priority filter; };"),
    ),
    "nft nat": Feature(
        "CONFIG_NFT_NAT",
        _nft("add chain inet probe out { type nat hook postrouting priority srcnat; }; "
             "add rule inet probe out meta nfproto ipv6 meta l4proto udp snat ip6 to [fd00::1]:1;"),
    ),
    "conntrack": Feature(
        "CONFIG_NF_CONNTRACK",
        (*_nft("add chain inet probe through { type filter hook forward priority filter; }; "
               "add rule inet probe through ct state new drop;"), ("conntrack", "-L")),
    ),
}  # fmt: skip

#: The release that netem's `seed` came with (net/sched/sch_netem.c). Earlier ones take the word and ignore it.
SEED_RELEASE = "6.6"


def needed_features(commands: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """The features that commands of a path program use, in the order of `FEATURES`.

    A word that names none is not looked for.
    """
    words = [list(command) for command in commands]
    needed = {word for command in words if command[0] in ("ip", "tc") for word in command if word in FEATURES}
    for command in (command for command in words if "netem" in command):
        needed |= {f"netem {word}" for word in ("seed", "slot") if word in command}
    for command in words:
        if command[0] == "nft":
            needed.add("nft")
            needed |= {"nft nat"} if {"nat", "snat"} & set(" ".join(command).split()) else set()
            needed |= {"conntrack"} if "ct" in " ".join(command).split() else set()
        elif command[0] == "conntrack":
            needed.add("conntrack")
    return tuple(name for name in FEATURES if name in needed)


def missing_features(names: Iterable[str] = tuple(FEATURES)) -> dict[str, str]:
    """Those that this kernel lacks: feature → the command that failed and its message. CommandError without rights."""
    missing = {}
    for name in names:
        # Every kernel that runs containers has veth.
        run(("ip", "link", "add", _DEVICE, "type", "veth", "peer", "name", f"{_DEVICE}_peer"))
        try:
            for command in FEATURES[name].trial:
                run(command)
            if name == "netem seed" and not _has_seed():
                missing[name] = f"netem takes 'seed' and ignores it: Linux {SEED_RELEASE} or newer has it"
        except CommandError as error:
            missing[name] = str(error)
        finally:
            with contextlib.suppress(CommandError):
                run(("ip", "link", "del", _DEVICE))
    return missing


def _has_seed() -> bool:
    """Whether the discipline that was just added has the seed that it was given."""
    disciplines = json.loads(run(("tc", "-j", "qdisc", "show", "dev", _DEVICE)))
    return any(item.get("options", {}).get("seed") == _SEED for item in disciplines)


if __name__ == "__main__":
    asked = sys.argv[1:] or list(FEATURES)
    lacking = missing_features(asked)
    print(json.dumps({name: lacking.get(name) for name in asked}))
