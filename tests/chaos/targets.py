"""What faults are meant for, and how it is found while a command is at work."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

from harness.engine.virtual.uml_guest import guests
from tests.chaos import machine
from tests.chaos.scene import Scene, Target

#: The processes of the host behind those inside a lab kernel are called this.
_INSIDE = "uml-userspace"
#: The lab kernel inside the simulator's container.
_KERNEL = "linux"


def _harness(scene: Scene) -> list[int]:
    command = scene.command
    # From when on its own code is in charge: Python itself leaves this signal alone.
    return [command.pid] if not command.has_ended() and machine.catches(command.pid, signal.SIGTERM) else []


def _guests(scene: Scene) -> list[int]:
    owners = tuple(f"{command.pid}-" for command in scene.commands)
    return [pid for pid, label in guests() if label.startswith(owners)]


def _programs(scene: Scene) -> list[int]:
    groups = set(_guests(scene))
    if not groups:
        return []
    return [item.pid for item in machine.processes().values() if item.group in groups and item.name == _INSIDE]


def _first_of(service: str) -> Target:
    """The first process of a container, as Docker knows it."""

    def find(scene: Scene) -> list[int]:
        pid = machine.containers(scene.command.pid).get(service)
        return [] if pid is None else [pid]

    return Target(f"the {service}", find)


#: What the endpoints of a stage run, as opposed to their scripts: a script that lost a child says what it likes.
_ENDPOINTS = frozenset({"gtlsclient", "gtlsserver"})


def _program_of(service: str) -> Target:
    """The program of an endpoint, below its script or in its place."""

    def find(scene: Scene) -> list[int]:
        pid = machine.containers(scene.command.pid).get(service)
        if pid is None:
            return []
        first = machine.processes().get(pid)
        tree = [*([first] if first is not None else []), *machine.below(pid)]
        return [item.pid for item in tree if item.name in _ENDPOINTS]

    return Target(f"the program of {service}", find)


def _shim_of(service: str) -> Target:
    """What containerd starts for a container, and Docker's only way to it."""

    def find(scene: Scene) -> list[int]:
        pid = machine.containers(scene.command.pid).get(service)
        process = machine.processes().get(pid) if pid is not None else None
        return [] if process is None else [process.parent]

    return Target(f"the shim of {service}", find)


def _kernel_of_sim(scene: Scene) -> list[int]:
    pid = machine.containers(scene.command.pid).get("sim")
    return [] if pid is None else [item.pid for item in machine.below(pid) if item.name == _KERNEL]


def _docker_child(*words: str) -> Target:
    """A Docker command that the harness has started, by some of its words."""

    def find(scene: Scene) -> list[int]:
        children = machine.below(scene.command.pid)
        return [item.pid for item in children if {"docker", *words} <= set(machine.words_of(item.pid))]

    return Target(f"'docker {' '.join(words)}'", find)


def download_begun(stage_store: Path) -> bool:
    """Whether the first datagram of a run under way has passed."""
    for file in stage_store.glob("partial/*/sim/events.jsonl"):
        with suppress(OSError):
            if '"first_datagram"' in file.read_text():
                return True
    return False


def _transfer(scene: Scene) -> list[int]:
    """The harness, while data pass."""
    return _harness(scene) if download_begun(scene.stage.store) else []


HARNESS = Target("the harness", _harness)
TRANSFER = Target("the transfer", _transfer)
GUEST = Target("a guest", _guests)
INSIDE = Target("a program in a guest", _programs)
CLIENT, SERVER, SIM = (_first_of(name) for name in ("client0", "server0", "sim"))
CLIENT_PROGRAM, SERVER_PROGRAM = (_program_of(name) for name in ("client0", "server0"))
SHIMS = tuple(_shim_of(name) for name in ("client0", "server0", "sim"))
SIM_KERNEL = Target("the simulator's kernel", _kernel_of_sim)
EVENTS, COMPOSE = _docker_child("events"), _docker_child("compose", "up")

#: Those whose life is measured, by engine: others have moments of these.
MEASURED = {
    "virtual": [HARNESS, TRANSFER, GUEST],
    "compose": [HARNESS, TRANSFER, CLIENT, SERVER, SIM, SIM_KERNEL, EVENTS, COMPOSE],
}
