"""The driver's side of what travels: exported images as parcels, sent to who asks, or laid down where workers read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.engine.images.contents import Contents, KnownContents
from harness.engine.images.rootfs_export import RootFileSystems
from harness.engine.process_owner import owner
from harness.errors import EngineError
from harness.execution.cluster.image_stream import digest_of, head_of, pieces
from harness.execution.cluster.received_images import Sent


class Depot:
    """The images of a plan, held in the cache while the plan is worked on."""

    def __init__(self, exported: RootFileSystems, known: KnownContents, files: str = "") -> None:
        """`files`: where parcels are laid down (fsspec), empty where they are sent."""
        self._exported = exported
        self._known = known
        self.files = files
        self._held = ExitStack()
        self._sent: dict[str, Sent] = {}
        self._contents: dict[str, Contents] = {}
        self._exports: dict[str, Path] = {}
        """Digest of a parcel → the export that it is made of."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def sent(self, reference: str) -> Sent:
        """An image as workers are told of it; exported, and laid down, where that is still to be done. EngineError."""
        if reference not in self._sent:
            root = self._held.enter_context(self._exported.use([reference])).roots[reference]
            export = Path(root.rootfs).parent
            try:
                digest = digest_of(head_of(export))
            except (OSError, ValueError) as error:
                raise EngineError(f"{export}: {error}", "remove the folder, and the image is exported anew") from error
            self._exports[digest] = export
            if self.files:
                self._lay_down(digest)
            with suppress(EngineError, OSError):
                self._contents[reference] = self._known.of(reference, root.id)
            self._sent[reference] = Sent.of(root, digest)
        return self._sent[reference]

    def contents(self, references: Iterable[str]) -> dict[str, Contents]:
        """What is really in images, by reference, where that is known."""
        return {reference: self._contents[reference] for reference in references if reference in self._contents}

    def pieces(self, digest: str) -> Iterator[bytes]:
        """A parcel. EngineError where there is none, or it cannot be read."""
        if digest not in self._exports:
            raise EngineError(f"the driver has no image {digest}")
        try:
            yield from pieces(self._exports[digest])
        except (OSError, ValueError) as error:
            raise EngineError(f"the driver cannot read the image {digest}: {error}") from error

    def _lay_down(self, digest: str) -> None:
        import fsspec

        try:
            system, folder = fsspec.core.url_to_fs(self.files)
            place = f"{folder.rstrip('/')}/{digest}.parcel"
            if system.exists(place):
                return
            system.makedirs(folder, exist_ok=True)
            unfinished = f"{place}.{owner()}"
            with system.open(unfinished, "wb") as file:
                for piece in self.pieces(digest):
                    file.write(piece)
            system.mv(unfinished, place)
        except (OSError, ImportError, ValueError) as error:
            raise EngineError(
                f"--cluster-files {self.files}: {error}", "name a folder that can be written to"
            ) from error
