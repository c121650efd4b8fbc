"""The backend of a campaign in one checkout: builds images and makes runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext, suppress

from harness.engine.build_queue import Step
from harness.engine.docker.host_jitter import prioritize_runs
from harness.engine.docker_cli import inspect_image
from harness.engine.images.build import Build, Images
from harness.engine.images.contents import ContentsCache
from harness.errors import EngineError
from harness.execution.events import LabKernelUsed
from harness.execution.image_inventory import ImageInventory
from harness.execution.locks import RunLock, claim_run
from harness.execution.matrix import PlannedRun
from harness.execution.retries import RunMaker
from harness.outcome import ENGINES, Cell, proven_outcome
from harness.planning.estimate import DurationModel
from harness.store.results import disk_error


class LocalBackend:
    """The backend of a campaign (see `harness.execution.scheduler.Backend`) in one checkout."""

    def __init__(
        self,
        images: Images,
        inventory: ImageInventory,
        contents: ContentsCache,
        attempts: RunMaker,
        experience: DurationModel,
        stamps: Mapping[tuple[str, int], object],
    ) -> None:
        """`stamps`: those of the runs that were stored when the plan was made (`Store.stamp`)."""
        self._durations = experience
        self._images = images
        self._inventory = inventory
        self._contents = contents
        self._run_maker = attempts
        self._real_time = not ENGINES[attempts.engine.name].virtual_time
        self._stamps = stamps
        self._builds: dict[str, Build] = {}
        """Reference → build that may be needed."""
        self._present: dict[str, bool] = {}
        self._reasons: set[str] = set()
        """Why the lab kernel was used, as far as the user was informed."""

    def needs(self, cell: Cell) -> tuple[frozenset[str], list[Step]]:
        """See `harness.execution.scheduler.Backend`."""
        images = self._images
        if cell.sim_kernel == "auto" and not images.sim_settled and self._is_present(images.sim_build("host")):
            # Probing the host's kernel is fast if the image for it exists.
            images.settle_sim(_silent)
        builds = self._inventory.builds_of(cell)
        if cell.sim_kernel == "auto" and not images.sim_settled:
            default_sim = images.sim_build("auto")
            builds = [build for build in builds if build.reference != default_sim.reference]
            builds += images.builds_before_settling()
        builds_by_reference = {build.reference: build for needed in builds for build in self._missing_builds(needed)}
        self._builds |= builds_by_reference
        steps = [
            Step(
                reference,
                build.name,
                images.build_seconds(build),
                frozenset(base.reference for base in build.bases.values()),
            )
            for reference, build in builds_by_reference.items()
        ]
        return frozenset(build.reference for build in builds), steps

    def _is_present(self, build: Build) -> bool:
        if build.reference not in self._present:
            self._present[build.reference] = inspect_image(build.reference) is not None
        return self._present[build.reference]

    def _missing_builds(self, build: Build) -> list[Build]:
        if self._is_present(build):
            return []
        return [*(missing for base in build.bases.values() for missing in self._missing_builds(base)), build]

    def make(self, step: Step, *, beside: bool) -> bool:
        """See `harness.execution.scheduler.Backend`."""
        # Beside runs in real time, compilers use at most half of the cores; virtual time is not disturbed by load.
        jobs = max(1, (os.cpu_count() or 1) // 2) if beside and self._real_time else None
        images, build = self._images, self._builds[step.reference]
        settles_sim = not images.sim_settled and step.reference == images.sim_build("host").reference
        if settles_sim:
            images.settle_sim(_silent)
        # The kernel may have been settled by a file that is older than the image: the image is then still missing.
        images.make(build, _silent, jobs)
        self._read_contents(build)
        self._present[step.reference] = True
        return settles_sim

    def _read_contents(self, build: Build) -> None:
        """Read the contents of a built image, before a run records them."""
        with suppress(EngineError, OSError):
            if self._real_time and (image := inspect_image(build.reference)) is not None:
                self._contents.contents_of(build.reference, image["Id"])

    def settle_images(self, cell: Cell) -> Cell:
        """See `harness.execution.scheduler.Backend`."""
        reason = self._inventory.host_cannot(cell)
        if reason and reason not in self._reasons:
            self._reasons.add(reason)
            self._run_maker.listen(LabKernelUsed(reason))
        return self._inventory.build_images_of(cell, self._run_maker.listen)

    def claim(self, item: PlannedRun) -> RunLock | int:
        """See `harness.execution.scheduler.Backend`."""
        root = self._run_maker.store.root
        try:
            return claim_run(root, item.cell.key, item.repetition)
        except OSError as error:
            raise disk_error(error, root) from error

    def is_done_elsewhere(self, item: PlannedRun) -> bool:
        """See `harness.execution.scheduler.Backend`. Runs with an infrastructure failure are made again."""
        store, key, repetition = self._run_maker.store, item.cell.key, item.repetition
        stamp = store.stamp(key, repetition)
        if stamp is None or stamp == self._stamps.get((key, repetition)):
            return False
        stored_run = next((run for run in store.runs(key) if run.repetition == repetition), None)
        measured = None if stored_run is None else self._run_maker.results.measured(stored_run)
        return stored_run is not None and proven_outcome(stored_run, measured).status != "infrastructure"

    def run(self, item: PlannedRun) -> float:
        """See `harness.execution.scheduler.Backend`."""
        with prioritize_runs() if self._real_time else nullcontext():
            return self._run_maker.run(item)

    def expected_seconds(self, cell: Cell) -> float:
        """See `harness.execution.scheduler.Backend`."""
        return self._durations.expected_seconds(cell)

    def cancel(self) -> None:
        """See `harness.execution.scheduler.Backend`."""
        self._images.cancel()
        self._run_maker.engine.cancel()


def _silent(name: str, seconds: float) -> None:
    """Ignore the announcement of a build: the campaign reports builds itself."""
