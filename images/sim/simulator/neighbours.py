"""Interfaces by their addresses, and the link-layer addresses of those beside them, resolved once and for good."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import json
import math
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from simulator.shell import CommandError, run, run_program
from simulator.wire import nudge

#: For how long an address that nobody answers for is asked for once, seconds: the kernel asks again after a second
#: (retrans_time_ms, Documentation/networking/ip-sysctl.rst), and whoever is asked may be about to start.
ASKED = 0.06
#: <linux/sockios.h> and <linux/if_arp.h>: delete an entry of the table; it is complete.
SIOCDARP, ATF_COM = 0x8953, 0x02


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


def resolved(addresses: Iterable[str]) -> bool:
    """Whether the kernel knows where all the IPv4 ones are: a look that takes no process (proc_pid_net(5))."""
    rows = [row.split() for row in Path("/proc/thread-self/net/arp").read_text().splitlines()[1:]]
    known = {row[0] for row in rows if int(row[2], 16) & ATF_COM}
    return known.issuperset(address for address in addresses if ":" not in address)


def forget(waiting: Mapping[str, str]) -> None:
    """Have those IPv4 addresses that nobody answered for asked for anew (arp(7)). `waiting`: address → where it is."""
    for address, device in waiting.items():
        if resolved([address]):
            continue
        asked = struct.pack("=HH4s8x16xi16x16s", socket.AF_INET, 0, socket.inet_aton(address), 0, device.encode())
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket, contextlib.suppress(OSError):
            fcntl.ioctl(any_socket, SIOCDARP, asked)


def pin(
    devices: Mapping[str, str], seconds: float, stopped: Callable[[], bool], begun: Callable[[], bool] = lambda: True
) -> None:
    """Resolve addresses and keep them for good. `devices`: address → where it is. NotReadyError after so many seconds.

    These count from when it has begun: before that nobody need be there.

    Docker does not let us choose MAC addresses on every version, and an ARP or neighbour solicitation behind the
    emulated delay would add that delay to the first packet, or be lost.
    """
    # Written as the kernel writes them: fd00:0::1 comes back as fd00::1.
    waiting = {str(ipaddress.ip_address(address)): device for address, device in devices.items()}
    forgotten, deadline = time.monotonic(), math.inf
    while waiting and time.monotonic() < deadline and not stopped():
        if deadline == math.inf and begun():
            deadline = time.monotonic() + seconds
        for address in waiting:
            nudge(address)
        if not resolved(waiting):
            # To start a process takes long in a lab kernel, while others on this machine are about to start.
            if time.monotonic() >= forgotten + ASKED:
                forget(waiting)
                forgotten = time.monotonic()
            time.sleep(0.01)
            continue
        entries = json.loads(run(("ip", "-j", "neigh", "show")) or "[]")
        known = {entry["dst"]: entry["lladdr"] for entry in entries if "lladdr" in entry}
        found = [address for address in waiting if address in known]
        run_program(
            [["ip", "neigh", "replace", address, "lladdr", known[address], "dev", waiting[address], "nud", "permanent"]
             for address in found]
        )  # fmt: skip
        for address in found:
            del waiting[address]
        if waiting:
            if time.monotonic() >= forgotten + ASKED:
                # What is forgotten is asked for anew.
                silent = [entry for entry in entries if entry["dst"] in waiting and "lladdr" not in entry]
                for entry in silent:
                    command = ["ip", "neigh", "del", entry["dst"], "dev", entry["dev"]]
                    subprocess.run(command, capture_output=True, check=False)
                forgotten = time.monotonic()
            time.sleep(0.02)
    if waiting:
        raise NotReadyError(f"no host has the address {', '.join(waiting)}")
