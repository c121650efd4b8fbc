"""Executes a plan of this checkout on a cluster: writes the orders for workers, and stores the runs they return."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from harness.engine.build_queue import Step, Work, next_step
from harness.engine.images.cache import Cache
from harness.engine.virtual.guest_config import guest_memory_mib
from harness.errors import EngineError, ResultError, disk_error
from harness.evaluation.verdict import judge
from harness.execution.cluster import coordinator
from harness.execution.cluster.address import ClusterOptions, run_scheduler
from harness.execution.cluster.coordinator import Driver
from harness.execution.cluster.dask_client import ClusterConnection
from harness.execution.cluster.image_transfer import ParcelSource
from harness.execution.cluster.messages import RunAnswer, RunOrder
from harness.execution.cluster.worker import MEASURING
from harness.execution.events import BuildEnded, BuildStarted, Listener, RunFinished, Warned
from harness.execution.local_backend import LocalBackend
from harness.execution.locks import RunLock
from harness.execution.matrix import PlannedRun
from harness.execution.retries import RunMaker
from harness.execution.scheduler import LostRuns
from harness.outcome import Cell, MeasuredRun, Run, proven_outcome
from harness.planning.endpoint_config import UnsupportedError
from harness.store.results import MEASURED, RUN
from harness.topology import build_lab
from harness.writing import path_below, write_new_file

#: Maximum number of cells whose stored runs, or whose JSON, are cached.
_CACHED_CELLS = 2048


@dataclass
class ClusterBackend:
    """The backend of a driver (`harness.execution.cluster.coordinator.CoordinatorBackend`) in one checkout."""

    backend: LocalBackend
    run_maker: RunMaker
    image_source: ParcelSource
    _cell_needs: dict[str, tuple[Sequence[str], int]] = field(default_factory=dict)
    """Key of a cell → its images, and the bytes of memory that its runs need."""

    _texts: dict[str, str] = field(default_factory=dict)

    def order(self, item: PlannedRun, driver: str) -> tuple[RunOrder, int]:
        """See `harness.execution.cluster.coordinator.CoordinatorBackend`."""
        cell, options = item.cell, self.run_maker.options
        if cell.key not in self._cell_needs:
            self._cell_needs[cell.key] = self._needs(cell)
        references, memory = self._cell_needs[cell.key]
        contents = {name: content.digest for name, content in self.image_source.contents(references).items()}
        order = RunOrder(
            self._text(cell),
            item.repetition,
            {name: self.image_source.describe(name) for name in references},
            contents,
            driver,
            self.image_source.files,
            self.run_maker.provenance.commit,
            options.evidence,
            options.stall,
            options.log_limit,
            options.kernel.entry,
        )
        return order, memory

    def _text(self, cell: Cell) -> str:
        if cell.key not in self._texts:
            self._texts[cell.key] = cell.model_dump_json(by_alias=True)
            if len(self._texts) > _CACHED_CELLS:
                del self._texts[next(iter(self._texts))]
        return self._texts[cell.key]

    def _needs(self, cell: Cell) -> tuple[Sequence[str], int]:
        try:
            lab = build_lab(cell, 0)
        except UnsupportedError:
            # Nothing is run: the worker records the run as unsupported, as this machine would.
            return (), 0
        references = list(dict.fromkeys([lab.sim_image, *(host.image for host in lab.hosts)]))
        sent = {reference: self.image_source.describe(reference).to_root(Path()) for reference in references}
        images = {host.name: sent[host.image] for host in lab.hosts}
        images |= {proxy.name: sent[lab.sim_image] for proxy in lab.proxies}
        self.run_maker.store.keep_contents(self.image_source.contents(references).values())
        return references, (guest_memory_mib(lab, images) << 20) + MEASURING

    _runs_by_cell: dict[str, dict[int, tuple[Run, MeasuredRun | None]]] = field(default_factory=dict)

    def claim(self, item: PlannedRun) -> RunLock | int:
        """See `harness.execution.scheduler.Backend`."""
        return self.backend.claim(item)

    def is_done_elsewhere(self, item: PlannedRun) -> bool:
        """See `harness.execution.scheduler.Backend`."""
        return self.backend.is_done_elsewhere(item)

    def expected_seconds(self, cell: Cell) -> float:
        """See `harness.execution.scheduler.Backend`."""
        return self.backend.expected_seconds(cell)

    def store_answer(self, item: PlannedRun, answer: RunAnswer, attempt: int) -> bool:
        """See `harness.execution.cluster.coordinator.CoordinatorBackend`."""
        store, attempts = self.run_maker.store, self.run_maker
        partial = store.begin(item.cell.key, item.repetition)
        try:
            run, measured = _unpack(answer, partial, item)
            stored_runs = self._stored_runs(item)
            store.adopt(partial, run)
        except OSError as error:
            store.abandon(partial)
            raise disk_error(error, partial) from error
        except BaseException:
            store.abandon(partial)
            raise
        outcome = proven_outcome(run, measured)
        stored_runs[item.repetition] = run, measured
        pairs = [stored_runs[number] for number in sorted(stored_runs) if number <= item.repetition]
        verdict = judge(
            item.cell.scenario,
            pairs,
            [str(store.folder(item.cell.key, stored_run.repetition)) for stored_run, _ in pairs],
        )
        attempts.report_end(RunFinished(item.cell, run, outcome, verdict))
        retry = attempts.is_worth_retrying(outcome) and attempt < (
            attempts.options.attempts if attempts.options.patience else 1
        )
        if retry:
            message = f"the run was disturbed on {answer.worker}: running once more (the run is kept as replaced)"
            attempts.listen(Warned(message, item.cell, item.repetition))
        return retry

    def _stored_runs(self, item: PlannedRun) -> dict[int, tuple[Run, MeasuredRun | None]]:
        """The stored runs of a cell, by repetition; cached for the cells that were used last."""
        key = item.cell.key
        if key not in self._runs_by_cell:
            runs = self.run_maker.results.result_of(item.cell).runs
            self._runs_by_cell[key] = {run.repetition: (run, measured) for run, measured in runs}
            if len(self._runs_by_cell) > _CACHED_CELLS:
                del self._runs_by_cell[next(iter(self._runs_by_cell))]
        return self._runs_by_cell[key]

    def unpack(self, item: PlannedRun, answer: RunAnswer) -> tuple[Run, MeasuredRun | None]:
        """See `harness.execution.cluster.coordinator.CoordinatorBackend`."""
        return _unpack(answer, None, item)

    def stored_run(self, item: PlannedRun) -> tuple[Run, MeasuredRun | None]:
        """See `harness.execution.cluster.coordinator.CoordinatorBackend`."""
        store = self.run_maker.store
        run = store.run(item.cell.key, item.repetition)
        if run is None:
            raise ResultError(f"{store.folder(item.cell.key, item.repetition)} is gone", "run again")
        return run, store.measured(item.cell.key, item.repetition)


def _unpack(answer: RunAnswer, folder: Path | None, item: PlannedRun) -> tuple[Run, MeasuredRun | None]:
    """Decode a worker's run, and write it to `folder` if given. Raises OSError; ResultError if it is another run.

    The cell of the order is used in place of the one in the run: parsing a cell takes most of a driver's time per run.
    """
    try:
        run = _parse_run(from_json(answer.files[RUN]), item)
        # The worker has the same version, so the record has the current format.
        figures = answer.files.get(MEASURED)
        measured = None if figures is None else MeasuredRun.model_validate_json(figures)
        if folder is not None:
            _write(answer, folder)
    except (tarfile.TarError, ValueError, KeyError, TypeError) as error:
        raise ResultError(f"what the worker {answer.worker} made is no run: {error}", "run again") from error
    return run, measured


def _write(answer: RunAnswer, folder: Path) -> None:
    """Write the files of an answer to a new folder: only regular files, each to a new path below the folder."""
    folders = {folder}
    for name, content in answer.files.items():
        _write_below(folder, name, content, folders)
    if not answer.archive:
        return
    with tarfile.open(fileobj=io.BytesIO(answer.archive), mode="r:") as archive:
        for member in archive:
            if member.isdir():
                _make_folders(path_below(folder, member.name), folders)
            elif member.issparse():
                raise ValueError(f"{member.name} has holes, and may claim to be of any size")
            elif (stream := archive.extractfile(member) if member.isreg() or member.islnk() else None) is not None:
                _write_below(folder, member.name, stream.read(), folders)
            # Special files of endpoints are named in the run's warnings, and are not copied.


def _write_below(folder: Path, name: str, content: bytes, folders: set[Path]) -> None:
    place = path_below(folder, name)
    _make_folders(place.parent, folders)
    write_new_file(place, content)


def _make_folders(place: Path, folders: set[Path]) -> None:
    if place not in folders:
        _make_folders(place.parent, folders)
        place.mkdir()
        folders.add(place)


def _parse_run(content: dict[str, Any], item: PlannedRun) -> Run:
    received = content["cell"]["key"], content["repetition"]
    if received != (item.cell.key, item.repetition):
        requested = f"{item.cell.key}/{item.repetition}"
        raise ResultError(f"a worker made {received[0]}/{received[1]} where {requested} was asked for", "run again")
    return Run.model_validate({**content, "cell": item.cell})


def build_missing(
    todo: Sequence[PlannedRun], backend: LocalBackend, listen: Listener
) -> tuple[list[PlannedRun], list[LostRuns]]:
    """Build the images that the runs need, one after the other, before any run is submitted.

    Returns the runs that can be made, and those lost to failed builds.
    """
    needs = {item.cell.key: backend.needs(item.cell) for item in {item.cell.key: item for item in todo}.values()}
    steps = {step.reference: step for _, needed_steps in needs.values() for step in needed_steps}
    failed: dict[str, EngineError] = {}
    names: dict[str, str] = {reference: step.name for reference, step in steps.items()}
    culprits: dict[str, str] = {}
    while steps:
        step = next_step(Work(steps, [needed for needed, _ in needs.values()], ended=1)) or next(
            candidate for candidate in steps.values() if not candidate.bases & steps.keys()
        )
        del steps[step.reference]
        _build(step, backend, listen, failed)
        if step.reference in failed:
            culprits[step.reference] = step.reference
            _drop_dependents(steps, step.reference, culprits)
    runnable, lost = [], dict[str, int]()
    for item in todo:
        culprit = next(
            (culprits[reference] for reference in sorted(needs[item.cell.key][0]) if reference in culprits), None
        )
        if culprit is None:
            runnable.append(item)
        else:
            lost[culprit] = lost.get(culprit, 0) + 1
    return runnable, [LostRuns(names[culprit], failed[culprit], count) for culprit, count in lost.items()]


def _drop_dependents(steps: dict[str, Step], culprit: str, culprits: dict[str, str]) -> None:
    """Drop the builds that depend on a failed one."""
    pending = [culprit]
    while pending:
        base = pending.pop()
        for reference in [reference for reference, step in steps.items() if base in step.bases]:
            del steps[reference]
            culprits[reference] = culprit
            pending.append(reference)


def _build(step: Step, backend: LocalBackend, listen: Listener, failed: dict[str, EngineError]) -> None:
    began = time.monotonic()
    listen(BuildStarted(step.name, step.seconds))
    try:
        backend.make(step, beside=False)
    except EngineError as error:
        failed[step.reference] = error
    listen(BuildEnded(step.name, time.monotonic() - began, failed.get(step.reference)))


def run_on_cluster(
    cluster: ClusterOptions,
    todo: Sequence[PlannedRun],
    backend: LocalBackend,
    attempts: RunMaker,
    image_source: ParcelSource,
    cache: Cache,
    next_runs: Callable[[Cell], Sequence[PlannedRun]],
) -> list[LostRuns]:
    """Make and store a plan's runs on the cluster; returns those lost to failed builds. Raises as `Driver.work`."""
    listen = attempts.listen
    possible, lost = build_missing(todo, backend, listen)
    environment = {"HARNESS_CACHE": str(cache.folder), "HARNESS_CACHE_LIMIT": f"{cache.limit} B"}
    with ExitStack() as stack:
        stack.enter_context(image_source)
        scheduler = stack.enter_context(run_scheduler(cluster, environment))
        security = scheduler.security
        driver = Driver(
            possible,
            ClusterBackend(backend, attempts, image_source),
            lambda: ClusterConnection(scheduler.address, security, image_source, lambda text: listen(Warned(text))),
            listen,
            next_runs,
            coordinator.select_sample(list(possible), cluster.verify),
            attempts.options.evidence != "figures",
            bool(cluster.local),
        )
        if possible:
            driver.work()
    return lost
