"""Works through a plan: makes runs in plan order as soon as their images exist, and builds missing images in parallel.

`harness.engine.build_queue` decides what comes next; this module has the threads that do it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from harness.engine.build_queue import LANES, Step, Work, awaited_builds, next_run, next_step, ready_runs, seconds_left
from harness.errors import EngineError
from harness.evaluation.cell_result import CellResult
from harness.execution.events import (
    BuildEnded,
    BuildStarted,
    Listener,
    RunStarted,
    RunTakenOver,
    WaitingForImage,
    WaitingForRun,
)
from harness.execution.matrix import PlannedRun
from harness.formatting import format_count
from harness.outcome import Cell

# --- Runs that were not made because an image could not be built.


@dataclass(frozen=True)
class LostRuns:
    """Runs that cannot be made because their image could not be built."""

    image: str
    error: EngineError
    runs: int


class UnbuiltError(EngineError):
    """All runs were made except those whose images could not be built."""

    def __init__(self, message: str, hint: str, results: Sequence[CellResult]) -> None:
        super().__init__(message, hint)
        self.results = list(results)
        """All cells, with the runs they have."""


def lost_runs_message(lost: Sequence[LostRuns], logs: Path) -> tuple[str, str]:
    """Message and hint about lost runs, for the end of a campaign. `logs`: the folder of the build logs."""
    names = ", ".join(item.image for item in lost)
    images = "1 image" if len(lost) == 1 else f"{len(lost)} images"
    return (
        f"{images} could not be built ({names}): {format_count(sum(item.runs for item in lost), 'run')} left out",
        f"the reason is above and in {logs}; the same command runs what is missing",
    )


# --- scheduler


#: Maximum wait of the main thread, seconds: a signal that another thread received does not wake it.
POLL_INTERVAL = 0.5


Claim = AbstractContextManager[object]
"""The right to make a run, until the context ends."""


class Backend(Protocol):
    """Builds images and makes runs for a campaign."""

    def needs(self, cell: Cell) -> tuple[frozenset[str], Sequence[Step]]:
        """References of all images of a cell, and the build steps of those images and their bases that are missing."""
        ...

    def make(self, step: Step, *, beside: bool) -> bool:
        """Build one image; returns whether that may have changed the images that cells need. Raises EngineError.

        `beside`: runs are made at the same time.
        """
        ...

    def settle_images(self, cell: Cell) -> Cell:
        """The cell with the simulator image that was settled on; its images exist."""
        ...

    def claim(self, item: PlannedRun) -> Claim | int:
        """Lock a run against other harnesses; else the number of the process that has the lock, 0 if not known."""
        ...

    def is_done_elsewhere(self, item: PlannedRun) -> bool:
        """Whether another harness has made the run since the plan was made."""
        ...

    def run(self, item: PlannedRun) -> float:
        """Make and store a run; returns its wall time in seconds. Raises HarnessError if the environment failed."""
        ...

    def expected_seconds(self, cell: Cell) -> float:
        """Estimated wall time of one run in seconds."""
        ...

    def cancel(self) -> None:
        """Stop the builds and runs of other threads; their `make` and `run` raise EngineError."""
        ...


class Campaign:
    """Executes one plan once."""

    def __init__(
        self,
        todo: Sequence[PlannedRun],
        jobs: int,
        backend: Backend,
        listen: Listener,
        next_runs: Callable[[Cell], Sequence[PlannedRun]] = lambda cell: (),
    ) -> None:
        """`jobs`: number of parallel runs; `next_runs`: further runs of a cell, called when all its runs have ended."""
        self._next_runs = next_runs
        self._jobs = jobs
        self._backend = backend
        self._listen = listen
        # Guards all of the state below, and signals its changes.
        self._changed = threading.Condition()
        self._steps: dict[str, Step] = {}
        self._pending = [(item, frozenset[str]()) for item in todo]
        self._build_starts: dict[str, float] = {}
        """Reference of a build under way → its start (monotonic seconds)."""
        self._failed: dict[str, str] = {}
        """Image that cannot be built → the image whose build failed: itself, or one below."""
        self._lost: dict[str, LostRuns] = {}
        self._running: dict[int, tuple[PlannedRun, float]] = {}
        """Number of a run under way → the run and its start."""
        self._started_count = 0
        self._expected = 0.0
        self._seconds_taken = 0.0
        self._waiting_for: WaitingForRun | None = None
        """The first run that could start but that another harness is making; None while this one can do something."""
        self._closed = False
        self._error: BaseException | None = None
        """The error that ended a thread unexpectedly."""
        self._update_needs()

    # --- state; the caller has the lock

    def _update_needs(self) -> None:
        """Update the images that each run needs."""
        needed = {item.cell.key: self._backend.needs(item.cell) for item, _ in self._pending}
        self._pending = [(item, needed[item.cell.key][0]) for item, _ in self._pending]
        for _, steps in needed.values():
            self._steps |= {step.reference: step for step in steps if step.reference not in self._failed}
        self._drop_unbuilt_runs()

    def _work(self) -> Work:
        now = time.monotonic()
        under_way = {reference: now - since for reference, since in self._build_starts.items()}
        running = len(self._running)
        return Work(
            self._steps, [needs for _, needs in self._pending], under_way, running, self._started_count - running
        )

    def _add_next_runs(self, cell: Cell) -> None:
        """A run of a cell has ended; if it was the last one, add the cell's next runs."""
        unfinished = [item for item, _ in self._pending] + [item for item, _ in self._running.values()]
        if not any(item.cell.key == cell.key for item in unfinished) and (additional := self._next_runs(cell)):
            self._pending += [(item, frozenset[str]()) for item in additional]
            self._update_needs()

    def _drop_unbuilt_runs(self) -> None:
        """Drop the runs whose images could not be built."""
        runnable = []
        for item, needs in self._pending:
            culprit = next((self._failed[reference] for reference in sorted(needs) if reference in self._failed), None)
            if culprit is None:
                runnable.append((item, needs))
            else:
                self._lost[culprit] = replace(self._lost[culprit], runs=self._lost[culprit].runs + 1)
        self._pending = runnable

    def _seconds(self) -> float:
        factor = self._seconds_taken / self._expected if self._expected else 1.0
        now = time.monotonic()
        return seconds_left(
            self._work(),
            [factor * self._backend.expected_seconds(item.cell) for item, _ in self._pending],
            self._jobs,
            [
                factor * self._backend.expected_seconds(item.cell) - (now - since)
                for item, since in self._running.values()
            ],
        )

    def seconds(self) -> float:
        """Estimated seconds until all builds and runs are complete."""
        with self._changed:
            return self._seconds()

    # --- builds

    def _build_images(self) -> None:
        """Build images one after the other until the campaign ends."""
        try:
            while True:
                with self._changed:
                    while not self._closed and (step := next_step(self._work())) is None:
                        self._changed.wait()
                    if self._closed:
                        return
                    assert step is not None
                    self._build_starts[step.reference] = time.monotonic()
                    # Between two runs there is a moment without one.
                    beside = bool(self._running) or next_run(self._work()) is not None
                self._build(step, beside)
        except BaseException as error:  # the main thread has to know, whatever it is
            self._end_with(error)

    def _build(self, step: Step, beside: bool) -> None:
        began = time.monotonic()
        self._listen(BuildStarted(step.name, step.seconds))
        error, needs_changed = None, False
        try:
            needs_changed = self._backend.make(step, beside=beside)
        except EngineError as failure:
            error = failure
        with self._changed:
            if self._closed:
                return
            del self._build_starts[step.reference], self._steps[step.reference]
            lost = 0
            if error is not None:
                lost = self._fail(step, error)
            elif needs_changed:
                self._update_needs()
            self._changed.notify_all()
        self._listen(BuildEnded(step.name, time.monotonic() - began, error, lost))

    def _fail(self, step: Step, error: EngineError) -> int:
        """An image cannot be built, nor can those built on it. Returns the number of lost runs."""
        self._lost[step.reference] = LostRuns(step.name, error, 0)
        pending = [step.reference]
        while pending:
            reference = pending.pop()
            self._failed[reference] = step.reference
            dependents = [dependent for dependent, candidate in self._steps.items() if reference in candidate.bases]
            pending += dependents
            for dependent in dependents:
                del self._steps[dependent]
        self._drop_unbuilt_runs()
        return self._lost[step.reference].runs

    def _end_with(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    # --- runs

    def work(self) -> list[LostRuns]:
        """Make all builds and runs; returns the runs lost to failed builds. Raises what a run raises."""
        with self._builders():
            try:
                if self._jobs == 1:
                    # In this thread, which receives Ctrl-C: the engine then tears down the interrupted run.
                    while (assignment := self._next()) is not None:
                        self._run(*assignment)
                else:
                    self._run_in_parallel()
            except BaseException:
                self._abandon()
                raise
        return list(self._lost.values())

    def _abandon(self) -> None:
        """Stop the builds and runs in other threads without waiting; the same command makes them again."""
        with self._changed:
            # A stopped build is not reported as a failure.
            self._closed = True
        self._backend.cancel()

    @contextmanager
    def _builders(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._build_images, name=f"build-{number}") for number in range(LANES)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._closed = True
                self._changed.notify_all()
            for thread in threads:
                thread.join()

    def _next(self) -> tuple[int, PlannedRun, Claim] | None:
        """Wait for the next run that can start, and return it with its number; None if no run is left.

        While a run is under way, more may follow, so the method waits.
        """
        announced = ""
        with self._changed:
            while True:
                if self._error is not None:
                    raise self._error
                if not self._pending and not self._running:
                    return None
                assignment = self._claim_next()
                if assignment is not None:
                    return assignment
                if len(self._running) < self._jobs:
                    announced = self._announce_wait(announced)
                self._changed.wait(POLL_INTERVAL)

    def _claim_next(self) -> tuple[int, PlannedRun, Claim] | None:
        """The run that can start now and that no other harness is making; None without one, or without a free slot."""
        self._waiting_for = None
        if len(self._running) >= self._jobs:
            return None
        for index in ready_runs(self._work()):
            item, _ = self._pending[index]
            claim = self._backend.claim(item)
            if isinstance(claim, int):
                self._waiting_for = self._waiting_for or WaitingForRun(item.cell, item.repetition, claim)
                continue
            del self._pending[index]
            self._started_count += 1
            self._running[self._started_count] = (item, time.monotonic())
            self._changed.notify_all()
            return self._started_count, item, claim
        return None

    def _announce_wait(self, announced: str) -> str:
        """Report what the next run waits for, unless it is `announced` already; returns its name."""
        if self._waiting_for is not None:
            name = f"{self._waiting_for.cell.key}/{self._waiting_for.repetition}"
            if name != announced:
                self._listen(self._waiting_for)
            return name
        for step, seconds in awaited_builds(self._work()):
            if step.reference != announced:
                self._listen(WaitingForImage(step.name, seconds))
            return step.reference
        return announced

    def _run(self, number: int, item: PlannedRun, claim: Claim) -> None:
        with claim:
            if self._backend.is_done_elsewhere(item):
                self._listen(RunTakenOver(item.cell, item.repetition))
            else:
                self._make(number, item)
        with self._changed:
            del self._running[number]
            self._add_next_runs(item.cell)
            self._changed.notify_all()

    def _make(self, number: int, item: PlannedRun) -> None:
        cell = self._backend.settle_images(item.cell)
        expected = self._backend.expected_seconds(cell)
        with self._changed:
            of = self._started_count + len(self._pending)
            # What ended runs took beside their estimates corrects the next one's.
            likely = expected * (self._seconds_taken / self._expected if self._expected else 1.0)
            started = RunStarted(cell, item.repetition, number, of, likely, self._seconds())
        self._listen(started)
        wall = self._backend.run(PlannedRun(cell, item.repetition))
        with self._changed:
            self._expected += expected
            self._seconds_taken += wall

    def _run_in_parallel(self) -> None:
        def run(number: int, item: PlannedRun, claim: Claim) -> None:
            try:
                self._run(number, item, claim)
            except BaseException as error:  # raised again in the main thread
                self._end_with(error)

        with ThreadPoolExecutor(self._jobs, thread_name_prefix="run") as pool:
            try:
                while (assignment := self._next()) is not None:
                    pool.submit(run, *assignment)
            except BaseException:
                # The pool waits for its threads; this makes them end.
                self._abandon()
                raise
