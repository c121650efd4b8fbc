"""Ctrl-C: the first is told of at once, the second ends everything that this process began."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from harness.cli.signals import INTERRUPTED, handle_interrupts
from harness.engine.process_owner import owner
from harness.errors import EngineError
from harness.execution import shutdown
from harness.execution.events import BuildStarted, PhaseStarted, RunStarted
from harness.report.progress import ProgressPrinter
from harness.store.results import Store
from tests.examples import ROOT, cell
from tests.polling import wait_for

pytestmark = pytest.mark.usefixtures("terminal_signals")


def _never() -> None:
    raise AssertionError("ended hard")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_says_what_it_waits_for_before_anything_ends(number: signal.Signals) -> None:
    steps: list[str] = []
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), handle_interrupts(lambda: steps.append("waiting"), _never):
        try:
            signal.raise_signal(number)
        finally:
            # What is torn down finds that it was said already.
            steps.append("torn down")
    assert steps == ["waiting", "torn down"]
    assert signal.getsignal(number) == before


def test_what_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with handle_interrupts(_never, _never):
            signal.raise_signal(signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


SECOND = """
import os, signal, subprocess, sys, time
from pathlib import Path
from harness.execution import shutdown
from harness.cli.signals import handle_interrupts
from harness.store.results import Store
shutdown.remove_orphans = lambda needed: []
store = Store(Path(sys.argv[1]))
store.begin("0" * 16, 0)
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
Path(sys.argv[1], "child").write_text(str(child.pid))
with handle_interrupts(lambda: print("ending", flush=True), lambda: shutdown.kill_campaign(store)):
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.raise_signal(signal.SIGINT)
        print("not reached")
"""


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_the_second_ends_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", SECOND, str(tmp_path)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (process.returncode, process.stdout, process.stderr) == (INTERRUPTED, "ending\n", "")
    child = int((tmp_path / "child").read_text())
    # A process that was killed shows in /proc until it has had a processor to end on.
    wait_for(lambda: _has_ended(child))
    assert list((tmp_path / "partial").iterdir()) == []


def test_only_what_is_this_process_s_own_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def removed(needed: object) -> list[str]:
        assert callable(needed)
        asked.append((needed(owner()), needed("1-2-3")))
        return ["container"] if len(asked) < 2 else []

    monkeypatch.setattr(shutdown, "remove_orphans", removed)
    monkeypatch.setattr(shutdown, "_kill_children", lambda: None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    mine, path = tmp_path / f"quic-lab.{owner()}.x", tmp_path / "quic-lab.1-2-3.x"
    for folder in (mine, path, tmp_path / "store" / "partial" / f"1-2-3.{'0' * 16}.0"):
        folder.mkdir(parents=True)
    shutdown.kill_campaign(Store(tmp_path / "store"))
    # Docker is asked until nothing is left; what others own is needed.
    assert asked == [(False, True)] * 2
    assert not mine.exists() and path.exists()
    assert len(list((tmp_path / "store" / "partial").iterdir())) == 1


def test_without_docker_the_rest_is_removed_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(needed: object) -> list[str]:
        raise EngineError("there is no 'docker' command")

    monkeypatch.setattr(shutdown, "remove_orphans", none)
    monkeypatch.setattr(shutdown, "_kill_children", lambda: None)
    store = Store(tmp_path)
    store.begin("0" * 16, 0)
    shutdown.kill_campaign(store)
    assert list((tmp_path / "partial").iterdir()) == []


def test_the_runs_and_builds_under_way_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    progress, tested_cell = ProgressPrinter(Console(stderr=True, width=300)), cell()
    progress(RunStarted(tested_cell, 2, 1, 4, 10.0, 40.0))
    progress(PhaseStarted(tested_cell, 2, "transfer"))
    progress(BuildStarted("quiche", 60.0))
    capsys.readouterr()
    progress.interrupted()
    text = capsys.readouterr().err
    assert (
        f"interrupted: ending [1/4] {tested_cell.scenario.name} alpha→beta #2 (transfer), the build of the image quiche;"
        in text
    )
    assert "a second Ctrl-C ends everything at once" in text
