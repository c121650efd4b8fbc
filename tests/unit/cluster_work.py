"""Runs that take no guest, for workers that are processes: what was made is a file each, where a test can see it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from distributed import get_worker

from harness.execution.cluster.address import Scheduler
from harness.execution.cluster.coordinator import Driver
from harness.execution.cluster.dask_client import ClusterConnection
from harness.execution.cluster.messages import RunAnswer, RunOrder
from harness.execution.cluster.worker import PendingTask
from harness.execution.locks import RunLock, claim_run
from harness.execution.matrix import PlannedRun
from harness.outcome import Cell, MeasuredRun, Outcome, Run
from harness.store.records import read_run
from tests.polling import wait_for


def note(folder: Path, what: str, repetition: int) -> None:
    (folder / f"{what}.{repetition}.{time.monotonic_ns()}").write_text(str(os.getpid()))


def noted(folder: Path, what: str, repetition: int | None = None) -> int:
    return len(list(folder.glob(f"{what}.{'*' if repetition is None else repetition}.*")))


def whose(folder: Path, what: str, repetition: int) -> list[str]:
    """Process of each note, first one first."""
    notes = sorted(folder.glob(f"{what}.{repetition}.*"), key=lambda file: int(file.suffix[1:]))
    return [file.read_text() for file in notes]


def hold(folder: Path, repetitions: Iterable[int]) -> None:
    """Have these runs last until `let_go`, or until nobody waits for them."""
    for repetition in repetitions:
        (folder / f"{repetition}.held").touch()


def let_go(folder: Path) -> None:
    for file in folder.glob("*.held"):
        file.unlink()


def work(folder: Path, kills: frozenset[int], always: bool, order: RunOrder) -> RunAnswer:
    """A run that takes no time, unless it is held. `kills`: runs of which a worker dies, `always` or once."""
    number, wanted = order.repetition, PendingTask()
    note(folder, "begun", number)
    if number in kills and (always or noted(folder, "begun", number) == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    held = folder / f"{number}.held"
    wait_for(lambda: not (wanted and held.exists()), 300)
    if not wanted:
        note(folder, "unwanted", number)
    note(folder, "made", number)
    run = Run(
        cell=Cell.model_validate_json(order.cell), repetition=number, outcome=Outcome(status="completed"),
        started_at="2026-11-23", captures={"left": f"digest {number}"},
    )  # fmt: skip
    content = run.model_dump_json(by_alias=True).encode()
    return RunAnswer(get_worker().address, "here", files={"run.json": content}, seconds=0.5)


@dataclass
class Folder:
    """A ground that stores into a folder: a file a run."""

    folder: Path
    stored_repetitions: list[int] = field(default_factory=list)

    def order(self, item: PlannedRun, driver: str) -> tuple[RunOrder, int]:
        return RunOrder(item.cell.model_dump_json(by_alias=True), item.repetition, {}, {}, driver), 1

    def claim(self, item: PlannedRun) -> RunLock | int:
        return claim_run(self.folder, item.cell.key, item.repetition)

    def is_done_elsewhere(self, item: PlannedRun) -> bool:
        return False

    def expected_seconds(self, cell: Cell) -> float:
        return 1.0

    def store_answer(self, item: PlannedRun, answer: RunAnswer, attempt: int) -> bool:
        self.stored_repetitions.append(item.repetition)
        (self.folder / f"{item.repetition}.stored").write_bytes(answer.files["run.json"])
        return False

    def unpack(self, item: PlannedRun, answer: RunAnswer) -> tuple[Run, MeasuredRun | None]:
        return read_run(answer.files["run.json"]), None

    def stored_run(self, item: PlannedRun) -> tuple[Run, MeasuredRun | None]:
        return read_run((self.folder / f"{item.repetition}.stored").read_bytes()), None

    def missing_runs(self, plan: list[PlannedRun]) -> list[PlannedRun]:
        """Plan − store."""
        return [item for item in plan if not (self.folder / f"{item.repetition}.stored").exists()]


def plan(count: int) -> list[PlannedRun]:
    from tests.examples import cell

    tested_cell = cell(engine="virtual")
    return [PlannedRun(tested_cell.model_copy(update={"key": f"{number:016x}"}), number) for number in range(count)]


def drive(
    scheduler: Scheduler, folder: Path, count: int, kills: frozenset[int] = frozenset(), *, always: bool = False,
    say: Any = lambda event: None,
) -> list[int]:  # fmt: skip
    """Work on what is not stored of a plan; the runs that were stored, in order."""
    depot: Any = None
    ground, task = Folder(folder), partial(work, folder, kills, always)
    Driver(
        ground.missing_runs(plan(count)), ground, lambda: ClusterConnection(scheduler.address, scheduler.security, depot, print, task), say, with_artefacts=False
    ).work()  # fmt: skip
    return ground.stored_repetitions
