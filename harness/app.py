"""Wires the stages: catalogue, plan, engine, store, measure, judge. The only module that knows them all."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.campaign import Campaign, LostRuns, UnbuiltError, lost_runs
from harness.catalogue import MANIFEST, Catalogue, load
from harness.engines import Engine
from harness.engines.code import engine_code
from harness.engines.compose import ComposeEngine
from harness.engines.contents import KnownContents
from harness.engines.docker import daemon, inspect_image
from harness.engines.folder import prepare_folder
from harness.engines.guest import STALL
from harness.engines.images import Announce, Build, Images
from harness.engines.precedence import runs_come_first
from harness.engines.quiet import GAP, PATIENCE, Patience
from harness.engines.rootfs import RootFileSystems
from harness.engines.served import serve
from harness.engines.upstream import missing
from harness.engines.virtual import VirtualEngine
from harness.errors import EngineError, HarnessError, InputError, did_you_mean
from harness.events import ImageStarted, Listener, PhaseStarted, PlanMade, RunFinished, Warned
from harness.judge import judge
from harness.lab import build_lab, expected_seconds
from harness.metrics import VERSION, measure_with_series
from harness.model import Implementation
from harness.outcome import Cell, EngineName, Image, MeasuredRun, Run, proven_outcome
from harness.plan import PlannedRun, Request, cells, named, points_of, runs
from harness.provenance import Provenance, commit_of
from harness.reports import CellResult
from harness.reports.listing import MadeImage
from harness.runner import run_once
from harness.schedule import LANES, Step
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
    host_cpu: bool = False
    """Endpoints in virtual time see the host's processor, also where the lab's own could be had."""


@dataclass(frozen=True)
class Options:
    """How a plan is worked on."""

    fresh: bool = False
    """Run again what is stored."""
    retry: frozenset[str] = frozenset({"infrastructure"})
    """Outcomes that do not count as done."""
    attempts: int = 3
    """How often a run is tried while its link is not the one asked for."""
    patience: float = PATIENCE
    """Seconds that runs may wait, in all, for a machine that keeps time before they are tried again; with 0 they are
    not."""
    log_limit: int = 2 << 30
    """Bytes an endpoint may write to its logs."""
    jobs: int = 1
    """Runs side by side; more than one only in virtual time, where they cannot disturb each other."""
    stall: float = STALL
    """CPU seconds a virtual clock may stand still."""


class App:
    """One repository checkout, its images and its store."""

    def __init__(self, places: Places, manifests: Sequence[Path] = ()) -> None:
        self.places = places
        self.catalogue = Catalogue(places.root, tuple(manifests))
        self.store = Store(places.store)
        self.images = Images(places.root / "images", places.state)
        self.exported = RootFileSystems(places.cache)
        self.contents = KnownContents(places.cache)

    @cached_property
    def _known(self) -> dict[str, tuple[Implementation, Path]]:
        """The implementations, read once: the estimate asks for them for every run."""
        return self.catalogue.implementations()

    # --- planning

    def absent(self) -> dict[str, str]:
        """Implementations that are neither here nor can be made here: name → why."""
        return {
            name: why
            for name, (one, _) in self._known.items()
            if one.elsewhere and not self.is_here(one) and (why := self.why_absent(one))
        }

    def why_absent(self, implementation: Implementation) -> str | None:
        """Why an implementation that is not here cannot be made here; None when it can."""
        try:
            return missing(implementation)
        except EngineError as error:
            return f"it has not been used yet, and the Docker daemon does not answer: {error.message}"

    def is_here(self, implementation: Implementation) -> bool:
        """Whether the image is on this machine; without the Docker daemon only what was exported is."""
        reference = implementation.image
        try:
            image = self.images.image_of(implementation, self._known[implementation.name][1])
            if image is not None:
                reference = image.reference
                # A published image is found only if it is present; of one that is built the name is known before.
                if implementation.image is not None or inspect_image(reference) is not None:
                    return True
        except EngineError:
            pass
        return reference is not None and self.exported.known(reference) is not None

    def _image(self, implementation: Implementation, listen: Listener, *, pull: bool) -> Image:
        try:
            image = self.images.image_of(implementation, self._known[implementation.name][1])
        except EngineError:
            known = None if implementation.image is None else self.exported.known(implementation.image)
            if known is None:
                raise
            image = Image(reference=known.reference, identity=known.identity, id=known.id)
        if image is not None:
            return image
        assert implementation.image is not None
        if not pull:
            return Image(reference=implementation.image, identity=f"not-present:{implementation.image}")
        return self.images.pull(implementation.image, _announcing(listen))

    def matrix(self, request: Request, listen: Listener, *, pull: bool) -> list[Cell]:
        """The cells of a request."""
        swept = points_of(request)
        others = {name: self._named(name) for name in named(swept)}
        # Those whose roles the flows all fill themselves are not needed.
        open_roles = {role for point in swept for role in point.scenario.open_roles}
        asked = [
            *(request.clients if "client" in open_roles else ()), *(request.servers if "server" in open_roles else ()),
        ]  # fmt: skip
        contestants = {item.name: item for item in asked} | others
        images = {name: self._image(item, listen, pull=pull) for name, item in contestants.items()}
        sim = self.images.sim(request.sim_kernel)
        code = engine_code(request.engine)
        return cells(request, images, sim, others, engine_code=code, host_cpu=self.places.host_cpu)

    def _named(self, name: str) -> Implementation:
        if name not in self._known:
            raise InputError(
                f"a flow names '{name}', and there is no such implementation", did_you_mean(name, self._known)
            )
        return self._known[name][0]

    def stored(self, planned: Iterable[PlannedRun], retry: frozenset[str]) -> set[tuple[str, int]]:
        """(key, repetition) of the planned runs that are done."""
        wanted = {(item.cell.key, item.repetition) for item in planned}
        return {
            (key, run.repetition)
            for key in {key for key, _ in wanted}
            for run in self.store.runs(key)
            if (key, run.repetition) in wanted and proven_outcome(run, self.measured(run)).status not in retry
        }

    def builds_of(self, cell: Cell) -> list[Build]:
        """The images a cell needs that are built here; in virtual time not those that were exported already."""
        players = dict.fromkeys([cell.client.name, cell.server.name, *cell.others])
        made = [self.images.of(*self._known[name]) for name in players]
        needed = [self.images.sim_build(cell.sim_kernel), *(build for build in made if build is not None)]
        if cell.engine == "virtual":
            return [build for build in needed if self.exported.known(build.reference) is None]
        return needed

    # --- running

    def run(self, request: Request, options: Options, listen: Listener) -> list[CellResult]:
        """Do what of the plan is not in the store, and return all its cells.

        Raises HarnessError; UnbuiltError, which has the cells, when all was done that did not need an image that could
        not be built.
        """
        return self.run_cells(self.matrix(request, listen, pull=True), request.repetitions, options, listen)

    def run_cells(
        self, matrix: Sequence[Cell], repetitions: int | None, options: Options, listen: Listener
    ) -> list[CellResult]:
        """Do what of these cells, all of one engine, is not in the store, and return them. Raises as `run` does."""
        engine: EngineName = "virtual" if any(cell.engine == "virtual" for cell in matrix) else "compose"
        virtual = engine == "virtual"
        self.remove_orphans(listen, required=not virtual)
        versions = self._versions(required=not virtual)
        provenance = Provenance(versions, commit_of(self.places.root), self.contents)
        planned = runs(matrix, repetitions)
        done = set() if options.fresh else self.stored(planned, options.retry)
        todo = [item for item in planned if (item.cell.key, item.repetition) not in done]
        ground = _Ground(self, self._engine(engine, options), options, provenance, listen)
        campaign = Campaign(todo, options.jobs, ground, listen)
        listen(PlanMade(len(todo), len(planned) - len(todo), len(matrix), campaign.seconds()))
        lost: list[LostRuns] = []
        if todo:
            with self._machine(engine):
                lost = campaign.work()
        results = [self.result(cell, repetitions or cell.scenario.repetitions) for cell in matrix]
        if lost:
            raise UnbuiltError(*lost_runs(lost, self.places.state / "builds"), results)
        return results

    def _versions(self, *, required: bool) -> dict[str, str]:
        """Versions of Docker and Compose; without the daemon nothing, where it is not required."""
        try:
            return daemon()
        except EngineError:
            if required:
                raise
            return {}

    def _engine(self, name: EngineName, options: Options) -> Engine:
        if name == "compose":
            return ComposeEngine(self.places.cache, options.log_limit)
        cores = sorted(os.sched_getaffinity(0))
        # More runs than cores share them in turn.
        cores = [cores[index % len(cores)] for index in range(options.jobs)]
        return VirtualEngine(self.places.cache, cores, options.log_limit, options.stall)

    def made(self, cell: Cell, listen: Listener) -> Cell:
        """A cell whose images are there."""
        announce = _announcing(listen)
        if cell.sim_kernel == "auto":
            self.images.settle_sim(announce)
        made = cell.model_copy(update={"sim_image": self.images.sim(cell.sim_kernel)})
        for build in self.builds_of(made):
            self.images.make(build, announce)
        return made

    def run_until_proven(
        self,
        engine: Engine,
        item: PlannedRun,
        options: Options,
        patience: Patience,
        provenance: Provenance,
        listen: Listener,
    ) -> float:
        """Run once more, a few times at most, when the link was not the one asked for. Wall time of the last."""
        # In virtual time a second attempt would see the same.
        attempts = options.attempts if engine.name == "compose" and options.patience else 1

        def enter(phase: str) -> None:
            listen(PhaseStarted(item.cell, item.repetition, phase))

        for attempt in range(1, attempts + 1):
            run, measured = run_once(item, engine, self.store, provenance, enter)
            outcome = proven_outcome(run, measured)
            verdict = self.result(item.cell, item.repetition + 1).verdict
            listen(RunFinished(item.cell, run, outcome, verdict))
            if outcome.reason != "link_invalid":
                break
            if attempt < attempts:
                listen(Warned("the link was not the one asked for: running once more (the run is kept as replaced)"))
                if not patience.await_quiet():
                    listen(Warned(f"this machine is held up again and again, for {GAP * 1e3:.0f} ms and more"))
        return run.wall

    def make_images(self, names: Sequence[str], listen: Listener) -> dict[str, MadeImage]:
        """Build the simulator and these implementations, side by side. Name → what came of it."""
        announce = _announcing(listen)
        self.images.settle_sim(announce)
        builds = {name: self.images.of(*self._known[name]) for name in names}
        # What others are built on first and alone; then the longest first, so that no core ends up idle.
        shared = {
            below.reference: below for build in builds.values() if build is not None for below in build.on.values()
        }
        made = {build.name: self._make(build, announce) for build in shared.values()}
        rest = {
            "sim": self.images.sim_build("lab"),
            **{name: item for name, item in builds.items() if item is not None},
        }
        order = sorted(rest, key=lambda name: -sum(build.seconds for build in _with_below(rest[name])))
        with ThreadPoolExecutor(LANES, thread_name_prefix="build") as pool:
            try:
                done = dict(zip(order, pool.map(lambda name: self._make(rest[name], announce), order), strict=True))
            except BaseException:
                self.images.cancel()
                raise
        return made | dict(sorted(done.items()))

    def _make(self, build: Build, announce: Announce) -> MadeImage:
        began, was_there = time.monotonic(), inspect_image(build.reference) is not None
        try:
            self.images.make(build, announce)
        except EngineError as error:
            return MadeImage(build.reference, 0, time.monotonic() - began, was_there, error)
        size = (inspect_image(build.reference) or {}).get("Size", 0)
        return MadeImage(build.reference, size, time.monotonic() - began, was_there)

    def write_lab(self, request: Request, folder: Path, listen: Listener) -> None:
        """Write the first cell of a request as a lab that works by hand, with its images and files made."""
        cell = self.made(self.matrix(request, listen, pull=True)[0], listen)
        lab = build_lab(cell, 0)
        serve(lab, self.places.cache)
        folder.mkdir(parents=True, exist_ok=True)
        prepare_folder(lab, folder.resolve(), self.places.cache.resolve())

    @contextmanager
    def _machine(self, engine: EngineName) -> Iterator[None]:
        """Real-time cells have the machine to themselves: anything beside them would be measured with them.

        Virtual time does not mind company, but is company; so it shares the machine with its like only.
        """
        self.places.state.mkdir(parents=True, exist_ok=True)
        path = Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp") / "quic-lab.lock"
        try:
            lock = path.open("a+")
        except OSError as error:
            raise EngineError(f"{path}: {error.strerror}", "remove the file, or set XDG_RUNTIME_DIR") from error
        with lock:
            try:
                fcntl.flock(lock, (fcntl.LOCK_EX if engine == "compose" else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            except OSError as error:
                other = "cells" if engine == "compose" else "real-time cells"
                raise EngineError(
                    f"another harness is running {other} on this machine", "wait for it to end, then run this again"
                ) from error
            yield

    def remove_orphans(self, listen: Listener, *, required: bool = True) -> None:
        """Remove what harness processes that no longer live have left; in Docker too, if that is `required`."""
        removed = [*VirtualEngine(self.places.cache, []).remove_orphans(), *self.store.remove_orphans()]
        with suppress(*(() if required else (EngineError,))):
            removed += ComposeEngine(self.places.cache).remove_orphans()
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
        measured, series = measure_with_series(folder, run)
        self.store.write_measured(folder, measured, series)
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
        cell.scenario.name, cell.client.name, cell.server.name, cell.engine, cell.seed, cell.host_cpu,
        tuple(sorted(cell.parameters.items())),
    )  # fmt: skip


def _order(cell: Cell) -> tuple[str, str, str, str]:
    return (cell.scenario.name, cell.engine, cell.client.name, cell.server.name)


def _announcing(listen: Listener) -> Announce:
    return lambda name, seconds: listen(ImageStarted(name, seconds))


class _Ground:
    """What a campaign of one engine works with: images, the engine, the store."""

    def __init__(self, app: App, engine: Engine, options: Options, provenance: Provenance, listen: Listener) -> None:
        self._app = app
        self._engine = engine
        self._options = options
        self._patience = Patience(options.patience)
        self._provenance = provenance
        self._listen = listen
        self._builds: dict[str, Build] = {}
        """Reference → what may have to be built."""
        self._present: dict[str, bool] = {}

    def needs(self, cell: Cell) -> tuple[frozenset[str], list[Step]]:
        """See `harness.campaign.Ground`."""
        images = self._app.images
        if cell.sim_kernel == "auto" and not images.sim_settled and self._is_here(images.sim_build("host")):
            # To ask the host's kernel takes a moment where the image that asks is there.
            images.settle_sim(_silent)
        builds = self._app.builds_of(cell)
        if cell.sim_kernel == "auto" and not images.sim_settled:
            assumed = images.sim_build("auto")
            builds = [build for build in builds if build.reference != assumed.reference]
            builds += images.builds_before_settling()
        every = {build.reference: build for needed in builds for build in self._with_missing_below(needed)}
        self._builds |= every
        steps = [
            Step(reference, build.name, build.seconds, frozenset(below.reference for below in build.on.values()))
            for reference, build in every.items()
        ]
        return frozenset(build.reference for build in builds), steps

    def _is_here(self, build: Build) -> bool:
        if build.reference not in self._present:
            self._present[build.reference] = inspect_image(build.reference) is not None
        return self._present[build.reference]

    def _with_missing_below(self, build: Build) -> list[Build]:
        if self._is_here(build):
            return []
        return [*(one for below in build.on.values() for one in self._with_missing_below(below)), build]

    def make(self, step: Step, *, beside: bool) -> bool:
        """See `harness.campaign.Ground`."""
        # Runs in real time keep half of the cores free of compilers; to those in virtual time company does nothing.
        jobs = max(1, (os.cpu_count() or 1) // 2) if beside and self._engine.name == "compose" else None
        images, build = self._app.images, self._builds[step.reference]
        open_question = not images.sim_settled and step.reference == images.sim_build("host").reference
        if open_question:
            images.settle_sim(_silent)
        # Where the question was settled by a file that is older than the image, there is none of it yet.
        images.make(build, _silent, jobs)
        self._look_into(build)
        self._present[step.reference] = True
        return open_question

    def _look_into(self, build: Build) -> None:
        """Learn what is in an image that was built, before a run is to record it."""
        with suppress(EngineError, OSError):
            if self._engine.name == "compose" and (image := inspect_image(build.reference)) is not None:
                self._app.contents.of(build.reference, image["Id"])

    def ready(self, cell: Cell) -> Cell:
        """See `harness.campaign.Ground`."""
        return self._app.made(cell, self._listen)

    def run(self, item: PlannedRun) -> float:
        """See `harness.campaign.Ground`."""
        with runs_come_first() if self._engine.name == "compose" else nullcontext():
            return self._app.run_until_proven(
                self._engine, item, self._options, self._patience, self._provenance, self._listen
            )

    def expected(self, cell: Cell) -> float:
        """See `harness.campaign.Ground`."""
        return expected_seconds(cell)

    def cancel(self) -> None:
        """See `harness.campaign.Ground`."""
        self._app.images.cancel()
        self._engine.cancel()


def _silent(name: str, seconds: float) -> None:
    """Nobody is told of a build that a campaign tells of itself."""


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
        problems += _like_coloured(catalogue)
    return problems


def _like_coloured(catalogue: Catalogue) -> list[HarnessError]:
    """Manifests whose colour another has too: in a plot nobody could tell them apart."""
    owners: dict[str, str] = {}
    problems: list[HarnessError] = []
    for name, (one, folder) in catalogue.implementations().items():
        other = owners.setdefault(one.colour.lower(), name)
        if other != name:
            problems.append(
                InputError(
                    f"{folder / MANIFEST}: colour {one.colour} is that of {other}", "choose one that no image has"
                )
            )
    return problems


def _load_any(catalogue: Catalogue, file: Path) -> object:
    if file.name == "image.yaml":
        return load(file, Implementation)
    return catalogue.scenario(file)
