"""Who makes a run of a store that several harnesses share."""

from __future__ import annotations

import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.analysis.metrics import VERSION
from harness.execution.local_backend import LocalBackend
from harness.execution.locks import RunLock, claim_run, remove_stale_claims
from harness.execution.matrix import PlannedRun
from harness.execution.measured_store import StoredResults
from harness.outcome import LinkProof, MeasuredRun, Outcome, Run, Status
from harness.store.results import Store
from tests.examples import cell


def _hold(root: Path, connection: Connection) -> None:
    """Another harness, which claims a run and never lets go of it."""
    held = claim_run(root, "key", 0)
    connection.send(os.getpid() if isinstance(held, RunLock) else 0)
    signal.pause()


def test_a_claim_holds_between_processes_and_ends_with_them(tmp_path: Path) -> None:
    connection, there = multiprocessing.Pipe()
    fork_process = multiprocessing.get_context("fork").Process(target=_hold, args=(tmp_path, there), daemon=True)
    fork_process.start()
    assert connection.poll(10) and connection.recv() == fork_process.pid
    assert claim_run(tmp_path, "key", 0) == fork_process.pid
    mine = claim_run(tmp_path, "key", 1)
    assert isinstance(mine, RunLock), "other runs are free"
    remove_stale_claims(tmp_path)
    assert {file.name for file in (tmp_path / "claims").iterdir()} == {"key.0", "key.1"}
    fork_process.kill()
    fork_process.join()
    with mine:
        remove_stale_claims(tmp_path)
        assert [file.name for file in (tmp_path / "claims").iterdir()] == ["key.1"]
    lock = claim_run(tmp_path, "key", 0)
    assert isinstance(lock, RunLock)
    with lock:
        assert claim_run(tmp_path, "key", 0) == os.getpid()
    assert not list((tmp_path / "claims").iterdir())


def test_who_opened_a_claim_that_was_let_go_claims_it_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between opening and locking it the other one ends, and a third one comes."""
    first = claim_run(tmp_path, "key", 0)
    assert isinstance(first, RunLock)
    real, calls = os.path.samestat, []

    def samestat(opened: os.stat_result, current: os.stat_result) -> bool:
        calls.append(opened)
        return len(calls) > 1 and real(opened, current)

    first.__exit__(None, None, None)
    monkeypatch.setattr("os.path.samestat", samestat)
    second = claim_run(tmp_path, "key", 0)
    assert isinstance(second, RunLock) and len(calls) == 2
    assert claim_run(tmp_path, "key", 0) == os.getpid()


def _finished(store: Store, status: Status = "completed") -> None:
    run = Run(cell=cell(), repetition=0, outcome=Outcome(status=status), started_at="")
    measured = MeasuredRun(version=VERSION, link=LinkProof(valid=True))
    store.finish(store.begin(run.cell.key, 0), run, measured)


def test_what_another_harness_finished_is_taken_over_and_what_was_there_before_is_not(tmp_path: Path) -> None:
    store, item = Store(tmp_path), PlannedRun(cell(), 0)
    attempts: Any = SimpleNamespace(
        engine=SimpleNamespace(name="virtual"), store=store, results=StoredResults(store, store)
    )

    def ground() -> LocalBackend:
        nothing: Any = None
        stamps = {(item.cell.key, 0): store.stamp(item.cell.key, 0)}
        return LocalBackend(nothing, nothing, nothing, attempts, nothing, stamps)

    local_backend = ground()
    assert not local_backend.is_done_elsewhere(item)
    _finished(store)
    assert local_backend.is_done_elsewhere(item)
    # Run again (--fresh): what was there when the plan was made does not count, what came since does.
    two = ground()
    assert not two.is_done_elsewhere(item)
    _finished(store)
    assert two.is_done_elsewhere(item)
    _finished(store, "infrastructure")
    assert not ground().is_done_elsewhere(item) and not two.is_done_elsewhere(item)
