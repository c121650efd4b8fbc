"""The network of a lab inside one kernel: a namespace per endpoint, one for the simulator, a bridge per side."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from simulator.shell import run_program
from simulator.wire import write_sysctl

SIM = "sim"
ETHERNET_MTU = 1500
NAMESPACES = Path("/run/netns")
#: Until a kernel has said what it says when interfaces come up (multicast reports, duplicate address detection; RFC
#: 3810 §9.11, RFC 4862 §5.4), seconds: it would pass a path beside the flows.
QUIET = 4.0


@contextlib.contextmanager
def inside(name: str) -> Iterator[None]:
    """Be in a network namespace for a while."""
    with Path("/proc/self/ns/net").open("rb") as here, (NAMESPACES / name).open("rb") as there:
        os.setns(there.fileno(), os.CLONE_NEWNET)
        try:
            yield
        finally:
            os.setns(here.fileno(), os.CLONE_NEWNET)


def mac(addresses: list[str]) -> str:
    """The MAC address that Docker derives from an IPv4 address."""
    packed = next(
        item.ip.packed for item in map(ipaddress.ip_interface, addresses) if isinstance(item, ipaddress.IPv4Interface)
    )
    return "02:42:" + ":".join(f"{byte:02x}" for byte in packed)


def _wires(side: str, addresses: list[str], hosts: Mapping[str, list[str]]) -> list[list[str]]:
    """One side of the simulator: a direct wire to a lone endpoint, a bridge where there are several."""
    if len(hosts) == 1:
        ((name, own),) = hosts.items()
        return [
            ["ip", "link", "add", side, "netns", SIM, "address", mac(addresses), "type", "veth",
             "peer", "name", "eth0", "netns", name, "address", mac(own)],
        ]  # fmt: skip
    bridge = f"br-{side}"
    commands = [
        ["ip", "link", "add", bridge, "type", "bridge", "forward_delay", "0", "mcast_snooping", "0"],
        ["ip", "link", "set", "dev", bridge, "up"],
    ]
    ends = {f"sim-{side}": (SIM, side, addresses), **{name: (name, "eth0", own) for name, own in hosts.items()}}
    for port, (namespace, device, own) in ends.items():
        peer = ["peer", "name", device, "netns", namespace, "address", mac(own)]
        commands.append(["ip", "link", "add", port, "type", "veth", *peer])
        commands.append(["ip", "link", "set", "dev", port, "master", bridge, "up"])
    return commands


def _own(devices: Mapping[str, list[str]], mtu: int) -> list[list[str]]:
    """What is set up inside a namespace: the devices' MTU and addresses."""
    commands = [["ip", "link", "set", "dev", "lo", "up"]]
    for device, addresses in devices.items():
        commands.append(["ip", "link", "set", "dev", device, "mtu", str(mtu), "up"])
        # nodad: duplicate address detection would hold IPv6 back for a second.
        commands += [
            ["ip", "address", "add", address, "dev", device, *(["nodad"] if ":" in address else [])]
            for address in addresses
        ]
    return commands


def connect(
    simulator: Mapping[str, list[str]], hosts: Mapping[str, tuple[str, list[str]]], mtu: int = ETHERNET_MTU
) -> None:
    """Make the network. `simulator`: side → addresses; `hosts`: name → (side, addresses). CommandError if refused.

    Returns when its interfaces have fallen silent, which costs no wall time where time is virtual.
    `mtu` is that of every interface with an address; the bridges between them carry more.
    """
    commands = [["ip", "netns", "add", name] for name in (SIM, *hosts)]
    for side, addresses in simulator.items():
        here = {name: own for name, (where, own) in hosts.items() if where == side}
        commands += _wires(side, addresses, here)
    run_program(commands)
    for name, devices in {
        SIM: simulator,
        **{name: {"eth0": addresses} for name, (_, addresses) in hosts.items()},
    }.items():
        with inside(name):
            run_program(_own(devices, mtu))
    for name, (side, _) in hosts.items():
        # Nobody asks again whether the simulator is still there: that would pass the path, too.
        known = ["lladdr", mac(simulator[side]), "dev", "eth0", "nud", "permanent"]
        with inside(name):
            run_program([["ip", "neigh", "replace", own.partition("/")[0], *known] for own in simulator[side]])
    with inside(SIM):
        # What the agent sets, too: a router joins groups of its own, and reports them.
        for name in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
            write_sysctl(name, "1")
    time.sleep(QUIET)
