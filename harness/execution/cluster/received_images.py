"""Root file systems that came from another machine, and the virtual engine on them: no Docker is asked for anything."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.engine.images.cache import UNFINISHED, Cache, short_id

# (Under its own name: whatever is renamed there changes every cell's key.)
from harness.engine.images.rootfs_export import ROOT, RootFileSystems, RootFs, _place, exported_folder, seal
from harness.engine.kernel import LabKernel
from harness.engine.process_owner import owner
from harness.engine.virtual.engine import VirtualEngine
from harness.errors import EngineError
from harness.execution.cluster.image_stream import unpack


@dataclass(frozen=True)
class Sent:
    """An image that a run is made with, as its driver describes it."""

    reference: str
    id: str
    """Its ID at the driver: sha256:…."""
    identity: str
    command: Sequence[str]
    environment: Sequence[str]
    working_dir: str
    user: str
    stop_signal: int
    parcel: str
    """Digest of its files (`harness.execution.cluster.image_stream`)."""
    set_ids: Mapping[str, int] = field(default_factory=dict)
    """See `RootFs`."""

    @classmethod
    def of(cls, root: RootFs, parcel: str) -> Sent:
        """An exported image."""
        return cls(
            root.reference, root.id, root.identity, tuple(root.command), tuple(root.environment), root.working_dir,
            root.user, root.stop_signal, parcel, dict(root.set_ids),
        )  # fmt: skip

    def inspected(self) -> dict[str, Any]:
        """As Docker would describe it, where there were Docker."""
        config = {
            "Entrypoint": list(self.command), "Env": list(self.environment), "WorkingDir": self.working_dir,
            "User": self.user, "StopSignal": str(self.stop_signal),
        }  # fmt: skip
        return {"Id": self.id, "RepoDigests": [self.identity], "Config": config}

    def at(self, rootfs: Path) -> RootFs:
        """The same, with its files in a folder of this machine."""
        return RootFs(
            self.reference, self.id, self.identity, str(rootfs), list(self.command), list(self.environment),
            self.working_dir, self.user, self.stop_signal, dict(self.set_ids),
        )  # fmt: skip


Fetch = Callable[[str], Iterable[bytes]]
"""The pieces of a parcel, by its digest. Raises EngineError where they do not come."""


class TravelledRoots(RootFileSystems):
    """The images that a driver sends, each once: kept in this machine's cache, and fetched anew where damaged."""

    def __init__(self, cache: Cache, images: Mapping[str, Sent], fetch: Fetch) -> None:
        """`images`: by reference."""
        super().__init__(cache)
        self._sent = images
        self._fetch = fetch

    def _image(self, reference: str) -> tuple[str, dict[str, Any] | None]:
        image = self._sent[reference].inspected()
        return image["Id"], image

    def _export(self, reference: str, image: dict[str, Any]) -> RootFs:
        identity = str(image["Id"])
        with _alone(self._cache.folder, identity):
            # Another worker of this machine may have been faster.
            folder = exported_folder(self._cache.folder, identity)
            if folder is None:
                folder = self._arrived(reference, image)
        self._cache.bound()
        return self._sent[reference].at(folder / ROOT)

    def _arrived(self, reference: str, image: dict[str, Any]) -> Path:
        """Fetch what is not there. EngineError, OSError."""
        unfinished = self._cache.roots / f"{UNFINISHED}{owner()}.{threading.get_ident()}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700, parents=True)
        (unfinished / ROOT).mkdir()
        parcel = self._sent[reference].parcel
        try:
            sealed = unpack(self._fetch(parcel), parcel, unfinished / ROOT)
            with self._cache.alone():
                self._cache.shared.share(unfinished / ROOT, sealed, unfinished / "link")
            seal(self._sent[reference].at(unfinished / ROOT), sealed)
            return _place(unfinished, self._cache.roots, str(image["Id"]))
        except EngineError as error:
            raise EngineError(f"the image {reference} did not arrive: {error.message}", error.hint) from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


class TravelledEngine(VirtualEngine):
    """Virtual time on root file systems that a driver sends."""

    def __init__(
        self,
        cache: Cache,
        cores: Sequence[int],
        images: TravelledRoots,
        log_limit: int,
        stall: float,
        kernel: LabKernel,
    ) -> None:
        super().__init__(cache, cores, log_limit, stall, kernel=kernel)
        self._images = images


@contextlib.contextmanager
def _alone(cache: Path, identity: str) -> Iterator[None]:
    """While it lasts nobody else on this machine fetches an image. OSError."""
    file = cache / "uses" / f"fetch-{short_id(identity)}"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
