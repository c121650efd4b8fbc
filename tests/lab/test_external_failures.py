"""Damage from outside is nobody's fault: the run is made again, and what befell it is said with what to do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.metrics.starvation import STARVED
from tests.examples import ROOT
from tests.lab.conftest import Harness, Manifest, left_overs
from tests.lab.test_faults import faulty_image
from tests.polling import wait_for
from tests.unit.test_external_failures import kernel_tells

pytestmark = pytest.mark.alone

#: About two seconds of transfer to reach into.
LONG = {"flows": [{"download": "4 MB"}], "milestones": ["4 MB"]}
NGTCP2 = ("--clients", "ngtcp2", "--servers", "ngtcp2", "--repeat", "1")


def _run_and(harness: Harness, words: tuple[str, ...], act: Callable[[subprocess.Popen[str]], object]) -> list[Any]:
    """The cells of a run that somebody reaches into once its path is up."""
    process = subprocess.Popen(
        harness.command("run", *words, "--json"), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # Again at once: nobody waits for a machine that keeps time.
        env={**os.environ, "HARNESS_PATIENCE": "1 ms"},
    )  # fmt: skip
    try:
        act(process)
        text, errors = process.communicate(timeout=200)
    finally:
        process.kill()
    assert text, errors
    cells: list[Any] = json.loads(text)["cells"]
    return cells


def _ready(harness: Harness) -> bool:
    """Whether the path of the run under way is up, and the harness watches the processes of its containers."""
    return any(
        '"ready"' in file.read_text() and (file.parent.parent / "cpu.csv").exists()
        for file in harness.store.glob("partial/*/sim/events.jsonl")
    )


def _container(service: str, what: str) -> str:
    filters = ("--filter", "label=org.quic-lab.owner", "--filter", f"label=com.docker.compose.service={service}")
    process = subprocess.run(["docker", "ps", "--quiet", *filters], capture_output=True, text=True, check=True)
    if what == "id":
        return process.stdout.strip()
    asked = ["docker", "inspect", "--format", what, process.stdout.strip()]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def _replaced(harness: Harness) -> list[dict[str, Any]]:
    """Outcomes of the runs that another attempt stands in for."""
    files = sorted(harness.store.glob("runs/*/replaced/*/run.json"))
    return [json.loads(file.read_text())["outcome"] for file in files]


def _docker_kill(service: str) -> None:
    subprocess.run(["docker", "kill", _container(service, "id")], check=True, capture_output=True)


def _kill_9(service: str) -> None:
    os.kill(int(_container(service, "{{.State.Pid}}")), signal.SIGKILL)


def _kill_9_program(service: str) -> None:
    """ngtcp2's program, which the shell that is the first process waits for after the steps of its script."""
    first = int(_container(service, "{{.State.Pid}}"))

    def programs() -> list[int]:
        children = map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())
        return [child for child in children if Path(f"/proc/{child}/comm").read_text().startswith("gtls")]

    wait_for(programs)
    os.kill(programs()[0], signal.SIGKILL)


@pytest.mark.parametrize(
    ("service", "kill", "words"),
    [
        ("client0", _docker_kill, "client0 was ended from outside (Docker was asked for SIGKILL"),
        pytest.param("server0", _kill_9, "server0 was ended from outside (SIGKILL", marks=kernel_tells),
        ("client0", _kill_9_program, "client0 ended because a process of it was killed (SIGKILL)"),
    ],
    ids=["docker kill", "kill -9", "kill -9 program"],
)
def test_who_is_killed_from_outside_is_run_again(
    warm: Harness, harness: Harness, service: str, kill: Callable[[str], None], words: str
) -> None:
    def act(process: subprocess.Popen[str]) -> None:
        wait_for(lambda: _ready(harness))
        kill(service)

    (cell,) = _run_and(harness, (harness.scenario("killed", **LONG), *NGTCP2), act)
    assert cell["outcomes"].keys() <= {"completed", "infrastructure"}
    outcome = next(replaced for replaced in _replaced(harness) if replaced["reason"] == "killed")
    assert outcome["status"] == "infrastructure"
    assert words in outcome["detail"]
    assert left_overs() == []


def test_who_takes_more_memory_than_it_may_is_named(
    warm: Harness, harness: Harness, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = manifest("hoards", faulty_image("client-hoard"), protocols=["h3"])
    words = ("--clients", "hoards", "--servers", "ngtcp2", "--manifest", str(file), "--repeat", "1")
    monkeypatch.setenv("HARNESS_ENDPOINT_MEMORY", "100 MiB")
    _run_and(harness, (harness.scenario("hoards"), *words), lambda process: None)
    outcome = _replaced(harness)[0]
    assert (outcome["status"], outcome["reason"]) == ("infrastructure", "out_of_memory")
    assert "client0" in outcome["detail"] and "100 MiB (HARNESS_ENDPOINT_MEMORY)" in outcome["detail"]
    assert "free memory" in outcome["detail"]
    assert left_overs() == []


def _crowd(service: str) -> None:
    """Put busy processes beside a service, in its container and all on one core, so that the others stay free."""
    name = _container(service, "id")
    core = str(min(os.sched_getaffinity(0)))
    subprocess.run(["docker", "update", "--cpuset-cpus", core, name], check=True, capture_output=True)
    for _ in range(4):
        busy = ["docker", "exec", "--detach", name, "sh", "-c", "while :; do :; done"]
        subprocess.run(busy, check=True, capture_output=True)


def test_a_starved_run_counts_for_nothing_and_is_made_again(warm: Harness, harness: Harness) -> None:
    def act(process: subprocess.Popen[str]) -> None:
        wait_for(lambda: _ready(harness))
        _crowd("server0")

    (cell,) = _run_and(harness, (harness.scenario("starved", **LONG), *NGTCP2), act)
    assert cell["outcomes"].keys() <= {"completed", "infrastructure"}
    spoilt = [json.loads(file.read_text()) for file in sorted(harness.store.glob("runs/*/replaced/*/measured.json"))]
    shares = {
        measurement["name"]: measurement["value"]
        for measurement in spoilt[0]["measurements"]
        if measurement["name"].startswith("waiting_")
    }
    assert shares["waiting_server"] > 2 * STARVED
    assert any(reason.startswith("server0 waited for a processor") for reason in spoilt[0]["starved"])
    assert left_overs() == []


def test_a_free_run_counts(warm: Harness, harness: Harness) -> None:
    cell = harness.cell(harness.scenario("free", **LONG), *NGTCP2)
    content = json.loads(next(harness.store.glob("runs/*/0/measured.json")).read_text())
    shares = {
        measurement["name"]: measurement["value"]
        for measurement in content["measurements"]
        if measurement["name"].startswith("waiting_")
    }
    assert content["starved"] == []
    assert shares.keys() == {"waiting_client", "waiting_server", "waiting_sim"}
    assert max(shares.values()) < STARVED
    assert cell["outcomes"] == {"completed": 1}
