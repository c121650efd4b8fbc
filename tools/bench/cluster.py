"""A cluster's driver: what a run costs it, how many cores it can feed, and what a second worker gains.

Runs that were recorded come back as answers of Dask's own workers, in place of guests. All that a driver does for a run
is done, from the plan to the store and the line of progress.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import operator
import os
import pickle
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

from harness.engine.docker.host_jitter import QuietWait
from harness.engine.images.contents import Contents
from harness.execution import Options
from harness.execution.cluster.address import ClusterOptions, Scheduler, run_scheduler
from harness.execution.cluster.coordinator import Driver
from harness.execution.cluster.dask_client import ClusterConnection, Work
from harness.execution.cluster.image_transfer import ParcelSource, SentImage
from harness.execution.cluster.messages import RunAnswer, RunOrder
from harness.execution.cluster.worker import make_run
from harness.execution.cluster_backend import ClusterBackend
from harness.execution.engines import create_engine
from harness.execution.events import Event
from harness.execution.local_backend import LocalBackend
from harness.execution.matrix import PlannedRun
from harness.execution.measured_store import StoredResults
from harness.execution.retries import RunMaker
from harness.execution.scheduler import Campaign
from harness.outcome import Cell
from harness.report.progress import ProgressPrinter
from harness.store.parquet import ColumnStore
from harness.store.parquet.tables import StoredRun
from harness.store.provenance import Provenance
from harness.store.results import MEASURED, RUN, SERIES, Store
from tools.bench.session import Session, line, scenario

#: Simulated runs, and the cores of the cluster that makes them.
TASKS, CORES = 10_000, 1000
#: Cells made for real: by one worker, by two, and without a cluster; and how often.
CELLS, TURNS = 12, 3
#: Recorded runs that stand for all: reading one takes milliseconds, in each worker.
RECORDED = 200


#: What stays of a run beside its record and figures, where no artefacts are kept: place → bytes, of one run.
BESIDE = {"cell.env": 118, "compose.yaml": 3648, "lab.json": 7397, "plan/plan.json": 11226, "plan/world.json": 2119}


# --- what workers do in place of a run


def lay_down(entries: Sequence[StoredRun], file: Path) -> None:
    """Write what answers are made of: of each run the record without its cell, and the other files of its folder."""
    series = next(_bytes_of(entry.series) for entry in entries if entry.series is not None)
    content = []
    for entry in entries:
        record = entry.run.model_dump(mode="json", by_alias=True, exclude={"cell"})
        files = {name: b" " * size for name, size in BESIDE.items()}
        files[SERIES] = series if entry.series is None else _bytes_of(entry.series)
        if entry.measured is not None:
            files[MEASURED] = entry.measured.model_dump_json(by_alias=True, indent=1).encode()
        content.append((record, files))
    file.write_bytes(pickle.dumps(content))


def _bytes_of(series: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    series.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


@functools.cache
def _laid_down(file: str) -> Any:
    return pickle.loads(Path(file).read_bytes())


def answered(file: str, order: RunOrder) -> RunAnswer:
    """The answer to an order, from a recorded run; the task that the driver submits."""
    from distributed import get_worker

    return answer(file, order, get_worker().address)


def answer(file: str, order: RunOrder, worker: str) -> RunAnswer:
    """What a worker makes of an order with what was laid down."""
    begun = time.monotonic()
    cell, known = json.loads(order.cell), _laid_down(file)
    record, files = known[cell["seed"] % len(known)]
    run = {**record, "cell": cell, "repetition": order.repetition}
    answer_files = {RUN: json.dumps(run, indent=1).encode(), **files}
    return RunAnswer(worker, "here", files=answer_files, seconds=time.monotonic() - begun)


def recorded(reference: Path) -> list[StoredRun]:
    """The runs in virtual time of a store in columns that stand for all: every so many, one with series first."""
    entries = [entry for entry in ColumnStore(reference).entries() if entry.run.cell.virtual_time]
    every = sorted(entries, key=lambda entry: entry.series is None)
    step = max(1, len(every) // RECORDED)
    return [every[0], *every[1::step]][:RECORDED]


# --- the driver's side


class _NothingSent(ParcelSource):
    """Says of every image what a driver says of one, without having it."""

    def describe(self, reference: str) -> SentImage:
        """See `ParcelSource`."""
        digest = hashlib.sha256(reference.encode()).hexdigest()
        return SentImage(
            reference,
            f"sha256:{digest}",
            reference,
            ("/run_endpoint.sh",),
            ("PATH=/usr/bin",),
            "/",
            "",
            15,
            digest[:32],
        )

    def contents(self, references: Iterable[str]) -> dict[str, Contents]:
        """See `ParcelSource`."""
        return {}


@dataclass
class _AnyMemory(ClusterBackend):
    """Runs that take no memory, so that as many are made at once as there are simulated cores."""

    def order(self, item: PlannedRun, driver: str) -> tuple[RunOrder, int]:
        """See `harness.execution.cluster.coordinator.CoordinatorBackend`."""
        return super().order(item, driver)[0], 1


@dataclass
class Spent:
    """What a plan took."""

    wall: float
    driver: float
    """CPU seconds of this process, all its threads."""
    scheduler: float
    """CPU seconds of the scheduler's."""
    workers: float
    """CPU seconds of all workers'."""


class Cluster(Session):
    """What `--cluster` promises, measured."""

    tasks = TASKS

    def run(self) -> None:
        """The driver's own cost, and real cells by one worker, by two, and without a cluster."""
        self.driver_cost()
        self._workers()

    # --- the driver's own cost

    def driver_cost(self) -> None:
        """CPU a cell of driver and scheduler with recorded answers, and what that feeds."""
        reference = self.app.paths.root / "results" / "reference"
        entries = recorded(reference)
        cells = [_numbered(entries[number % len(entries)].run.cell, number) for number in range(self.tasks)]
        self.folder.mkdir(parents=True, exist_ok=True)
        store, depot = Store(self.folder / "simulated"), _NothingSent(self.app.root_file_systems, self.app.contents)
        lay_down(entries, self.folder / "recorded")
        work = functools.partial(answered, str(self.folder / "recorded"))
        with run_scheduler(ClusterOptions("", 2), self._environment(), threads=CORES // 2) as scheduler:
            # Workers read what is recorded before they can answer.
            self._drive(
                scheduler,
                [PlannedRun(_numbered(entries[0].run.cell, -number), 0) for number in range(1, 9)],
                store,
                depot,
                work,
                _AnyMemory,
            )
            spent = self._drive(scheduler, [PlannedRun(cell, 0) for cell in cells], store, depot, work, _AnyMemory)
        stored = sum(1 for _ in store.root.glob("runs/*/0/run.json")) - 8
        seconds = statistics.mean(entry.run.wall for entry in entries)
        cpu_per_cell = {"driver": spent.driver / self.tasks, "scheduler": spent.scheduler / self.tasks}
        self.console.print(f"{stored} of {self.tasks} simulated runs stored, in {spent.wall:.1f} s", soft_wrap=True)
        self.say(line("CPU of the driver a cell, without artefacts", [1e3 * cpu_per_cell["driver"]], "ms", "≤ 5"))
        self.say(line("CPU of the scheduler a cell", [1e3 * cpu_per_cell["scheduler"]], "ms", ""))
        self.say(line("CPU of a simulated worker a cell", [1e3 * spent.workers / self.tasks], "ms", ""))
        self.say(line("simulated cells a second, all on this machine", [self.tasks / spent.wall], "1/s", ""))
        first = max(cpu_per_cell, key=lambda process: cpu_per_cell[process])
        cores = seconds / cpu_per_cell[first]
        self.say(line(f"cores fed at {seconds:.1f} s a cell (mean of the recorded)", [cores], "", "≥ 1000"))
        self.console.print(
            f"what binds first is the CPU of the {first}, at {1 / cpu_per_cell[first]:.0f} cells/s", soft_wrap=True
        )

    def _environment(self) -> dict[str, str]:
        return {"HARNESS_CACHE": str(self.app.cache.folder), "HARNESS_CACHE_LIMIT": f"{self.app.cache.limit} B"}

    def _drive(
        self,
        scheduler: Scheduler,
        todo: Sequence[PlannedRun],
        store: Store,
        depot: ParcelSource,
        work: Work = make_run,
        kind: type[ClusterBackend] = ClusterBackend,
    ) -> Spent:
        """Have a plan's runs made and stored."""
        from distributed import Client

        # Not typed there.
        client: Any = Client
        with (
            client(scheduler.address, security=scheduler.security, set_as_default=False) as asking,
            (self.folder / "said").open("w") as out,
            ProgressPrinter(Console(file=out, width=120)) as progress,
            depot,
        ):
            ground, attempts = self._backend(store, progress, todo)
            driver = Driver(
                todo,
                kind(ground, attempts, depot),
                lambda: ClusterConnection(scheduler.address, scheduler.security, depot, self.console.print, work),
                progress,
                with_artefacts=False,
            )
            before = _cpu(asking)
            begun, cpu = time.monotonic(), time.process_time()
            driver.work()
            wall, cpu = time.monotonic() - begun, time.process_time() - cpu
            after = _cpu(asking)
        return Spent(wall, cpu, after[0] - before[0], after[1] - before[1])

    def _backend(
        self, store: Store, listen: Callable[[Event], None], todo: Sequence[PlannedRun], jobs: int = 1
    ) -> tuple[LocalBackend, RunMaker]:
        options = Options(jobs=jobs, evidence="figures")
        attempts = RunMaker(
            create_engine("virtual", self.app.cache, options),
            store,
            StoredResults(store, store),
            options,
            QuietWait(0.0),
            Provenance(),
            listen,
        )
        known = self.app.duration_model([item.cell for item in todo])
        ground = LocalBackend(self.app.images, self.app.inventory, self.app.contents, attempts, known, {})
        return ground, attempts

    # --- real runs

    def _workers(self) -> None:
        """The same cells without a cluster and with one, one and two at a time; in turn, so that all meet the same."""
        cell = self.cell(scenario("cluster", "50 Mbit/s", "10 Mbit/s", delay="100 ms", size="10 MB"), "virtual")
        took: dict[tuple[str, int], list[float]] = {}
        for turn in range(TURNS):
            todo = [PlannedRun(_numbered(cell, turn * CELLS + number), 0) for number in range(CELLS)]
            for together in (1, 2):
                took.setdefault(("alone", together), []).append(self._local_seconds(todo, together))
                took.setdefault(("cluster", together), []).append(self._cluster_seconds(todo, together))
        names = {
            ("alone", 1): "without a cluster, one at a time",
            ("alone", 2): "without a cluster, two at a time",
            ("cluster", 1): "by one worker",
            ("cluster", 2): "by two workers",
        }
        for which, name in names.items():
            self.say(line(f"{CELLS} cells {name}", took[which], "s", ""))

        def per_turn(of: Callable[[float, float], float], left: tuple[str, int], right: tuple[str, int]) -> list[float]:
            return [of(*pair) for pair in zip(took[left], took[right], strict=True)]

        more = [seconds / CELLS for seconds in per_turn(operator.sub, ("cluster", 1), ("alone", 1))]
        self.say(line("overhead of the cluster a cell", more, "s", "≤ 0.3"))
        cores = len(os.sched_getaffinity(0))
        aim = "≥ 1.9" if cores > 1 else "≥ 1.9, which one core cannot give"
        gains = per_turn(operator.truediv, ("cluster", 1), ("cluster", 2))
        self.say(line(f"two workers against one, {cores} cores", gains, "", aim))
        own = per_turn(operator.truediv, ("alone", 1), ("alone", 2))
        self.say(line("what this machine gives two runs at a time, without a cluster", own, "", ""))

    def _cluster_seconds(self, todo: Sequence[PlannedRun], workers: int) -> float:
        """Seconds that `workers` take for the runs."""
        with (
            run_scheduler(ClusterOptions("", workers), self._environment()) as scheduler,
            tempfile.TemporaryDirectory(dir=self.folder) as folder,
        ):
            store = Store(Path(folder))
            # The first run of a worker imports what measuring takes.
            warm = [PlannedRun(_numbered(todo[0].cell, -number), 0) for number in range(1, 2 * workers + 1)]
            self._drive(scheduler, warm, store, ParcelSource(self.app.root_file_systems, self.app.contents))
            return self._drive(scheduler, todo, store, ParcelSource(self.app.root_file_systems, self.app.contents)).wall

    def _local_seconds(self, todo: Sequence[PlannedRun], jobs: int) -> float:
        """Seconds that the runs take so many at a time."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            ground, attempts = self._backend(Store(Path(folder)), lambda event: None, todo, jobs)
            attempts.run(PlannedRun(_numbered(todo[0].cell, -1), 0))
            begun = time.monotonic()
            Campaign(todo, jobs, ground, lambda event: None, lambda cell: ()).work()
            return time.monotonic() - begun


def _cpu(client: Any) -> tuple[float, float]:
    """CPU seconds that the scheduler has used, and all workers."""
    return client.run_on_scheduler(time.process_time), sum(client.run(time.process_time).values())


def _numbered(cell: Cell, number: int) -> Cell:
    """A cell of its own that is made as another."""
    key = hashlib.blake2b(f"{cell.key} {number}".encode(), digest_size=8).hexdigest()
    return cell.model_copy(update={"key": key, "seed": abs(number)})
