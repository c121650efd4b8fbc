"""Connects the stages: catalogue, plan, engine, store, measure, judge. The only module that knows all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from harness.catalogue import Catalogue
from harness.engine.code_digest import engine_code
from harness.engine.images.cache import Cache
from harness.engine.images.contents import ContentsCache
from harness.errors import EngineError
from harness.outcome import Cell, Contestant
from harness.planning.sweep import Point
from harness.scenario.parameters import ROLES
from harness.scenario.schema import Scenario
from harness.scenario.validation_errors import Mistake
from harness.store.identity import Ledger, read_ledger, with_key
from harness.topology import build_lab

if TYPE_CHECKING:
    from harness.engine.images.build import Images
    from harness.engine.images.rootfs_export import RootFileSystems
    from harness.evaluation.cell_result import CellResult, CommandWords
    from harness.execution.events import Listener
    from harness.execution.image_inventory import ImageInventory
    from harness.execution.matrix import Request, UntilDecided
    from harness.execution.measured_store import StoredResults
    from harness.execution.options import CheckoutPaths, Options
    from harness.planning.estimate import DurationModel
    from harness.store.provenance import Provenance
    from harness.store.results import Store, StoreReader

# What measures, stores, builds and runs is imported where it is used: with polars it takes half a second, and each
# command needs a part of it.

#: From the checkout's root, the file of equivalences.
LEDGER = "results/equivalences.yaml"


def _objective_mistakes(scenario: Scenario) -> Iterable[Mistake]:
    from harness.analysis.objectives import mistakes

    return mistakes(scenario)


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
        self.ledger_file = places.root / LEDGER
        self._warn = warn
        self._stand_ins = dict(stand_ins)
        self.catalogue = Catalogue(places.root, tuple(manifests), _objective_mistakes, stand_ins, places.workspace)
        self.cache = Cache(places.cache, places.cache_limit)
        self.contents = ContentsCache(places.cache)

    @cached_property
    def ledger(self) -> Ledger:
        """Equivalent digests of engines, simulator and images."""
        return read_ledger(self.ledger_file)

    @cached_property
    def images(self) -> Images:
        """The images that it builds."""
        from harness.engine.images.build import Images
        from harness.engine.images.registry import Registry

        registry = Registry(self.paths.registry) if self.paths.registry else None
        return Images(self.paths.root / "images", self.paths.state, registry=registry)

    @cached_property
    def root_file_systems(self) -> RootFileSystems:
        """The exported images."""
        from harness.engine.images.rootfs_export import RootFileSystems

        return RootFileSystems(self.cache)

    @cached_property
    def inventory(self) -> ImageInventory:
        """The implementations whose images are here, can be built or fetched."""
        from harness.execution.cluster.image_transfer import PackedImages
        from harness.execution.image_inventory import ImageInventory

        return ImageInventory(self.catalogue, self.images, self.root_file_systems, PackedImages(self.cache), self.cache)

    @cached_property
    def store(self) -> Store:
        """The folder of runs, with keys of the current ledger. One that cannot be written keeps its keys."""
        from harness.store.results import Store, is_columnar

        store = Store(self.paths.store, self._warn)
        if not is_columnar(self.paths.store):
            try:
                if count := store.rekey(self.ledger):
                    self._warn(f"{count} stored runs have another key now, by {LEDGER}")
            except EngineError as error:
                self._warn(f"stored runs keep the keys of an earlier {LEDGER}: {error.message}")
        return store

    @cached_property
    def stored_runs(self) -> StoreReader:
        """The store that is read: columnar if its folder has columns, else `store`."""
        from harness.store.results import is_columnar

        if not is_columnar(self.paths.store):
            return self.store
        from harness.store.parquet import ColumnStore

        return ColumnStore(self.paths.store, self._warn)

    @cached_property
    def results(self) -> StoredResults:
        """The results of stored runs, measured again where the code is newer."""
        from harness.execution.measured_store import StoredResults

        own = self.store if self.stored_runs is self.store else None
        return StoredResults(self.stored_runs, own, self._command_words)

    @cached_property
    def _store_words(self) -> tuple[str, ...]:
        is_own = self.paths.store.resolve() == (self.paths.home / "results").resolve()
        return () if is_own else ("--store", str(self.paths.store))

    def _command_words(self, cell: Cell) -> CommandWords:
        """What a command has to name to run a cell again: a file outside scenarios/, the store, manifests, images."""
        from harness.evaluation.cell_result import CommandWords

        options = [*self._store_words]
        names = {cell.client.name, cell.server.name, *cell.others}
        for file in self.catalogue.manifests_of(names):
            options += ["--manifest", str(file)]
        for name in sorted(names & self._stand_ins.keys()):
            options += ["--image", f"{name}={self._stand_ins[name]}"]
        return CommandWords(self.catalogue.outside_file(cell.scenario.name), tuple(options))

    def matrix(
        self, request: Request, listen: Listener, *, pull: bool, every: Sequence[Point] | None = None
    ) -> list[Cell]:
        """The cells of a request. `every`: points in place of those of its sweeps; the request then has one scenario
        (`harness.execution.matrix.build_matrix`).
        """
        from harness.evaluation.cell_result import point_of
        from harness.execution.matrix import build_matrix, matrix_players, named_implementations, swept_points

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
        if not pull:
            self.inventory.inspect_together(self.catalogue.implementations().find(name) for name in contestants)
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
            swept=swept,
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
        from harness.execution.estimates import load_experience

        return load_experience(self.store, self.paths.root / "results" / "reference", matrix)

    def provenance(self, versions: Mapping[str, str]) -> Provenance:
        """The provenance that a command writes into its run records; `versions`: of Docker and Compose."""
        from harness.store.provenance import Provenance, commit_of

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
        from harness.execution.campaign import run_cells

        return run_cells(self, matrix, repetitions, options, listen, elsewhere)

    def kill_all(self) -> None:
        """Kill and remove everything that this process is running; see `harness.execution.shutdown`."""
        from harness.execution.shutdown import kill_campaign

        kill_campaign(self.store)

    def write_lab(self, request: Request, folder: Path, listen: Listener) -> None:
        """Write the first cell of a request as a lab for manual use; build its images and make its files."""
        from harness.engine.run_dir import prepare_folder
        from harness.engine.served_files import make_served_files
        from harness.execution.estimates import missing_bytes, require_room, served_files

        cell = self.inventory.build_images_of(self.matrix(request, listen, pull=True)[0], listen)
        lab = build_lab(cell, 0)
        require_room(self.cache.www, missing_bytes(self.cache.www, served_files(lab)))
        make_served_files(lab, self.cache)
        folder.mkdir(parents=True, exist_ok=True)
        prepare_folder(lab, folder.resolve(), self.paths.cache.resolve())
