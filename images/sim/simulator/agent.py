"""The agent: applies the program, waits for the servers, opens the gate, keeps clock and counters.

The same agent runs in the container's own network namespace (host kernel) and inside the lab kernel.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from simulator.neighbours import NotReadyError, pin
from simulator.plan import Plan
from simulator.shell import CommandError, Events, Prepared, run_program, with_paths
from simulator.split import routes
from simulator.together import LOOK, Together
from simulator.wire import (
    begins_flow,
    is_version_negotiation,
    let_through,
    listener,
    opening,
    opening_filter,
    probe_packet,
    sniffer,
    switch_off,
    write_sysctl,
)

SIDES = ("left", "right")
#: How a command ends that makes a queue's device.
_IFB = ["type", "ifb"]
#: What epoll counts in, seconds.
_EPOLL = 0.001


def _wait(due: float, sample: float) -> float:
    """Seconds to wait for what is due. epoll counts whole milliseconds, upwards: the last part of one is slept through.

    `sample`: when the next sample is due, which may be late.
    """
    left = max(0.0, due - time.monotonic())
    if due == sample or left == 0:
        return left
    if left < _EPOLL:
        time.sleep(left)
        return 0.0
    return left - left % _EPOLL


def queues_first(commands: list[list[str]]) -> list[list[str]]:
    """A program with the devices that hold its queues made ahead of all else, which nothing hinders: tools that take
    turns less often are fewer processes.
    """
    made = {command[3] for command in commands if command[:3] == ["ip", "link", "add"] and command[4:] == _IFB}
    ahead = [
        command
        for command in commands
        if (command[:3] == ["ip", "link", "add"] and command[4:] == _IFB)
        or (command[:4] == ["ip", "link", "set", "dev"] and command[4] in made and command[5:] == ["up"])
    ]  # fmt: skip
    return [*ahead, *(command for command in commands if command not in ahead)]


@dataclass(frozen=True)
class _Change:
    """A change of the path that is to come."""

    index: int
    at: float
    """Seconds after the first datagram."""
    commands: Prepared
    counted: bool
    """The counters are read right before."""


class Agent:
    """One path, from its first command to its last counter."""

    def __init__(
        self,
        plan: Plan,
        interfaces: dict[str, str],
        logs: Path,
        stop_file: Path,
        ready: Callable[[], object] = lambda: None,
        *,
        opened: Callable[[str], object] = lambda address: None,
        everyone: bool = False,
        shared: Path | None = None,
        begun: Callable[[], bool] = lambda: True,
    ) -> None:
        """`interfaces`: side → the interface's name; `ready` is called once the path is up.

        `opened` is called with a client's address when it sends the first datagram of a connection. `everyone`: the
        kernel knows who is where already. `shared`: where simulators of one lab tell each other what they must; of no
        account where there is one. `begun`: whether all endpoints were started.
        """
        self._together = Together(shared, plan.name, list(plan.peers)) if shared is not None and plan.peers else None
        self._plan = plan
        self._interfaces = interfaces
        self._names = {real: side for side, real in interfaces.items()}
        self._stop_file = stop_file
        self._ready = ready
        self._opened = opened
        self._begun = begun
        self._everyone = everyone
        self._events = Events(logs / "events.jsonl")
        self._counters: TextIO = (logs / "counters.jsonl").open("a", buffering=1)
        self._first: float | None = None
        self._known: set[bytes] = set()
        """What tells the connections that were seen to open."""
        self._tc = subprocess.Popen(
            ["stdbuf", "-oL", "tc", "-s", "-j", "-force", "-batch", "-"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self) -> None:
        """Bring the path up, open the gate, watch until told to stop. Raises CommandError, NotReadyError."""
        self._bring_up()
        # Before there is any delay, so that nobody waits for it.
        self._resolve()
        run_program(routes(self._plan.routes, self._interfaces))
        self._await_servers()
        self._await_answers()
        run_program(queues_first(self._real(self._plan.setup)))
        self._await_peers()
        with listener() as gate, sniffer(self._interfaces["left"]) as sniff:
            self._events.write("ready")
            self._ready()
            self._watch(gate, sniff)
        self._sample()
        self._events.write("stop")

    def _bring_up(self) -> None:
        for name in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
            write_sysctl(name, "1")
        for real in self._interfaces.values():
            # Offloads would merge datagrams into super-packets, which queues then count as one.
            switch_off(real, "gro", "gso", "tso", "tx")

    def _resolve(self) -> None:
        """Resolve the endpoints, and what stands beside this one; they learn the simulator's on the way."""
        if self._everyone:
            return
        wanted = {
            neighbour.address: self._interfaces[neighbour.side]
            for neighbour in self._plan.neighbours
            if not neighbour.late
        }
        pin(wanted, self._plan.wait_seconds, self._stopped, self._begun)

    def _real(self, commands: list[list[str]]) -> list[list[str]]:
        """Commands with the interfaces' real names, for left and right, and with whole paths of files."""
        return [
            [self._interfaces.get(word, word) if before in ("dev", "iif", "iifname") else word
             for before, word in zip(["", *command], command, strict=False)]
            for command in with_paths(commands, self._plan.folder)
        ]  # fmt: skip

    def _await_servers(self) -> None:
        """Send each server a packet of an unknown version until it answers with Version Negotiation."""
        deadline = time.monotonic() + self._plan.wait_seconds
        waiting = {}
        for host, port in self._plan.wait_for:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            probe = socket.socket(family, socket.SOCK_DGRAM)
            probe.connect((host, port))
            probe.setblocking(False)
            waiting[f"{host} port {port}"] = probe
        while waiting:
            if self._stopped():
                raise NotReadyError("told to stop before the servers answered")
            if time.monotonic() > deadline:
                raise NotReadyError(
                    f"no answer from {', '.join(waiting)} within {self._plan.wait_seconds:g} s "
                    "(a server must answer an unknown version with Version Negotiation, RFC 9000 §6)"
                )
            for name, probe in list(waiting.items()):
                if self._answered(probe):
                    probe.close()
                    del waiting[name]
            time.sleep(0.02 if waiting else 0)

    def _await_answers(self) -> None:
        """Let another simulator's probes pass before anything delays them."""
        if self._together is None:
            return
        if self._plan.wait_for:
            self._together.answered()
        deadline = time.monotonic() + 2 * self._plan.wait_seconds
        while self._plan.after and not self._together.has_answers(self._plan.after):
            if self._stopped() or time.monotonic() > deadline:
                raise NotReadyError(f"{self._plan.after} had no answers from the servers")
            time.sleep(LOOK)

    def _await_peers(self) -> None:
        """Open no gate before every path is up."""
        if self._together is None:
            return
        self._together.ready()
        deadline = time.monotonic() + 2 * self._plan.wait_seconds
        while missing := self._together.missing():
            if self._stopped() or time.monotonic() > deadline:
                raise NotReadyError(f"the other simulators were not ready: {', '.join(missing)}")
            time.sleep(LOOK)

    @staticmethod
    def _answered(probe: socket.socket) -> bool:
        try:
            while True:
                if is_version_negotiation(probe.recv(2048)):
                    return True
        except OSError:
            # Nothing yet, or an ICMP error because nobody listens yet: ask again.
            pass
        try:
            probe.send(probe_packet())
        except OSError:
            return False
        return False

    def _stopped(self) -> bool:
        return self._stop_file.exists()

    def _watch(self, gate: socket.socket, sniff: socket.socket) -> None:
        """Counters on a fixed grid; the clock of changes starts with the first datagram."""
        selector = selectors.DefaultSelector()
        selector.register(gate, selectors.EVENT_READ)
        selector.register(sniff, selectors.EVENT_READ)
        changes = enumerate(self._plan.changes)
        change = self._next(changes)
        next_sample = time.monotonic()
        while not self._stopped():
            due = next_sample
            if self._first is not None and change is not None:
                due = min(due, self._first + change.at)
            if self._first is None and self._together is not None:
                due = min(due, time.monotonic() + LOOK)
                self._learn(sniff)
            for key, _ in selector.select(_wait(due, next_sample)):
                if key.fileobj is gate:
                    self._greet(gate)
                else:
                    self._hear(sniff)
            now = time.monotonic()
            if self._first is not None and change is not None and now >= self._first + change.at:
                self._change(change)
                change = self._next(changes)
            if now >= next_sample:
                self._sample()
                # Skipped grid points stay skipped: a late sample must not make the next ones crowd.
                period = self._plan.sample_seconds
                next_sample += period * (1 + int((time.monotonic() - next_sample) / period))

    @staticmethod
    def _greet(gate: socket.socket) -> None:
        try:
            gate.accept()[0].close()
        except OSError:
            return

    def _hear(self, sniff: socket.socket) -> None:
        """Read what was sniffed: the first packet of a flow starts the clock, that of each connection is told of."""
        with contextlib.suppress(BlockingIOError):
            while True:
                frame, address = sniff.recvfrom(128)
                if address[2] == socket.PACKET_OUTGOING:
                    continue
                if self._first is None and begins_flow(frame, self._plan.port):
                    self._begin(sniff, time.time() if self._together is None else self._together.begin())
                self._tell_opening(frame)

    def _learn(self, sniff: socket.socket) -> None:
        """Another path may have had the first datagram."""
        assert self._together is not None
        began = self._together.began()
        if began is not None:
            self._begin(sniff, began)

    def _begin(self, sniff: socket.socket, at: float) -> None:
        """The lab began, at so many seconds since the epoch."""
        self._first = time.monotonic() - (time.time() - at)
        self._events.write("first_datagram", t=at)
        # Of what follows only handshakes matter.
        let_through(sniff, opening_filter(self._plan.port))

    def _tell_opening(self, frame: bytes) -> None:
        found = opening(frame, self._plan.port)
        if found is not None and found[1] not in self._known:
            self._known.add(found[1])
            self._events.write("opened", address=found[0])
            self._opened(found[0])

    def _next(self, changes: Iterator[tuple[int, tuple[float, list[list[str]]]]]) -> _Change | None:
        """The next change, with its tools waiting."""
        for index, (at, commands) in changes:
            # What is taken away takes its counts with it.
            counted = any("blackhole" in command for command in commands)
            return _Change(index, at, Prepared(self._real(commands)), counted)
        return None

    def _change(self, change: _Change) -> None:
        if change.counted:
            self._sample()
        change.commands.run()
        assert self._first is not None
        took_effect = time.monotonic() - self._first
        self._events.write("change", index=change.index, at=change.at, took_effect=took_effect)

    def _sample(self) -> None:
        assert self._tc.stdin is not None
        assert self._tc.stdout is not None
        self._tc.stdin.write("qdisc show\n")
        self._tc.stdin.flush()
        now = time.time()
        line = self._tc.stdout.readline()
        qdiscs = [
            {**qdisc, "dev": self._names.get(qdisc["dev"], qdisc["dev"])}
            for qdisc in json.loads(line)
            if qdisc.get("kind") not in ("noqueue", "noop")
        ]
        self._counters.write(json.dumps({"t": now, "qdiscs": qdiscs}) + "\n")

    def fail(self, error: Exception) -> None:
        """Leave the reason where the engine finds it."""
        self._events.write("failed", reason=type(error).__name__, message=str(error))


__all__ = ["Agent", "CommandError", "NotReadyError"]
