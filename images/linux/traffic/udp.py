"""UDP traffic: datagrams leave when a law says so, and are counted where they arrive.

A datagram begins with its number and the time it was sent (CLOCK_REALTIME, ns), eight bytes each in network order,
so that captures can tell datagrams apart. The rest is zeros.
"""

from __future__ import annotations

import contextlib
import json
import math
import socket
import struct
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

from traffic import TrafficError
from traffic.law import Law
from traffic.plan import Plan, address_of
from traffic.readiness import version_negotiation

HEAD = struct.Struct("!QQ")
#: What a client sends to be sent to, and how often until something comes, seconds.
REQUEST, REQUEST_PERIOD = b"traffic?", 0.2
#: After the end the client waits until nothing has come for QUIET, and at most DRAIN; seconds.
QUIET, DRAIN = 0.3, 2.0
#: Longest wait for a datagram before the receiver looks at the clock, seconds.
LOOK = 0.1
RECEIVE_BUFFER = 8 * 2**20
#: linux/in.h and linux/in6.h: larger datagrams than the path takes are an error, never fragments.
IP_MTU_DISCOVER, IPV6_MTU_DISCOVER, PMTUDISC_DO = 10, 23, 2
#: asm-generic/socket.h: beyond net.core.rmem_max, with CAP_NET_ADMIN (socket(7)).
SO_RCVBUFFORCE = 33


def _prepare(endpoint: socket.socket) -> None:
    """Room for bursts, no fragments, and waits that end after LOOK (one system call a datagram, not two)."""
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    with contextlib.suppress(PermissionError):
        endpoint.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER)
    endpoint.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, PMTUDISC_DO)
    if endpoint.family == socket.AF_INET6:
        endpoint.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, PMTUDISC_DO)
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, round(LOOK * 1e6)))


def bound(port: int) -> socket.socket:
    """The server's socket, for IPv6 and IPv4, or for IPv4 where the kernel has nothing else."""
    try:
        endpoint = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        endpoint.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        endpoint.bind(("::", port))
    except OSError:
        endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        endpoint.bind(("", port))
    _prepare(endpoint)
    return endpoint


# --- sending


class Sending:
    """What has been sent of a flow, and how late after it was due."""

    def __init__(self) -> None:
        self.bytes = 0
        self.late = array("q")
        """ns, one a datagram."""

    def summary(self) -> dict[str, Any]:
        """Counts, and quantiles of the lateness by nearest rank in us, None of nothing."""
        ordered = sorted(self.late)
        quantiles = {
            name: ordered[max(0, math.ceil(share * len(ordered)) - 1)] / 1e3 if ordered else None
            for name, share in (("late_p50_us", 0.5), ("late_p99_us", 0.99), ("late_max_us", 1.0))
        }
        return {"datagrams": len(self.late), "bytes": self.bytes, **quantiles}


def send(out: socket.socket, law: Law, seed: int, seconds: float, sending: Sending) -> None:
    """Send for a time to whom the socket is connected.

    A sender that is late sends what is due at once: the law's times stand, whatever happened before.
    """
    buffer = memoryview(bytearray(law.packet[1]))
    start = time.monotonic_ns()
    # One look at the clock a datagram: the two clocks differ by a constant unless somebody sets one.
    realtime = time.time_ns() - start
    for number, (at, size) in enumerate(law.departures(seed, seconds)):
        due = start + round(at * 1e9)
        now = time.monotonic_ns()
        if now < due:
            time.sleep((due - now) / 1e9)
            now = time.monotonic_ns()
        HEAD.pack_into(buffer, 0, number, now + realtime)
        _send(out, buffer[:size])
        sending.late.append(now - due)
        sending.bytes += size


def _send(out: socket.socket, datagram: memoryview) -> None:
    try:
        out.send(datagram)
    except ConnectionRefusedError:
        # What an earlier one met, whose receiver is not there: the kernel says so in place of sending (udp(7)).
        with contextlib.suppress(ConnectionRefusedError):
            out.send(datagram)
    except OSError as error:
        raise TrafficError(f"a datagram of {len(datagram)} B cannot be sent: {error}") from error


# --- receiving


def is_of_flow(datagram: bytes | memoryview) -> bool:
    """Whether a datagram can be one of a flow's: it has a head, and no flow sends 2^56 datagrams."""
    return len(datagram) >= HEAD.size and datagram[0] == 0


class Reception:
    """What has come of a flow."""

    def __init__(self) -> None:
        self.datagrams = 0
        self.bytes = 0
        self._highest = -1

    def count(self, datagram: bytes | memoryview) -> None:
        """Count a datagram, if it is one of the flow."""
        if is_of_flow(datagram):
            self.datagrams += 1
            self.bytes += len(datagram)
            self._highest = max(self._highest, int.from_bytes(datagram[:8], "big"))

    def summary(self) -> dict[str, int]:
        """Counts. `missing` are those before the last that came: the end of a flow may be lost unseen.

        The emulated path doubles nothing, so numbers that came are not looked at one by one.
        """
        return {"datagrams": self.datagrams, "bytes": self.bytes, "missing": self._highest + 1 - self.datagrams}


def receive(source: socket.socket, reception: Reception, over: Callable[[float], bool]) -> None:
    """Take everything that comes until `over`, which is told how long ago the last datagram came (s)."""
    buffer = bytearray(65536)
    view = memoryview(buffer)
    last = time.monotonic_ns()
    while True:
        try:
            size = source.recv_into(buffer)
            reception.count(view[:size])
            last = now = time.monotonic_ns()
        except (BlockingIOError, ConnectionRefusedError):
            # Nothing for LOOK, or the server is not there.
            now = time.monotonic_ns()
        if over((now - last) / 1e9):
            return


def _write(file: Path, summary: dict[str, Any]) -> None:
    file.write_text(json.dumps(summary) + "\n")


# --- the two roles


def request(plan: Plan, logs: Path, port: int, start_ns: int) -> None:
    """The client: sends, or asks to be sent to and receives, until `seconds` after start_ns (monotonic) and a rest."""
    family, address = address_of(plan.peer, port, "udp")
    end = start_ns + round(plan.seconds * 1e9)
    with socket.socket(family, socket.SOCK_DGRAM) as endpoint:
        _prepare(endpoint)
        endpoint.connect(address)
        if plan.sends:
            _send_all(endpoint, plan, logs, (end - time.monotonic_ns()) / 1e9)
            # What is under way has to arrive before the lab comes down.
            time.sleep(max(0.0, (end - time.monotonic_ns()) / 1e9) + QUIET)
            return
        reception = Reception()
        try:
            _ask(endpoint, reception, end)
            receive(
                endpoint,
                reception,
                lambda quiet: (now := time.monotonic_ns()) >= end and (quiet >= QUIET or now >= end + DRAIN * 1e9),
            )
        finally:
            _write(logs / "received.json", reception.summary())
    if not reception.datagrams:
        raise TrafficError(f"nothing came from {plan.peer} within {plan.seconds:g} s")


def _ask(endpoint: socket.socket, reception: Reception, end: int) -> None:
    """Send requests until the first datagram of the flow has come, or its time is over."""
    while not reception.datagrams and time.monotonic_ns() < end:
        due = time.monotonic_ns() + round(REQUEST_PERIOD * 1e9)
        _send(endpoint, memoryview(REQUEST))
        receive(endpoint, reception, lambda _, due=due: bool(reception.datagrams) or time.monotonic_ns() >= due)  # type: ignore[misc]


def serve(plan: Plan, logs: Path, port: int) -> None:
    """The server: answers probes, then sends to the first who asks, or receives until it is told to end."""
    with bound(port) as endpoint:
        if plan.sends:
            _, address = await_flow(endpoint, lambda datagram: datagram == REQUEST)
            endpoint.connect(address)
            _send_all(endpoint, plan, logs, plan.seconds)
            return
        first, address = await_flow(endpoint, is_of_flow)
        endpoint.connect(address)
        reception = Reception()
        reception.count(first)
        try:
            receive(endpoint, reception, lambda _: False)
        finally:
            _write(logs / "received.json", reception.summary())


def _send_all(out: socket.socket, plan: Plan, logs: Path, seconds: float) -> None:
    assert plan.law is not None
    sending = Sending()
    try:
        send(out, plan.law, plan.seed, seconds, sending)
    finally:
        _write(logs / "sent.json", sending.summary())


def await_flow(endpoint: socket.socket, begins: Callable[[bytes], bool]) -> tuple[bytes, Any]:
    """Answer probes until a datagram begins the flow: (the datagram, where it came from)."""
    while True:
        with contextlib.suppress(BlockingIOError):
            datagram, address = endpoint.recvfrom(65536)
            if begins(datagram):
                return datagram, address
            answer = version_negotiation(datagram)
            if answer is not None:
                endpoint.sendto(answer, address)
