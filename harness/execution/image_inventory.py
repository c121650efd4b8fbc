"""Which images this machine has for the implementations, which it lacks and why, and making them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from harness.catalogue import Catalogue
from harness.engine.docker_cli import inspect_image
from harness.engine.images.build import Announce, Build, Images, MadeImage, make_side_by_side, missing
from harness.engine.images.registry import Registry
from harness.engine.images.rootfs_export import RootFileSystems
from harness.errors import EngineError, InputError, did_you_mean
from harness.execution.events import ImageStarted, Listener
from harness.outcome import Cell, Image
from harness.scenario.schema import Implementation

#: How the identity begins of a published image that is not on this machine: what it is cannot be told.
NOT_PRESENT = "not-present:"


class Inventory:
    """The images of one checkout on this machine."""

    def __init__(self, catalogue: Catalogue, images: Images, exported: RootFileSystems) -> None:
        self._catalogue = catalogue
        self._images = images
        self._exported = exported

    @cached_property
    def _known(self) -> dict[str, tuple[Implementation, Path]]:
        """The implementations, read once: the estimate asks for them for every run."""
        return self._catalogue.implementations()

    def named(self, name: str) -> Implementation:
        """The implementation that a flow names. InputError where there is none."""
        if name not in self._known:
            raise InputError(
                f"a flow names '{name}', and there is no such implementation", did_you_mean(name, self._known)
            )
        return self._known[name][0]

    # --- what there is

    def absent(self) -> dict[str, str]:
        """Implementations that are neither here nor can be made here: name → why."""
        return {
            name: why
            for name, (one, _) in self._known.items()
            if one.elsewhere and not self.has(one) and (why := self.why_absent(one))
        }

    def why_absent(self, implementation: Implementation) -> str | None:
        """Why an implementation that is not here cannot be made here; None when it can."""
        try:
            return missing(implementation)
        except EngineError as error:
            return f"it has not been used yet, and the Docker daemon does not answer: {error.message}"

    def has(self, implementation: Implementation, folder: Path | None = None) -> bool:
        """Whether the image is on this machine; without the Docker daemon only what was exported is.

        `folder`: of its manifest; that which the catalogue knows without, which takes every manifest to be right.
        """
        reference = implementation.image
        try:
            image = self._images.image_of(implementation, folder or self._known[implementation.name][1])
            if image is not None:
                reference = image.reference
                # A published image is found only if it is present; of one that is built the name is known before.
                if implementation.image is not None or inspect_image(reference) is not None:
                    return True
        except EngineError:
            pass
        return reference is not None and self._exported.known(reference) is not None

    def image_of(self, implementation: Implementation, listen: Listener, *, pull: bool) -> Image:
        """The image of an implementation for a cell's key; one that is published is pulled if it may be."""
        try:
            image = self._images.image_of(implementation, self._known[implementation.name][1])
        except EngineError:
            known = None if implementation.image is None else self._exported.known(implementation.image)
            if known is None:
                raise
            image = Image(reference=known.reference, identity=known.identity, id=known.id)
        if image is not None:
            return image
        assert implementation.image is not None
        if not pull:
            return Image(reference=implementation.image, identity=f"{NOT_PRESENT}{implementation.image}")
        return self._images.pull(implementation.image, _announcing(listen))

    def builds_of(self, cell: Cell) -> list[Build]:
        """The images a cell needs that are built here; in virtual time not those that were exported already."""
        players = dict.fromkeys([cell.client.name, cell.server.name, *cell.others])
        made = [self._images.of(*self._known[name]) for name in players]
        needed = [self._images.sim_build(cell.sim_kernel), *(build for build in made if build is not None)]
        if cell.virtual_time:
            return [build for build in needed if self._exported.known(build.reference) is None]
        return needed

    # --- making

    def made(self, cell: Cell, listen: Listener) -> Cell:
        """A cell whose images are there."""
        announce = _announcing(listen)
        if cell.sim_kernel == "auto":
            self._images.settle_sim(announce)
        made = cell.model_copy(update={"sim_image": self._images.sim(cell.sim_kernel)})
        for build in self.builds_of(made):
            self._images.make(build, announce)
        return made

    def make(self, names: Sequence[str], listen: Listener) -> dict[str, MadeImage]:
        """Build the simulator and these implementations, side by side. Name → what came of it."""
        announce = _announcing(listen)
        self._images.settle_sim(announce)
        return make_side_by_side(self._images, self._images.sim_build("lab"), self.builds(names, ()), announce)

    def make_each(self, builds: Mapping[str, Build], listen: Listener) -> dict[str, MadeImage]:
        """Build these and what they are built on, side by side. Name → what came of it, for these alone."""
        results = make_side_by_side(self._images, None, builds, _announcing(listen))
        return {name: results[name] for name in builds}

    def builds(self, implementations: Sequence[str], others: Sequence[str]) -> dict[str, Build]:
        """How images are built: name → build, in the order of names; published ones are left out.

        `others`: of those that are no implementation's (`Images.others`).
        """
        builds = {name: self._images.of(*self._known[name]) for name in implementations}
        builds |= {name: build for name, build in self._images.others.items() if name in others}
        return {name: build for name, build in sorted(builds.items()) if build is not None}

    @property
    def others(self) -> list[str]:
        """Names of the images that are built here and are no implementation's."""
        return list(self._images.others)

    def give(self, registry: str, names: Sequence[str]) -> Iterator[str]:
        """Push the images of the simulator and of implementations that are built here. What each is called there.

        What they are built on need not go along: who takes them builds nothing.
        """
        place = Registry(registry)
        known = [self._images.of(*self._known[name]) for name in names if name in self._known]
        for build in (self._images.sim_build("lab"), *filter(None, known)):
            if inspect_image(build.reference) is not None:
                yield place.give(build.reference, build.identity)


def _announcing(listen: Listener) -> Announce:
    return lambda name, seconds: listen(ImageStarted(name, seconds))
