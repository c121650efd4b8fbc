"""The plan the simulator is given."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

Command = list[str]
ETHERNET_MTU = 1500


@dataclass(frozen=True)
class Neighbour:
    """An endpoint that is resolved before there is any delay, so that no ARP waits behind it."""

    side: str
    address: str
    late: bool = False
    """It may not be there yet."""


@dataclass(frozen=True)
class Route:
    """The way to a network behind the next one."""

    network: str
    side: str
    """Where it begins."""
    via: str


@dataclass(frozen=True)
class Plan:
    """Addresses of the two interfaces, the path program, and what to watch."""

    kernel: str
    """auto, host or lab."""
    addresses: dict[str, list[str]]
    """Per side (left, right): own addresses with prefix length."""
    neighbours: list[Neighbour]
    setup: list[Command]
    changes: list[tuple[float, list[Command]]]
    """(seconds after the first datagram, commands)."""
    wait_for: list[tuple[str, int]]
    """UDP servers that must answer before the path is called ready."""
    wait_seconds: float
    port: int
    """UDP port of the servers. The first datagram to it from the left, or TCP connection, starts the clock."""
    sample_seconds: float
    memory_mib: int
    """Memory of the lab kernel."""
    name: str = "sim"
    peers: tuple[str, ...] = ()
    """The names of all simulators of the lab; none where there is one."""
    routes: tuple[Route, ...] = ()
    """To what lies behind the simulators, or proxies, beside this one."""
    whole_frames: bool = False
    """Captures keep whole frames, not their heads alone."""
    mtu: int = ETHERNET_MTU
    """IP MTU of the interfaces, where it is no less."""
    after: str = ""
    """The simulator that must have its servers' answers before this one delays anything; '' for none."""
    folder: Path = Path()
    """Where the files lie that commands name."""


def read_plan(path: Path) -> Plan:
    """Read a plan. KeyError or ValueError when it is not one."""
    raw = json.loads(path.read_text())
    if raw["schema"] != 1:
        raise ValueError(f"{path}: schema {raw['schema']} is not 1")
    return Plan(
        kernel=raw["kernel"],
        addresses=raw["addresses"],
        neighbours=[Neighbour(**item) for item in raw["neighbours"]],
        setup=raw["setup"],
        changes=[(item["at_ns"] / 1e9, item["commands"]) for item in raw["changes"]],
        wait_for=[(host, port) for host, port in raw["wait_for"]],
        wait_seconds=raw["wait_seconds"],
        port=raw["port"],
        sample_seconds=raw["sample_seconds"],
        memory_mib=raw["memory_mib"],
        name=raw.get("name", "sim"),
        peers=tuple(raw.get("peers", ())),
        routes=tuple(Route(**item) for item in raw.get("routes", ())),
        whole_frames=raw.get("whole_frames", False),
        mtu=raw.get("mtu", ETHERNET_MTU),
        after=raw.get("after", ""),
        folder=path.parent,
    )
