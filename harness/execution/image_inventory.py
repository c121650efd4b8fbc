"""Which implementation images this machine has, which it lacks and why, and how to build them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

from harness.catalogue import Catalogue
from harness.engine.docker_cli import daemon_versions, inspect_image
from harness.engine.images.build import Announce, Build, ImageBuild, Images, build_in_parallel, why_unavailable
from harness.engine.images.cache import Cache
from harness.engine.images.contents import ContentsCache
from harness.engine.images.host_kernel import lab_features, this_machine
from harness.engine.images.registry import Registry
from harness.engine.images.rootfs_export import RootFileSystems
from harness.errors import EngineError, InputError, did_you_mean
from harness.execution.cluster.image_transfer import PARCEL_INDEX, PackedImages, ParcelSource
from harness.execution.events import ImageStarted, Listener
from harness.outcome import Cell, Image
from harness.planning.endpoint_config import UnsupportedError
from harness.scenario.schema import Implementation
from harness.store.provenance import commit_of, copy_tracked_files
from harness.topology import build_lab

#: Prefix of the identity of a published image that is not on this machine, since its real identity is not known.
NOT_PRESENT = "not-present:"
#: The part of a checkout that a container of the harness has.
PACKED = ("harness", "images", "scenarios", "studies", "results/[er]*", "pyproject.toml", "requirements.lock")


#: Labels that say which source an image was made of (OCI image specification, annotations) → the word for it.
_SOURCE_LABELS = {"org.opencontainers.image.version": "version", "org.opencontainers.image.revision": "revision"}


def _with_label(image: Image) -> Image:
    """A published image with what its labels say of its source; Docker is asked. As it is without a daemon."""
    try:
        labels = ((inspect_image(image.reference) or {}).get("Config") or {}).get("Labels") or {}
    except EngineError:
        return image
    texts = [f"{word} {labels[label][:40]}" for label, word in _SOURCE_LABELS.items() if labels.get(label)]
    return image.model_copy(update={"label": ", ".join(texts)})


class ImageInventory:
    """The images of one checkout on this machine."""

    def __init__(
        self, catalogue: Catalogue, images: Images, exported: RootFileSystems, packed: PackedImages, cache: Cache
    ) -> None:
        """`packed`: those that this container brings along; `cache`: its limit holds for images of releases, too."""
        self._cache = cache
        self._catalogue = catalogue
        self._images = images
        self._exported = exported
        self._packed = packed

    @cached_property
    def _implementations(self) -> Mapping[str, tuple[Implementation, Path]]:
        """The implementations, read once, since the estimate needs them for every run."""
        return self._catalogue.implementations()

    def implementation(self, name: str) -> Implementation:
        """The implementation that a flow names. InputError where there is none."""
        try:
            return self._implementations[name][0]
        except KeyError:
            hint = did_you_mean(name, self._implementations)
            raise InputError(f"a flow names '{name}', and there is no such implementation", hint) from None

    # --- what there is

    def unavailable(self) -> dict[str, str]:
        """Implementations whose image is not on this machine and cannot be built here: name → reason."""
        return {
            name: why
            for name, (implementation, _) in self._implementations.items()
            if (self._packed.references or implementation.elsewhere or implementation.architectures)
            and not self.has_image(implementation)
            and (why := self.why_unavailable(implementation))
        }

    def inspect_together(self, implementations: Iterable[tuple[Implementation, Path]]) -> None:
        """Ask Docker for the images of many at once, for the questions that follow; nothing where it does not answer.

        For commands that build and pull nothing.
        """
        with suppress(EngineError):
            self._images.inspect_together(list(implementations))

    def why_unavailable(self, implementation: Implementation, *, contact: bool = True) -> str | None:
        """Why an implementation without an image on this machine cannot be built here; None if it can.

        `contact`: also ask the repository that it is built from whether it answers.
        """
        try:
            if self._packed.references:
                daemon_versions()
            return why_unavailable(implementation, self._images.is_present, contact=contact)
        except EngineError as error:
            return f"it has not been used yet, and the Docker daemon does not answer: {error.message}"

    def has_image(self, implementation: Implementation, folder: Path | None = None) -> bool:
        """Whether the image is on this machine; without the Docker daemon, whether it was exported.

        `folder`: that of its manifest. Without it the catalogue is asked, which requires that every manifest is valid.
        """
        reference = implementation.image
        try:
            image = self._images.image_of(implementation, folder or self._implementations[implementation.name][1])
            if image is not None:
                reference = image.reference
                # A published image is found only if it is present; the name of a built one is known before it exists.
                if implementation.image is not None or self._images.is_present(reference):
                    return True
        except EngineError:
            pass
        known = reference is not None and self._exported.known(reference) is not None
        return known or reference in self._packed.references

    def image_of(self, implementation: Implementation, listen: Listener, *, pull: bool) -> Image:
        """The image of an implementation, for a cell's key; a published one is pulled if `pull` is set."""
        try:
            image = self._images.image_of(implementation, self._implementations[implementation.name][1])
        except EngineError:
            export = None if implementation.image is None else self._exported.known(implementation.image)
            if export is None:
                raise
            image = Image(reference=export.reference, identity=export.identity, id=export.id)
        if image is not None:
            return image if implementation.image is None else _with_label(image)
        assert implementation.image is not None
        if not pull:
            return Image(reference=implementation.image, identity=f"{NOT_PRESENT}{implementation.image}")
        return _with_label(self._images.pull(implementation.image, _announcer(listen)))

    def builds_of(self, cell: Cell) -> list[Build]:
        """The images of a cell that are built here; in virtual time without those that were already exported."""
        players = dict.fromkeys([cell.client.name, cell.server.name, *cell.others])
        player_builds = [self._images.build_of(*self._implementations[name]) for name in players]
        needed = [self._sim_build(cell), *(build for build in player_builds if build is not None)]
        if cell.virtual_time:
            exported, packed = self._exported, self._packed
            return [item for item in needed if not exported.known(item.reference) and not packed.unpack(item.reference)]
        return needed

    def _sim_build(self, cell: Cell) -> Build:
        # Only `auto` asks what the paths need.
        features = _features_of(cell) if cell.sim_kernel == "auto" else ()
        return self._images.sim_build(cell.sim_kernel, features)

    def host_cannot(self, cell: Cell) -> str:
        """Why the host's kernel cannot run a cell's paths, in one line; empty where it can, or nobody asks for it."""
        kernel = self._images.host_kernel.read() if cell.sim_kernel == "auto" else None
        return "" if kernel is None else kernel.explain(_features_of(cell), this_machine())

    # --- making

    def build_images_of(self, cell: Cell, listen: Listener) -> Cell:
        """Build the images of a cell, and return the cell with its simulator image settled."""
        announce = _announcer(listen)
        if cell.sim_kernel == "auto":
            self._images.settle_sim(announce)
        sim_image = cell.sim_image.model_copy(update={"reference": self._sim_build(cell).reference})
        ready_cell = cell.model_copy(update={"sim_image": sim_image})
        for build in self.builds_of(ready_cell):
            if self._images.make(build, announce) and build.variant is not None:
                self._images.bound_releases(self._cache)
        return ready_cell

    def make(self, names: Sequence[str], listen: Listener) -> dict[str, ImageBuild]:
        """Build the simulator and these implementations in parallel. Name → result."""
        announce = _announcer(listen)
        self._images.settle_sim(announce)
        return build_in_parallel(self._images, self._images.sim_build("lab"), self.builds(names, ()), announce)

    def make_each(self, builds: Mapping[str, Build], listen: Listener) -> dict[str, ImageBuild]:
        """Build these images and their bases in parallel. Name → result, without the bases."""
        results = build_in_parallel(self._images, None, builds, _announcer(listen))
        return {name: results[name] for name in builds}

    def builds(self, implementations: Sequence[str], support_names: Sequence[str]) -> dict[str, Build]:
        """The builds of images: name → build, sorted by name; published images are left out.

        `support_names`: images that belong to no implementation (`Images.support_builds`).
        """
        builds = {name: self._images.build_of(*self._implementations[name]) for name in implementations}
        builds |= {name: build for name, build in self._images.support_builds.items() if name in support_names}
        return {name: build for name, build in sorted(builds.items()) if build is not None}

    @property
    def support_images(self) -> list[str]:
        """Names of the images that are built here and belong to no implementation."""
        return list(self._images.support_builds)

    def push(self, registry: str, names: Sequence[str]) -> Iterator[str]:
        """Push the images of the simulator and of implementations that are built here. Yields each one's name there.

        Base images are not pushed: whoever pulls these images builds nothing.
        """
        destination = Registry(registry)
        builds = [
            self._images.build_of(*self._implementations[name]) for name in names if name in self._implementations
        ]
        for build in (self._images.sim_build("lab"), *filter(None, builds)):
            if inspect_image(build.reference) is not None:
                yield destination.push(build.reference, build.identity)

    def write_context(self, folder: Path, root: Path, images: Iterable[ImageBuild], contents: ContentsCache) -> None:
        """Write the context of images/container: recipe, Git's files of the checkout, parcels of images. OSError."""
        shutil.copytree(root / "images" / "container", folder, dirs_exist_ok=True)
        copy_tracked_files(root, folder / "checkout", *PACKED)
        (folder / "checkout" / "commit").write_text(commit_of(root))
        with ParcelSource(self._exported, contents, str(folder / "parcels")) as source:
            descriptions = [asdict(source.describe(image.reference)) for image in images]
        (folder / "parcels" / PARCEL_INDEX).write_text(json.dumps(descriptions))


def _features_of(cell: Cell) -> tuple[str, ...]:
    """The features of a kernel that a cell's paths need; none where the cell is unsupported: no run is made of it."""
    try:
        return lab_features(build_lab(cell, 0))
    except UnsupportedError:
        return ()


def _announcer(listen: Listener) -> Announce:
    return lambda name, seconds: listen(ImageStarted(name, seconds))
