"""Works on a plan: runs in plan order as far as their images are there, and builds of the other images beside them.

What to do next is decided by `harness.engine.build_queue`; here are the threads that do it.
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

from harness.engine.build_queue import LANES, Step, Work, awaited, next_run, next_step, ready_runs, seconds_left
from harness.errors import EngineError
from harness.evaluation.cell_result import CellResult
from harness.execution.events import BuildEnded, BuildStarted, Listener, RunsHeld, RunStarted, RunsWait, RunTakenOver
from harness.execution.matrix import PlannedRun
from harness.formatting import counted
from harness.outcome import Cell

# --- Runs that did not take place, since an image of theirs could not be built.


@dataclass(frozen=True)
class LostRuns:
    """Runs that cannot take place, because an image of theirs could not be built."""

    image: str
    error: EngineError
    runs: int


class UnbuiltError(EngineError):
    """Everything was done but the runs of images that could not be built."""

    def __init__(self, message: str, hint: str, results: Sequence[CellResult]) -> None:
        super().__init__(message, hint)
        self.results = list(results)
        """All cells, with the runs they have."""


def lost_runs(lost: Sequence[LostRuns], logs: Path) -> tuple[str, str]:
    """What to say at the end of runs that were lost: a message and a hint. `logs`: the folder of the builds' logs."""
    names = ", ".join(item.image for item in lost)
    what = "1 image" if len(lost) == 1 else f"{len(lost)} images"
    return (
        f"{what} could not be built ({names}): {counted(sum(item.runs for item in lost), 'run')} left out",
        f"the reason is above and in {logs}; the same command runs what is missing",
    )


# --- scheduler


#: Seconds after which the main thread looks up: a signal that another thread was given does not wake it.
PULSE = 0.5


Claim = AbstractContextManager[object]
"""The right to make a run, until it is left."""


class Backend(Protocol):
    """What a campaign works with."""

    def needs(self, cell: Cell) -> tuple[frozenset[str], Sequence[Step]]:
        """References of all images a cell needs, and those of them, and of what is below, that are not there."""
        ...

    def make(self, step: Step, *, beside: bool) -> bool:
        """Build one image; whether that may have changed what cells need. Raises EngineError.

        `beside`: runs go on meanwhile.
        """
        ...

    def ready(self, cell: Cell) -> Cell:
        """A cell whose images are there, with the simulator that was settled on."""
        ...

    def claim(self, item: PlannedRun) -> Claim | int:
        """The right to make a run, which no other harness has meanwhile; or the process that has it, 0 if not known."""
        ...

    def made_elsewhere(self, item: PlannedRun) -> bool:
        """Whether another harness has made a run since this one looked."""
        ...

    def run(self, item: PlannedRun) -> float:
        """Run once and store it; the wall time in seconds. Raises HarnessError when the ground failed."""
        ...

    def expected(self, cell: Cell) -> float:
        """Rough wall time of one run in seconds."""
        ...

    def cancel(self) -> None:
        """End what other threads build and run; their `make` and `run` raise EngineError."""
        ...


class Campaign:
    """One plan, worked on once."""

    def __init__(
        self,
        todo: Sequence[PlannedRun],
        jobs: int,
        ground: Backend,
        listen: Listener,
        further: Callable[[Cell], Sequence[PlannedRun]] = lambda cell: (),
    ) -> None:
        """`jobs`: runs side by side; `further`: what else a cell needs, asked when all its runs have ended."""
        self._further = further
        self._jobs = jobs
        self._ground = ground
        self._listen = listen
        # Guards all of the state below; whoever waits for a change of it waits here.
        self._changed = threading.Condition()
        self._steps: dict[str, Step] = {}
        self._open = [(item, frozenset[str]()) for item in todo]
        self._since: dict[str, float] = {}
        """Builds under way → when they began (monotonic seconds)."""
        self._failed: dict[str, str] = {}
        """Image that there will not be → the image that could not be built."""
        self._lost: dict[str, LostRuns] = {}
        self._running: dict[int, tuple[PlannedRun, float]] = {}
        """Number of a run under way → the run, and when it began."""
        self._begun = 0
        self._expected = 0.0
        self._took = 0.0
        self._elsewhere: RunsHeld | None = None
        """The first run that could start and that another harness makes; None where this one has something to do."""
        self._closed = False
        self._broken: BaseException | None = None
        """What ended a thread that should have gone on."""
        self._look()

    # --- state; with the lock held

    def _look(self) -> None:
        """Ask anew what each run needs."""
        needed = {item.cell.key: self._ground.needs(item.cell) for item, _ in self._open}
        self._open = [(item, needed[item.cell.key][0]) for item, _ in self._open]
        for _, steps in needed.values():
            self._steps |= {step.reference: step for step in steps if step.reference not in self._failed}
        self._give_up()

    def _work(self) -> Work:
        now = time.monotonic()
        under_way = {reference: now - since for reference, since in self._since.items()}
        running = len(self._running)
        return Work(self._steps, [needs for _, needs in self._open], under_way, running, self._begun - running)

    def _go_on(self, cell: Cell) -> None:
        """A run of a cell has ended: with the last of them the cell may need more."""
        left = [item for item, _ in self._open] + [item for item, _ in self._running.values()]
        if not any(item.cell.key == cell.key for item in left) and (more := self._further(cell)):
            self._open += [(item, frozenset[str]()) for item in more]
            self._look()

    def _give_up(self) -> None:
        """Drop the runs that need what there will not be."""
        kept = []
        for item, needs in self._open:
            culprit = next((self._failed[reference] for reference in sorted(needs) if reference in self._failed), None)
            if culprit is None:
                kept.append((item, needs))
            else:
                self._lost[culprit] = replace(self._lost[culprit], runs=self._lost[culprit].runs + 1)
        self._open = kept

    def _seconds(self) -> float:
        factor = self._took / self._expected if self._expected else 1.0
        now = time.monotonic()
        return seconds_left(
            self._work(),
            [factor * self._ground.expected(item.cell) for item, _ in self._open],
            self._jobs,
            [factor * self._ground.expected(item.cell) - (now - since) for item, since in self._running.values()],
        )

    def seconds(self) -> float:
        """Seconds until everything is done, builds and runs."""
        with self._changed:
            return self._seconds()

    # --- builds

    def _lane(self) -> None:
        """Build one image after the other, until everything ends."""
        try:
            while True:
                with self._changed:
                    while not self._closed and (step := next_step(self._work())) is None:
                        self._changed.wait()
                    if self._closed:
                        return
                    assert step is not None
                    self._since[step.reference] = time.monotonic()
                    # Between two runs nothing runs for a moment.
                    beside = bool(self._running) or next_run(self._work()) is not None
                self._build(step, beside)
        except BaseException as error:  # the main thread has to know, whatever it is
            self._break(error)

    def _build(self, step: Step, beside: bool) -> None:
        began = time.monotonic()
        self._listen(BuildStarted(step.name, step.seconds))
        error, other = None, False
        try:
            other = self._ground.make(step, beside=beside)
        except EngineError as failed:
            error = failed
        with self._changed:
            if self._closed:
                return
            del self._since[step.reference], self._steps[step.reference]
            lost = 0
            if error is not None:
                lost = self._fail(step, error)
            elif other:
                self._look()
            self._changed.notify_all()
        self._listen(BuildEnded(step.name, time.monotonic() - began, error, lost))

    def _fail(self, step: Step, error: EngineError) -> int:
        """An image cannot be built: neither can what is built on it. How many runs that costs."""
        self._lost[step.reference] = LostRuns(step.name, error, 0)
        left = [step.reference]
        while left:
            reference = left.pop()
            self._failed[reference] = step.reference
            above = [other for other, one in self._steps.items() if reference in one.on]
            left += above
            for other in above:
                del self._steps[other]
        self._give_up()
        return self._lost[step.reference].runs

    def _break(self, error: BaseException) -> None:
        with self._changed:
            self._broken = self._broken or error
            self._changed.notify_all()

    # --- runs

    def work(self) -> list[LostRuns]:
        """Build and run everything; what was lost to failed builds. Raises what a run raises."""
        with self._lanes():
            try:
                if self._jobs == 1:
                    # In this thread: it is the one that Ctrl-C reaches, and an engine tears down what it interrupts.
                    while (taken := self._next()) is not None:
                        self._run(*taken)
                else:
                    self._side_by_side()
            except BaseException:
                self._abandon()
                raise
        return list(self._lost.values())

    def _abandon(self) -> None:
        """End what goes on beside: it is not worth waiting for, and is done again when asked for."""
        with self._changed:
            # A build that is ended is no failure to tell of.
            self._closed = True
        self._ground.cancel()

    @contextmanager
    def _lanes(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._lane, name=f"build-{number}") for number in range(LANES)]
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
        """The next run and its number, as soon as there is one that can start; None when none is left.

        None is left only when none is under way either: its end may bring on more.
        """
        said = ""
        with self._changed:
            while True:
                if self._broken is not None:
                    raise self._broken
                if not self._open and not self._running:
                    return None
                taken = self._take()
                if taken is not None:
                    return taken
                if len(self._running) < self._jobs:
                    said = self._say_wait(said)
                self._changed.wait(PULSE)

    def _take(self) -> tuple[int, PlannedRun, Claim] | None:
        """The run that can start now and that no other harness makes, if there is one and room for it."""
        self._elsewhere = None
        if len(self._running) >= self._jobs:
            return None
        for index in ready_runs(self._work()):
            item, _ = self._open[index]
            claim = self._ground.claim(item)
            if isinstance(claim, int):
                self._elsewhere = self._elsewhere or RunsHeld(item.cell, item.repetition, claim)
                continue
            del self._open[index]
            self._begun += 1
            self._running[self._begun] = (item, time.monotonic())
            self._changed.notify_all()
            return self._begun, item, claim
        return None

    def _say_wait(self, said: str) -> str:
        """Say what the next run waits for, unless that was said; the name of it."""
        if self._elsewhere is not None:
            name = f"{self._elsewhere.cell.key}/{self._elsewhere.repetition}"
            if name != said:
                self._listen(self._elsewhere)
            return name
        for step, seconds in awaited(self._work()):
            if step.reference != said:
                self._listen(RunsWait(step.name, seconds))
            return step.reference
        return said

    def _run(self, number: int, item: PlannedRun, claim: Claim) -> None:
        with claim:
            if self._ground.made_elsewhere(item):
                self._listen(RunTakenOver(item.cell, item.repetition))
            else:
                self._make(number, item)
        with self._changed:
            del self._running[number]
            self._go_on(item.cell)
            self._changed.notify_all()

    def _make(self, number: int, item: PlannedRun) -> None:
        cell = self._ground.ready(item.cell)
        expected = self._ground.expected(cell)
        with self._changed:
            of = self._begun + len(self._open)
            started = RunStarted(cell, item.repetition, number, of, expected, self._seconds())
        self._listen(started)
        wall = self._ground.run(PlannedRun(cell, item.repetition))
        with self._changed:
            self._expected += expected
            self._took += wall

    def _side_by_side(self) -> None:
        def run(number: int, item: PlannedRun, claim: Claim) -> None:
            try:
                self._run(number, item, claim)
            except BaseException as error:  # raised again in the main thread
                self._break(error)

        with ThreadPoolExecutor(self._jobs, thread_name_prefix="run") as pool:
            try:
                while (taken := self._next()) is not None:
                    pool.submit(run, *taken)
            except BaseException:
                # The pool waits for its threads: they end because of this.
                self._abandon()
                raise
