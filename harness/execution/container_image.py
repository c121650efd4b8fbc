"""The harness in a container image: what the image brings along, and how its harness uses that.

The image has the package, its recipes and scenarios, and exported images of some implementations as parcels
(`harness.execution.cluster.image_transfer`). They are unpacked into the cache at their first use, by whoever runs the
container: so all files belong to that user, as those that a cluster's worker receives. Docker is not needed for that.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from harness.engine.images.cache import Cache
from harness.engine.images.contents import ContentsCache
from harness.engine.images.rootfs_export import RootFileSystems
from harness.errors import EngineError
from harness.execution.cluster.image_transfer import PIECE_BYTES, ParcelSource, ReceivedRoots, SentImage

#: Environment variable: the folder of the parcels. The recipe of the image sets it (images/container).
VARIABLE = "HARNESS_PARCELS"
#: File in that folder with the descriptions of the images.
INDEX = "images.json"
#: In the build context, beside the recipe's own files.
CHECKOUT, PARCELS = "checkout", "parcels"
#: The files of a checkout that the package reads: paths of files, and of folders with a slash at the end.
_READ = (
    "harness/",
    "images/",
    "scenarios/",
    "studies/",
    "results/reference/",
    "results/equivalences.yaml",
    "pyproject.toml",
    "requirements.lock",
)


def context_files(tracked: Iterable[str]) -> list[str]:
    """The files of a checkout that go into the image, of those that Git tracks."""
    return [
        path for path in tracked if path in _READ or path.startswith(tuple(item for item in _READ if item[-1] == "/"))
    ]


def write_context(
    folder: Path, root: Path, exported: RootFileSystems, contents: ContentsCache, references: Iterable[str]
) -> None:
    """Write the build context of the image to an empty folder: the recipe, the checkout below `root`, the parcels.

    `references`: of the images that it brings along. EngineError where `root` is no Git checkout. Raises OSError.
    """
    listing = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        raise EngineError(f"{root} is no Git checkout: {listing.stderr.strip()}", "clone the project, and try again")
    shutil.copytree(root / "images" / "container", folder, dirs_exist_ok=True)
    for path in context_files(filter(None, listing.stdout.split("\0"))):
        target = folder / CHECKOUT / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / path, target)
    with ParcelSource(exported, contents, str(folder / PARCELS)) as source:
        images = [asdict(source.describe(reference)) for reference in references]
    (folder / PARCELS / INDEX).write_text(json.dumps(images, indent=1))


class PackedImages:
    """The images that this container brings along; none outside of such a container."""

    def __init__(self, cache: Cache, folder: str | None = None) -> None:
        """`folder`: that of the parcels; the one of the environment variable without. Raises EngineError."""
        self._folder = Path(folder or os.environ.get(VARIABLE) or os.devnull)
        try:
            content = json.loads((self._folder / INDEX).read_bytes())
        except NotADirectoryError:
            content = []
        except (OSError, ValueError) as error:
            raise EngineError(f"{VARIABLE}: {self._folder / INDEX}: {error}", "leave the variable out") from error
        images = [SentImage(**description) for description in content]
        self._references = {image.reference for image in images}
        self._roots = ReceivedRoots(cache, {image.reference: image for image in images}, self._pieces)

    def __bool__(self) -> bool:
        return bool(self._references)

    def __contains__(self, reference: str) -> bool:
        return reference in self._references

    def unpack(self, reference: str) -> bool:
        """Unpack an image into the cache, unless it is there. False where the container lacks it. EngineError."""
        if reference in self._references:
            self._roots.of(reference)
        return reference in self._references

    def _pieces(self, digest: str) -> Iterator[bytes]:
        try:
            with (self._folder / f"{digest}.parcel").open("rb") as parcel:
                while piece := parcel.read(PIECE_BYTES):
                    yield piece
        except OSError as error:
            raise EngineError(f"{error.filename}: {error.strerror}", "pull the container's image anew") from error
