"""Runs the endpoints of a virtual lab: starts, repeats, deadlines, ends. Judges nothing.

What happens goes into endpoints.jsonl, one object a line: `started`, `ended`, `stopped` (cut off at its stop),
`timed_out`, `unable` (a command that cannot be started), `overflowed` (logs beyond the limit), `failed` (the
simulator). Times are ns of the lab kernel's clock.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from simulator import growth
from simulator.container import Container
from simulator.ports import NAMESPACES, inside

#: Time to write the last of a log after the stop signal, seconds; as in the Compose file.
GRACE = 2.0
#: Period of the signs of life and of the look at the size of logs, seconds.
PULSE = 0.5


@dataclass
class Endpoint:
    """One endpoint while the lab runs."""

    name: str
    role: str
    flow: int
    container: Container
    start: float
    """Seconds after readiness at which a client starts; 0 is at once."""
    repeat_after: float | None
    cut_after: float | None
    """Seconds after readiness at which a client and its server are told to end."""
    time_limit: float
    """Seconds from its start in which a client must come to its own end; of no account where it is cut off."""
    file: str
    """What a client downloads; empty where nothing is."""
    folder: Path
    """Where its logs, and for a client its downloads, go."""
    index: int = 0
    waited: int = 0
    """The process that ends as the endpoint does; 0 when it does not run."""
    first: int = 0
    """The container's first process."""
    due: float | None = None
    deadline: float | None = None
    cut: float | None = None
    done: bool = False
    sampler: int = 0


@dataclass
class Conductor:
    """All endpoints of a lab."""

    endpoints: list[Endpoint]
    out: Path
    """The run's folder."""
    client_start: float
    """Seconds from readiness to a client's first datagram at most."""
    log_limit: int
    sample_ns: int
    """Period at which the growth of downloads is sampled."""
    pulse: Callable[[str], None]
    """Called with a word for each phase that begins, and now and then with none."""
    _diary: TextIO = field(init=False)
    _ready: float | None = None
    _over: bool = False

    def __post_init__(self) -> None:
        self._diary = (self.out / "sim" / "endpoints.jsonl").open("a", buffering=1)
        self._cpu = (self.out / "cpu.csv").open("a", buffering=1)
        self._cpu.write("t_ns,container,cpu_ns,rcvbuf_errors\n")
        (self.out / "growth.csv").write_text(growth.HEADER)
        # A child's end wakes the loop.
        self._wake, writer = socket.socketpair()
        writer.setblocking(False)
        self._writer = writer
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self, agent: int, ready: int) -> None:
        """Start everything and return when the lab is over. `agent`: its process; `ready`: readable once it is."""
        self._agent = agent
        for endpoint in self.endpoints:
            if endpoint.start == 0:
                self._begin(endpoint)
        next_pulse = time.monotonic()
        while not self._over:
            now = time.monotonic()
            if now >= next_pulse:
                self._look_around()
                next_pulse = now + PULSE
            self._start_due(now)
            dues = [
                value for item in self.endpoints for value in (item.due, item.deadline, item.cut) if value is not None
            ]
            self._sleep(max(0.0, min([next_pulse, *dues]) - time.monotonic()), ready)
            self._reap()

    def _sleep(self, seconds: float, ready: int) -> None:
        """Wait for a child's end, the simulator's readiness, or the time that is due."""
        watched = [self._wake.fileno(), *([] if self._ready is not None else [ready])]
        readable, _, _ = select.select(watched, [], [], seconds)
        if self._wake.fileno() in readable:
            self._wake.recv(4096)
        if ready in readable and self._ready is None and os.read(ready, 1):
            self._ready = time.monotonic()
            self.pulse("transfer")
            for endpoint in self.endpoints:
                if endpoint.role == "client":
                    self._schedule(endpoint, self._ready)

    def _schedule(self, endpoint: Endpoint, now: float) -> None:
        if endpoint.cut_after is not None:
            endpoint.cut = now + endpoint.cut_after
        if endpoint.waited:
            self._limit(endpoint, now)
        elif not endpoint.done:
            endpoint.due = now + endpoint.start

    def _limit(self, endpoint: Endpoint, now: float) -> None:
        if endpoint.cut_after is None:
            endpoint.deadline = now + self.client_start + endpoint.time_limit

    def _start_due(self, now: float) -> None:
        for endpoint in self.endpoints:
            if endpoint.deadline is not None and now >= endpoint.deadline:
                self._write("timed_out", endpoint)
                self._end(endpoint)
                self._over = True
            if endpoint.due is not None and now >= endpoint.due:
                endpoint.due = None
                if endpoint.index and all(item.due is not None or item.done for item in self._clients(endpoint)):
                    self.pulse("transfer")
                self._begin(endpoint)
                self._limit(endpoint, now)
            if endpoint.cut is not None and now >= endpoint.cut and not self._over:
                self._cut_off(endpoint)

    def _clients(self, but: Endpoint) -> list[Endpoint]:
        return [item for item in self.endpoints if item.role == "client" and item is not but]

    def _cut_off(self, client: Endpoint) -> None:
        """Tell a flow's client and server to end; how they do is of no account any more."""
        client.cut = None
        self._write("stopped", client)
        for endpoint in self.endpoints:
            if endpoint.flow == client.flow:
                endpoint.done = True
                if endpoint.first:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(endpoint.first, endpoint.container.image.stop_signal)
        self._end(client)
        self._finish()

    def _finish(self) -> None:
        self._over = self._over or all(item.done for item in self.endpoints if item.role == "client")

    # --- one endpoint

    def _begin(self, endpoint: Endpoint) -> None:
        self._count_drops(endpoint)
        if endpoint.role == "client" and endpoint.file:
            downloads, rows = endpoint.folder / "downloads", self.out / "growth.csv"
            endpoint.sampler = os.fork()
            if endpoint.sampler == 0:
                with contextlib.suppress(OSError):
                    signal.set_wakeup_fd(-1)
                    growth.sample(downloads, rows, endpoint.flow, endpoint.index, self.sample_ns)
                os._exit(0)
        self._write("started", endpoint)
        endpoint.waited, endpoint.first = endpoint.container.start(
            NAMESPACES / endpoint.name, self.out / f"{endpoint.name}.log", self._unable(endpoint)
        )

    def _unable(self, endpoint: Endpoint) -> Path:
        return Path("/run/lab") / f"{endpoint.name}.unable"

    def _end(self, endpoint: Endpoint) -> None:
        """A client's transfer is over: no more samples, and room for a repeat."""
        self._count_drops(endpoint)
        if endpoint.sampler:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(endpoint.sampler, signal.SIGTERM)
                os.waitpid(endpoint.sampler, 0)
            endpoint.sampler = 0
            place = endpoint.folder / "downloads" / endpoint.file
            with contextlib.suppress(FileNotFoundError):
                place.rename(endpoint.folder / f"transfer{endpoint.index}")

    def _reap(self) -> None:
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if process == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            if process == self._agent:
                # It never ends by itself but in failure, and said why in its own diary.
                self._agent = 0
                self._over = True
            endpoint = next((item for item in self.endpoints if item.waited == process), None)
            if endpoint is not None:
                endpoint.waited = endpoint.first = 0
                # Of several that end at once the first decides.
                if not self._over:
                    self._ended(endpoint, code)

    def _ended(self, endpoint: Endpoint, code: int) -> None:
        if endpoint.done:
            # It was told to.
            return
        endpoint.deadline = None
        unable = self._unable(endpoint).read_text()
        if unable:
            self._write("unable", endpoint, message=unable)
            self._over = True
            return
        self._write("ended", endpoint, exit_code=code)
        if endpoint.role == "client":
            self._end(endpoint)
        if code != 0 or endpoint.role == "server" or endpoint.cut is not None:
            self._over = True
        elif endpoint.repeat_after is not None and endpoint.index == 0:
            endpoint.index = 1
            endpoint.due = time.monotonic() + endpoint.repeat_after
            self.pulse("pause")
        else:
            endpoint.done = True
            self._finish()

    def stop(self) -> None:
        """Ask what still runs to end, as an engine stops a container, and make sure it did."""
        running = [item for item in self.endpoints if item.waited]
        for endpoint in running:
            if endpoint.first:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(endpoint.first, endpoint.container.image.stop_signal)
        deadline = time.monotonic() + GRACE
        while running and time.monotonic() < deadline:
            running = [item for item in running if os.waitpid(item.waited, os.WNOHANG)[0] == 0]
            time.sleep(0.01 if running else 0)
        for endpoint in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(endpoint.first, signal.SIGKILL)
            os.waitpid(endpoint.waited, 0)
        for endpoint in self.endpoints:
            if endpoint.sampler:
                self._end(endpoint)
        sent = {endpoint.name: {"out_datagrams": _udp(endpoint.name, "OutDatagrams")} for endpoint in self.endpoints}
        (self.out / "sim" / "udp.json").write_text(json.dumps(sent) + "\n")

    # --- watching

    def _look_around(self) -> None:
        self.pulse("")
        for endpoint in self.endpoints:
            if _tree_size(endpoint.folder / endpoint.role) > self.log_limit:
                self._write("overflowed", endpoint)
                self._over = True
                return

    def _count_drops(self, endpoint: Endpoint) -> None:
        """Datagrams dropped at full socket buffers so far, for the endpoint and, with it, its server."""
        for name in (endpoint.name, f"server{endpoint.flow}"):
            self._cpu.write(f"{time.time_ns()},{name},,{_udp(name, 'RcvbufErrors')}\n")

    def _write(self, event: str, endpoint: Endpoint, **more: object) -> None:
        record = {"event": event, "t_ns": time.time_ns(), "host": endpoint.name, "index": endpoint.index, **more}
        self._diary.write(json.dumps(record) + "\n")


def _tree_size(folder: Path) -> int:
    return sum(
        os.stat(os.path.join(parent, name), follow_symlinks=False).st_size  # noqa: PTH116, PTH118
        for parent, _, names in os.walk(folder)
        for name in names
    )


def _udp(name: str, counter: str) -> int:
    """A UDP counter of an endpoint's network namespace, IPv4 and IPv6 together (proc_pid_net(5), snmp).

    OutDatagrams counts what the kernel was given: a send with UDP_SEGMENT is one (udp_send_skb, net/ipv4/udp.c).
    """
    with inside(name):
        both = Path("/proc/thread-self/net/snmp").read_text(), Path("/proc/thread-self/net/snmp6").read_text()
    header, values = (line.split()[1:] for line in both[0].splitlines() if line.startswith("Udp:"))
    return int(dict(zip(header, values, strict=True))[counter]) + sum(
        int(line.split()[1]) for line in both[1].splitlines() if line.split()[0] == f"Udp6{counter}"
    )
