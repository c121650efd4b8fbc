"""Simulators that stand from run to run, and containers that are made without Compose, with neither."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulator import standing
from simulator.lab_kernel import Wire
from simulator.shell import CommandError
from simulator.standing import EXIT_AGAIN, Turn

from harness.engine.compose_file import paths_document, services
from harness.engine.docker.run_options import launch
from harness.topology import build_lab, sim_plan
from tests.examples import cell, scenario
from tests.polling import wait_for

LAB = build_lab(cell(scenario(flows=[{"download": "100 kB"}], objectives=[])), 0)
VARIABLES = {"LAB_OUT": "/store/partial/x", "LAB_CERTS": "/c/certs", "LAB_WWW": "/c/www", "LAB_OWNER": "1-2-3"}


def test_an_endpoint_is_made_of_the_compose_file_s_words() -> None:
    service = services(LAB)["client0"]
    words = launch(service, "client0", "quic-lab-1-4", "quic-lab-1-3", VARIABLES).words
    text = " ".join(words)
    assert words[-1] == service["image"]
    for expected in (
        "--name quic-lab-1-4-client0",
        "--network quic-lab-1-3_left --ip 193.167.0.100 --ip6 fd00:cafe:cafe:0::100",
        "--label com.docker.compose.service=client0",
        "--label org.quic-lab.owner=1-2-3",
        "--pull never",
        "--cap-drop ALL",
        "--cap-add NET_ADMIN",
        "--security-opt no-new-privileges:true",
        "--memory 4g --memory-swap 4g --pids-limit 4096",
        "--ulimit core=1",
        "--dns 127.0.0.1 --dns-option timeout:1 --dns-option attempts:1 --dns-search .",
        "--volume /store/partial/x/flow0/client:/logs",
        "--volume /c/certs:/certs:ro",
        "--env ROLE=client",
        "--add-host sim:193.167.0.2",
        "--log-opt max-size=8m",
        "--stop-timeout 2",
    ):
        assert expected in text
    assert "${" not in text
    assert "--read-only" not in words


def test_a_container_in_several_networks_and_a_program_of_its_own() -> None:
    places = {name: {"ipv4_address": f"10.0.{name}.2", "ipv6_address": f"fd00:{name}::2"} for name in ("1", "2")}
    service = {**services(LAB)["server0"], "networks": places, "entrypoint": ["/bin/sh", "-c", 'echo "$0"', "a$b"]}
    launched = launch(service, "server0", "run", "standing", VARIABLES)
    assert launched.further == (("--ip", "10.0.2.2", "--ip6", "fd00:2::2", "standing_2"),)
    assert launched.words[-4:] == (service["image"], "-c", 'echo "$0"', "a$b")
    assert launched.words[-6:-4] == ("--entrypoint", "/bin/sh")


def test_what_the_words_cannot_say_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="devices"):
        launch({**services(LAB)["server0"], "devices": ["/dev/x"]}, "server0", "run", "standing", VARIABLES)


def test_what_stands_has_no_endpoint_and_nothing_of_one_run() -> None:
    document = paths_document(LAB)
    assert document["services"].keys() == {"fence", "sim"}
    assert document["networks"].keys() == {"left", "right"}
    assert "LAB_OUT" not in json.dumps(document)
    assert "LAB_PLAN" not in json.dumps(document)


class _Kernel:
    """A guest that does its run as soon as it has its order, and ends when it is told to."""

    instances: list[_Kernel]
    crash = False

    def __init__(self, plan: object, wires: object, words: list[str], console: Path) -> None:
        self.go, self.stop = (Path(word) for word in words[2:4])
        self.killed = False
        console.touch()
        self.instances.append(self)

    def over(self) -> bool:
        return self.crash

    def last_words(self) -> str:
        return "boom"

    def kill(self) -> None:
        self.killed = True

    def wait(self, events: Path) -> int:
        assert json.loads(self.go.read_text())["logs"] == str(events.parent)
        wait_for(self.stop.exists)
        return 0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Orders' folder, with a run's beside it."""
    monkeypatch.setattr(_Kernel, "instances", [], raising=False)
    monkeypatch.setattr(standing, "LabKernel", _Kernel)
    monkeypatch.setattr(standing, "CONSOLE", tmp_path / "console")
    wires = {side: Wire(f"eth-{side}", "02:42:00:00:00:00") for side in ("left", "right")}
    monkeypatch.setattr(standing, "take_wires", lambda plan: wires)
    monkeypatch.setattr(standing, "captured", lambda plan, interfaces, logs: [])
    chosen = {"kernel": "lab", "release": "1.2.3", "host_lacks": "queues"}
    monkeypatch.setattr(standing, "chosen_kernel", lambda plan: chosen)
    place = tmp_path / "orders"
    place.mkdir()
    (tmp_path / "run").mkdir()
    for file in (place / "plan.json", tmp_path / "plan.json"):
        file.write_text(json.dumps(sim_plan(LAB, LAB.simulators[0])))
    return place


def _order(folder: Path) -> None:
    run = {"plan": folder.parent / "plan.json", "logs": folder.parent / "run", "shared": folder.parent}
    # As the harness does: an order is there whole or not at all.
    path = folder / "order.new"
    path.write_text(json.dumps({name: str(place) for name, place in run.items()}))
    path.rename(folder / "order")


def _turn(folder: Path, meanwhile: Callable[[Turn], Any]) -> int:
    turn = Turn(folder)
    turn.prepare()
    thread = threading.Thread(target=meanwhile, args=(turn,))
    thread.start()
    try:
        return turn.run()
    finally:
        thread.join()


def _events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder.parent / "run" / "events.jsonl").read_text().splitlines()]


def test_a_run_that_was_ordered_is_done_and_another_can_begin(folder: Path) -> None:
    def meanwhile(turn: Turn) -> None:
        _order(folder)
        (folder / "stop").touch()

    assert _turn(folder, meanwhile) == EXIT_AGAIN
    assert {file.name for file in folder.iterdir()} == {"plan.json", "done"}
    events = [(event["event"], event.get("release")) for event in _events(folder)]
    assert events == [("start", None), ("kernel", "1.2.3")]
    assert (folder.parent / "run" / "capture.json").read_text() == "{}"
    assert (folder.parent / "run" / "console.log").exists()


def test_who_is_ended_before_an_order_ends_its_kernel(folder: Path) -> None:
    assert _turn(folder, lambda turn: turn.end(15, None)) == 0
    assert _Kernel.instances[0].killed


def test_a_kernel_that_died_before_its_order_ends_the_simulator(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_Kernel, "crash", True)
    assert _turn(folder, lambda turn: None) == 1
    assert "boom" in capsys.readouterr().err


def test_what_the_host_refuses_is_said_in_the_run_s_own_diary(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(plan: object) -> dict[str, Any]:
        raise CommandError("the host kernel cannot run the path program: no netem")

    monkeypatch.setattr(standing, "chosen_kernel", refuse)
    assert _turn(folder, lambda turn: _order(folder)) == 1
    assert (_events(folder)[-1]["event"], _events(folder)[-1]["reason"]) == ("failed", "CommandError")
    assert (folder / "done").exists()


def test_an_order_for_another_simulator_is_refused(folder: Path) -> None:
    plan = folder.parent / "plan.json"
    plan.write_text(plan.read_text().replace("193.167.0.2", "193.167.7.2"))
    assert _turn(folder, lambda turn: _order(folder)) == 1
    assert "another simulator" in _events(folder)[-1]["message"]
