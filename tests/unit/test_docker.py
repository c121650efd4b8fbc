"""What Docker is told, without Docker."""

from __future__ import annotations

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
