"""The lab kernel inside the simulator's container, attached to the container's two interfaces."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulator.plan import ETHERNET_MTU, Plan
from simulator.shell import run
from simulator.wire import ETH_P_ALL

SCRATCH = Path("/run/lab")
LAB_KERNEL = Path("/opt/lab/linux")
#: Frames a vector interface hands over at once (NAPI's weight is 64 at most).
VECTOR_DEPTH = 64
#: Receive and send buffer of the lab kernel's wires, bytes.
WIRE_BUFFER = 16 << 20
#: <linux/socket.h>, <linux/if_packet.h> and <asm-generic/socket.h>; Python's socket module lacks them.
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33

EXIT_FAILED, EXIT_NOT_READY = 1, 2


@dataclass(frozen=True)
class Wire:
    """One of the container's interfaces."""

    interface: str
    mac: str
    """By which the endpoints know it."""


def hand_over(interface: str) -> Wire:
    """Take an interface from the container's own kernel, so that only the lab kernel answers.

    The lab kernel gets the MAC address the endpoints know; the interface itself gets another one and
    listens in promiscuous mode. Every frame is then somebody else's to the container's kernel, which
    would otherwise answer and forward a second time.
    """
    mac = Path(f"/sys/class/net/{interface}/address").read_text().strip()
    # Locally administered, not multicast, different from any MAC Docker hands out (02:42:…).
    aside = "06" + mac[2:]
    run(("ip", "address", "flush", "dev", interface))
    run(("ip", "link", "set", "dev", interface, "address", aside, "promisc", "on", "arp", "off"))
    for feature in ("tx", "rx", "gro", "gso", "tso"):
        subprocess.run(["ethtool", "-K", interface, feature, "off"], capture_output=True, check=False)
    return Wire(interface, mac)


def raw_socket(interface: str) -> socket.socket:
    """The lab kernel's wire: a packet socket whose buffer outlasts a busy core.

    The default buffer holds some 90 frames, 4 ms at 250 Mbit/s; the lab kernel opens its sockets with that,
    so it is given ones that are opened here.
    """
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    wire.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    for force, plain in ((SO_RCVBUFFORCE, socket.SO_RCVBUF), (SO_SNDBUFFORCE, socket.SO_SNDBUF)):
        try:
            wire.setsockopt(socket.SOL_SOCKET, force, WIRE_BUFFER)
        except PermissionError:
            wire.setsockopt(socket.SOL_SOCKET, plain, WIRE_BUFFER)
    wire.bind((interface, 0))
    return wire


class LabKernel:
    """A guest: it runs from when it is made to when it switches itself off."""

    def __init__(self, plan: Plan, wires: Mapping[str, Wire], words: Sequence[str], console: Path) -> None:
        """`wires`: side → what was handed over; `words`: of its first process, `simulator.guest`."""
        self._console = console
        self._sockets = {side: raw_socket(wires[side].interface) for side in ("left", "right")}
        vectors = [
            f"vec{index}:transport=fd,fd={self._sockets[side].fileno()},depth={VECTOR_DEPTH},mac={wires[side].mac}"
            + (f",mtu={plan.mtu}" if plan.mtu > ETHERNET_MTU else "")
            for index, side in enumerate(("left", "right"))
        ]
        command = [
            str(LAB_KERNEL), f"mem={plan.memory_mib}M", "seccomp=on", *vectors,
            "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw", "con=null", "con0=null,fd:1", "quiet",
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH=/opt/lab", "PYTHONDONTWRITEBYTECODE=1",
            "init=/usr/bin/python3", "--", "-S", "-m", "simulator.guest", *words,
        ]  # fmt: skip
        with console.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env={**os.environ, "TMPDIR": str(SCRATCH)}, start_new_session=True,
                pass_fds=[wire.fileno() for wire in self._sockets.values()],
            )  # fmt: skip

    def over(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()

    def last_words(self) -> str:
        """What it said at last, after it ended by itself; for people."""
        lines = self._console.read_text(errors="replace").splitlines()[-10:]
        return f"the lab kernel ended with {self._process.wait()} without a word\n" + "\n".join(lines)

    def wait(self, events: Path) -> int:
        """Wait for its end. Exit code of the simulator, from what the guest left in its diary."""
        self._process.wait()
        for wire in self._sockets.values():
            wire.close()
        last = {}
        for line in events.read_text().splitlines():
            last = json.loads(line)
        if last.get("event") == "stop":
            return 0
        if last.get("event") == "failed":
            print(f"sim: {last['message']}", file=sys.stderr, flush=True)
            return EXIT_NOT_READY if last["reason"] == "NotReadyError" else EXIT_FAILED
        print(f"sim: {self.last_words()}", file=sys.stderr, flush=True)
        return EXIT_FAILED
