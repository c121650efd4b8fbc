"""What Docker is told, without Docker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.engine import docker_cli
from harness.engine.docker_cli import OWNER_LABEL, docker, parent_death_prefix, start_docker
from harness.engine.process_owner import lives
from harness.errors import EngineError
from tests.polling import wait_for


def test_a_container_that_is_only_created_says_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images are exported from one. A harness that was killed meanwhile left it behind, and nobody could tell whose."""
    given: list[list[str]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        given.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("harness.engine.docker_cli.shutil.which", lambda name: name)
    monkeypatch.setattr("harness.engine.docker_cli.subprocess.run", run)
    docker("create", "an-image")
    docker("start", "a-container")
    (_, create, label, owned, image), start = given
    assert (create, label, image) == ("create", "--label", "an-image")
    name, _, owner = owned.partition("=")
    assert name == OWNER_LABEL
    assert lives(owner)
    assert start == ["docker", "start", "a-container"]


@pytest.mark.parametrize("way", [lambda: docker("rm", "one", timeout=0.2), lambda: start_docker(["rm", "one"]).wait()])
def test_a_daemon_that_does_not_answer_holds_nobody_up_for_ever(
    way: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "docker"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("harness.engine.docker_cli.LONGEST", 0.2)
    with pytest.raises(EngineError, match=r"'docker rm' did not end within 0\.2 s") as raised:
        way()
    assert "daemon" in raised.value.hint


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_who_listens_to_the_daemon_ends_with_a_harness_that_is_killed(
    end: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not parent_death_prefix():
        pytest.skip("setpriv(1) of util-linux is not installed")
    program, number = tmp_path / "docker", tmp_path / "pid"
    program.write_text(f"#!/bin/sh\necho $$ >{number}.new; mv {number}.new {number}\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    code = "import time; from harness.engine.docker_cli import start_docker; start_docker(['events']); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code]) as harness:
        wait_for(number.exists, 30)
        listening = Path("/proc", number.read_text().strip())
        assert listening.exists()
        harness.send_signal(end)
        harness.wait()
    wait_for(lambda: not listening.exists() or ") Z " in (listening / "stat").read_text(), 10)


def test_docker_is_asked_once_for_an_image_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        asked.append(command[-1])
        there = command[-1] == "here"
        return subprocess.CompletedProcess(command, int(not there), '[{"Id": "1"}]' if there else "", "No such image")

    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr("subprocess.run", run)
    with docker_cli.remembered_images():
        for name in ("here", "gone", "here", "gone"):
            assert (docker_cli.inspect_image(name) is not None) == (name == "here")
        assert asked == ["here", "gone", "gone"]
        docker_cli.docker("pull", "gone", check=False)
        docker_cli.inspect_image("here")
        assert asked[3:] == ["gone", "here"]
    docker_cli.inspect_image("here")
    assert asked[5:] == ["here"]


class Daemon:
    """Containers and networks of a dead harness. A network with an endpoint cannot be removed."""

    def __init__(self, endpoints: dict[str, dict[str, str]], containers: list[str]) -> None:
        """`endpoints`: network → container → the endpoint's name; `containers`: those that exist, one of a dead owner."""
        self.endpoints = endpoints
        self.containers = containers

    def __call__(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(words, 0, self._answer(*words), "")

    def _answer(self, command: str, *words: str) -> str:
        if command == "ps":
            orphans = [f"{name}\t1-1-1\tname of {name}" for name in self.containers if name.startswith("orphan")]
            return "\n".join(orphans if "--format" in words else self.containers)
        if command == "rm":
            self.containers = [name for name in self.containers if name not in words]
            return ""
        assert command == "network"
        action, *names = words
        if action == "ls":
            return "\n".join(f"{name}\t1-1-1\tname of {name}" for name in self.endpoints)
        if action == "inspect":
            return json.dumps(
                [
                    {
                        "Id": name,
                        "Containers": {key: {"Name": endpoint} for key, endpoint in self.endpoints[name].items()},
                    }
                    for name in names
                    if name in self.endpoints
                ]
            )
        if action == "disconnect":
            force, network, endpoint = names
            assert force == "--force"
            self.endpoints[network] = {key: name for key, name in self.endpoints[network].items() if name != endpoint}
        else:
            assert action == "rm"
            self.endpoints = {name: held for name, held in self.endpoints.items() if held or name not in names}
        return ""


def test_a_network_is_removed_although_docker_kept_the_endpoint_of_a_container_that_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compose leaves such a network and exits with 0. No lab could use its addresses until somebody intervened."""
    held = {"left": {"gone": "client0", "ep-1": "server0"}, "right": {}}
    monkeypatch.setattr(docker_cli, "docker", daemon := Daemon(held, ["orphan"]))
    assert docker_cli.remove_orphans() == ["name of orphan", "name of left", "name of right"]
    assert (daemon.containers, daemon.endpoints) == ([], {})


def test_a_network_that_holds_somebodys_container_stays_and_is_not_called_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = {"left": {"somebodys": "capture", "gone": "client0"}, "right": {}}
    monkeypatch.setattr(docker_cli, "docker", daemon := Daemon(held, ["somebodys"]))
    assert docker_cli.remove_orphans() == ["name of right"]
    assert (daemon.containers, daemon.endpoints) == (["somebodys"], {"left": {"somebodys": "capture"}})
