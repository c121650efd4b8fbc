"""Runs the endpoints of a virtual lab: processes, signals, logs and what they write. Judges nothing.

When what happens is for `simulator.lifecycle` to say.

What happens goes into endpoints.jsonl, one object a line: `started`, `ended`, `stopped` (cut off at its stop),
`timed_out` (with how far it came), `unable` (a command that cannot be started), `overflowed` (logs beyond the limit),
`failed` (the simulator). Times are ns of the lab kernel's clock.
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
from simulator.container import Container, exit_code
from simulator.lifecycle import Action, CutOff, Ended, Enter, Flow, Lifecycle, Start, TimedOut
from simulator.ports import NAMESPACES, inside

#: Time to write the last of a log after the stop signal, seconds; as in the Compose file.
GRACE = 2.0
#: Period of the signs of life and of the look at the size of logs, seconds.
PULSE = 0.5
#: The kernel ends a wait of select(2) up to a thousandth of it late, to put timers together (fs/select.c,
#: select_estimate_accuracy). A wait longer than SHORT seconds ends by that much and more early, and the rest follows.
SHORT, EARLY = 0.01, 0.002


@dataclass
class Endpoint:
    """One endpoint while the lab runs."""

    name: str
    role: str
    flow: int
    container: Container
    file: str
    """What its flow transfers; empty where no single file is."""
    folder: Path
    """Where its logs go."""
    addresses: frozenset[str] = frozenset()
    size: int = 0
    """Of the file, bytes."""
    received: Path = Path("downloads")
    """The folder that its flow's receiver writes to."""
    index: int = 0
    """Of the transfer that a client is at, or was last."""
    process: int = 0
    """The container's first; 0 when it does not run."""
    told: bool = False
    """It was sent its stop signal."""
    sampled: bool = False
    """Samples of its transfers are taken."""


@dataclass
class Proxy:
    """One proxy while the lab runs."""

    name: str
    container: Container
    process: int = 0
    """The container's first; 0 when it does not run."""


@dataclass
class Conductor:
    """All endpoints of a lab, and the proxies between them."""

    endpoints: list[Endpoint]
    flows: list[Flow]
    out: Path
    """The run's folder."""
    log_limit: int
    sample_ns: int
    """Period at which the growth of downloads is sampled."""
    pulse: Callable[[str], None]
    """Called with a word for each phase that begins, and now and then with none."""
    proxies: list[Proxy] = field(default_factory=list)
    _diary: TextIO = field(init=False)
    _broken: bool = False
    """The ground failed: the simulator ended, a command could not be started, logs overflowed."""

    def __post_init__(self) -> None:
        self._lifecycle = Lifecycle(self.flows, self._is_whole)
        self._agents: dict[int, int] = {}
        """The simulators' processes → the pipes of what they tell."""
        self._unready = 0
        """Paths that are not up yet."""
        self._heard: dict[int, bytes] = {}
        """Pipe → what came by it that is no whole line yet."""
        self._by_name = {endpoint.name: endpoint for endpoint in self.endpoints}
        self._diary = (self.out / "sim" / "endpoints.jsonl").open("a", buffering=1)
        self._cpu = (self.out / "cpu.csv").open("a", buffering=1)
        self._cpu.write("t_ns,container,cpu_ns,rcvbuf_errors\n")
        rows = self.out / "growth.csv"
        rows.write_text(growth.HEADER)
        downloads = any(endpoint.role == "client" and endpoint.file for endpoint in self.endpoints)
        self._growth = growth.Sampler(rows, self.sample_ns) if downloads else None
        # A child's end wakes the loop.
        self._wake, writer = socket.socketpair()
        writer.setblocking(False)
        self._writer = writer
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self, agents: list[tuple[int, int]]) -> None:
        """Start everything and return when the lab is over. `agents`: of each its process and the pipe it tells by."""
        self._agents = dict(agents)
        self._unready = len(agents)
        self._heard = dict.fromkeys(self._agents.values(), b"")
        for proxy in self.proxies:
            log = self.out / f"{proxy.name}.log"
            proxy.process = proxy.container.start(NAMESPACES / proxy.name, log, self._unable(proxy))
        next_pulse = time.monotonic()
        self._perform(self._lifecycle.begin(next_pulse))
        while not self._over():
            now = time.monotonic()
            if now >= next_pulse:
                self._look_around()
                next_pulse = now + PULSE
            if not self._broken:
                self._perform(self._lifecycle.due(now))
            if not self._over():
                wake = self._lifecycle.wake
                until = next_pulse if wake is None else min(next_pulse, wake)
                self._sleep(max(0.0, until - time.monotonic()))
                self._reap()

    def _over(self) -> bool:
        return self._broken or self._lifecycle.over

    def _sleep(self, seconds: float) -> None:
        """Wait for a child's end, what an agent tells, or the time that is due."""
        seconds *= 1 - EARLY if seconds > SHORT else 1
        readable, _, _ = select.select([self._wake.fileno(), *self._agents.values()], [], [], seconds)
        if self._wake.fileno() in readable:
            self._wake.recv(4096)
        for agent, told in list(self._agents.items()):
            if told in readable:
                self._hear(agent, told, os.read(told, 4096))

    def _hear(self, agent: int, told: int, news: bytes) -> None:
        """An agent tells that its path is up, or that a client opened a connection."""
        *lines, self._heard[told] = (self._heard[told] + news).split(b"\n")
        if not news:
            # It has ended; so says its process, too.
            self._agent_ended(agent)
        for line in lines:
            word, _, address = line.decode().partition(" ")
            if word == "ready":
                self._unready -= 1
            if word == "ready" and not self._unready:
                self._perform(self._lifecycle.ready(time.monotonic()))
            for client in self.endpoints:
                if address in client.addresses and not self._over():
                    self._perform(self._lifecycle.began(client.name, time.monotonic()))

    def _is_whole(self, name: str) -> bool:
        """Whether the file of a client's transfer has all its bytes."""
        client = self._by_name[name]
        return bool(client.file) and self._received(client) >= client.size

    @staticmethod
    def _received(client: Endpoint) -> int:
        """Bytes of the file of a client's transfer by now."""
        try:
            return (client.received / client.file).stat().st_size if client.file else 0
        except FileNotFoundError:
            return 0

    def _perform(self, actions: list[Action]) -> None:
        """Do what the lifecycle says."""
        for action in actions:
            match action:
                case Start(host, index):
                    self._begin(self._by_name[host], index)
                case Ended(host, _, exit_code):
                    self._note_end(self._by_name[host], exit_code)
                case CutOff(client, server, _):
                    self._cut_off(self._by_name[client], self._by_name[server])
                case TimedOut(client, _, stage):
                    received = self._received(self._by_name[client])
                    self._write("timed_out", self._by_name[client], stage=stage, received=received)
                    self._end(self._by_name[client])
                case Enter(phase):
                    self.pulse(phase)

    def _cut_off(self, client: Endpoint, server: Endpoint) -> None:
        self._write("stopped", client)
        for endpoint in (client, server):
            self._tell(endpoint)
        self._end(client)

    @staticmethod
    def _tell(endpoint: Endpoint) -> None:
        """Send an endpoint its stop signal, once: a second one makes some programs drop what they have to write."""
        if endpoint.process and not endpoint.told:
            endpoint.told = True
            with contextlib.suppress(ProcessLookupError):
                os.kill(endpoint.process, endpoint.container.image.stop_signal)

    # --- one endpoint

    def _begin(self, endpoint: Endpoint, index: int) -> None:
        endpoint.index = index
        self._count_drops(endpoint)
        if self._growth is not None and endpoint.role == "client" and endpoint.file:
            endpoint.sampled = True
            self._growth.watch(endpoint.received, endpoint.flow, endpoint.index)
        self._write("started", endpoint)
        endpoint.process = endpoint.container.start(
            NAMESPACES / endpoint.name, self.out / f"{endpoint.name}.log", self._unable(endpoint)
        )

    @staticmethod
    def _unable(endpoint: Endpoint | Proxy) -> Path:
        return Path("/run/lab") / f"{endpoint.name}.unable"

    def _end(self, endpoint: Endpoint) -> None:
        """A client's transfer is over: no more samples, and room for a repeat."""
        self._count_drops(endpoint)
        if self._growth is not None and endpoint.sampled:
            self._growth.end(endpoint.flow)
            endpoint.sampled = False
            place = endpoint.received / endpoint.file
            with contextlib.suppress(FileNotFoundError):
                place.rename(endpoint.received.with_name(f"transfer{endpoint.index}"))

    def _note_end(self, endpoint: Endpoint, exit_code: int) -> None:
        unable = self._unable(endpoint).read_text()
        if unable:
            self._write("unable", endpoint, message=unable)
            self._broken = True
            return
        self._write("ended", endpoint, exit_code=exit_code)
        if endpoint.role == "client":
            self._end(endpoint)

    def _reap(self) -> None:
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if process == 0:
                return
            if process in self._agents:
                self._agent_ended(process)
            proxy = next((item for item in self.proxies if item.process == process), None)
            if proxy is not None:
                self._proxy_ended(proxy, exit_code(status))
            endpoint = next((item for item in self.endpoints if item.process == process), None)
            if endpoint is not None:
                endpoint.process = 0
                # Of several that end at once the first decides.
                if not self._over():
                    code = exit_code(status)
                    self._perform(self._lifecycle.ended(endpoint.name, code, time.monotonic()))

    def _agent_ended(self, agent: int) -> None:
        # It never ends by itself but in failure, and said why in its own diary.
        self._agents.pop(agent, None)
        self._broken = True

    def _proxy_ended(self, proxy: Proxy, exit_code: int) -> None:
        # Nobody tells it to before all is over: then nothing more passes.
        proxy.process = 0
        unable = self._unable(proxy).read_text()
        message = unable or f"{proxy.name} ended with exit code {exit_code}"
        record = {"event": "proxy_ended", "t_ns": time.time_ns(), "host": proxy.name, "message": message}
        self._diary.write(json.dumps(record) + "\n")
        self._broken = True

    def stop(self) -> None:
        """Ask what still runs to end, as an engine stops a container, and make sure it did."""
        for proxy in self.proxies:
            # It holds nothing that anybody reads.
            if proxy.process:
                os.kill(proxy.process, signal.SIGKILL)
                os.waitpid(proxy.process, 0)
        running = [item for item in self.endpoints if item.process]
        for endpoint in running:
            self._tell(endpoint)
        deadline = time.monotonic() + GRACE
        while running and time.monotonic() < deadline:
            running = [item for item in running if os.waitpid(item.process, os.WNOHANG)[0] == 0]
            time.sleep(0.01 if running else 0)
        for endpoint in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(endpoint.process, signal.SIGKILL)
            os.waitpid(endpoint.process, 0)
        for endpoint in self.endpoints:
            if endpoint.sampled:
                self._end(endpoint)
        if self._growth is not None:
            self._growth.stop()
        sent = {endpoint.name: {"out_datagrams": _udp(endpoint.name, "OutDatagrams")} for endpoint in self.endpoints}
        (self.out / "sim" / "udp.json").write_text(json.dumps(sent) + "\n")

    # --- watching

    def _look_around(self) -> None:
        self.pulse("")
        for endpoint in self.endpoints:
            if _tree_size(endpoint.folder / endpoint.role) > self.log_limit:
                self._write("overflowed", endpoint)
                self._broken = True
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
