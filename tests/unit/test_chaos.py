"""The judge of `make chaos` sees what it is there to see, and its schedule is its seed's alone."""

from __future__ import annotations

import fcntl
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.damage import damage
from tests.chaos.judge import Judge, left_on
from tests.chaos.kinds import KINDS, Kind
from tests.chaos.scene import Scene
from tests.chaos.schedule import schedule
from tests.chaos.stage import Ended, Stage
from tests.chaos.trial import follow
from tests.chaos.truth import Truth, agreed, picture

CELL = {"verdict": "pass", "reason": "objectives_met", "sentence": "met", "outcomes": {"completed": 3}}
RUN: dict[str, Any] = {
    "repetition": 0, "wall": 1.0, "captures": {"left": "aa"},
    "outcome": {"status": "completed", "role": "", "detail": ""},
}  # fmt: skip


def test_a_schedule_is_its_seed_s_alone_and_begins_as_a_shorter_one_does() -> None:
    planned = schedule(KINDS, 200, 1)
    assert planned == schedule(KINDS, 200, 1)
    assert planned[:20] == schedule(KINDS, 20, 1)
    assert [fault.kind for fault in planned] != [fault.kind for fault in schedule(KINDS, 200, 2)]


def test_two_hundred_faults_have_every_kind_in_them() -> None:
    assert {fault.kind.name for fault in schedule(KINDS, 200, 1)} == {kind.name for kind in KINDS}
    assert len({(kind.engine, kind.name) for kind in KINDS}) == len(KINDS)


def test_without_one_engine_the_other_has_all_faults() -> None:
    virtual = [kind for kind in KINDS if kind.engine == "virtual"]
    assert len(schedule(virtual, 30, 1)) == 30


def _write_run(store: Path, repetition: int = 0, **overrides: object) -> Path:
    folder = store / "runs" / "0123456789abcdef" / str(repetition)
    (folder / "sim").mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({**RUN, "repetition": repetition, **overrides}))
    (folder / "measured.json").write_text(json.dumps({"completion": 1.5}))
    (folder / "sim" / "capture").write_bytes(bytes(range(100)))
    return folder


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A stage with one finished run of virtual time."""
    stage = Stage(tmp_path / "stage", "virtual").create()
    stage.cache.mkdir()
    _write_run(stage.store)
    yield Scene(stage, random.Random(1), 1.0, {})
    stage.clear()


@pytest.fixture
def truth(scene: Scene, tmp_path: Path) -> Truth:
    """What two undisturbed runs agree on: all but their wall time."""
    folders = [_write_run(tmp_path / name, wall=wall) for name, wall in (("one", 2.0), ("other", 3.0))]
    agree = agreed(*(picture(folder) for folder in folders))
    assert "run.json.wall" not in agree
    return Truth("virtual", (dict(CELL),), {0: agree}, frozenset(scene.stage.shapes()), tmp_path / "seed", {})


def _ended(code: int | None = 0, errors: str = "", cell: dict[str, Any] = CELL, verb: str = "run") -> Ended:
    return Ended((verb,), code, json.dumps({"cells": [cell]}), errors, 1.0)


KIND = Kind("a fault", "virtual")


def _problems(scene: Scene, truth: Truth, ended: Ended, kind: Kind = KIND) -> list[str]:
    judge = Judge(kind, scene, truth)
    judge.judge_disturbed(ended)
    return judge.problems


def test_what_is_as_it_must_be_is_no_problem(scene: Scene, truth: Truth) -> None:
    judge = Judge(KIND, scene, truth)
    before = scene.stage.finished()
    judge.judge_disturbed(_ended())
    judge.judge_next(_ended(), judge.surviving_runs(before))
    judge.judge_leftovers(left_on(scene.stage, None))
    assert judge.problems == []


@pytest.mark.parametrize(
    ("ended", "says"),
    [
        (_ended(errors="Traceback (most recent call last):\n  File"), "printed 'Traceback"),
        (_ended(errors="error: the harness itself failed: KeyError"), "printed 'the harness itself failed'"),
        (_ended(70), "ended with 70, which no page explains"),
        (_ended(130), "ended with 130, not [0, 1, 3]"),
        (_ended(None), "hung"),
        (_ended(0, cell={**CELL, "outcomes": {"completed": 2, "infrastructure": 1}}), "exit code 0, and not everything"),
        (_ended(1, cell={**CELL, "verdict": "fail"}), "a verdict against an implementation"),
    ],
    ids=["traceback", "fault", "undocumented", "unexpected", "hung", "false pass", "false blame"],
)  # fmt: skip
def test_how_a_command_ended_is_looked_at(scene: Scene, truth: Truth, ended: Ended, says: str) -> None:
    assert [problem for problem in _problems(scene, truth, ended) if says in problem]


def test_a_command_that_must_not_notice_shows_what_is_shown_undisturbed(scene: Scene, truth: Truth) -> None:
    lost = _ended(3, cell={**CELL, "outcomes": {"completed": 2, "infrastructure": 1}})
    assert _problems(scene, truth, lost) == []
    assert "was not unharmed" in _problems(scene, truth, lost, replace(KIND, must_complete=True))[0]


def _blame(folder: Path) -> None:
    outcome = {"status": "crashed", "role": "client", "detail": "exit code 137"}
    (folder / "run.json").write_text(json.dumps({**RUN, "outcome": outcome}))


def _other_figure(folder: Path) -> None:
    (folder / "measured.json").write_text(json.dumps({"completion": 1.6}))


def _other_byte(folder: Path) -> None:
    (folder / "sim" / "capture").write_bytes(bytes(100))


def _again(folder: Path) -> None:
    place = folder.parent / "replaced" / "20260101T000000-0"
    place.parent.mkdir()
    folder.rename(place)
    _write_run(folder.parents[2])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_blame, "is crashed: client: exit code 137"),
        (_other_figure, "is not what it is undisturbed: measured.json"),
        (_other_byte, "is not what it is undisturbed: sim/capture"),
        (_again, "a completed run was made twice"),
    ],
)
def test_a_stored_run_is_what_it_is_undisturbed(
    scene: Scene, truth: Truth, change: Callable[[Path], None], says: str
) -> None:
    change(scene.stage.run_folders()[0])
    problems = _problems(scene, truth, _ended())
    assert any(says in problem for problem in problems)


def test_a_finished_run_that_is_lost_or_changed_is_said_unless_the_fault_did_it(scene: Scene, truth: Truth) -> None:
    before = scene.stage.finished()
    capture = scene.stage.run_folders()[0] / "sim" / "capture"
    damage(capture, "cut", 0.5)
    judge = Judge(KIND, scene, truth)
    judge.surviving_runs(before)
    assert "was changed: sim/capture" in judge.problems[0]
    scene.damage(capture)
    judge = Judge(KIND, scene, truth)
    judge.surviving_runs(before)
    judge.judge_disturbed(_ended())
    assert judge.problems == []
    # Made anew, it must be what it was.
    capture.write_bytes(b"other")
    assert _problems(scene, truth, _ended())


@pytest.mark.parametrize("place", ["store/runs/0123456789abcdef/0/run.json.new", "cache/rootfs/0123456789abcdef.99",
                                   "store/partial/1-2-3.key.0", "store/tmp12"])  # fmt: skip
def test_what_is_left_in_the_store_or_the_cache_is_said(scene: Scene, truth: Truth, place: str) -> None:
    (scene.stage.folder / place).mkdir(parents=True)
    judge = Judge(KIND, scene, truth)
    judge.judge_leftovers(left_on(scene.stage, None))
    assert judge.problems


def test_a_process_that_is_left_is_said_with_its_name(scene: Scene) -> None:
    words = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(words, cwd=scene.stage.memory, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert any(f"process {process.pid} " in leftover for leftover in left_on(scene.stage, None))
        process.kill()


def test_damage_touches_no_other_name_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "pristine").write_bytes(bytes(100))
    (tmp_path / "staged").hardlink_to(tmp_path / "pristine")
    damage(tmp_path / "staged", "cut", 0.25)
    assert (tmp_path / "staged").stat().st_size == 25
    assert (tmp_path / "pristine").stat().st_size == 100


def test_advice_is_followed_within_a_store_and_a_cache_only(scene: Scene) -> None:
    stage = scene.stage
    (stage.cache / "rootfs" / "ab").mkdir(parents=True)
    advice = f"error: {stage.cache} is damaged\nhint: remove {stage.cache}/rootfs/ab, and run again"
    assert follow(stage, [_ended(3, advice)]) == ["cache/rootfs/ab"]
    assert stage.cache.exists()
    assert not (stage.cache / "rootfs" / "ab").exists()
    assert follow(stage, [_ended(3, advice)]) == []


def test_a_lock_that_somebody_holds_is_left_behind(scene: Scene, truth: Truth) -> None:
    lock = scene.stage.store / "claims" / "0123456789abcdef.0"
    lock.parent.mkdir()
    with lock.open("w") as text_iowrapper:
        fcntl.flock(text_iowrapper, fcntl.LOCK_EX)
        assert "lock store/claims/0123456789abcdef.0" in left_on(scene.stage, None)
    assert left_on(scene.stage, None) == []


def test_what_the_machine_did_is_no_figure_though_two_runs_agreed_on_it(tmp_path: Path) -> None:
    def seen(name: str, idle: float, rate: float) -> dict[str, object]:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "measured.json").write_text(json.dumps({"link": {"idle": idle, "rate": rate}}))
        return picture(folder)

    agree = agreed(seen("one", 0.5, 50.0), seen("other", 0.5, 50.0))
    assert agree == {key: value for key, value in seen("third", 0.1, 50.0).items() if key in agree}
    assert agree != {key: value for key, value in seen("fourth", 0.5, 49.0).items() if key in agree}


@pytest.mark.parametrize(("steal", "judged"), [(0.4, False), (0.01, True), (None, True)])
def test_a_link_that_the_hypervisor_spoilt_is_not_judged(
    scene: Scene, truth: Truth, steal: float | None, judged: bool
) -> None:
    (folder,) = scene.stage.run_folders()
    (folder / "measured.json").write_text(json.dumps({"link": {"valid": False, "steal": steal}, "starved": []}))
    real, ended = replace(truth, engine="compose"), _ended(3, cell={**CELL, "outcomes": {"infrastructure": 1}})
    judge = Judge(KIND, scene, real)
    judge.judge_next(ended, {})
    assert any("the next command ended with 3" in problem for problem in judge.problems) is judged
    assert any("not judged" in action for action in scene.actions) is not judged
