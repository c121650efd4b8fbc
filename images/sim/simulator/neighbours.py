"""Interfaces by their addresses, and the link-layer addresses of those beside them, resolved once and for good."""

from __future__ import annotations

import ipaddress
import json
import time
from collections.abc import Callable, Mapping

from simulator.shell import CommandError, run, run_program
from simulator.wire import nudge


class NotReadyError(Exception):
    """Somebody did not answer in time."""


def find_interfaces(addresses: Mapping[str, list[str]]) -> dict[str, str]:
    """Side → interface, by its addresses: Docker does not promise an order. CommandError where one is missing."""
    wanted = {ipaddress.ip_interface(text).ip: side for side, texts in addresses.items() for text in texts}
    found = {}
    for link in json.loads(run(("ip", "-j", "address", "show"))):
        for info in link["addr_info"]:
            side = wanted.get(ipaddress.ip_address(info["local"]))
            if side is not None:
                found[side] = str(link["ifname"])
    for side in ("left", "right"):
        if side not in found:
            raise CommandError(f"no interface has an address of the {side} side: {addresses[side]}")
    return found


def pin(devices: Mapping[str, str], seconds: float, stopped: Callable[[], bool]) -> None:
    """Resolve addresses and keep them for good. `devices`: address → where it is. NotReadyError after so many seconds.

    Docker does not let us choose MAC addresses on every version, and an ARP or neighbour solicitation behind the
    emulated delay would add that delay to the first packet, or be lost.
    """
    # Written as the kernel writes them: fd00:0::1 comes back as fd00::1.
    waiting = {str(ipaddress.ip_address(address)): device for address, device in devices.items()}
    deadline = time.monotonic() + seconds
    while waiting and time.monotonic() < deadline and not stopped():
        for address in waiting:
            nudge(address)
        known = {
            entry["dst"]: entry["lladdr"]
            for entry in json.loads(run(("ip", "-j", "neigh", "show")) or "[]")
            if "lladdr" in entry
        }
        found = [address for address in waiting if address in known]
        run_program(
            [["ip", "neigh", "replace", address, "lladdr", known[address], "dev", waiting[address], "nud", "permanent"]
             for address in found]
        )  # fmt: skip
        for address in found:
            del waiting[address]
        if waiting:
            time.sleep(0.02)
    if waiting:
        raise NotReadyError(f"no host has the address {', '.join(waiting)}")
