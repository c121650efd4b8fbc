"""One schedule, two shells: the same cases through the conductor of containers and through that inside the lab.

In place of containers the first has a script and a clock of its own; the second has processes of this machine, whose
seconds are shorter.
"""

from __future__ import annotations

import contextlib
import heapq
import ipaddress
import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import pytest
from simulator import conductor as inside
from simulator.conductor import Endpoint

from harness.engine import exit_rules
from harness.engine.docker import supervisor
from harness.engine.docker.containers import Death
from harness.engine.docker.sampler import Sampler
from harness.engine.docker.supervisor import lifecycle_flows
from harness.engine.external_failures import ExternalFailure
from harness.engine.virtual.engine import outcome_of, transfers_of
from harness.outcome import Outcome, Transfer
from harness.topology import CLIENT_END, CLIENT_START, Lab, build_lab
from tests.examples import cell, scenario

EPOCH_NS = 1_700_000_000 * 10**9
#: Seconds until the path is up.
READY = 2.0
Does = dict[tuple[str, int], tuple[float, int]]
"""(host, transfer) → (seconds from readiness or a later start to its end, exit code); whoever is absent goes on."""


@dataclass(frozen=True)
class Case:
    flows: list[dict[str, str]]
    does: Does
    status: str
    transfers: list[tuple[int, int, int | None, bool]]
    """(flow, transfer, exit code, cut off)."""
    reason: str = ""
    blamed: str = ""

    def lab(self) -> Lab:
        return self._lab

    @cached_property
    def _lab(self) -> Lab:
        return build_lab(cell(scenario(flows=self.flows, objectives=[], timeout="5 s")), 0)


QUIC = {"download": "1 MB"}
CASES = {
    "two end": Case([QUIC, QUIC], {("client0", 0): (2, 0), ("client1", 0): (1, 0)}, "completed",
                    [(0, 0, 0, False), (1, 0, 0, False)]),
    "one repeats": Case([{**QUIC, "repeat_after": "2 s"}], {("client0", 0): (1, 0), ("client0", 1): (1, 0)},
                        "completed", [(0, 0, 0, False), (0, 1, 0, False)]),
    "one is late and one cut off": Case([{"stop": "4 s"}, {**QUIC, "start": "2 s"}], {("client1", 0): (4, 0)},
                                        "completed", [(0, 0, None, True), (1, 0, 0, False)]),
    "the servers of who was cut off may end": Case(
        [{"stop": "2 s"}, {**QUIC, "start": "1 s"}], {("client1", 0): (3, 0), ("server0", 0): (3, 1)}, "completed",
        [(0, 0, None, True), (1, 0, 0, False)]),
    "a client crashes": Case([QUIC, {**QUIC, "repeat_after": "1 s"}], {("client0", 0): (3, 7), ("client1", 0): (1, 0)},
                             "crashed", [(0, 0, 7, False), (1, 0, 0, False)], "exit_7", "client0"),
    "a server ends": Case([QUIC], {("server0", 0): (1, 0)}, "crashed", [], "exit_0", "server0"),
    "a test case is refused": Case([QUIC, QUIC], {("client1", 0): (0.5, 127)}, "unsupported", [(1, 0, 127, False)],
                                   "exit_127", "client1"),
    "one ends before its stop": Case([{"stop": "4 s"}], {("client0", 0): (1, 0)}, "crashed", [(0, 0, 0, False)],
                                     "ended_early", "client0"),
    "time is over for two at once": Case([QUIC, QUIC, {**QUIC, "start": "1 s"}], {}, "timed_out",
                                         [(0, 0, None, False), (1, 0, None, False)], "timed_out", "client0"),
    "a repeat is not done in time": Case([{**QUIC, "repeat_after": "1 s"}], {("client0", 0): (1, 0)}, "timed_out",
                                         [(0, 0, 0, False), (0, 1, None, False)], "timed_out", "client0"),
}  # fmt: skip


def _summary(transfers: list[Transfer]) -> list[tuple[int, int, int | None, bool]]:
    return sorted((item.flow, item.index, item.exit_code, item.cut_off) for item in transfers)


# --- in real time


@dataclass
class Stage:
    """Containers that do what a case says, and the clock they go by."""

    case: Case
    folder: Path
    now: float = 0.0
    notice_delay: float = 0.0
    """Seconds until the daemon says that a container ended."""
    refusals: int = 0
    """How often a held client is asked in vain."""
    first_datagrams: list[tuple[float, str]] = field(default_factory=list)
    """(when, client) of datagrams of their handshakes."""
    failures: dict[str, ExternalFailure] = field(default_factory=dict)
    """What befell a container from outside."""
    started_at: dict[tuple[str, int], float] = field(default_factory=dict)
    told_at: list[tuple[float, str]] = field(default_factory=list)
    _deaths: list[tuple[float, str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "sim").mkdir()
        for (host, index), (seconds, _) in self.case.does.items():
            if index == 0 and not self._late(host):
                self._run(host, 0, READY, seconds)

    def _late(self, host: str) -> bool:
        return "start" in self.case.flows[int(host[-1])] and host.startswith("client")

    def _run(self, host: str, index: int, since: float, seconds: float) -> None:
        heapq.heappush(self._deaths, (since + seconds, host, self.case.does[host, index][1]))

    def _begin(self, host: str, index: int) -> None:
        assert (host, index) not in self.started_at
        self.started_at[host, index] = self.now
        if (host, index) in self.case.does:
            self._run(host, index, self.now, self.case.does[host, index][0])

    def address(self, client: str) -> str:
        return str(ipaddress.ip_address(self.case.lab().host(client).ipv6))

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return EPOCH_NS + round(self.now * 1e9)

    def next_death(self, timeout: float) -> Death | None:
        assert timeout >= 0
        until = self.now + timeout
        death = None
        if self._deaths and self._deaths[0][0] + self.notice_delay <= until:
            at, host, code = heapq.heappop(self._deaths)
            until = max(self.now, at + self.notice_delay)
            death = Death(host, code, EPOCH_NS + round(at * 1e9))
        self.now = until
        if self.now >= READY:
            opened = [
                {"event": "opened", "t": EPOCH_NS / 1e9 + at, "address": self.address(client)}
                for at, client in self.first_datagrams
                if at <= self.now
            ]
            events = [{"event": "ready"}, *opened]
            (self.folder / "sim" / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
        return death

    def release(self, service: str) -> bool:
        self.refusals -= 1
        if self.refusals < 0:
            self._begin(service, 0)
        return self.refusals < 0

    def start_again(self, service: str) -> None:
        self._begin(service, 1)

    def tell(self, *services: str) -> None:
        for service in services:
            self.told_at.append((self.now, service))
            heapq.heappush(self._deaths, (self.now + 0.5, service, 143))

    def befell(self, service: str) -> ExternalFailure | None:
        return self.failures.get(service)


def _in_real_time(stage: Stage) -> tuple[Outcome, supervisor.Conductor, list[tuple[float, str]]]:
    phases: list[tuple[float, str]] = []
    sampler = Sampler(stage.folder, 1 << 30)
    conducted = supervisor.Conductor(
        stage.case.lab(), stage.folder, stage, sampler, lambda word: phases.append((stage.now, word)), stage
    )
    conducted.begin()
    return conducted.watch(), conducted, phases


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("lag", [0, 0.1])
def test_cases_with_containers(name: str, lag: float, tmp_path: Path) -> None:
    case = CASES[name]
    stage = Stage(case, tmp_path, notice_delay=lag)
    outcome, conducted, _ = _in_real_time(stage)
    assert (outcome.status, outcome.reason) == (case.status, case.reason)
    assert _summary(conducted.transfers) == case.transfers
    assert [(item.flow, item.index) for item in conducted.transfers] == [item[:2] for item in case.transfers]
    assert case.blamed in ("", conducted.blamed)
    for (host, index), at in stage.started_at.items():
        flow = case.lab().flows[int(host[-1])]
        # Readiness is looked for every 50 ms.
        if index == 0:
            assert at == pytest.approx(READY + flow.start, abs=0.051)
        else:
            assert at == pytest.approx(READY + case.does[host, 0][0] + (flow.repeat_after or 0), abs=0.002)


def test_a_stop_is_kept_and_told_to_both(tmp_path: Path) -> None:
    stage = Stage(CASES["one is late and one cut off"], tmp_path)
    _, conducted, phases = _in_real_time(stage)
    ready = phases[0][0]
    assert [name for _, name in stage.told_at] == ["client0", "server0"]
    assert [at for at, _ in stage.told_at] == [pytest.approx(ready + 4, abs=0.002)] * 2
    assert conducted.transfers[0].ended_ns - EPOCH_NS == pytest.approx(stage.told_at[0][0] * 1e9, abs=1e3)


def test_time_is_over_when_it_is(tmp_path: Path) -> None:
    stage = Stage(CASES["time is over for two at once"], tmp_path)
    outcome, _, phases = _in_real_time(stage)
    assert outcome.detail == "client0 sent nothing, and its time of 5 s is over"
    assert stage.now - phases[0][0] == pytest.approx(CLIENT_START + 5, abs=0.002)


def test_time_counts_from_the_first_datagram_of_each_transfer(tmp_path: Path) -> None:
    stage = Stage(
        CASES["a repeat is not done in time"], tmp_path, first_datagrams=[(READY + 0.4, "client0"), (4.5, "client0")]
    )
    outcome, _, _ = _in_real_time(stage)
    assert outcome.detail == "the transfer did not end within 5 s"
    assert stage.now == pytest.approx(4.5 + 5, abs=0.002)


def test_who_has_the_whole_file_may_close_its_connection(tmp_path: Path) -> None:
    case = Case([QUIC], {("client0", 0): (12, 0)}, "completed", [(0, 0, 0, False)])
    stage = Stage(case, tmp_path, first_datagrams=[(READY, "client0")])
    file = tmp_path / "flow0" / "downloads" / case.lab().flows[0].file
    file.parent.mkdir(parents=True)
    file.write_bytes(bytes(1_000_000))
    assert _in_real_time(stage)[0].status == "completed"
    (tmp_path / "other").mkdir()
    stage = Stage(replace(case, does={}), tmp_path / "other", first_datagrams=[(READY, "client0")])
    file = tmp_path / "other/flow0/downloads" / file.name
    file.parent.mkdir(parents=True)
    file.write_bytes(bytes(1_000_000))
    outcome, _, _ = _in_real_time(stage)
    assert (outcome.status, outcome.detail) == (
        "timed_out", "the whole file was there within 5 s, but client0 did not end",
    )  # fmt: skip
    assert stage.now == pytest.approx(READY + 5 + CLIENT_END, abs=0.002)


def test_what_came_after_the_time_was_over_does_not_count(tmp_path: Path) -> None:
    stage = Stage(Case([QUIC], {}, "timed_out", []), tmp_path, first_datagrams=[(READY, "client0")])
    flow = stage.case.lab().flows[0]
    place, www = tmp_path / "flow0" / "downloads" / flow.file, tmp_path / flow.file
    place.parent.mkdir(parents=True)
    place.write_bytes(bytes(400_000))
    www.write_bytes(bytes(flow.size))
    outcome, conducted, _ = _in_real_time(stage)
    (transfer,) = conducted.transfers
    assert (outcome.status, transfer.received) == ("timed_out", 400_000)
    # Until its container was stopped the rest of it came, too.
    exit_rules.received_file(tmp_path, 0, 0).write_bytes(bytes(flow.size))
    checked = exit_rules.check_transfer(transfer, flow, tmp_path, tmp_path).transfer
    assert (checked.received, checked.intact) == (400_000, False)


def test_phases_of_a_repeat(tmp_path: Path) -> None:
    _, _, phases = _in_real_time(Stage(CASES["one repeats"], tmp_path))
    assert [word for _, word in phases] == ["transfer", "pause", "transfer"]
    assert [at for at, _ in phases[1:]] == [pytest.approx(READY + seconds, abs=0.002) for seconds in (1, 3)]


def test_a_client_whose_shell_is_not_there_yet_is_asked_again(tmp_path: Path) -> None:
    stage = Stage(CASES["one is late and one cut off"], tmp_path, refusals=20)
    outcome, conducted, phases = _in_real_time(stage)
    assert outcome.status == "completed"
    at = stage.started_at["client1", 0]
    assert 0.01 < at - (phases[0][0] + 2) < 0.05
    assert conducted.transfers[1].started_ns == pytest.approx(EPOCH_NS + at * 1e9, abs=1e3)


@pytest.mark.parametrize(
    ("event", "status", "reason", "blamed"),
    [
        (None, "infrastructure", "exit_3", "sim"),
        ({"event": "failed", "reason": "NotReadyError", "message": "no answer"}, "crashed", "no_answer", "server0"),
        ({"event": "failed", "reason": "CommandError", "message": "tc"}, "infrastructure", "exit_3", "sim"),
    ],
)
def test_the_simulator_never_ends_by_itself(
    tmp_path: Path, event: dict[str, str] | None, status: str, reason: str, blamed: str
) -> None:
    class Broken(Stage):
        def next_death(self, timeout: float) -> Death | None:
            if event is not None:
                (self.folder / "sim" / "events.jsonl").write_text(json.dumps(event) + "\n")
            return Death("sim", 3, self.time_ns())

    outcome, conducted, _ = _in_real_time(Broken(CASES["two end"], tmp_path))
    assert (outcome.status, outcome.reason, conducted.blamed) == (status, reason, blamed)


def test_a_simulator_that_says_nothing_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    class Mute(Stage):
        def next_death(self, timeout: float) -> Death | None:
            self.now += timeout
            return None

    stage = Mute(CASES["two end"], tmp_path)
    outcome, conducted, _ = _in_real_time(stage)
    assert (outcome.status, outcome.role, conducted.blamed) == ("infrastructure", "sim", "sim")
    assert 45 <= stage.now < 46


@pytest.mark.parametrize("name", ["a client crashes", "time is over for two at once", "two end"])
@pytest.mark.parametrize(("who", "role"), [("client1", "client"), ("sim", "sim")])
def test_what_befell_a_container_from_outside_is_nobody_s_fault(name: str, who: str, role: str, tmp_path: Path) -> None:
    failure = ExternalFailure("killed", f"{who} was ended from outside")
    case = CASES[name]
    outcome, conducted, _ = _in_real_time(Stage(case, tmp_path, failures={who: failure}))
    assert (outcome.status, outcome.role, outcome.reason) == ("infrastructure", role, "killed")
    assert (outcome.detail, conducted.blamed) == (failure.detail, who)
    # The transfers that ended all the same are noted.
    assert _summary(conducted.transfers) == case.transfers


def test_logs_that_overflow_end_the_run(tmp_path: Path) -> None:
    stage = Stage(CASES["two end"], tmp_path)
    sampler = Sampler(tmp_path, 1 << 30)
    sampler.overflowed = "server1"
    conducted = supervisor.Conductor(stage.case.lab(), tmp_path, stage, sampler, lambda word: None, stage)
    conducted.begin()
    assert (conducted.watch().status, conducted.blamed) == ("log_overflow", "server1")


# --- inside the lab

#: A second of a case, in seconds of this machine: first short, and longer where a busy machine confused the order.
UNITS = (0.1, 0.6)


class Process:
    """A process of this machine where an image's would be."""

    def __init__(self, case: Case, host: str, unit: float) -> None:
        self._case, self._host, self._unit = case, host, unit
        self.image = self
        self.processes: list[int] = []

    stop_signal = signal.SIGTERM

    def start(self, namespace: Path, log: Path, unable: Path) -> int:
        unable.write_text("")
        index = len(self.processes)
        seconds, code = self._case.does.get((self._host, index), (60 / self._unit, 0))
        if index == 0 and "start" not in self._case.flows[int(self._host[-1])]:
            seconds += READY
        process = os.fork()
        if process == 0:
            os.execvp(
                "sh", ["sh", "-c", f"sleep {seconds * self._unit} & trap 'kill $!; exit 143' TERM; wait; exit {code}"]
            )
        self.processes.append(process)
        return process


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """A conductor wants to know of its children's ends."""
    before = signal.getsignal(signal.SIGCHLD)
    try:
        yield
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize("name", CASES)
def test_cases_with_processes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    monkeypatch.setattr(inside, "_udp", lambda name, counter: 0)
    for unit in UNITS:
        folder = tmp_path / str(unit)
        (folder / "sim").mkdir(parents=True)
        monkeypatch.setattr(
            inside.Conductor, "_unable", lambda self, endpoint, folder=folder: folder / f"{endpoint.name}.unable"
        )
        outcome, blamed, transfers = _acted(case, folder, unit)
        if (outcome.status, outcome.reason, transfers) == (case.status, case.reason, case.transfers):
            break
    assert (outcome.status, outcome.reason) == (case.status, case.reason)
    assert transfers == case.transfers
    assert case.blamed in ("", blamed)


def _acted(case: Case, folder: Path, unit: float) -> tuple[Outcome, str, list[tuple[int, int, int | None, bool]]]:
    """What came of a case with processes, of which none is left."""
    lab = case.lab()
    containers = [Process(case, host.name, unit) for host in lab.hosts]
    endpoints = [
        Endpoint(host.name, host.role, host.flow, cast(Any, container), "", folder / f"flow{host.flow}")
        for host, container in zip(lab.hosts, containers, strict=True)
    ]
    times = [
        replace(
            flow,
            start=flow.start * unit,
            stop=None if flow.stop is None else flow.stop * unit,
            repeat_after=None if flow.repeat_after is None else flow.repeat_after * unit,
            time_limit=flow.time_limit * unit,
            patience=flow.patience * unit,
        )
        for flow in lifecycle_flows(lab)
    ]
    phases: list[str] = []
    reader, writer = os.pipe()
    with _signals():
        conducted = inside.Conductor(endpoints, times, folder, 1 << 30, 10**7, phases.append)
        timer = threading.Timer(READY * unit, lambda: os.write(writer, b"ready\n"))
        timer.start()
        try:
            conducted.run([(-1, reader)])
        finally:
            conducted.stop()
            timer.join()
    os.close(reader)
    os.close(writer)
    events = [json.loads(line) for line in (folder / "sim" / "endpoints.jsonl").read_text().splitlines()]
    for container in containers:
        for process in container.processes:
            with pytest.raises(ProcessLookupError):
                os.kill(process, 0)
    return *outcome_of(lab, events, []), _summary(transfers_of(lab, events))
