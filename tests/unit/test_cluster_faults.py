"""Faults of a cluster whose scheduler and workers are processes: killed, unplugged, of another version."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.errors import EngineError
from harness.execution.cluster import coordinator, dask_client, tls, worker
from harness.execution.cluster.address import ClusterOptions, Scheduler, dask_command, run_scheduler
from harness.execution.cluster.coordinator import Driver
from harness.execution.cluster.dask_client import ClusterConnection
from harness.execution.cluster.messages import RunAnswer, RunOrder, package_digest
from harness.execution.events import Event, Warned
from harness.execution.matrix import PlannedRun
from tests.examples import ROOT
from tests.polling import wait_for
from tests.unit.cluster_work import Folder, drive, hold, let_go, noted, plan, whose, work
from tests.unit.test_cluster import Fake, Scene, scene
from tests.unit.test_cluster import plan as plan_of_cells

__all__ = ["scene"]
COUNT = 6


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scheduler]:
    """With two workers, which are begun anew when they die. A run is blamed for two deaths."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coordinator, "CHECK_INTERVAL", 0.3)
        patch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "1")
        environment = {"HARNESS_CACHE": str(tmp_path_factory.mktemp("cache")), "PYTHONPATH": str(ROOT)}
        with run_scheduler(ClusterOptions("", 2), environment) as started_scheduler:
            yield started_scheduler


@pytest.fixture
def patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scheduler]:
    """With one worker, which never blames a run."""
    monkeypatch.setattr(coordinator, "CHECK_INTERVAL", 0.3)
    monkeypatch.setattr(coordinator, "MAX_WORKER_LOSSES", 1)
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "1000")
    with run_scheduler(
        ClusterOptions("", 1), {"HARNESS_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    ) as started_scheduler:
        yield started_scheduler


def test_a_worker_killed_in_mid_run_costs_what_it_had_and_nothing_that_was_stored(
    scheduler: Scheduler, tmp_path: Path
) -> None:
    taken = drive(scheduler, tmp_path, COUNT, frozenset({3}))
    assert sorted(taken) == list(range(COUNT))
    assert noted(tmp_path, "begun", 3) == 2
    # Of the others none was made a second time, but what was done in that worker and not fetched yet: on a busy machine
    # more than one.
    (died, *_) = whose(tmp_path, "begun", 3)
    for number in range(COUNT):
        first, *again = whose(tmp_path, "made", number)
        assert len(again) <= 1
        assert not again or first == died


def test_an_answer_that_is_lost_with_its_worker_is_made_once_more_and_costs_no_other(
    scheduler: Scheduler, tmp_path: Path
) -> None:
    depot: Any = None
    connected = ClusterConnection(
        scheduler.address, scheduler.security, depot, print, partial(work, tmp_path, frozenset[int](), False)
    )
    ground, (lost, *planned_runs) = Folder(tmp_path), plan(4)

    def hand_out(*items: PlannedRun) -> None:
        for item in items:
            connected.queue_run(f"{connected.name}-{item.repetition}", ground.order(item, connected.name)[0], 1.0, 1)
        connected.submit_queued()

    try:
        wait_for(lambda: (connected.update_workers(), len(connected.workers) == 2)[1], 120)
        hand_out(lost)
        # Its scheduler knows of the answer, and nobody fetched it.
        wait_for(lambda: connected._ended_futures(1), 120)
        (died,) = whose(tmp_path, "made", lost.repetition)
        hold(tmp_path, [item.repetition for item in planned_runs])
        hand_out(*planned_runs)
        os.kill(int(died), signal.SIGKILL)
        let_go(tmp_path)
        came = list[str]()

        def all_came() -> bool:
            connected.update_workers()
            assert not connected.unassigned_tasks()
            came.extend(key for key, answer in connected.wait(0.5, large=False) if isinstance(answer, RunAnswer))
            return len(came) == 1 + len(planned_runs)

        wait_for(all_came, 120)
    finally:
        connected.close()
    assert len(set(came)) == len(came)
    first, second = whose(tmp_path, "begun", lost.repetition)
    assert first == died != second
    for item in planned_runs:
        first, *again = whose(tmp_path, "begun", item.repetition)
        assert len(again) <= 1 and (not again or first == died)


def test_a_run_of_which_every_worker_dies_is_given_up_and_costs_no_other(scheduler: Scheduler, tmp_path: Path) -> None:
    """As one that takes more memory than a worker has, which the kernel ends by SIGKILL."""
    events: list[Event] = []
    with pytest.raises(EngineError, match=r"1 run could not be made: 0000000000000003/3: .*") as exception_info:
        drive(scheduler, tmp_path, COUNT, frozenset({3}), always=True, say=events.append)
    assert "memory" in exception_info.value.hint
    warned = [event.text for event in events if isinstance(event, Warned)]
    assert len([text for text in warned if "worker after worker died of it" in text]) == 1
    # Those that a worker had beside it are blamed by Dask, too.
    assert [item.repetition for item in Folder(tmp_path).missing_runs(plan(COUNT))] == [3]


def test_a_run_is_given_up_when_all_workers_die_of_it_at_once_and_come_back(patient: Scheduler, tmp_path: Path) -> None:
    """Dask takes whoever comes back for another, and counts their deaths anew."""
    with pytest.raises(
        EngineError, match=r"1 run could not be made: .*/0: 2 times all workers that could make it went"
    ):
        drive(patient, tmp_path, 1, frozenset({0}), always=True)
    assert [item.repetition for item in Folder(tmp_path).missing_runs(plan(1))] == [0]
    assert noted(tmp_path, "begun", 0) == 4


def test_a_driver_that_was_killed_goes_on_with_what_is_not_stored(scheduler: Scheduler, tmp_path: Path) -> None:
    program = "import pathlib, sys; from tests.unit.cluster_work import drive; "
    program += "from harness.execution.cluster.address import Scheduler; "
    program += "scheduler = Scheduler(sys.argv[1], pathlib.Path(sys.argv[2])); "
    program += "drive(scheduler, pathlib.Path(sys.argv[3]), int(sys.argv[4]))"
    command = [sys.executable, "-c", program, scheduler.address, str(scheduler.tls), str(tmp_path), str(COUNT)]
    hold(tmp_path, range(1, COUNT))
    with subprocess.Popen(command, cwd=ROOT) as first:
        # Each worker has a run under way.
        wait_for(lambda: list(tmp_path.glob("*.stored")) and noted(tmp_path, "begun") >= 3, 120)
        first.send_signal(signal.SIGKILL)
        assert first.wait() == -signal.SIGKILL
    wait_for(lambda: noted(tmp_path, "unwanted") >= 2, 120)
    let_go(tmp_path)
    stored = {int(file.stem) for file in tmp_path.glob("*.stored")}
    under_way = {int(file.name.split(".")[1]) for file in tmp_path.glob("begun.*")} - stored
    assert stored and len(stored) < COUNT
    again = drive(scheduler, tmp_path, COUNT)
    assert sorted(again) == sorted(set(range(COUNT)) - stored)
    for number in range(COUNT):
        assert noted(tmp_path, "begun", number) <= (2 if number in under_way else 1)


def test_a_worker_of_another_version_is_refused_by_name(tmp_path: Path, scheduler: Scheduler) -> None:
    package = Path(harness.__file__).parent
    shutil.copytree(package, tmp_path / "other" / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "other" / "harness" / "units.py").open("a") as changed:
        changed.write("# Changed.\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path / 'other'}:{ROOT / 'images' / 'sim'}:{ROOT}"}
    assert scheduler.tls is not None
    command = [*dask_command("worker"), scheduler.address, *tls.dask_options(scheduler.tls), "--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard", "--no-nanny",
               "--local-directory", str(tmp_path), "--name", "another"]  # fmt: skip
    warnings: list[str] = []
    depot: Any = None
    with subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL) as other_worker:
        looking = ClusterConnection(scheduler.address, scheduler.security, depot, warnings.append)
        try:
            # (Workers that died in another test may still be on their way back.)
            wait_for(lambda: (looking.update_workers(), warnings and len(looking.workers) == 2)[1], 120)
            assert looking.cores == 2
            assert "has another version of this package" in warnings[0] and package_digest() in warnings[0]
            assert warnings[0].endswith("it gets nothing to do") and len(warnings) == 1
        finally:
            looking.close()
            other_worker.terminate()


class Wire:
    """Between a driver and its scheduler: it can be cut, and mended."""

    def __init__(self, port: int) -> None:
        self._target_port = port
        self._ends: list[socket.socket] = []
        self._listen(0)

    def _listen(self, port: int) -> None:
        self._server = socket.create_server(("127.0.0.1", port))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._server,), daemon=True).start()

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                near, _ = server.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target_port))
            self._ends += [near, far]
            for connection, peer in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(connection, peer), daemon=True).start()

    @staticmethod
    def _carry(source: socket.socket, destination: socket.socket) -> None:
        try:
            while block := source.recv(1 << 16):
                destination.sendall(block)
        except OSError:
            pass
        for end in (source, destination):
            end.close()

    def cut(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for end in self._ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def mend(self) -> None:
        self._listen(self.port)


def test_a_connection_that_was_lost_costs_what_was_under_way(
    scheduler: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_client, "ANSWER_TIMEOUT", 5.0)
    wire = Wire(int(scheduler.address.rpartition(":")[2]))
    events: list[Event] = []
    ground, connected = Folder(tmp_path), list[float]()
    depot: Any = None

    def connect() -> ClusterConnection:
        connected.append(time.monotonic())
        return ClusterConnection(
            f"tls://127.0.0.1:{wire.port}", scheduler.security, depot, print,
            partial(work, tmp_path, frozenset[int](), False),
        )  # fmt: skip

    driver = Driver(plan(COUNT), ground, connect, events.append, with_artefacts=False)
    working = threading.Thread(target=driver.work, daemon=True)
    hold(tmp_path, range(1, COUNT))
    working.start()
    wait_for(lambda: ground.stored_repetitions, 120)
    wire.cut()
    kept = list(ground.stored_repetitions)
    wait_for(lambda: [event for event in events if isinstance(event, Warned)], 120)
    let_go(tmp_path)
    wire.mend()
    working.join(120)
    assert not working.is_alive() and len(connected) >= 2
    assert ground.stored_repetitions[: len(kept)] == kept and sorted(ground.stored_repetitions) == list(range(COUNT))
    assert any("what was under way is made again" in event.text for event in events if isinstance(event, Warned))


def test_a_worker_whose_disk_is_full_gets_nothing_more(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker does in earnest, but for the run itself."""
    from distributed import get_worker

    bad, full = next(iter(scene.cluster.scheduler.workers)), threading.Event()

    def execute_order(order: RunOrder) -> tuple[dict[str, bytes], bytes]:
        if get_worker().address == bad:
            full.set()
            raise OSError(errno.ENOSPC, "No space left on device", "/cache/rootfs/unfinished")
        assert full.wait(60)
        from tests.unit.test_cluster import files, run_of

        return files(run_of(order)), b""

    monkeypatch.setattr(worker, "_execute_order", execute_order)
    driver, ground = scene.driver(plan_of_cells(5), Fake(), work=worker.make_run)
    driver.work()
    assert len(ground.stored_runs) == 5
    assert f"the worker {bad} on " in scene.warnings()
    assert "gets nothing more to do: /cache/rootfs/unfinished: No space left on device" in scene.warnings()
