"""The networks of a lab inside one kernel: a namespace per endpoint and simulator, a wire or a bridge per network."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from simulator.plan import ETHERNET_MTU
from simulator.rtnetlink import settle
from simulator.shell import run_program
from simulator.wire import switch_off, write_sysctl

SIM = "sim"
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


@dataclass(frozen=True)
class Port:
    """A device of somebody's in a network."""

    owner: str
    """The namespace."""
    device: str
    addresses: list[str]
    """With the lengths of their prefixes."""
    simulator: bool = False


def _wires(network: str, ports: list[Port], mtu: int = ETHERNET_MTU) -> list[list[str]]:
    """A network: a direct wire between two, a bridge where there are more, which carries what its ports send."""
    if len(ports) == 2:
        one, other = ports
        return [
            ["ip", "link", "add", one.device, "netns", one.owner, "address", mac(one.addresses), "type", "veth",
             "peer", "name", other.device, "netns", other.owner, "address", mac(other.addresses)],
        ]  # fmt: skip
    bridge = f"br-{network}"
    commands = [
        ["ip", "link", "add", bridge, "type", "bridge", "forward_delay", "0", "mcast_snooping", "0"],
        ["ip", "link", "set", "dev", bridge, *_larger(mtu), "up"],
    ]
    for number, port in enumerate(ports):
        # What is plugged into the bridge; 15 characters at most.
        plug = f"sim{number or ''}-{network}" if port.simulator else f"{port.owner}{port.device.removeprefix('eth0')}"
        peer = ["peer", "name", port.device, "netns", port.owner, "address", mac(port.addresses)]
        commands.append(["ip", "link", "add", plug, "type", "veth", *peer])
        commands.append(["ip", "link", "set", "dev", plug, "master", bridge, *_larger(mtu), "up"])
    return commands


def _larger(mtu: int) -> list[str]:
    """Words for a device of a bridge, whose own MTU does for smaller ones."""
    return ["mtu", str(mtu)] if mtu > ETHERNET_MTU else []


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


def _known(here: Port, network: list[Port]) -> list[list[str]]:
    """Who is beside a port. Nobody asks whether somebody is there, or still is: that would pass the path, too.

    Simulators know everybody; endpoints and proxies know the simulators.
    """
    return [
        ["ip", "neigh", "replace", own.partition("/")[0], "lladdr", mac(there.addresses), "dev", here.device,
         "nud", "permanent"]
        for there in network if there is not here and (here.simulator or there.simulator)
        for own in there.addresses
    ]  # fmt: skip


def connect(
    simulator: Mapping[str, list[str]], hosts: Mapping[str, tuple[str, list[str]]], mtu: int = ETHERNET_MTU
) -> None:
    """Make the network of one simulator. `simulator`: side → addresses; `hosts`: name → (side, addresses)."""
    connect_all(
        {SIM: {side: (side, addresses) for side, addresses in simulator.items()}},
        {name: {side: addresses} for name, (side, addresses) in hosts.items()},
        mtu,
    )


def connect_all(
    simulators: Mapping[str, Mapping[str, tuple[str, list[str]]]],
    hosts: Mapping[str, Mapping[str, list[str]]],
    mtu: int = ETHERNET_MTU,
) -> None:
    """Make the networks of a lab. CommandError if refused.

    `simulators`: name → side → (network, addresses); `hosts`: name → network → addresses, whose devices are eth0, eth1
    and so on in that order. Returns when the interfaces have fallen silent, which costs no wall time where time is
    virtual.
    `mtu` is that of every interface with an address; the bridges between them carry more.
    """
    networks: dict[str, list[Port]] = {}
    for name, sides in simulators.items():
        for side, (network, addresses) in sides.items():
            networks.setdefault(network, []).append(Port(name, side, addresses, simulator=True))
    for name, places in hosts.items():
        for number, (network, addresses) in enumerate(places.items()):
            networks[network].append(Port(name, f"eth{number}", addresses))
    commands = [["ip", "netns", "add", name] for name in (*simulators, *hosts)]
    for number, (network, ports) in enumerate(networks.items()):
        commands += _wires(network if network in ("left", "right") else f"left{number}", ports, mtu)
    run_program(commands)
    for name in (*simulators, *hosts):
        own = [(port, ports) for ports in networks.values() for port in ports if port.owner == name]
        with inside(name):
            settle(_own({port.device: port.addresses for port, _ in own}, mtu))
            settle(command for port, ports in own for command in _known(port, ports))
            for port, _ in own:
                # As endpoints do elsewhere (images/endpoint/setup.sh): packets leave with real checksums.
                switch_off(port.device, "tx")
            if name in simulators:
                # What the agent sets, too: a router joins groups of its own, and reports them.
                for setting in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
                    write_sysctl(setting, "1")
    time.sleep(QUIET)
