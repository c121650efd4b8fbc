"""TCP traffic: iperf3 over this kernel's TCP, of a time or of a size, with samples of the connection at the sender.

iperf3's client opens two connections, one to control the test and one for data; the second has a port of its own
(--cport), by which it is known at both ends. iperf3 counts its time from the moment both ends are ready, several round
trips after its start, and in whole seconds. A flow's time counts from its start: it is ended by a signal instead,
upon which iperf3's client writes its results, tells the server, and closes both connections.

A flow of a size is ended the same way, once the client's kernel knows that all of it has arrived. iperf3's own -n would
not do: it looks once a second whether that much was given to the socket, and then has the server close the connection
with what is still under way (iperf 3.18: of -n 1000000 from the client, over 2 Mbit/s, 875000 B were received). Instead
the sender reads what it sends from a pipe (-F) into which exactly that many bytes go, and waits at its end. What is
exact: the bytes of the stream, by the captures, the kernel and the sender's report. The receiver's report counts whole
blocks, which come out even where `block_length` finds a divisor; else it misses the last one.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from traffic import TrafficError
from traffic.diag import ESTABLISHED, LISTEN, Connection, Diag, bytes_received, tcp_info
from traffic.plan import Plan, address_of
from traffic.readiness import version_negotiation
from traffic.sampler import COOKIE, PERIOD, Sampler
from traffic.udp import bound

#: The client's port of the connection that has the data; outside the range from which the kernel takes ports.
DATA_PORT = 5202
#: Seconds iperf3 is given beyond the flow's, and to end after the signal.
BEYOND, GRACE = 60, 1.0
#: Where iperf3 reads what it sends of a flow with a size: its standard input.
FEED = "/proc/self/fd/0"
#: iperf3's own block length for TCP, bytes, and the least that is worth having for an even report.
BLOCK, LEAST_BLOCK = 128 * 1024, 4096
_TCP_CONGESTION = 13  # linux/tcp.h


def check_algorithm(name: str) -> None:
    """TrafficError when this kernel lacks a congestion control: iperf3's server would go on with another."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, name.encode())
        except OSError as error:
            known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().strip()
            raise TrafficError(
                f"this kernel's TCP has no congestion control {name} ({error.strerror}); it has {known}"
            ) from error


def client_command(plan: Plan, family: int, port: int) -> list[str]:
    """iperf3's client for a flow."""
    command = [
        "iperf3", "-c", plan.peer, f"-{6 if family == socket.AF_INET6 else 4}", "-p", str(port),
        "--cport", str(DATA_PORT), "-C", plan.algorithm,
        # 0 is for ever.
        "-t", "0" if plan.size is not None else str(math.ceil(plan.seconds) + BEYOND), "-J",
    ]  # fmt: skip
    if plan.sender == "server":
        command.append("-R")
    if plan.law is not None and plan.law.rate is not None:
        # iperf3 holds a mean rate block by block. Its usual 128 kB would be a burst of 90 packets now and then; a
        # packet's worth each time, sent at once (-N: not held back until there is a full segment), is smooth.
        command += ["-b", str(round(plan.law.rate)), "-l", str(plan.law.packet[0]), "-N"]
    elif plan.size is not None:
        command += ["-l", str(block_length(plan.size))]
    return command + _feed(plan)


def server_command(plan: Plan, family: int, port: int) -> list[str]:
    """iperf3's server for one test."""
    command = ["iperf3", "-s", "-1", f"-{6 if family == socket.AF_INET6 else 4}", "-p", str(port), "-J"]
    return command + _feed(plan)


def _feed(plan: Plan) -> list[str]:
    return ["-F", FEED] if plan.sends and plan.size is not None else []


def block_length(size: int) -> int:
    """The longest block up to iperf3's own of which a size is a multiple; iperf3's own where only tiny ones are."""
    return next((length for length in range(min(size, BLOCK), LEAST_BLOCK - 1, -1) if size % length == 0), BLOCK)


class Iperf:
    """iperf3 while it runs; its results go to iperf3.json."""

    def __init__(self, command: list[str], logs: Path, size: int | None = None) -> None:
        """`size`: bytes that its standard input has; it does not end behind them."""
        self._file = logs / "iperf3.json"
        source = subprocess.DEVNULL if size is None else subprocess.PIPE
        with self._file.open("w") as out:
            # Errors come as JSON, too. What is not is for the container's log.
            self._process = subprocess.Popen(command, stdin=source, stdout=out)
        if self._process.stdin is not None and size is not None:
            threading.Thread(target=_fill, args=(self._process.stdin.fileno(), size), daemon=True).start()
        self.ended = os.pidfd_open(self._process.pid)
        """Readable once it has ended."""

    def stop(self) -> None:
        """End it, if it still runs."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            # Popen.wait would look again and again.
            if not select.select([self.ended], [], [], GRACE)[0]:
                self._process.kill()
            self._process.wait()
        os.close(self.ended)

    def complaint(self) -> str:
        """How it ended, in its own words where it has some."""
        code = self._process.wait()
        try:
            return f"iperf3 ended with exit code {code}: {json.loads(self._file.read_text())['error']}"
        except (ValueError, KeyError, TypeError):
            return f"iperf3 ended with exit code {code}"


def _fill(pipe: int, size: int) -> None:
    """Write so many bytes as the reader takes them; not all where it ends before."""
    piece = memoryview(bytes(BLOCK))
    with contextlib.suppress(BrokenPipeError):
        while size:
            size -= os.write(pipe, piece[:size])


class Progress:
    """What has come through of a flow with a size, as the client's kernel knows it."""

    def __init__(self, plan: Plan, diag: Diag, family: int, port: int) -> None:
        self._plan = plan
        self._diag = diag
        self._family = family
        self._port = port
        self._known: Connection | None = None

    def complete(self) -> bool:
        """Whether all of it has arrived, and iperf3 has it where it is the client's."""
        if self._known is None:
            now = self._known = self._diag.find(self._family, ESTABLISHED, DATA_PORT, self._port)
        else:
            now = self._diag.look(self._known)
        if now is None or self._plan.size is None:
            return False
        if self._plan.sends:
            # Behind the SYN, which counts as one (tcp_snd_una_update in net/ipv4/tcp_input.c), and the cookie.
            return (tcp_info(now.info)["bytes_acked"] or 0) >= 1 + COOKIE + self._plan.size
        return bytes_received(now.info) >= self._plan.size and not now.unread


class Ticks:
    """Moments at whole multiples of a period; those that went by unseen are skipped."""

    def __init__(self, period: int) -> None:
        """`period`: ns."""
        self._period = period
        self._due = (time.monotonic_ns() // period + 1) * period

    def wait(self, watched: list[int], until: int | None = None) -> list[int]:
        """Wait for the next moment, `until` (monotonic ns), or one of the files: those that are readable."""
        now = time.monotonic_ns()
        due = self._due if until is None else min(self._due, until)
        readable, _, _ = select.select(watched, [], [], max(0, due - now) / 1e9)
        if not readable:
            self._due = (time.monotonic_ns() // self._period + 1) * self._period
        return readable


def request(plan: Plan, logs: Path, port: int, start_ns: int) -> None:
    """The client: runs iperf3 until `seconds` after start_ns (monotonic) or until `size`; samples where it sends."""
    if plan.sends:
        check_algorithm(plan.algorithm)
    family, _ = address_of(plan.peer, port, "tcp")
    end = None if plan.size is not None else start_ns + round(plan.seconds * 1e9)
    diag = Diag()
    progress = Progress(plan, diag, family, port)
    sampler = Sampler(logs / "tcp.csv", diag, family, (DATA_PORT, port), plan.algorithm) if plan.sends else None
    iperf = Iperf(client_command(plan, family, port), logs, plan.size if plan.sends else None)
    ticks = Ticks(PERIOD)
    try:
        while not progress.complete() if end is None else time.monotonic_ns() < end:
            if ticks.wait([iperf.ended], end):
                raise TrafficError(iperf.complaint())
            if sampler is not None:
                sampler.sample()
        if end is not None and diag.find(family, ESTABLISHED, DATA_PORT, port) is None:
            raise TrafficError(f"after {plan.seconds:g} s there is no connection for data to {plan.peer}")
    finally:
        iperf.stop()
        if sampler is not None:
            sampler.close()


def serve(plan: Plan, logs: Path, port: int) -> None:
    """The server: runs iperf3 for one test, answers probes, and samples where it sends."""
    if plan.sends:
        check_algorithm(plan.algorithm)
    family, _ = address_of(plan.peer, port, "tcp")
    diag = Diag()
    sampler = Sampler(logs / "tcp.csv", diag, family, (port, DATA_PORT), plan.algorithm) if plan.sends else None
    iperf = Iperf(server_command(plan, family, port), logs, plan.size if plan.sends else None)
    try:
        with bound(port) as probed:
            _serve(iperf, probed, diag, family, sampler)
    finally:
        iperf.stop()
        if sampler is not None:
            sampler.close()
    if sampler is not None and not sampler.rows:
        raise TrafficError(f"nothing was sent: {iperf.complaint()}")


def _serve(iperf: Iperf, probed: socket.socket, diag: Diag, family: int, sampler: Sampler | None) -> None:
    ticks = Ticks(PERIOD)
    port = probed.getsockname()[1]
    while True:
        readable = ticks.wait([iperf.ended, probed.fileno()])
        if iperf.ended in readable:
            return
        if readable:
            datagram, address = probed.recvfrom(65536)
            answer = version_negotiation(datagram)
            # Not before it can serve; probes come until they are answered.
            if answer is not None and diag.find(family, LISTEN, port) is not None:
                probed.sendto(answer, address)
        elif sampler is not None:
            sampler.sample()
