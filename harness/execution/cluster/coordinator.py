"""Executes a plan on a cluster: keeps plan − store, submits runs, stores the answers, and continues after faults.

Only a few more runs than there are cores are submitted at a time, the longest first. So another driver on the same
store can share the work, and few runs are under way when this one ends.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from harness.errors import EngineError, ResultError
from harness.execution.cluster.dask_client import ClusterConnection, LostConnectionError
from harness.execution.cluster.messages import RunAnswer, RunOrder
from harness.execution.events import ClusterProgress, Listener, RunsVerified, RunTakenOver, WaitingForRun, Warned
from harness.execution.locks import RunLock
from harness.execution.matrix import PlannedRun
from harness.formatting import format_count
from harness.outcome import Cell, MeasuredRun, Run
from harness.store.merge import describe_difference

# --- The backend of a driver, and the runs that it submits.


class CoordinatorBackend(Protocol):
    """Describes, locks and stores runs for the driver of a plan."""

    def order(self, item: PlannedRun, driver: str) -> tuple[RunOrder, int]:
        """The order for a run, and the bytes of memory that the run needs at a worker. Raises EngineError."""
        ...

    def claim(self, item: PlannedRun) -> RunLock | int:
        """See `harness.execution.scheduler.Backend`."""
        ...

    def made_elsewhere(self, item: PlannedRun) -> bool:
        """See `harness.execution.scheduler.Backend`."""
        ...

    def expected(self, cell: Cell) -> float:
        """See `harness.execution.scheduler.Backend`."""
        ...

    def take(self, item: PlannedRun, answer: RunAnswer, attempt: int) -> bool:
        """Store a worker's run and report it; returns whether it is to be made again. Raises HarnessError."""
        ...

    def unpacked(self, item: PlannedRun, answer: RunAnswer) -> tuple[Run, MeasuredRun | None]:
        """A worker's run, for a comparison with the stored one. Raises ResultError."""
        ...

    def stored(self, item: PlannedRun) -> tuple[Run, MeasuredRun | None]:
        """The stored run. Raises ResultError."""
        ...


@dataclass
class Task:
    """A run that was submitted, or will be."""

    item: PlannedRun
    attempt: int = 1
    first: str = ""
    """Worker that made the run first; the run is then repeated on another worker, and not stored. Empty otherwise."""
    failed: tuple[str, ...] = ()
    """Messages of machines whose environment failed."""
    claim: RunLock | None = None
    memory: int = 0
    alone: bool = False
    """Workers that had it among other runs died: it is made alone, and given up if workers die again."""
    gone: int = 0
    """How often all workers that could make it left."""


# --- Verification: runs that are made twice on different workers, and whether their results are the same.


def is_sample(item: PlannedRun, share: float) -> bool:
    """Whether a run is in the sample. This depends only on key and repetition, so the same plan has the same sample."""
    digest = hashlib.blake2b(f"verify {item.cell.key}/{item.repetition}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def select_sample(items: list[PlannedRun], share: float) -> set[tuple[str, int]]:
    """(key, repetition) of the runs that are made twice; at least one if `share` is positive."""
    if not items or share <= 0:
        return set()
    sampled = [item for item in items if is_sample(item, share)] or [min(items, key=lambda item: item.cell.key)]
    return {(item.cell.key, item.repetition) for item in sampled}


@dataclass
class Verification:
    """Results of the runs that were made twice."""

    same: int = 0
    parted: list[str] = field(default_factory=list)
    """Runs with different results, one sentence each."""
    alone: int = 0
    """Number of runs that could not be repeated, since there was no other worker."""

    def compare(
        self, first: tuple[Run, MeasuredRun | None], second: tuple[Run, MeasuredRun | None], workers: tuple[str, str]
    ) -> None:
        """Compare two runs of one key and repetition, by the rule of a merge."""
        why = describe_difference(*first, *second)
        if not why:
            self.same += 1
            return
        run = first[0]
        label = f"{run.name} {run.cell.scenario.name} {run.cell.client.name}→{run.cell.server.name}"
        self.parted.append(f"{label}: {why} ({workers[0]} and {workers[1]})")

    @property
    def sentence(self) -> str:
        """Summary for people; empty if no run was to be made twice."""
        parts = []
        if self.same or self.parted:
            runs = format_count(self.same + len(self.parted), "run")
            comparison = "the same" if not self.parted else f"{self.same} came out the same, {len(self.parted)} did not"
            parts.append(f"{runs} made twice, on different workers: {comparison}")
        if self.alone:
            parts.append(f"{format_count(self.alone, 'run')} could not be made twice: there is no other worker")
        return "; ".join(parts)


# --- coordinator


#: Maximum seconds between two checks of the driver: for Ctrl-C, and for workers that joined or left.
POLL_INTERVAL, CHECK_INTERVAL = 0.5, 2.0
#: Seconds between two reports of the progress.
REPORT_INTERVAL = 1.0
#: Seconds to wait for a lost scheduler, and for a second worker if one is needed.
RECONNECT_TIMEOUT = 60.0
#: Seconds between two warnings that no worker takes part, or that none has enough memory.
WARNING_INTERVAL = 10.0
#: Number of machines whose environment may fail for a run before the plan is given up.
MAX_FAILED_MACHINES = 3
#: How often all workers that could make a run may vanish before the run is blamed: as often as Dask lets workers die of
#: one task (distributed.scheduler.allowed-failures). Dask counts from zero for a worker that comes back.
MAX_WORKER_LOSSES = 3


@dataclass
class Driver:
    """Executes one plan once."""

    todo: Sequence[PlannedRun]
    ground: CoordinatorBackend
    connect: Callable[[], ClusterConnection]
    """Raises EngineError."""
    listen: Listener
    further: Callable[[Cell], Sequence[PlannedRun]] = lambda cell: ()
    """The next runs of a cell, called when all its runs have ended."""
    twice: Set[tuple[str, int]] = frozenset()
    """(key, repetition) of the runs that are made twice."""
    large: bool = True
    """Answers have artefacts."""
    alone: bool = False
    """The cluster was started for this plan: no other workers will come."""
    verified: Verification = field(default_factory=Verification)
    _open: list[tuple[float, int, Task]] = field(default_factory=list)
    """Runs to submit, the longest first (heap)."""
    _aside: list[Task] = field(default_factory=list)
    """Runs that wait for another harness, or for another worker."""
    _suspects: list[Task] = field(default_factory=list)
    """Runs that workers had when they died: each is repeated once, with no other run under way."""
    _out: dict[str, Task] = field(default_factory=dict)
    """Key of a task → the run."""
    _claims: dict[int, Task] = field(default_factory=dict)
    """Runs that this driver has locked, by the `id` of the task."""
    _left: Counter[str] = field(default_factory=Counter)
    """Key of a cell → number of its runs that have not ended."""
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def work(self) -> None:
        """Make all runs. Raises what storing raises, and EngineError if it cannot continue; complete runs are kept."""
        self._done, self._took, self._begun = 0, 0.0, time.monotonic()
        self._lost: list[str] = []
        self._looked = self._signed = 0.0
        self._warned, self._together = time.monotonic(), -math.inf
        for item in self.todo:
            self._add(Task(item))
        self._crew = self.connect()
        try:
            self._look()
            while self._open or self._out or self._aside or self._suspects:
                self._turn()
        finally:
            self._crew.close()
            for task in list(self._claims.values()):
                self._let_go(task)
        self._tell_end()

    def _add(self, task: Task) -> None:
        if not task.first:
            self._left[task.item.cell.key] += 1
        self._again(task)

    def _again(self, task: Task) -> None:
        heapq.heappush(self._open, (-self.ground.expected(task.item.cell), next(self._numbers), task))

    def _turn(self) -> None:
        """One step: update the workers, submit runs, store answers."""
        try:
            if time.monotonic() - self._looked >= CHECK_INTERVAL:
                self._look()
            self._fill()
            self._take(self._crew.wait(POLL_INTERVAL, self.large))
        except LostConnectionError as error:
            self._reconnect(error)
        self._sign()

    # --- workers

    def _look(self) -> None:
        self._looked = time.monotonic()
        before = self._crew.cores
        changed = self._crew.look()
        if len(self._crew.members) > 1:
            self._together = self._looked
        if changed:
            # The workers that could make these runs may have left before others joined.
            for key in self._crew.take_back(self._crew.adrift()):
                self._left_behind(self._out.pop(key))
        for task in self._aside:
            self._again(task)
        self._aside = []
        if self._crew.cores != before:
            self._sign(now=True)
        if self.alone and self._crew.strangers and not self._crew.members:
            raise EngineError(
                "the files of this package were changed since this command began: the workers that it started are of "
                "another version",
                "give the command again: what is stored counts",
            )
        if not self._crew.members and time.monotonic() - self._warned > WARNING_INTERVAL:
            self._warned = time.monotonic()
            self.listen(Warned("no worker takes part yet: 'dask worker ADDRESS' starts one"))

    def _left_behind(self, task: Task) -> None:
        task.gone += 1
        if task.gone > MAX_WORKER_LOSSES:
            self._blame(task, f"{task.gone} times all workers that could make it went")
        else:
            self._again(task)

    def _reconnect(self, error: EngineError) -> None:
        """Connect again, and submit the runs under way again. EngineError if no scheduler answers in time."""
        self.listen(Warned(f"{error.message}; what was under way is made again"))
        self._crew.close()
        for task in self._out.values():
            self._again(task)
        self._out = {}
        deadline = time.monotonic() + RECONNECT_TIMEOUT
        while True:
            try:
                self._crew = self.connect()
                self._looked = 0.0
                return
            except EngineError:
                if time.monotonic() > deadline:
                    raise EngineError(
                        f"{error.message}, and it did not come back within {RECONNECT_TIMEOUT:.0f} s",
                        "what finished is kept; the same command goes on",
                    ) from error
                time.sleep(POLL_INTERVAL)

    # --- submission

    def _fill(self) -> None:
        if self._suspects and not (self._open or self._out or self._aside):
            self._again(self._suspects.pop(0))
        deferred, limit = list[Task](), 2 * self._crew.cores
        while self._open and len(self._out) < limit:
            task = heapq.heappop(self._open)[2]
            if not self._claimed(task):
                deferred.append(task)
                continue
            if task.first and not self._others(task.first):
                deferred.append(task)
                continue
            if not task.first and task.attempt == 1 and self.ground.made_elsewhere(task.item):
                self.listen(RunTakenOver(task.item.cell, task.item.repetition))
                self._over(task)
                continue
            if not self._give(task):
                deferred.append(task)
        self._aside += deferred
        self._crew.hand_out()
        if deferred and not self._out and not self._open:
            self._stuck(deferred)

    def _claimed(self, task: Task) -> bool:
        if task.claim is None and not task.first:
            claim = self.ground.claim(task.item)
            if isinstance(claim, int):
                if not self._out:
                    self.listen(WaitingForRun(task.item.cell, task.item.repetition, claim))
                return False
            task.claim = claim
            self._claims[id(task)] = task
        return True

    def _others(self, first: str) -> list[str]:
        """Workers that may repeat a run of worker `first`: those on other machines, if there are any."""
        candidates = [member for member in self._crew.members.values() if member.address != first]
        first_member = self._crew.members.get(first)
        elsewhere = [member for member in candidates if first_member is None or member.host != first_member.host]
        return [member.address for member in elsewhere or candidates]

    def _give(self, task: Task) -> bool:
        """Submit a run, if a worker has the memory for it."""
        order, memory = self.ground.order(task.item, self._crew.name)
        workers = self._others(task.first) if task.first else None
        task.memory = memory
        if not any(
            member.memory >= memory
            for member in self._crew.members.values()
            if workers is None or member.address in workers
        ):
            return False
        second = "-second" if task.first else ""
        # Unique to this connection: the scheduler may still have tasks of a driver that was killed.
        key = f"{self._crew.name}-{task.item.cell.key}-{task.item.repetition}-{next(self._numbers)}{second}"
        self._out[key] = task
        self._crew.give(key, order, self.ground.expected(task.item.cell), memory, workers)
        return True

    def _stuck(self, deferred: list[Task]) -> None:
        """Nothing is under way, and the remaining runs cannot be submitted now: give up second runs, or warn."""
        if not self._crew.members or any(task.claim is None and not task.first for task in deferred):
            return
        for task in deferred:
            # The worker that made it has been the only one for long enough: another one may have restarted in between.
            if task.first and not self._others(task.first) and time.monotonic() - self._together > RECONNECT_TIMEOUT:
                self.verified.alone += 1
                self._aside.remove(task)
        largest = max(member.memory for member in self._crew.members.values())
        unplaceable = [task for task in deferred if task.memory > largest]
        if unplaceable and time.monotonic() - self._warned > WARNING_INTERVAL:
            self._warned = time.monotonic()
            need = max(task.memory for task in unplaceable) >> 20
            runs = format_count(len(unplaceable), "run")
            self.listen(Warned(f"no worker has the memory for {runs}: {need} MiB, and the most is {largest >> 20} MiB"))

    # --- answers

    def _take(self, ended: Sequence[tuple[str, RunAnswer | BaseException]]) -> None:
        """Handle answers that arrived together; if one raises an error, the others are still handled."""
        failure: Exception | None = None
        for key, answer in ended:
            if (task := self._out.pop(key, None)) is not None:
                try:
                    self._came(task, answer)
                except Exception as error:
                    failure = failure or error
        if failure is not None:
            raise failure

    def _came(self, task: Task, answer: RunAnswer | BaseException) -> None:
        if isinstance(answer, TimeoutError):
            self._again(task)
        elif isinstance(answer, BaseException):
            self._broke(task, answer)
        elif answer.failed:
            self._ground_failed(task, answer)
        elif task.first:
            self._second(task, answer)
        elif self.ground.take(task.item, answer, task.attempt):
            task.attempt += 1
            self._again(task)
        else:
            self._done += 1
            self._took += answer.seconds
            if (task.item.cell.key, task.item.repetition) in self.twice:
                self._again(Task(task.item, first=answer.worker))
            self._over(task)

    def _second(self, task: Task, answer: RunAnswer) -> None:
        repeated = self.ground.unpacked(task.item, answer)
        self.verified.compare(self.ground.stored(task.item), repeated, (task.first, answer.worker))

    def _broke(self, task: Task, error: BaseException) -> None:
        """No answer came: every worker that had the run died, or this package has a bug."""
        if type(error).__name__ != "KilledWorker":
            raise error
        self._blame(task, str(error))

    def _blame(self, task: Task, reason: str) -> None:
        """Handle a run that may have killed workers.

        A death counts against all runs that the worker had, whichever killed it. So a suspect is first made alone, with
        no other run under way; if that fails too, it is given up.
        """
        if not task.alone:
            task.alone, task.gone = True, 0
            self._suspects.append(task)
            return
        self._lost.append(f"{task.item.cell.key}/{task.item.repetition}: {reason}")
        self.listen(Warned(f"given up: worker after worker died of it: {reason}", task.item.cell, task.item.repetition))
        self._over(task)

    def _ground_failed(self, task: Task, answer: RunAnswer) -> None:
        """A machine cannot make runs: it gets no more of them, and other workers make those that it had."""
        machine = f"the worker {answer.worker} on {answer.host}"
        for key in self._crew.dismiss(answer.worker):
            self._again(self._out.pop(key))
        self.listen(Warned(f"{machine} gets nothing more to do: {answer.failed}"))
        task.failed = (*task.failed, f"{machine}: {answer.failed}")
        if len(task.failed) >= MAX_FAILED_MACHINES or not self._crew.members:
            raise EngineError(f"{machine}: {answer.failed}", answer.hint or "start other workers and run again")
        self._again(task)

    def _over(self, task: Task) -> None:
        """A run has ended; if it was the last one of its cell, add the cell's next runs."""
        self._let_go(task)
        key = task.item.cell.key
        self._left[key] -= 1
        if not self._left[key]:
            del self._left[key]
            for item in self.further(task.item.cell):
                self._add(Task(item))

    def _let_go(self, task: Task) -> None:
        if task.claim is not None:
            del self._claims[id(task)]
            with suppress(OSError):
                task.claim.__exit__(None, None, None)
            task.claim = None

    # --- reports

    def _sign(self, *, now: bool = False) -> None:
        moment = time.monotonic()
        if not now and moment - self._signed < REPORT_INTERVAL:
            return
        self._signed = moment
        remaining = sum(self._left.values())
        rate = self._done / (moment - self._begun) if self._done else 0.0
        hosts = len({member.host for member in self._crew.members.values()})
        self.listen(
            ClusterProgress(
                len(self._crew.members),
                hosts,
                self._crew.cores,
                self._done,
                self._done + remaining,
                len(self._out),
                rate,
                changed=now,
            )
        )

    def _tell_end(self) -> None:
        if self.verified.sentence:
            self.listen(RunsVerified(self.verified.sentence))
        if self.verified.parted:
            raise ResultError(
                f"{format_count(len(self.verified.parted), 'run')} came out differently on another worker: "
                f"{'; '.join(self.verified.parted[:3])}",
                "what is stored is what came first; 'harness divergence' finds where two runs part",
            )
        if self._lost:
            raise EngineError(
                f"{format_count(len(self._lost), 'run')} could not be made: {'; '.join(self._lost[:3])}",
                "give workers more memory (--memory-limit), and run again",
            )
