"""Connects the stages: catalogue, plan, engine, store, measure, judge. The only module that knows all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import closing
from pathlib import Path

from harness.analysis.metrics.objectives import mistakes
from harness.catalogue import Catalogue
from harness.engine.code_digest import engine_code
from harness.engine.docker.host_jitter import QuietWait
from harness.engine.docker_cli import require_visible
from harness.engine.images.build import Images
from harness.engine.images.cache import Cache
from harness.engine.images.contents import ContentsCache
from harness.engine.images.registry import Registry
from harness.engine.images.rootfs_export import RootFileSystems
from harness.engine.run_dir import prepare_folder
from harness.engine.served_files import make_served_files
from harness.errors import EngineError, InputError
from harness.evaluation.cell_result import CellResult, CommandWords, point_of
from harness.execution import locks
from harness.execution.cluster.image_transfer import PackedImages, ParcelSource
from harness.execution.cluster_backend import run_on_cluster
from harness.execution.engines import create_engine, docker_versions, remove_orphans
from harness.execution.estimates import DiskUse, load_experience, missing_bytes, require_room
from harness.execution.events import Listener, PlanMade, WaitingForMachine, Warned
from harness.execution.image_inventory import ImageInventory
from harness.execution.local_backend import LocalBackend
from harness.execution.locks import machine_lock
from harness.execution.matrix import (
    Request,
    UntilDecided,
    build_matrix,
    matrix_players,
    named_implementations,
    swept_points,
    varied_parameters,
)
from harness.execution.measured_store import StoredResults
from harness.execution.options import CheckoutPaths, Options
from harness.execution.repetitions import RepetitionPlan
from harness.execution.retries import RunMaker
from harness.execution.scheduler import Campaign, LostRuns, UnbuiltError, lost_runs_message
from harness.execution.shutdown import kill_campaign
from harness.outcome import ENGINES, Cell, Contestant
from harness.planning.estimate import DurationModel
from harness.planning.sweep import Point
from harness.scenario.parameters import ROLES
from harness.store.identity import read_ledger, with_key
from harness.store.parquet import ColumnStore, is_columnar
from harness.store.provenance import Provenance, commit_of
from harness.store.results import Store, StoreReader
from harness.topology import build_lab

#: From the checkout's root, the file of equivalences.
LEDGER = "results/equivalences.yaml"


class App:
    """One repository checkout, its images and its store."""

    def __init__(
        self,
        places: CheckoutPaths,
        manifests: Sequence[Path] = (),
        warn: Callable[[str], object] = lambda text: None,
        stand_ins: Mapping[str, str] = {},
    ) -> None:
        """`warn`: called for stored runs that cannot be read; `stand_ins`: implementation → replacement image."""
        self.paths = places
        self._stand_ins = dict(stand_ins)
        self.ledger_file = places.root / LEDGER
        self.ledger = read_ledger(self.ledger_file)
        """Equivalent digests of engines, simulator and images."""
        self.catalogue = Catalogue(places.root, tuple(manifests), mistakes, stand_ins)
        self.store = Store(places.store, warn)
        columnar = is_columnar(places.store)
        if not columnar:
            self._rekey(warn)
        self.stored_runs: StoreReader = ColumnStore(places.store, warn) if columnar else self.store
        """The store that is read: columnar if its folder has columns, else `store`."""
        self.results = StoredResults(self.stored_runs, None if columnar else self.store, self._command_words)
        registry = Registry(places.registry) if places.registry else None
        self.images = Images(places.root / "images", places.state, registry=registry)
        self.cache = Cache(places.cache, places.cache_limit)
        self.root_file_systems = RootFileSystems(self.cache)
        self.contents = ContentsCache(places.cache)
        self.inventory = ImageInventory(
            self.catalogue, self.images, self.root_file_systems, PackedImages(self.cache), self.cache
        )

    def _command_words(self, cell: Cell) -> CommandWords:
        """What a command has to name to run a cell again: a file outside scenarios/, the store, manifests, images."""
        options: list[str] = []
        if self.paths.store.resolve() != (self.paths.root / "results").resolve():
            options += ["--store", str(self.paths.store)]
        names = {cell.client.name, cell.server.name, *cell.others}
        for file in self.catalogue.manifests_of(names):
            options += ["--manifest", str(file)]
        for name in sorted(names & self._stand_ins.keys()):
            options += ["--image", f"{name}={self._stand_ins[name]}"]
        return CommandWords(self.catalogue.outside_file(cell.scenario.name), tuple(options))

    def _rekey(self, warn: Callable[[str], object]) -> None:
        """Update the keys of stored runs to the current ledger; a store that cannot be written keeps its keys."""
        try:
            if count := self.store.rekey(self.ledger):
                warn(f"{count} stored runs have another key now, by {LEDGER}")
        except EngineError as error:
            warn(f"stored runs keep the keys of an earlier {LEDGER}: {error.message}")

    def matrix(
        self, request: Request, listen: Listener, *, pull: bool, every: Sequence[Point] | None = None
    ) -> list[Cell]:
        """The cells of a request. `every`: points in place of those of its sweeps; the request then has one scenario
        (`harness.execution.matrix.build_matrix`).
        """
        swept = swept_points(request)
        self.catalogue.require_split(
            swept, lambda scenario: {role: matrix_players(request, role, scenario) for role in ROLES}
        )
        flow_implementations = {name: self.inventory.implementation(name) for name in named_implementations(swept)}
        # If flows name the implementation of a role everywhere, the requested ones for that role are not needed.
        open_roles = {role for point in swept for role in point.scenario.open_roles}
        requested = [
            *(request.clients if "client" in open_roles else ()),
            *(request.servers if "server" in open_roles else ()),
        ]
        contestants = {item.name: item for item in requested} | flow_implementations
        images = {name: self.inventory.image_of(item, listen, pull=pull) for name, item in contestants.items()}
        sim = self.images.sim(request.sim_kernel)
        code = engine_code(request.engine)
        matrix = build_matrix(
            request,
            images,
            sim,
            flow_implementations,
            engine_code=code,
            host_cpu=self.paths.host_cpu,
            every=every,
            ledger=self.ledger,
        )
        return matrix if request.shard is None else [cell for cell in matrix if request.shard.includes(point_of(cell))]

    def current_cell(self, cell: Cell) -> Cell:
        """A stored cell as it would run now: current manifests, images, simulator and engine, the same scenario.

        InputError if one of its implementations no longer exists.
        """
        implementations = {
            name: self.inventory.implementation(name) for name in {cell.client.name, cell.server.name, *cell.others}
        }
        images = {
            name: self.inventory.image_of(implementation, lambda event: None, pull=False)
            for name, implementation in implementations.items()
        }
        contestants = {
            name: Contestant(implementation=implementations[name], image=images[name]) for name in cell.others
        }
        content = {
            "client": implementations[cell.client.name],
            "client_image": images[cell.client.name],
            "server": implementations[cell.server.name],
            "server_image": images[cell.server.name],
            "others": contestants,
            "sim_image": self.images.sim(cell.sim_kernel),
            "engine_code": engine_code(cell.engine),
        }
        return with_key(cell.model_copy(update=content), self.ledger)

    def duration_model(self, matrix: Sequence[Cell]) -> DurationModel:
        """How long the runs of these cells take, from stored runs."""
        return load_experience(self.store, self.paths.root / "results" / "reference", matrix)

    def provenance(self, versions: Mapping[str, str]) -> Provenance:
        """The provenance that a command writes into its run records; `versions`: of Docker and Compose."""
        return Provenance(versions, commit_of(self.paths.root), self.contents, self.paths.registry)

    def run(self, request: Request, options: Options, listen: Listener) -> list[CellResult]:
        """Make the runs of the plan that are not in the store, and return all its cells.

        Raises HarnessError. Raises UnbuiltError, which has the cells, if an image could not be built and all runs that
        do not need it were made.
        """
        return self.run_cells(self.matrix(request, listen, pull=True), request.repetitions, options, listen)

    def run_cells(
        self,
        matrix: Sequence[Cell],
        repetitions: int | UntilDecided | None,
        options: Options,
        listen: Listener,
        elsewhere: Set[tuple[str, int]] = frozenset(),
    ) -> list[CellResult]:
        """Make the runs of these cells that are not in the store, and return the cells. Raises as `run` does.

        All cells have the same engine. `elsewhere`: (key, repetition) of runs to skip, since another store has them.
        """
        if self.stored_runs is not self.store:
            raise InputError(
                f"{self.store.root} holds reference runs in columns, and no run is written there",
                "leave --store out; 'python -m tools.reference keep' takes runs over",
            )
        # A matrix has one engine.
        engine = matrix[0].engine if matrix else Request.engine
        with_docker = ENGINES[engine].needs_docker
        provenance = self.provenance(docker_versions(required=with_docker))
        if with_docker:
            require_visible([self.paths.store, self.paths.cache, locks.LOCK_FILE.parent])
        removed = [*remove_orphans(self.cache, required=with_docker), *self.store.remove_orphans()]
        locks.remove_stale_claims(self.store.root)
        if removed:
            listen(Warned(f"removed what an ended harness had left: {', '.join(removed)}"))
        series = RepetitionPlan(matrix, repetitions, self.results.result_of, lambda text: listen(Warned(text)))
        # Taken before the store is searched for complete runs, so that no run of another harness is missed.
        stamps = {
            (planned.cell.key, planned.repetition): self.store.stamp(planned.cell.key, planned.repetition)
            for planned in series.possible_runs()
        }
        completed = (
            set() if options.fresh else elsewhere | self.results.completed_runs(series.possible_runs(), options.retry)
        )
        todo = series.first_runs(completed)
        disk = DiskUse(self.store, options.artefacts, self.cache.www)
        need = disk.need(todo, options.jobs)
        if caution := disk.require(need):
            listen(Warned(caution))
        runs = create_engine(engine, self.cache, options)
        patience = QuietWait(options.patience)
        attempts = RunMaker(runs, self.store, self.results, options, patience, provenance, listen)
        timings = self.duration_model(matrix)
        backend = LocalBackend(self.images, self.inventory, self.contents, attempts, timings, stamps)
        campaign = Campaign(todo, options.jobs, backend, listen, series.next_runs)
        open_ended = isinstance(repetitions, UntilDecided)
        listen(
            PlanMade(
                len(todo),
                series.stored_count(),
                len(matrix),
                campaign.seconds(),
                open_ended,
                varied_parameters(matrix),
                disk=need.text,
            )
        )
        lost: list[LostRuns] = []
        if todo:
            self.paths.state.mkdir(parents=True, exist_ok=True)
            with machine_lock(engine, lambda: listen(WaitingForMachine(engine))), closing(runs):
                if options.cluster is None:
                    lost = campaign.work()
                else:
                    image_source = ParcelSource(self.root_file_systems, self.contents, options.cluster.files)
                    lost = run_on_cluster(
                        options.cluster, todo, backend, attempts, image_source, self.cache, series.next_runs
                    )
        results = [self.results.result_of(cell, series.scheduled_count(cell)) for cell in matrix]
        if lost:
            raise UnbuiltError(*lost_runs_message(lost, self.paths.state / "builds"), results)
        return results

    def kill_all(self) -> None:
        """Kill and remove everything that this process is running; see `harness.execution.shutdown`."""
        kill_campaign(self.store)

    def write_lab(self, request: Request, folder: Path, listen: Listener) -> None:
        """Write the first cell of a request as a lab for manual use; build its images and make its files."""
        cell = self.inventory.build_images_of(self.matrix(request, listen, pull=True)[0], listen)
        lab = build_lab(cell, 0)
        require_room(self.cache.www, missing_bytes(self.cache.www, [lab]))
        make_served_files(lab, self.cache)
        folder.mkdir(parents=True, exist_ok=True)
        prepare_folder(lab, folder.resolve(), self.paths.cache.resolve())
