"""Makes the runs of a plan that are not stored yet: what is checked first, the engine, the scheduler, the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from contextlib import closing, nullcontext
from typing import Protocol

from harness.engine.docker.host_jitter import QuietWait
from harness.engine.docker_cli import remembered_images, require_visible
from harness.engine.images.build import Images
from harness.engine.images.cache import Cache
from harness.engine.images.contents import ContentsCache
from harness.engine.images.rootfs_export import RootFileSystems
from harness.errors import InputError
from harness.evaluation.cell_result import CellResult
from harness.execution import locks
from harness.execution.cluster.image_transfer import ParcelSource
from harness.execution.cluster_backend import run_on_cluster
from harness.execution.engines import create_engine, docker_versions, remove_orphans
from harness.execution.estimates import DiskUse
from harness.execution.events import Listener, PlanMade, WaitingForMachine, Warned
from harness.execution.image_inventory import ImageInventory
from harness.execution.local_backend import LocalBackend
from harness.execution.locks import machine_lock
from harness.execution.matrix import Request, UntilDecided, varied_parameters
from harness.execution.measured_store import StoredResults
from harness.execution.options import CheckoutPaths, Options
from harness.execution.repetitions import RepetitionPlan
from harness.execution.retries import RunMaker
from harness.execution.scheduler import Campaign, LostRuns, UnbuiltError, lost_runs_message
from harness.outcome import ENGINES, Cell
from harness.planning.estimate import DurationModel
from harness.store.provenance import Provenance
from harness.store.results import Store, StoreReader


class CampaignCheckout(Protocol):
    """What a campaign needs of a checkout (`harness.execution.checkout.App`)."""

    paths: CheckoutPaths
    contents: ContentsCache
    cache: Cache

    @property
    def images(self) -> Images: ...  # noqa: D102

    @property
    def inventory(self) -> ImageInventory: ...  # noqa: D102

    @property
    def root_file_systems(self) -> RootFileSystems: ...  # noqa: D102

    @property
    def store(self) -> Store: ...  # noqa: D102

    @property
    def stored_runs(self) -> StoreReader: ...  # noqa: D102

    @property
    def results(self) -> StoredResults: ...  # noqa: D102

    def provenance(self, versions: Mapping[str, str]) -> Provenance: ...  # noqa: D102

    def duration_model(self, matrix: Sequence[Cell]) -> DurationModel: ...  # noqa: D102


def run_cells(
    app: CampaignCheckout,
    matrix: Sequence[Cell],
    repetitions: int | UntilDecided | None,
    options: Options,
    listen: Listener,
    elsewhere: Set[tuple[str, int]],
) -> list[CellResult]:
    """See `App.run_cells`."""
    if app.stored_runs is not app.store:
        raise InputError(
            f"{app.store.root} holds reference runs in columns, and no run is written there",
            "leave --store out; 'python -m tools.reference keep' takes runs over",
        )
    # A matrix has one engine.
    engine = matrix[0].engine if matrix else Request.engine
    with_docker = ENGINES[engine].needs_docker
    provenance = app.provenance(docker_versions(required=with_docker))
    if with_docker:
        require_visible([app.paths.store, app.paths.cache, locks.LOCK_FILE.parent])
    removed = [*remove_orphans(app.cache, required=with_docker), *app.store.remove_orphans()]
    locks.remove_stale_claims(app.store.root)
    if removed:
        listen(Warned(f"removed what an ended harness had left: {', '.join(removed)}"))
    series = RepetitionPlan(matrix, repetitions, app.results.result_of, lambda text: listen(Warned(text)))
    # Taken before the store is searched for complete runs, so that no run of another harness is missed.
    stamps = {
        (planned.cell.key, planned.repetition): app.store.stamp(planned.cell.key, planned.repetition)
        for planned in series.possible_runs()
    }
    completed = (
        set()
        if options.fresh
        else elsewhere
        | app.results.completed_runs(
            series.possible_runs(), options.retry, options.evidence if options.evidence_required else "figures"
        )
    )
    todo = series.first_runs(completed)
    disk = DiskUse(app.store, options.evidence, app.cache.www)
    need = disk.need(todo, options.jobs)
    if caution := disk.require(need):
        listen(Warned(caution))
    runs = create_engine(engine, app.cache, options)
    patience = QuietWait(options.patience)
    attempts = RunMaker(runs, app.store, app.results, options, patience, provenance, listen)
    timings = app.duration_model(matrix)
    backend = LocalBackend(app.images, app.inventory, app.contents, attempts, timings, stamps)
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
        app.paths.state.mkdir(parents=True, exist_ok=True)
        # Virtual time runs exports of images, and asks Docker for each image of each run otherwise.
        images = remembered_images() if ENGINES[engine].virtual_time else nullcontext()
        with machine_lock(engine, lambda: listen(WaitingForMachine(engine))), closing(runs), images:
            if options.cluster is None:
                lost = campaign.work()
            else:
                image_source = ParcelSource(app.root_file_systems, app.contents, options.cluster.files)
                lost = run_on_cluster(
                    options.cluster, todo, backend, attempts, image_source, app.cache, series.next_runs
                )
    results = [app.results.result_of(cell, series.scheduled_count(cell)) for cell in matrix]
    if lost:
        raise UnbuiltError(*lost_runs_message(lost, app.paths.state / "builds"), results)
    return results
