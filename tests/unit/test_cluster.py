"""The driver of a cluster, with Dask's own scheduler and workers in this process, and runs that take no time."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from distributed import LocalCluster, get_worker

from harness.cli import main
from harness.engine.build_queue import Step
from harness.engine.process_owner import owner
from harness.errors import EngineError, InputError, ResultError
from harness.execution.cluster import address as place
from harness.execution.cluster import coordinator, dask_client, messages, tls
from harness.execution.cluster import coordinator as driver
from harness.execution.cluster.address import ClusterOptions, parse_cluster_options
from harness.execution.cluster.coordinator import Driver
from harness.execution.cluster.dask_client import ClusterConnection, Work
from harness.execution.cluster.messages import RunAnswer, RunOrder
from harness.execution.cluster.worker import pack_run
from harness.execution.cluster_backend import ClusterBackend, build_missing
from harness.execution.events import ClusterProgress, Event, RunFinished, RunsVerified, RunTakenOver, Warned
from harness.execution.locks import RunLock, claim_run
from harness.execution.matrix import PlannedRun
from harness.outcome import Cell, MeasuredRun, Outcome, Run
from harness.store.records import read_run
from harness.store.results import Store
from tests.examples import ROOT, cell
from tests.polling import wait_for

HERE = cell(engine="virtual")
#: What workers of this process have made, in order: (repetition, worker).
executed: list[tuple[int, str]] = []
#: Lets runs end that `held` holds.
go_on = threading.Event()


def cells(count: int) -> list[Cell]:
    return [HERE.model_copy(update={"key": f"{number:016x}", "seed": number}) for number in range(count)]


def run_of(order: RunOrder, figures: str = "") -> Run:
    captures = {"left": f"digest {order.repetition}{figures}", "right": "digest"}
    tested_cell = Cell.model_validate_json(order.cell)
    outcome = Outcome(status="completed")
    return Run(
        cell=tested_cell, repetition=order.repetition, outcome=outcome, started_at="2026-11-23", captures=captures
    )


def files(run: Run) -> dict[str, bytes]:
    return {"run.json": run.model_dump_json(by_alias=True).encode()}


def quick(order: RunOrder) -> RunAnswer:
    worker = get_worker().address
    executed.append((order.repetition, worker))
    return RunAnswer(worker, "here", files=files(run_of(order)), seconds=0.01)


def held(quick_runs: int, order: RunOrder) -> RunAnswer:
    """A run that lasts until a test has it go on or its worker ends, but for the first ones of a plan."""
    worker = get_worker()
    if order.repetition >= quick_runs:
        wait_for(lambda: go_on.is_set() or worker.status.name in ("closing", "closed"))
    return quick(order)


def without_disk(order: RunOrder) -> RunAnswer:
    """A machine that cannot make a run, for which the others have waited."""
    go_on.set()
    return RunAnswer(get_worker().address, "there", "the disk is full: /x")


def differing(order: RunOrder) -> RunAnswer:
    """As on a machine that makes something else of the same run."""
    worker = get_worker().address
    return RunAnswer(worker, "here", files=files(run_of(order, worker)), seconds=0.01)


@dataclass
class Fake:
    """A ground that stores into memory."""

    expects: Callable[[Cell], float] = lambda cell: 1.0
    memory: int = 1
    folder: Path | None = None
    stored_runs: list[tuple[str, int]] = field(default_factory=list)
    runs: dict[tuple[str, int], Run] = field(default_factory=dict)
    elsewhere: set[tuple[str, int]] = field(default_factory=set)
    invalid_attempts: int = 0
    """Of so many runs the first attempt is worth another."""

    def order(self, item: PlannedRun, driver: str) -> tuple[RunOrder, int]:
        return RunOrder(item.cell.model_dump_json(by_alias=True), item.repetition, {}, {}, driver), self.memory

    def claim(self, item: PlannedRun) -> RunLock | int:
        assert self.folder is not None
        return claim_run(self.folder, item.cell.key, item.repetition)

    def is_done_elsewhere(self, item: PlannedRun) -> bool:
        return (item.cell.key, item.repetition) in self.elsewhere

    def expected_seconds(self, cell: Cell) -> float:
        return self.expects(cell)

    def store_answer(self, item: PlannedRun, answer: RunAnswer, attempt: int) -> bool:
        name = item.cell.key, item.repetition
        self.stored_runs.append(name)
        self.runs[name] = self.unpack(item, answer)[0]
        self.invalid_attempts -= 1
        return self.invalid_attempts >= 0

    def unpack(self, item: PlannedRun, answer: RunAnswer) -> tuple[Run, MeasuredRun | None]:
        return read_run(answer.files["run.json"]), None

    def stored_run(self, item: PlannedRun) -> tuple[Run, MeasuredRun | None]:
        return self.runs[item.cell.key, item.repetition], None


@dataclass
class Scene:
    """A cluster, and what a driver of it says."""

    cluster: Any
    folder: Path
    events: list[Event] = field(default_factory=list)

    def driver(
        self,
        todo: Sequence[PlannedRun],
        ground: Fake | None = None,
        work: Work = quick,
        share: float = 0,
        **overrides: Any,
    ) -> tuple[Driver, Fake]:
        ground = ground or Fake()
        ground.folder = self.folder
        depot: Any = None
        address = self.cluster.scheduler_address

        def connect() -> ClusterConnection:
            return ClusterConnection(address, None, depot, lambda text: self.events.append(Warned(text)), work)

        sample = coordinator.select_sample(list(todo), share)
        return Driver(
            todo, ground, connect, self.events.append, sample=sample, with_artefacts=False, **overrides
        ), ground

    def warnings(self) -> str:
        return " ".join(event.text for event in self.events if isinstance(event, Warned | RunsVerified))


def started(workers: int, memory: str = "1GiB", **overrides: Any) -> Any:
    # Not typed there.
    make: Any = LocalCluster
    return make(
        n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=None, silence_logs=50,
        memory_limit=memory, **overrides,
    )  # fmt: skip


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(driver, "CHECK_INTERVAL", 0.2)
    executed.clear()
    go_on.clear()
    with started(2) as cluster:
        yield Scene(cluster, tmp_path)


def plan(count: int) -> list[PlannedRun]:
    return [PlannedRun(tested_cell, number) for number, tested_cell in enumerate(cells(count))]


def test_a_worker_goes_on_where_dask_would_pause_it(tmp_path: Path) -> None:
    # Dask goes by the memory of this process, which has more than that.
    with started(1, memory="64MiB") as cluster:
        (worker,) = cluster.workers.values()
        wait_for(lambda: worker.status.name == "paused")
        driver, ground = Scene(cluster, tmp_path).driver(plan(3))
        driver.work()
    assert len(ground.stored_runs) == 3


def test_every_run_is_made_once_the_longest_first_and_told_of(scene: Scene) -> None:
    scene.cluster.scale(1)
    todo = plan(12)
    run_driver, ground = scene.driver(todo, Fake(expects=lambda cell: float(cell.seed)))
    run_driver.work()
    assert sorted(ground.stored_runs) == sorted((item.cell.key, item.repetition) for item in todo)
    assert len(executed) == 12
    # Dask hands out what it has in the order of priority, and gets the longest first.
    assert {number for number, _ in executed[:2]} <= {11, 10, 9, 8}
    last = [event for event in scene.events if isinstance(event, ClusterProgress)][-1]
    assert last.total == 12 and last.cores >= 1
    assert not list((scene.folder / "claims").iterdir())


def test_what_a_run_brings_on_is_made_too_and_what_was_spoilt_once_more(scene: Scene) -> None:
    (first,) = cells(1)
    more = iter([[PlannedRun(first, 1), PlannedRun(first, 2)], []])
    run_driver, ground = scene.driver(
        [PlannedRun(first, 0)], Fake(invalid_attempts=1), next_runs=lambda cell: next(more)
    )
    run_driver.work()
    assert sorted(number for _, number in ground.stored_runs) == [0, 0, 1, 2]


def test_what_another_harness_made_meanwhile_is_not_made(scene: Scene) -> None:
    todo = plan(3)
    run_driver, ground = scene.driver(todo, Fake(elsewhere={(todo[1].cell.key, 1)}))
    run_driver.work()
    assert sorted(number for _, number in ground.stored_runs) == [0, 2]
    assert any(isinstance(event, RunTakenOver) for event in scene.events)


def test_runs_made_twice_are_made_on_different_workers_and_compared(scene: Scene) -> None:
    run_driver, ground = scene.driver(plan(4), share=1.0)
    run_driver.work()
    assert len(ground.stored_runs) == 4 and len(executed) == 8
    for number in range(4):
        assert len({worker for repetition, worker in executed if repetition == number}) == 2
    assert scene.warnings() == "4 runs made twice, on different workers: the same"


def test_a_run_that_comes_out_differently_is_named(scene: Scene) -> None:
    run_driver, _ = scene.driver(plan(1), work=differing, share=0.01)
    with pytest.raises(ResultError, match=f"{'0' * 16}/0 .*: other captures"):
        run_driver.work()


def test_where_there_is_one_worker_it_is_said_that_nothing_was_made_twice(scene: Scene) -> None:
    scene.cluster.scale(1)
    wait_for(lambda: len(scene.cluster.scheduler.workers) == 1)
    run_driver, _ = scene.driver(plan(2), share=1.0)
    run_driver.work()
    assert scene.warnings() == "2 runs could not be made twice: there is no other worker"


def test_a_machine_without_ground_gets_nothing_more_and_others_make_what_it_had(scene: Scene) -> None:
    bad = next(iter(scene.cluster.scheduler.workers))

    def work(order: RunOrder) -> RunAnswer:
        return without_disk(order) if get_worker().address == bad else held(0, order)

    run_driver, ground = scene.driver(plan(6), work=work)
    run_driver.work()
    assert len(ground.stored_runs) == 6 and {worker for _, worker in executed} == set(
        scene.cluster.scheduler.workers
    ) - {bad}
    assert f"the worker {bad} on there gets nothing more to do: the disk is full" in scene.warnings()


def test_where_no_machine_has_ground_it_ends_with_the_reason(scene: Scene) -> None:
    run_driver, _ = scene.driver(
        plan(3), work=lambda order: RunAnswer(get_worker().address, "there", "no memory", "buy some")
    )
    with pytest.raises(EngineError, match="on there: no memory"):
        run_driver.work()
    assert not list((scene.folder / "claims").iterdir())


def test_workers_of_another_version_are_refused_by_name(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    run_driver, ground = scene.driver(plan(1))
    monkeypatch.setattr(dask_client, "package_digest", lambda: "another")
    working = threading.Thread(target=run_driver.work, daemon=True)
    working.start()
    wait_for(lambda: scene.warnings().count("has another version of this package") >= 2)
    assert not executed and messages.package_digest() in scene.warnings()
    for address in scene.cluster.scheduler.workers:
        assert f"the worker {address} on " in scene.warnings()
    # One of the right version comes.
    monkeypatch.setattr(dask_client, "package_digest", messages.package_digest)
    scene.cluster.scale(3)
    working.join(30)
    assert len(ground.stored_runs) == 1 and len({worker for _, worker in executed}) == 1


def test_where_nobody_else_can_come_workers_of_another_version_end_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_driver, _ = scene.driver(plan(1), owns_cluster=True)
    monkeypatch.setattr(dask_client, "package_digest", lambda: "another")
    with pytest.raises(EngineError, match="files of this package were changed since this command began") as raised:
        run_driver.work()
    assert raised.value.hint == "give the command again: what is stored counts"
    assert not executed


def test_what_dead_workers_had_is_made_by_those_that_come(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_client, "FETCH_TIMEOUT", 2.0)
    run_driver, ground = scene.driver(plan(6), work=partial(held, 1))
    working = threading.Thread(target=run_driver.work, daemon=True)
    working.start()
    wait_for(lambda: executed)
    scene.cluster.scale(0)
    wait_for(lambda: not scene.cluster.scheduler.workers)
    go_on.set()
    scene.cluster.scale(1)
    working.join(60)
    assert not working.is_alive() and len(set(ground.stored_runs)) == len(ground.stored_runs) == 6


def test_a_run_that_needs_more_memory_than_there_is_waits_and_says_so(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "WARNING_INTERVAL", 0.0)
    ground = Fake(memory=1 << 50)
    run_driver, _ = scene.driver(plan(1), ground)
    working = threading.Thread(target=run_driver.work, daemon=True)
    working.start()
    wait_for(lambda: "no worker has the memory for 1 run" in scene.warnings())
    assert not executed
    ground.memory = 1
    working.join(30)
    assert len(ground.stored_runs) == 1


def _port() -> int:
    with socket.socket() as connection:
        connection.bind(("127.0.0.1", 0))
        return int(connection.getsockname()[1])


def test_a_lost_scheduler_costs_what_was_under_way_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(driver, "CHECK_INTERVAL", 0.2)
    executed.clear()
    go_on.clear()
    more: dict[str, Any] = {"protocol": "tcp://", "host": "127.0.0.1", "scheduler_port": _port()}
    scene = Scene(started(1, **more), tmp_path)
    run_driver, ground = scene.driver(plan(8), work=partial(held, 2))
    working = threading.Thread(target=run_driver.work, daemon=True)
    working.start()
    wait_for(lambda: len(ground.stored_runs) == 2)
    kept = list(ground.stored_runs)
    scene.cluster.close(timeout=5)
    go_on.set()
    with started(1, **more):
        working.join(60)
    assert not working.is_alive()
    assert ground.stored_runs[: len(kept)] == kept and len(set(ground.stored_runs)) == len(ground.stored_runs) == 8
    assert "what was under way is made again" in scene.warnings()


def test_where_no_scheduler_answers_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_client, "ANSWER_TIMEOUT", 0.5)
    depot: Any = None
    with pytest.raises(EngineError, match=r"no scheduler answers at tcp://127\.0\.0\.1:1"):
        ClusterConnection("tcp://127.0.0.1:1", None, depot, print)


# --- the store


class _Nothing:
    """Whatever is asked of it, there is none."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def test_a_run_is_stored_as_the_worker_stored_it(tmp_path: Path) -> None:
    from harness.engine.docker.host_jitter import QuietWait
    from harness.execution.measured_store import StoredResults
    from harness.execution.options import Options
    from harness.execution.retries import RunMaker
    from harness.store.provenance import Provenance

    store, run_store = Store(tmp_path / "there"), Store(tmp_path / "here")
    order = RunOrder(HERE.model_dump_json(by_alias=True), 3, {}, {}, "")
    folder = store.begin(HERE.key, 3)
    (folder / "sim").mkdir()
    (folder / "sim" / "console.log").write_text("said")
    store.finish(folder, run_of(order), None)
    (store.folder(HERE.key, 3) / "plan").mkdir()
    (store.folder(HERE.key, 3) / "plan" / "plan.json").write_text("{}")
    kept, archive = pack_run(store.folder(HERE.key, 3))
    assert set(kept) == {"run.json", "plan/plan.json"}
    answer = RunAnswer("tcp://1", "there", files=kept, archive=archive)
    events: list[Event] = []
    nothing: Any = _Nothing()
    attempts = RunMaker(
        nothing, run_store, StoredResults(run_store, run_store), Options(), QuietWait(0.0), Provenance(), events.append
    )  # fmt: skip
    ground = ClusterBackend(nothing, attempts, nothing)
    assert ground.store_answer(PlannedRun(HERE, 3), answer, 1) is False
    names = {file.relative_to(store.root) for file in store.root.rglob("*") if file.is_file()}
    assert names == {file.relative_to(run_store.root) for file in run_store.root.rglob("*") if file.is_file()}
    assert all((store.root / name).read_bytes() == (run_store.root / name).read_bytes() for name in names)
    assert run_store.run(HERE.key, 3) == run_of(order) and isinstance(events[0], RunFinished)
    assert ground.unpack(PlannedRun(HERE, 3), answer) == ground.stored_run(PlannedRun(HERE, 3))
    with pytest.raises(ResultError, match=f"a worker made {HERE.key}/3 where {HERE.key}/4 was asked for"):
        ground.store_answer(PlannedRun(HERE, 4), answer, 1)
    with pytest.raises(ResultError, match="is no run"):
        ground.store_answer(PlannedRun(HERE, 3), replace(answer, archive=b"no archive"), 1)
    with pytest.raises(ResultError, match="is no run"):
        ground.store_answer(PlannedRun(HERE, 3), replace(answer, files={}), 1)
    with pytest.raises(ResultError, match="lies outside"):
        ground.store_answer(PlannedRun(HERE, 3), replace(answer, files={**kept, "../../x/y": b""}), 1)
    assert not list((run_store.root / "partial").iterdir())


def test_a_build_that_fails_costs_the_runs_that_need_it(tmp_path: Path) -> None:
    below, above, other = Step("a", "below", 1.0), Step("b", "above", 1.0, frozenset({"a"})), Step("c", "other", 1.0)
    tested_cell, two = cells(2)
    built = []

    class Builds:
        def needs(self, cell: Cell) -> tuple[frozenset[str], list[Step]]:
            return (frozenset("b"), [below, above]) if cell.key == tested_cell.key else (frozenset("c"), [other])

        def make(self, step: Step, *, beside: bool) -> bool:
            built.append(step.name)
            if step.name == "below":
                raise EngineError("it does not compile")
            return False

    builds: Any = Builds()
    events: list[Event] = []
    planned_runs, lost = build_missing(
        [PlannedRun(tested_cell, 0), PlannedRun(two, 0), PlannedRun(tested_cell, 1)], builds, events.append
    )
    assert planned_runs == [PlannedRun(two, 0)]
    assert [(lost_runs.image, lost_runs.runs) for lost_runs in lost] == [("below", 2)]
    assert sorted(built) == ["below", "other"]


# --- words


@pytest.mark.parametrize(
    "words",
    [
        ("here",), ("local:0",), ("tcp://host",), ("http://host:1",), ("tls://host:1",), ("tcp://host:1", Path("/tls")),
        # Whoever is there lets in anybody, and nobody said that this is meant.
        ("tcp://10.0.0.1:8786",), ("unauthenticated:tcp://host:1", Path("/tls")),
        ("unauthenticated:tls://host:1", Path("/tls")), ("unauthenticated:local:2",), ("unauthenticated:",),
        ("local:2", None, "", "2"), ("local:2", None, "", "101%"), ("", Path("/tls")), ("", None, "", "2%"),
    ],
)  # fmt: skip
def test_words_that_name_no_cluster(words: tuple[Any, ...]) -> None:
    with pytest.raises(InputError) as exception_info:
        parse_cluster_options(*words)
    assert exception_info.value.hint


def test_words_that_name_one(tmp_path: Path) -> None:
    assert parse_cluster_options("") is None
    local, far = (
        parse_cluster_options("local:3", verify="2 %"),
        parse_cluster_options("tls://10.0.0.1:8786", tmp_path, "s3://bucket"),
    )
    assert local is not None and (local.local, local.verify) == (3, 0.02)
    assert far is not None and (far.address, far.tls, far.files) == ("tls://10.0.0.1:8786", tmp_path, "s3://bucket")
    meant = parse_cluster_options("unauthenticated:tcp://10.0.0.1:8786")
    assert meant is not None and (meant.address, meant.tls) == ("tcp://10.0.0.1:8786", None)


def test_a_share_is_of_all_runs_and_always_the_same() -> None:
    items = [PlannedRun(HERE, number) for number in range(5000)]
    chosen = coordinator.select_sample(items, 0.02)
    assert 60 <= len(chosen) <= 140 and chosen == coordinator.select_sample(items[::-1], 0.02)
    assert (
        len(coordinator.select_sample(items, 1.0)),
        len(coordinator.select_sample(items[:3], 1e-9)),
        coordinator.select_sample(items, 0),
    ) == (
        5000,
        1,
        set(),
    )


def test_certificates_let_in_who_has_them_and_nobody_else(tmp_path: Path) -> None:
    tls.write_certificates(tmp_path / "one")
    tls.write_certificates(tmp_path / "two")
    assert (tmp_path / "one" / tls.KEY).stat().st_mode & 0o077 == 0
    with pytest.raises(InputError, match="already"):
        tls.write_certificates(tmp_path / "one")
    with pytest.raises(InputError, match=r"has no ca\.pem"):
        tls.dask_security(tmp_path)
    with started(0, protocol="tls://", host="127.0.0.1", security=tls.dask_security(tmp_path / "one")) as cluster:
        depot: Any = None
        ClusterConnection(cluster.scheduler_address, tls.dask_security(tmp_path / "one"), depot, print).close()
        with pytest.MonkeyPatch.context() as patch, pytest.raises(EngineError, match="no scheduler answers"):
            patch.setattr(dask_client, "ANSWER_TIMEOUT", 2.0)
            ClusterConnection(cluster.scheduler_address, tls.dask_security(tmp_path / "two"), depot, print)


def test_a_cluster_of_our_own_lets_in_nobody_else(tmp_path: Path) -> None:
    """Other users of the machine reach its ports as its own driver does."""
    environment = {"HARNESS_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    depot: Any = None
    with place.run_scheduler(ClusterOptions("", 1), environment) as scheduler:
        assert scheduler.address.startswith("tls://127.0.0.1:") and scheduler.tls is not None
        for private in (scheduler.tls.parent, scheduler.tls / tls.KEY):
            assert private.stat().st_mode & 0o077 == 0
        ClusterConnection(scheduler.address, scheduler.security, depot, print).close()
        tls.write_certificates(tmp_path / "others")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dask_client, "ANSWER_TIMEOUT", 2.0)
            for address, security in (
                (scheduler.address.replace("tls:", "tcp:"), None), (scheduler.address, tls.dask_security(tmp_path / "others"))
            ):  # fmt: skip
                with pytest.raises(EngineError, match="no scheduler answers"):
                    ClusterConnection(address, security, depot, print)
    assert not scheduler.tls.exists()


@pytest.mark.parametrize("words", [[], ["--unauthenticated", "--cluster-tls", "FOLDER"]])
def test_a_scheduler_for_anybody_is_started_for_whoever_says_so(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started_with: list[list[str]] = []

    def run(command: list[str], **overrides: object) -> subprocess.CompletedProcess[str]:
        started_with.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr("harness.cli.cluster.subprocess.run", run)
    monkeypatch.setattr("sys.argv", ["harness", "cluster", "scheduler", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and started_with == []
    assert "--unauthenticated" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["harness", "cluster", "scheduler", "--unauthenticated"])
    with contextlib.suppress(SystemExit):
        main()
    (command,) = started_with
    assert command[command.index("--host") + 1] == "127.0.0.1"


def test_certificates_are_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / tls.KEY).symlink_to(tmp_path / "elsewhere")
    with pytest.raises((OSError, InputError)):
        tls.write_certificates(tmp_path / "folder")
    assert not (tmp_path / "elsewhere").exists()


def test_another_text_of_any_module_is_another_version(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("x = 1")
    before = messages.digest_package(tmp_path)
    assert before == messages.digest_package(tmp_path)
    (tmp_path / "one.py").write_text("x = 2")
    assert messages.digest_package(tmp_path) != before


def test_whoever_needs_no_cluster_waits_for_none() -> None:
    text = "import sys; from harness.execution import App; from harness.cli import main; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, env=environment)
    assert not {"distributed", "dask", "tornado", "fsspec"} & set(process.stdout.split())
    assert owner()


def test_a_scheduler_of_a_cluster_loads_no_checkout() -> None:
    """polars would take SIGINT from it: it would wait for Dask's process after Ctrl-C."""
    text = "import sys; from harness.execution.cluster.address import scheduler_command; print(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {"polars", "numpy", "harness.execution.checkout"} & set(process.stdout.split())
