"""Labs with several simulators: ready when all are, ended by any of them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from simulator import conductor as inside

from harness.engine.docker.containers import Death
from harness.engine.docker.sampler import Sampler
from harness.engine.docker.supervisor import Conductor
from harness.engine.external_failures import ExternalFailure
from harness.engine.run_dir import plan_path, prepare_folder
from harness.engine.virtual.engine import outcome_of
from harness.topology import Lab
from tests.unit.test_moves import GO, lab

EPOCH_NS = 1_700_000_000 * 10**9


class Stage:
    """Containers that do nothing until they die."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 0.0
        self.failures: dict[str, ExternalFailure] = {}
        self.deaths: dict[float, Death] = {}
        for name in ("sim", "sim-campus"):
            (folder / name).mkdir()

    def write_diary(self, simulator: str, **event: object) -> None:
        with (self.folder / simulator / "events.jsonl").open("a") as diary:
            diary.write(json.dumps(event) + "\n")

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return EPOCH_NS + round(self.now * 1e9)

    def next_death(self, timeout: float) -> Death | None:
        self.now += timeout
        at = next((at for at in self.deaths if at <= self.now), None)
        return None if at is None else self.deaths.pop(at)

    def befell(self, service: str) -> ExternalFailure | None:
        return self.failures.get(service)


def _conductor(stage: Stage, built_lab: Lab) -> tuple[Any, list[str]]:
    phases: list[str] = []
    conductor = Conductor(
        built_lab, stage.folder, cast(Any, stage), Sampler(stage.folder, 1 << 30), phases.append, cast(Any, stage)
    )
    conductor.begin()
    return conductor, phases


def test_a_lab_is_ready_when_every_path_is(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    conductor, _ = _conductor(stage, lab(GO))
    stage.write_diary("sim", event="ready")
    conductor._look_for_ready(1.0, 0.0)
    assert not conductor._ready
    stage.write_diary("sim-campus", event="ready")
    conductor._look_for_ready(1.0, 0.0)
    assert conductor._ready


def test_a_client_may_open_its_connection_on_any_path(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    built_lab = lab(flows=[{"download": "1 MB", "path": "campus"}])
    conductor, _ = _conductor(stage, built_lab)
    for name in ("sim", "sim-campus"):
        stage.write_diary(name, event="ready", t=EPOCH_NS / 1e9)
    conductor._look_for_ready(1.0, 0.0)
    assert conductor._lifecycle.awaited
    stage.write_diary("sim-campus", event="opened", t=EPOCH_NS / 1e9, address=built_lab.host("client0").ipv4)
    conductor._look_for_openings()
    assert not conductor._lifecycle.awaited


def test_any_simulator_that_ends_ends_the_run(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    conductor, _ = _conductor(stage, lab(GO))
    stage.write_diary("sim-campus", event="failed", reason="CommandError", message="tc: no such thing")
    stage.deaths[0.1] = Death("sim-campus", 1, EPOCH_NS)
    outcome = conductor.watch()
    assert (outcome.status, outcome.role, outcome.detail) == ("infrastructure", "sim", "tc: no such thing")
    assert conductor.blamed == "sim-campus"


def test_what_befell_any_simulator_is_nobody_s_fault(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    conductor, _ = _conductor(stage, lab(GO))
    stage.failures["sim-campus"] = ExternalFailure("killed", "sim-campus was ended from outside")
    stage.deaths[0.1] = Death("sim-campus", 137, EPOCH_NS)
    outcome = conductor.watch()
    assert (outcome.role, outcome.reason, conductor.blamed) == ("sim", "killed", "sim-campus")


def test_in_virtual_time_any_simulator_s_word_counts() -> None:
    failed = {"event": "failed", "reason": "CommandError", "message": "nft: no such thing"}
    outcome, _ = outcome_of(lab(GO), [], [{"event": "ready"}, failed])
    assert (outcome.status, outcome.detail) == ("infrastructure", "nft: no such thing")


def test_inside_the_lab_all_must_be_ready_and_none_may_end() -> None:
    conductor: Any = SimpleNamespace(
        endpoints=[], _agents={11: 3, 12: 4}, _unready=2, _heard={3: b"", 4: b""}, _broken=False
    )
    ready: list[float] = []
    conductor._lifecycle = SimpleNamespace(ready=lambda now: now)
    conductor._perform = ready.append
    conductor._agent_ended = lambda agent: inside.Conductor._agent_ended(conductor, agent)
    hear = inside.Conductor._hear
    hear(conductor, 11, 3, b"rea")
    hear(conductor, 12, 4, b"ready\n")
    assert not ready
    hear(conductor, 11, 3, b"dy\n")
    assert len(ready) == 1
    hear(conductor, 12, 4, b"")
    assert conductor._broken and conductor._agents == {11: 3}
    inside.Conductor._agent_ended(conductor, 12)


@pytest.mark.parametrize("built_lab", [lab(GO), lab(paths={"alone": {"forward": {"rate": "1 Mbit/s", "delay": "1 ms"},
                                                              "return": {"rate": "1 Mbit/s", "delay": "1 ms"}}})])  # fmt: skip
def test_a_folder_has_what_every_simulator_needs(
    built_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.engine.run_dir.certificates", lambda cache, *more: cache)
    prepare_folder(built_lab, tmp_path, tmp_path / "cache")
    for simulator in built_lab.simulators:
        assert (tmp_path / simulator.name).is_dir()
        plan = json.loads((tmp_path / plan_path(built_lab, simulator)).read_text())
        assert plan.get("name", "sim") == simulator.name
    assert (tmp_path / "clock").is_dir() == (len(built_lab.simulators) > 1)
