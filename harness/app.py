"""Wires the stages: catalogue, plan, engine, store, measure, judge. The only module that knows them all."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.catalogue import Catalogue, load
from harness.engines import Engine
from harness.engines.compose import ComposeEngine, prepare_folder
from harness.engines.docker import daemon
from harness.engines.images import Announce, Build, Images
from harness.engines.served import served_file
from harness.errors import EngineError, HarnessError, InputError
from harness.events import ImageStarted, Listener, PhaseStarted, PlanMade, RunFinished, RunStarted, Warned
from harness.judge import judge
from harness.lab import build_lab, expected_seconds
from harness.metrics import VERSION, measure
from harness.model import Implementation
from harness.outcome import Cell, Image, MeasuredRun, Run, proven_outcome
from harness.plan import PlannedRun, Request, cells, runs
from harness.reports import CellResult
from harness.runner import run_once
from harness.store import Store


@dataclass(frozen=True)
class Places:
    """Where things are."""

    root: Path
    store: Path
    state: Path
    """Logs of builds, what a probe found."""
    cache: Path
    """Served files and certificates."""


@dataclass(frozen=True)
class Options:
    """How a plan is worked on."""

    fresh: bool = False
    """Run again what is stored."""
    retry: frozenset[str] = frozenset({"infrastructure"})
    """Outcomes that do not count as done."""
    attempts: int = 3
    """How often a run is tried while its link is not the one asked for."""
    log_limit: int = 2 << 30
    """Bytes an endpoint may write to its logs."""


class App:
    """One repository checkout, its images and its store."""

    def __init__(self, places: Places, manifests: Sequence[Path] = ()) -> None:
        self.places = places
        self.catalogue = Catalogue(places.root, tuple(manifests))
        self.store = Store(places.store)
        self.images = Images(places.root / "images", places.state)

    @cached_property
    def _known(self) -> dict[str, tuple[Implementation, Path]]:
        """The implementations, read once: the estimate asks for them for every run."""
        return self.catalogue.implementations()

    # --- planning

    def absent(self) -> dict[str, str]:
        """Published images that are not on this machine: implementation → image."""
        found = {}
        for name, (implementation, _) in self._known.items():
            if implementation.image is not None and self.images.published(implementation.image) is None:
                found[name] = implementation.image
        return found

    def _image(self, implementation: Implementation, listen: Listener, *, pull: bool) -> Image:
        image = self.images.image_of(implementation, self._known[implementation.name][1])
        if image is not None:
            return image
        assert implementation.image is not None
        if not pull:
            return Image(reference=implementation.image, identity=f"not-present:{implementation.image}")
        return self.images.pull(implementation.image, _announcing(listen))

    def matrix(self, request: Request, listen: Listener, *, pull: bool) -> list[Cell]:
        """The cells of a request."""
        contestants = {item.name: item for item in (*request.clients, *request.servers)}
        images = {name: self._image(item, listen, pull=pull) for name, item in contestants.items()}
        return cells(request, images, self.images.sim(request.sim_kernel))

    def stored(self, matrix: Iterable[Cell], retry: frozenset[str]) -> set[tuple[str, int]]:
        """(key, repetition) of the runs that are done."""
        return {
            (cell.key, run.repetition)
            for cell in matrix
            for run in self.store.runs(cell.key)
            if proven_outcome(run, self.measured(run)).status not in retry
        }

    def builds_of(self, cell: Cell) -> list[Build]:
        """The images a cell needs that are built here."""
        made = [self.images.of(*self._known[name]) for name in (cell.client.name, cell.server.name)]
        return [self.images.sim_build(cell.sim_kernel), *(build for build in made if build is not None)]

    # --- running

    def run(self, request: Request, options: Options, listen: Listener) -> list[CellResult]:
        """Do what of the plan is not in the store, and return all its cells. Raises HarnessError."""
        self.remove_orphans(listen)
        versions = daemon()
        matrix = self.matrix(request, listen, pull=True)
        planned = runs(matrix, request.repetitions)
        done = set() if options.fresh else self.stored(matrix, options.retry)
        todo = [item for item in planned if (item.cell.key, item.repetition) not in done]
        estimate = _Estimate(self, todo)
        listen(PlanMade(len(todo), len(planned) - len(todo), len(matrix), estimate.seconds()))
        if todo:
            with self._exclusive():
                self._work(todo, estimate, options, versions, listen)
        return [self.result(cell, request.repetitions or cell.scenario.repetitions) for cell in matrix]

    def _work(
        self, todo: list[PlannedRun], estimate: _Estimate, options: Options, versions: dict[str, str], listen: Listener
    ) -> None:
        engine = ComposeEngine(self.places.cache, options.log_limit)
        announce = _announcing(listen)
        total = len(todo)
        while todo:
            item = estimate.next()
            if item.cell.sim_kernel == "auto":
                self.images.settle_sim(announce)
            cell = item.cell.model_copy(update={"sim_image": self.images.sim(item.cell.sim_kernel)})
            for build in self.builds_of(cell):
                self.images.make(build, announce)
            number, seconds = total - len(todo) + 1, expected_seconds(cell)
            listen(RunStarted(cell, item.repetition, number, total, seconds, estimate.seconds()))
            wall = self._run_until_proven(engine, PlannedRun(cell, item.repetition), options, versions, listen)
            todo.remove(item)
            estimate.finished(item, wall)

    def _run_until_proven(
        self, engine: Engine, item: PlannedRun, options: Options, versions: dict[str, str], listen: Listener
    ) -> float:
        """Run once more, a few times at most, when the link was not the one asked for. Wall time of the last."""
        for attempt in range(1, options.attempts + 1):
            run, measured = run_once(item, engine, self.store, versions, lambda phase: listen(PhaseStarted(phase)))
            outcome = proven_outcome(run, measured)
            verdict = self.result(item.cell, item.repetition + 1).verdict
            listen(RunFinished(item.cell, run, outcome, verdict))
            if outcome.reason != "link_invalid":
                break
            if attempt < options.attempts:
                listen(Warned("the link was not the one asked for: running once more (the run is kept as replaced)"))
        return run.wall

    def write_lab(self, request: Request, folder: Path, listen: Listener) -> None:
        """Write the first cell of a request as a lab that works by hand, with its images and files made."""
        announce = _announcing(listen)
        if request.sim_kernel == "auto":
            self.images.settle_sim(announce)
        cell = self.matrix(request, listen, pull=True)[0]
        for build in self.builds_of(cell):
            self.images.make(build, announce)
        lab = build_lab(cell, 0)
        for flow in lab.flows:
            served_file(self.places.cache / "www", flow.file, flow.size)
        folder.mkdir(parents=True, exist_ok=True)
        prepare_folder(lab, folder.resolve(), self.places.cache.resolve())

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """One harness at a time runs real-time cells on a machine: two would measure each other."""
        self.places.state.mkdir(parents=True, exist_ok=True)
        path = Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp") / "quic-lab.lock"
        try:
            lock = path.open("a+")
        except OSError as error:
            raise EngineError(f"{path}: {error.strerror}", "remove the file, or set XDG_RUNTIME_DIR") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise EngineError(
                    "another harness is running real-time cells on this machine",
                    "wait for it to end, then run this again",
                ) from error
            yield

    def remove_orphans(self, listen: Listener) -> None:
        """Remove what harness processes that no longer live have left."""
        removed = [*ComposeEngine(self.places.cache).remove_orphans(), *self.store.remove_orphans()]
        if removed:
            listen(Warned(f"removed what an ended harness had left: {', '.join(removed)}"))

    # --- reading

    def result(self, cell: Cell, repetitions: int | None = None) -> CellResult:
        """The cell with its stored runs (the first `repetitions` of them) and its verdict."""
        found = [run for run in self.store.runs(cell.key) if repetitions is None or run.repetition < repetitions]
        pairs = tuple((run, self.measured(run)) for run in found)
        folders = tuple(self.store.folder(cell.key, run.repetition) for run in found)
        verdict = judge(cell.scenario, pairs, [str(folder) for folder in folders])
        return CellResult(cell, pairs, verdict, folders)

    def measured(self, run: Run) -> MeasuredRun | None:
        """What was measured of a run; measured again when newer code can, and its artefacts are there."""
        stored = self.store.measured(run.cell.key, run.repetition)
        folder = self.store.folder(run.cell.key, run.repetition)
        if (stored is not None and stored.version >= VERSION) or not (folder / "sim").is_dir():
            return stored
        return self.measure(run)

    def measure(self, run: Run) -> MeasuredRun:
        """Measure a stored run again and keep the result."""
        folder = self.store.folder(run.cell.key, run.repetition)
        measured = measure(folder, run)
        self.store.write_measured(folder, measured)
        return measured

    def stored_results(self, wanted: Callable[[Cell], bool], *, every: bool = False) -> list[CellResult]:
        """Results of all stored cells that are wanted; of cells that differ only in their bits, the newest."""
        newest: dict[object, tuple[str, Cell]] = {}
        for key in self.store.cell_keys():
            found = self.store.runs(key)
            if not found or not wanted(found[-1].cell):
                continue
            cell, at = found[-1].cell, found[-1].started_at
            point = key if every else _point(cell)
            if point not in newest or newest[point][0] <= at:
                newest[point] = (at, cell)
        return [self.result(cell) for _, cell in sorted(newest.values(), key=lambda item: _order(item[1]))]


def _point(cell: Cell) -> tuple[object, ...]:
    """What a person takes for the same cell, whatever the bits."""
    return (
        cell.scenario.name, cell.client.name, cell.server.name, cell.engine, cell.seed,
        tuple(sorted(cell.parameters.items())),
    )  # fmt: skip


def _order(cell: Cell) -> tuple[str, str, str, str]:
    return (cell.scenario.name, cell.engine, cell.client.name, cell.server.name)


def _announcing(listen: Listener) -> Announce:
    return lambda name, seconds: listen(ImageStarted(name, seconds))


class _Estimate:
    """What is left, in which order, and about how long it takes; corrected by what runs took."""

    def __init__(self, app: App, todo: list[PlannedRun]) -> None:
        self._app = app
        self._todo = todo
        self._expected = 0.0
        self._took = 0.0
        self._absent = {
            build.reference: build.seconds
            for cell in {item.cell.key: item.cell for item in todo}.values()
            for build in self._missing(cell)
        }

    def _missing(self, cell: Cell) -> list[Build]:
        return [build for needed in self._app.builds_of(cell) for build in needed.missing()]

    def _build_seconds(self, cell: Cell) -> float:
        needed = {build.reference for needed in self._app.builds_of(cell) for build in _with_below(needed)}
        return sum(seconds for reference, seconds in self._absent.items() if reference in needed)

    def next(self) -> PlannedRun:
        """The next run: the lowest repetition first, then whatever needs the least building, then plan order."""
        lowest = min(item.repetition for item in self._todo)
        chosen = min(
            (item for item in self._todo if item.repetition == lowest), key=lambda item: self._build_seconds(item.cell)
        )
        for build in (below for needed in self._app.builds_of(chosen.cell) for below in _with_below(needed)):
            self._absent.pop(build.reference, None)
        return chosen

    def finished(self, item: PlannedRun, wall: float) -> None:
        """Learn from a run that took `wall` seconds."""
        self._expected += expected_seconds(item.cell)
        self._took += wall

    def seconds(self) -> float:
        """Seconds left for builds and runs, the current run included."""
        factor = self._took / self._expected if self._expected else 1.0
        return sum(self._absent.values()) + factor * sum(expected_seconds(item.cell) for item in self._todo)


def _with_below(build: Build) -> list[Build]:
    return [build, *(below for item in build.on.values() for below in _with_below(item))]


def validate(catalogue: Catalogue, files: Sequence[Path]) -> list[HarnessError]:
    """Load every scenario and image file (or just `files`); the errors found."""
    problems: list[HarnessError] = []

    def attempt(read: Callable[[], object]) -> None:
        try:
            read()
        except InputError as error:
            problems.append(error)

    if files:
        for file in files:
            attempt(lambda file=file: _load_any(catalogue, file))  # type: ignore[misc]
        return problems
    for file in catalogue.scenario_files():
        attempt(lambda file=file: catalogue.scenario(file))  # type: ignore[misc]
    for file in catalogue.implementation_files():
        attempt(lambda file=file: _load_any(catalogue, file))  # type: ignore[misc]
    if not problems:
        attempt(catalogue.implementations)
    return problems


def _load_any(catalogue: Catalogue, file: Path) -> object:
    if file.name == "image.yaml":
        return load(file, Implementation)
    return catalogue.scenario(file)
