"""Several simulators of one lab: one zero for all, none ahead of the others; and the tools that paths are made with."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from simulator import agent, world
from simulator.agent import Agent, NotReadyError
from simulator.plan import Plan
from simulator.ports import Port, _wires
from simulator.shell import CommandError, Prepared, run_program
from simulator.together import Together

from tests.polling import wait_for

PEERS = ["sim", "sim-campus"]


def test_the_first_first_datagram_is_the_zero_of_all(tmp_path: Path) -> None:
    together, other = (Together(tmp_path, name, PEERS) for name in PEERS)
    assert together.began() is None
    begun = other.begin()
    wait_for(lambda: time.time() > begun + 0.001)
    assert together.began() == begun
    assert together.begin() == begun, "another path had one before"
    assert abs(begun - time.time()) < 1


def test_many_at_once_agree_on_the_zero(tmp_path: Path) -> None:
    names = [f"sim-{number}" for number in range(8)]
    zeros: list[float] = []
    threads = [
        threading.Thread(target=lambda name=name: zeros.append(Together(tmp_path, name, names).begin()))
        for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(zeros) == 8
    assert len(set(zeros)) == 1


def _agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, peers: tuple[str, ...], wait: float) -> Agent:
    monkeypatch.setattr("simulator.agent.subprocess.Popen", lambda *words, **overrides: None)
    plan = Plan("auto", {}, [], [], [], [], wait, 443, 0.1, 64, peers[0] if peers else "sim", peers)
    return Agent(plan, {}, tmp_path, tmp_path / "stop", shared=tmp_path)


def test_no_path_is_ready_before_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = _agent(tmp_path, monkeypatch, tuple(PEERS), 0.02)
    with pytest.raises(NotReadyError, match="were not ready: sim-campus"):
        waiting._await_peers()
    Together(tmp_path, "sim-campus", PEERS).ready()
    waiting._await_peers()


def test_a_simulator_alone_waits_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _agent(tmp_path, monkeypatch, (), 0.0)._await_peers()
    assert not list(tmp_path.glob("*.ready"))


def test_a_path_without_a_first_datagram_learns_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learning: Any = _agent(tmp_path, monkeypatch, tuple(PEERS), 1.0)
    filtered: list[object] = []
    monkeypatch.setattr("simulator.agent.let_through", lambda *given: filtered.append(given))
    learning._learn(None)
    assert learning._first is None
    a_second_ago = time.time_ns() - 10**9
    with monkeypatch.context() as patch:
        patch.setattr("simulator.together.time.time_ns", lambda: a_second_ago)
        begun = Together(tmp_path, "sim-campus", PEERS).begin()
    learning._learn(None)
    assert learning._first
    assert time.monotonic() - learning._first == pytest.approx(time.time() - begun, abs=0.02)
    assert len(filtered) == 1
    assert f'"t": {begun}' in (tmp_path / "events.jsonl").read_text()


def test_what_is_due_is_not_waited_beyond() -> None:
    """epoll counts whole milliseconds, upwards."""
    now = time.monotonic()
    assert agent._wait(now + 0.0104, now + 1) <= 0.0101
    assert agent._wait(now - 1, now + 1) == 0
    due = time.monotonic() + 0.0006
    assert agent._wait(due, now + 1) == 0
    assert time.monotonic() >= due
    assert agent._wait(due, due) == 0, "samples may be late"


# --- tools


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """nft and conntrack that write down what they are told; conntrack fails where FAILS says why."""
    path = tmp_path / "told"
    for name in ("nft", "conntrack"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(
            f'#!/bin/sh\n{{ echo "{name} $*"; cat; }} >>{path}\n'
            f'[ {name} = nft ] || [ -z "$FAILS" ] || {{ echo "$FAILS" >&2; exit 1; }}\n'
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return path


COMMANDS = [
    ["nft", "flush", "chain", "inet", "nat", "x"],
    ["nft", "add", "rule", "inet", "nat", "x", "snat"],
    ["conntrack", "-D", "-f", "ipv4"],
    ["conntrack", "-D", "-f", "ipv6"],
]


def test_rules_come_into_force_together_and_before_what_was_is_forgotten(tools: Path) -> None:
    run_program(COMMANDS)
    assert tools.read_text() == (
        "nft -f -\nflush chain inet nat x\nadd rule inet nat x snat\nconntrack -R /proc/self/fd/0\n-D -f ipv4\n-D -f ipv6\n"
    )


def test_what_cannot_be_forgotten_is_a_failure(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAILS", "Operation not permitted")
    with pytest.raises(CommandError, match=r"conntrack -D -f ipv4, and 1 more: Operation not permitted"):
        run_program(COMMANDS)


def test_what_is_prepared_waits_to_be_told(tools: Path) -> None:
    prepared = Prepared(COMMANDS)
    wait_for(lambda: tools.exists() and len(tools.read_text().splitlines()) >= 2)
    assert sorted(tools.read_text().splitlines()) == ["conntrack -R /proc/self/fd/0", "nft -f -"]
    prepared.run()
    assert tools.read_text().splitlines()[2:] == [" ".join(command[1:]) for command in COMMANDS]


def test_names_of_interfaces_are_those_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulator_agent: Any = _agent(tmp_path, monkeypatch, (), 0.0)
    simulator_agent._interfaces = {"left": "eth1", "right": "eth0"}
    commands = simulator_agent._real(
        [["nft", "add", "rule", "iifname", "right", "drop"], ["tc", "dev", "left", "right"]]
    )
    assert commands == [["nft", "add", "rule", "iifname", "eth0", "drop"], ["tc", "dev", "eth1", "right"]]


def test_what_is_due_at_the_loss_of_a_path_is_counted_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    class RecordedCommands:
        def __init__(self, commands: list[list[str]]) -> None:
            self._word = commands[0][-1]

        def run(self) -> None:
            done.append(self._word)

    monkeypatch.setattr("simulator.agent.Prepared", RecordedCommands)
    simulator_agent: Any = _agent(tmp_path, monkeypatch, (), 0.0)
    simulator_agent._sample = lambda: done.append("sample")
    simulator_agent._first = time.monotonic()
    gone, changed = ["tc", "qdisc", "replace", "dev", "left", "root", "blackhole"], ["tc", "qdisc", "change"]
    changes = enumerate([(0.0, [gone]), (0.0, [changed])])
    while (change := simulator_agent._next(changes)) is not None:
        simulator_agent._change(change)
    assert done == ["sample", "blackhole", "change"]


# --- networks


def test_a_network_of_two_is_a_wire_and_one_of_more_a_bridge() -> None:
    two = [Port("sim", "left", ["193.167.0.2/24"], simulator=True), Port("client0", "eth0", ["193.167.0.100/24"])]
    (wire,) = _wires("left", two)
    assert wire[:6] == ["ip", "link", "add", "left", "netns", "sim"]
    ports = [
        *two,
        Port("sim-campus", "right", ["193.167.0.3/24"], simulator=True),
        Port("client1", "eth1", ["1.2.3.4/8"]),
    ]
    plugs = [command[3] for command in _wires("right", ports) if "peer" in command]
    assert plugs == ["sim-right", "client0", "sim2-right", "client1eth1"]
    assert all(len(plug) <= 15 for plug in plugs)


def test_a_world_that_names_no_simulators_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "OUT", tmp_path)
    monkeypatch.setattr(world, "read_plan", lambda file: file)
    (alone,) = world.simulators({})
    assert (alone.name, alone.networks) == ("sim", {"left": "left", "right": "right"})
    host = {"role": "server", "addresses": ["1.2.3.4/8"]}
    assert world.places(host) == {"right": ["1.2.3.4/8"]}
    assert world.places({**host, "networks": {"left": [], "left-campus": []}}) == {"left": [], "left-campus": []}


def test_devices_of_queues_are_made_ahead_of_all_else() -> None:
    program = [
        text.split()
        for text in (
            "ip link set dev left mtu 1400", "ip link add to_client type ifb", "ip link set dev to_client up",
            "tc qdisc add dev right handle ffff: ingress", "ip link add to_server type ifb",
            "ip link set dev to_server up", "tc qdisc add dev left handle ffff: ingress", "ip link set dev left up",
        )
    ]  # fmt: skip
    order = [1, 2, 4, 5, 0, 3, 6, 7]
    assert agent.queues_first(program) == [program[number] for number in order]
