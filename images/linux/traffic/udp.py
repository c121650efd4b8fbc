"""UDP traffic: datagrams leave when a law says so, and are counted where they arrive.

A datagram begins with its number and the time it was sent (CLOCK_REALTIME, ns), eight bytes each in network order,
so that captures can tell datagrams apart. The rest is zeros.
"""

from __future__ import annotations

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


def _prepare(endpoint: socket.socket) -> None:
    """Room for bursts, no fragments, and waits that end after LOOK (one system call a datagram, not two)."""
    # Beyond net.core.rmem_max with CAP_NET_ADMIN only (socket(7)).
    for option in (33, socket.SO_RCVBUF):  # SO_RCVBUFFORCE
        try:
            endpoint.setsockopt(socket.SOL_SOCKET, option, RECEIVE_BUFFER)
            break
        except PermissionError:
            continue
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


def send(out: socket.socket, law: Law, seed: int, seconds: float) -> dict[str, Any]:
    """Send for a time to whom the socket is connected. What was sent, and how late (us after it was due).

    A sender that is late sends what is due at once: the law's times stand, whatever happened before.
    """
    buffer = memoryview(bytearray(law.packet[1]))
    start = time.monotonic_ns()
    # One look at the clock a datagram: the two clocks differ by a constant unless somebody sets one.
    realtime = time.time_ns() - start
    late, amount = array("q"), 0
    try:
        for number, (at, size) in enumerate(law.departures(seed, seconds)):
            due = start + round(at * 1e9)
            now = time.monotonic_ns()
            if now < due:
                time.sleep((due - now) / 1e9)
                now = time.monotonic_ns()
            HEAD.pack_into(buffer, 0, number, now + realtime)
            _send(out, buffer[:size])
            late.append(now - due)
            amount += size
    finally:
        summary = {"datagrams": len(late), "bytes": amount, **_lateness(late)}
    return summary


def _send(out: socket.socket, datagram: memoryview) -> None:
    try:
        out.send(datagram)
    except ConnectionRefusedError:
        # What an earlier one met, whose receiver had gone: the kernel says so in place of sending (udp(7)).
        out.send(datagram)
    except OSError as error:
        raise TrafficError(f"a datagram of {len(datagram)} B cannot be sent: {error}") from error


def _lateness(late: array[int]) -> dict[str, float | None]:
    """Quantiles by nearest rank, us; None of nothing."""
    ordered = sorted(late)
    return {
        name: ordered[max(0, math.ceil(share * len(ordered)) - 1)] / 1e3 if ordered else None
        for name, share in (("late_p50_us", 0.5), ("late_p99_us", 0.99), ("late_max_us", 1.0))
    }


# --- receiving


class Reception:
    """What has come of a flow."""

    def __init__(self) -> None:
        self.datagrams = 0
        self.bytes = 0
        self._highest = -1

    def count(self, datagram: memoryview) -> None:
        """Count a datagram; what does not begin with a number and a time is no datagram of the flow."""
        if len(datagram) >= HEAD.size:
            self.datagrams += 1
            self.bytes += len(datagram)
            number = int.from_bytes(datagram[:8], "big")
            self._highest = max(self._highest, number)

    def summary(self) -> dict[str, int]:
        """`missing` are those before the last that came; what was lost at the very end is not known here.

        The emulated path doubles nothing.
        """
        return {
            "datagrams": self.datagrams,
            "bytes": self.bytes,
            "missing": self._highest + 1 - self.datagrams,
        }


def receive(source: socket.socket, reception: Reception, over: Callable[[float], bool]) -> None:
    """Take everything that comes until `over`, which is told how long ago the last datagram came (s)."""
    buffer = bytearray(65536)
    view = memoryview(buffer)
    last = time.monotonic_ns()
    while True:
        try:
            size = source.recv_into(buffer)
            last = now = time.monotonic_ns()
            reception.count(view[:size])
        except BlockingIOError:
            now = time.monotonic_ns()
        except ConnectionRefusedError:
            # The server is not there yet, or no more.
            now = time.monotonic_ns()
        if over((now - last) / 1e9):
            return


def _write(file: Path, summary: dict[str, Any]) -> None:
    file.write_text(json.dumps(summary) + "\n")


# --- the two roles


def request(plan: Plan, logs: Path, port: int, start_ns: int) -> None:
    """The client: sends, or asks to be sent to and receives, until `seconds` after start_ns (monotonic) and a rest."""
    assert plan.law is not None
    family, address = address_of(plan.peer, port, "udp")
    end = start_ns + round(plan.seconds * 1e9)
    with socket.socket(family, socket.SOCK_DGRAM) as endpoint:
        _prepare(endpoint)
        endpoint.connect(address)
        if plan.sends:
            left = (end - time.monotonic_ns()) / 1e9
            _write(logs / "sent.json", send(endpoint, plan.law, plan.seed, left))
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
    assert plan.law is not None
    reception = Reception()
    with bound(port) as endpoint:
        first, address = await_flow(endpoint)
        endpoint.connect(address)
        if plan.sends:
            _write(logs / "sent.json", send(endpoint, plan.law, plan.seed, plan.seconds))
            return
        reception.count(memoryview(first))
        try:
            receive(endpoint, reception, lambda _: False)
        finally:
            _write(logs / "received.json", reception.summary())


def await_flow(endpoint: socket.socket) -> tuple[bytes, Any]:
    """Answer probes until something else comes: (the datagram, where it came from)."""
    while True:
        try:
            datagram, address = endpoint.recvfrom(65536)
        except BlockingIOError:
            continue
        answer = version_negotiation(datagram)
        if answer is None:
            return datagram, address
        endpoint.sendto(answer, address)
