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

    def is_done_elsewhere(self, item: PlannedRun) -> bool:
        """See `harness.execution.scheduler.Backend`."""
        ...

    def expected_seconds(self, cell: Cell) -> float:
        """See `harness.execution.scheduler.Backend`."""
        ...

    def store_answer(self, item: PlannedRun, answer: RunAnswer, attempt: int) -> bool:
        """Store a worker's run and report it; returns whether it is to be made again. Raises HarnessError."""
        ...

    def unpack(self, item: PlannedRun, answer: RunAnswer) -> tuple[Run, MeasuredRun | None]:
        """A worker's run, for a comparison with the stored one. Raises ResultError."""
        ...

    def stored_run(self, item: PlannedRun) -> tuple[Run, MeasuredRun | None]:
        """The stored run. Raises ResultError."""
        ...


@dataclass
class Task:
    """A run that was submitted, or will be."""

    item: PlannedRun
    attempt: int = 1
    first_worker: str = ""
    """Worker that made the run first; the run is then repeated on another worker, and not stored. Empty otherwise."""
    failures: tuple[str, ...] = ()
    """Messages of machines whose environment failed."""
    claim: RunLock | None = None
    memory: int = 0
    isolated: bool = False
    """Workers that had it among other runs died: it is made alone, and given up if workers die again."""
    worker_losses: int = 0
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
    differences: list[str] = field(default_factory=list)
    """Runs with different results, one sentence each."""
    unrepeated: int = 0
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
        self.differences.append(f"{label}: {why} ({workers[0]} and {workers[1]})")

    @property
    def sentence(self) -> str:
        """Summary for people; empty if no run was to be made twice."""
        parts = []
        if self.same or self.differences:
            runs = format_count(self.same + len(self.differences), "run")
            comparison = (
                "the same"
                if not self.differences
                else f"{self.same} came out the same, {len(self.differences)} did not"
            )
            parts.append(f"{runs} made twice, on different workers: {comparison}")
        if self.unrepeated:
            parts.append(f"{format_count(self.unrepeated, 'run')} could not be made twice: there is no other worker")
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

    planned_runs: Sequence[PlannedRun]
    backend: CoordinatorBackend
    connect: Callable[[], ClusterConnection]
    """Raises EngineError."""
    listen: Listener
    next_runs: Callable[[Cell], Sequence[PlannedRun]] = lambda cell: ()
    """The next runs of a cell, called when all its runs have ended."""
    sample: Set[tuple[str, int]] = frozenset()
    """(key, repetition) of the runs that are made twice."""
    with_artefacts: bool = True
    """Answers have artefacts."""
    owns_cluster: bool = False
    """The cluster was started for this plan: no other workers will come."""
    verification: Verification = field(default_factory=Verification)
    _pending: list[tuple[float, int, Task]] = field(default_factory=list)
    """Runs to submit, the longest first (heap)."""
    _deferred: list[Task] = field(default_factory=list)
    """Runs that wait for another harness, or for another worker."""
    _suspects: list[Task] = field(default_factory=list)
    """Runs that workers had when they died: each is repeated once, with no other run under way."""
    _submitted: dict[str, Task] = field(default_factory=dict)
    """Key of a task → the run."""
    _claims: dict[int, Task] = field(default_factory=dict)
    """Runs that this driver has locked, by the `id` of the task."""
    _unfinished: Counter[str] = field(default_factory=Counter)
    """Key of a cell → number of its runs that have not ended."""
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def work(self) -> None:
        """Make all runs. Raises what storing raises, and EngineError if it cannot continue; complete runs are kept."""
        self._completed, self._worker_seconds, self._started_at = 0, 0.0, time.monotonic()
        self._given_up: list[str] = []
        self._checked_at = self._reported_at = 0.0
        self._warned_at, self._several_workers_at = time.monotonic(), -math.inf
        for item in self.planned_runs:
            self._add(Task(item))
        self._cluster = self.connect()
        try:
            self._check_workers()
            while self._pending or self._submitted or self._deferred or self._suspects:
                self._step()
        finally:
            self._cluster.close()
            for task in list(self._claims.values()):
                self._release_claim(task)
        self._report_end()

    def _add(self, task: Task) -> None:
        if not task.first_worker:
            self._unfinished[task.item.cell.key] += 1
        self._requeue(task)

    def _requeue(self, task: Task) -> None:
        heapq.heappush(self._pending, (-self.backend.expected_seconds(task.item.cell), next(self._numbers), task))

    def _step(self) -> None:
        """One step: update the workers, submit runs, store answers."""
        try:
            if time.monotonic() - self._checked_at >= CHECK_INTERVAL:
                self._check_workers()
            self._submit_pending()
            self._handle_answers(self._cluster.wait(POLL_INTERVAL, self.with_artefacts))
        except LostConnectionError as error:
            self._reconnect(error)
        self._report_progress()

    # --- workers

    def _check_workers(self) -> None:
        self._checked_at = time.monotonic()
        before = self._cluster.cores
        changed = self._cluster.update_workers()
        if len(self._cluster.workers) > 1:
            self._several_workers_at = self._checked_at
        if changed:
            # The workers that could make these runs may have left before others joined.
            for key in self._cluster.cancel(self._cluster.unassigned_tasks()):
                self._requeue_lost(self._submitted.pop(key))
        for task in self._deferred:
            self._requeue(task)
        self._deferred = []
        if self._cluster.cores != before:
            self._report_progress(now=True)
        if self.owns_cluster and self._cluster.version_mismatches and not self._cluster.workers:
            raise EngineError(
                "the files of this package were changed since this command began: the workers that it started are of "
                "another version",
                "give the command again: what is stored counts",
            )
        if not self._cluster.workers and time.monotonic() - self._warned_at > WARNING_INTERVAL:
            self._warned_at = time.monotonic()
            self.listen(Warned("no worker takes part yet: 'dask worker ADDRESS' starts one"))

    def _requeue_lost(self, task: Task) -> None:
        task.worker_losses += 1
        if task.worker_losses > MAX_WORKER_LOSSES:
            self._isolate_or_give_up(task, f"{task.worker_losses} times all workers that could make it went")
        else:
            self._requeue(task)

    def _reconnect(self, error: EngineError) -> None:
        """Connect again, and submit the runs under way again. EngineError if no scheduler answers in time."""
        self.listen(Warned(f"{error.message}; what was under way is made again"))
        self._cluster.close()
        for task in self._submitted.values():
            self._requeue(task)
        self._submitted = {}
        deadline = time.monotonic() + RECONNECT_TIMEOUT
        while True:
            try:
                self._cluster = self.connect()
                self._checked_at = 0.0
                return
            except EngineError:
                if time.monotonic() > deadline:
                    raise EngineError(
                        f"{error.message}, and it did not come back within {RECONNECT_TIMEOUT:.0f} s",
                        "what finished is kept; the same command goes on",
                    ) from error
                time.sleep(POLL_INTERVAL)

    # --- submission

    def _submit_pending(self) -> None:
        if self._suspects and not (self._pending or self._submitted or self._deferred):
            self._requeue(self._suspects.pop(0))
        deferred, limit = list[Task](), 2 * self._cluster.cores
        while self._pending and len(self._submitted) < limit:
            task = heapq.heappop(self._pending)[2]
            if not self._claim(task):
                deferred.append(task)
                continue
            if task.first_worker and not self._other_workers(task.first_worker):
                deferred.append(task)
                continue
            if not task.first_worker and task.attempt == 1 and self.backend.is_done_elsewhere(task.item):
                self.listen(RunTakenOver(task.item.cell, task.item.repetition))
                self._finish(task)
                continue
            if not self._submit(task):
                deferred.append(task)
        self._deferred += deferred
        self._cluster.submit_queued()
        if deferred and not self._submitted and not self._pending:
            self._handle_deferred(deferred)

    def _claim(self, task: Task) -> bool:
        if task.claim is None and not task.first_worker:
            claim = self.backend.claim(task.item)
            if isinstance(claim, int):
                if not self._submitted:
                    self.listen(WaitingForRun(task.item.cell, task.item.repetition, claim))
                return False
            task.claim = claim
            self._claims[id(task)] = task
        return True

    def _other_workers(self, first: str) -> list[str]:
        """Workers that may repeat a run of worker `first`: those on other machines, if there are any."""
        candidates = [member for member in self._cluster.workers.values() if member.address != first]
        first_member = self._cluster.workers.get(first)
        elsewhere = [member for member in candidates if first_member is None or member.host != first_member.host]
        return [member.address for member in elsewhere or candidates]

    def _submit(self, task: Task) -> bool:
        """Submit a run, if a worker has the memory for it."""
        order, memory = self.backend.order(task.item, self._cluster.name)
        workers = self._other_workers(task.first_worker) if task.first_worker else None
        task.memory = memory
        if not any(
            member.memory >= memory
            for member in self._cluster.workers.values()
            if workers is None or member.address in workers
        ):
            return False
        second = "-second" if task.first_worker else ""
        # Unique to this connection: the scheduler may still have tasks of a driver that was killed.
        key = f"{self._cluster.name}-{task.item.cell.key}-{task.item.repetition}-{next(self._numbers)}{second}"
        self._submitted[key] = task
        self._cluster.queue_run(key, order, self.backend.expected_seconds(task.item.cell), memory, workers)
        return True

    def _handle_deferred(self, deferred: list[Task]) -> None:
        """Nothing is under way, and the remaining runs cannot be submitted now: give up second runs, or warn."""
        if not self._cluster.workers or any(task.claim is None and not task.first_worker for task in deferred):
            return
        for task in deferred:
            # The worker that made it has been the only one for long enough: another one may have restarted in between.
            if (
                task.first_worker
                and not self._other_workers(task.first_worker)
                and time.monotonic() - self._several_workers_at > RECONNECT_TIMEOUT
            ):
                self.verification.unrepeated += 1
                self._deferred.remove(task)
        largest = max(member.memory for member in self._cluster.workers.values())
        unplaceable = [task for task in deferred if task.memory > largest]
        if unplaceable and time.monotonic() - self._warned_at > WARNING_INTERVAL:
            self._warned_at = time.monotonic()
            need = max(task.memory for task in unplaceable) >> 20
            runs = format_count(len(unplaceable), "run")
            self.listen(Warned(f"no worker has the memory for {runs}: {need} MiB, and the most is {largest >> 20} MiB"))

    # --- answers

    def _handle_answers(self, ended: Sequence[tuple[str, RunAnswer | BaseException]]) -> None:
        """Handle answers that arrived together; if one raises an error, the others are still handled."""
        failure: Exception | None = None
        for key, answer in ended:
            if (task := self._submitted.pop(key, None)) is not None:
                try:
                    self._handle_answer(task, answer)
                except Exception as error:
                    failure = failure or error
        if failure is not None:
            raise failure

    def _handle_answer(self, task: Task, answer: RunAnswer | BaseException) -> None:
        if isinstance(answer, TimeoutError):
            self._requeue(task)
        elif isinstance(answer, BaseException):
            self._handle_error(task, answer)
        elif answer.failed:
            self._exclude_machine(task, answer)
        elif task.first_worker:
            self._compare_repeat(task, answer)
        elif self.backend.store_answer(task.item, answer, task.attempt):
            task.attempt += 1
            self._requeue(task)
        else:
            self._completed += 1
            self._worker_seconds += answer.seconds
            if (task.item.cell.key, task.item.repetition) in self.sample:
                self._requeue(Task(task.item, first_worker=answer.worker))
            self._finish(task)

    def _compare_repeat(self, task: Task, answer: RunAnswer) -> None:
        repeated = self.backend.unpack(task.item, answer)
        self.verification.compare(self.backend.stored_run(task.item), repeated, (task.first_worker, answer.worker))

    def _handle_error(self, task: Task, error: BaseException) -> None:
        """No answer came: every worker that had the run died, or this package has a bug."""
        if type(error).__name__ != "KilledWorker":
            raise error
        self._isolate_or_give_up(task, str(error))

    def _isolate_or_give_up(self, task: Task, reason: str) -> None:
        """Handle a run that may have killed workers.

        A death counts against all runs that the worker had, whichever killed it. So a suspect is first made alone, with
        no other run under way; if that fails too, it is given up.
        """
        if not task.isolated:
            task.isolated, task.worker_losses = True, 0
            self._suspects.append(task)
            return
        self._given_up.append(f"{task.item.cell.key}/{task.item.repetition}: {reason}")
        self.listen(Warned(f"given up: worker after worker died of it: {reason}", task.item.cell, task.item.repetition))
        self._finish(task)

    def _exclude_machine(self, task: Task, answer: RunAnswer) -> None:
        """A machine cannot make runs: it gets no more of them, and other workers make those that it had."""
        machine = f"the worker {answer.worker} on {answer.host}"
        for key in self._cluster.exclude(answer.worker):
            self._requeue(self._submitted.pop(key))
        self.listen(Warned(f"{machine} gets nothing more to do: {answer.failed}"))
        task.failures = (*task.failures, f"{machine}: {answer.failed}")
        if len(task.failures) >= MAX_FAILED_MACHINES or not self._cluster.workers:
            raise EngineError(f"{machine}: {answer.failed}", answer.hint or "start other workers and run again")
        self._requeue(task)

    def _finish(self, task: Task) -> None:
        """A run has ended; if it was the last one of its cell, add the cell's next runs."""
        self._release_claim(task)
        key = task.item.cell.key
        self._unfinished[key] -= 1
        if not self._unfinished[key]:
            del self._unfinished[key]
            for item in self.next_runs(task.item.cell):
                self._add(Task(item))

    def _release_claim(self, task: Task) -> None:
        if task.claim is not None:
            del self._claims[id(task)]
            with suppress(OSError):
                task.claim.__exit__(None, None, None)
            task.claim = None

    # --- reports

    def _report_progress(self, *, now: bool = False) -> None:
        moment = time.monotonic()
        if not now and moment - self._reported_at < REPORT_INTERVAL:
            return
        self._reported_at = moment
        remaining = sum(self._unfinished.values())
        rate = self._completed / (moment - self._started_at) if self._completed else 0.0
        hosts = len({member.host for member in self._cluster.workers.values()})
        self.listen(
            ClusterProgress(
                len(self._cluster.workers),
                hosts,
                self._cluster.cores,
                self._completed,
                self._completed + remaining,
                len(self._submitted),
                rate,
                changed=now,
            )
        )

    def _report_end(self) -> None:
        if self.verification.sentence:
            self.listen(RunsVerified(self.verification.sentence))
        if self.verification.differences:
            raise ResultError(
                f"{format_count(len(self.verification.differences), 'run')} came out differently on another worker: "
                f"{'; '.join(self.verification.differences[:3])}",
                "what is stored is what came first; 'harness divergence' finds where two runs part",
            )
        if self._given_up:
            raise EngineError(
                f"{format_count(len(self._given_up), 'run')} could not be made: {'; '.join(self._given_up[:3])}",
                "give workers more memory (--memory-limit), and run again",
            )
