"""Nothing finished is lost or run again, and nothing is left behind."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tests.examples import ROOT
from tests.lab.conftest import Harness, left_overs
from tests.polling import wait_for

pytestmark = pytest.mark.alone

PAIR = ("--clients", "ngtcp2", "--servers", "ngtcp2")


def _finished(store: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in store.glob("runs/*/*/run.json")}


def test_a_second_run_executes_nothing_and_fresh_runs_again(warm: Harness, harness: Harness) -> None:
    case = harness.scenario("again")
    harness.run_until_proven(case, *PAIR, "--repeat", "2")
    first = _finished(harness.store)
    assert len(first) == 2
    process = harness.run(case, *PAIR, "--repeat", "2")
    assert "nothing to run" in process.stderr
    assert _finished(harness.store) == first
    (stored,) = harness.store.glob("runs/*/0/run.json")
    before = stored.read_text()
    harness.run(case, *PAIR, "--repeat", "1", "--fresh")
    assert len(_finished(harness.store)) == 2
    # Runs on a busy machine may have been replaced as well.
    assert before in {file.read_text() for file in harness.store.glob("runs/*/replaced/*/run.json")}
    assert stored.read_text() != before


def test_kill_9_in_mid_matrix(warm: Harness, harness: Harness) -> None:
    case = harness.scenario("killed", flows=[{"download": "4 MB"}], milestones=["4 MB"])
    words = harness.command("run", case, *PAIR, "--repeat", "3")
    hasty = {**os.environ, "HARNESS_PATIENCE": "0 s"}
    process = subprocess.Popen(words, cwd=ROOT, env=hasty, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: len(_finished(harness.store)) == 1 and len(left_overs()) >= 3)
    # What a busy machine has spoilt is run again.
    before = {} if harness.stolen_shares() else _finished(harness.store)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert left_overs()
    completed = harness.run(case, *PAIR, "--repeat", "3", "--json")
    assert "removed what an ended harness had left" in completed.stderr
    assert left_overs() == []
    after = _finished(harness.store)
    assert len(after) == 3
    assert {file: after[file] for file in before} == before
    assert json.loads(completed.stdout)["cells"][0]["repetitions"] == 3
    assert not list(harness.store.glob("partial/*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_tears_down_and_prints_how_to_go_on(warm: Harness, harness: Harness, number: signal.Signals) -> None:
    case = harness.scenario("interrupted", flows=[{"download": "4 MB"}], milestones=["4 MB"])
    words = harness.command("run", case, *PAIR, "--repeat", "3")
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: len(left_overs()) >= 5)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Go on with:\n  harness run" in errors
    assert left_overs() == []
    assert not list(harness.store.glob("partial/*"))


def test_a_cell_comes_up_by_hand_from_the_run_s_folder(warm: Harness, harness: Harness) -> None:
    cell = harness.cell(harness.scenario("by-hand"), *PAIR, "--repeat", "1")
    words = shlex.split(cell["reproduction"])
    assert words[:2] == ["docker", "compose"]
    try:
        subprocess.run(words, capture_output=True, timeout=120, check=False)
    finally:
        subprocess.run([*words[: words.index("up")], "down", "--volumes"], capture_output=True, check=True)
    folder = Path(cell["evidence"][0])
    downloaded = list((folder / "by-hand").glob("flow0/downloads/*.bin"))
    assert [file.stat().st_size for file in downloaded] == [1_000_000]
