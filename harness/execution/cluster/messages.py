"""What a driver and its workers write each other: both of one version, and before that is known nothing is sent."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import harness
from harness.engine.kernel import Entry
from harness.evaluation.retention import Artefacts
from harness.execution.cluster.image_transfer import SentImage

#: Name of a resource that a worker has as much of as it has threads, and of one that it has bytes of memory of: behind
#: it is the version of the package. Workers of another version have none of it, and so never get a run.
CORE, MEMORY = "quic-lab-core-", "quic-lab-memory-"
#: Name of the topic on which workers ask their driver for files: behind it is who that is.
WANTED = "quic-lab-wanted-"


@dataclass(frozen=True)
class Order:
    """A run that is to be made."""

    cell: str
    """JSON."""
    repetition: int
    images: Mapping[str, SentImage]
    """By reference: every image that plays."""
    contents: Mapping[str, str]
    """Reference → digest of what is really in the image, where it is known."""
    driver: str
    """What is behind `WANTED`."""
    files: str = ""
    """Folder or address (fsspec) that parcels are taken from; empty where the driver sends them."""
    commit: str = ""
    artefacts: Artefacts = "all"
    stall: float = 60.0
    log_limit: int = 2 << 30
    entry: Entry | None = None
    """How the lab kernel enters its guest's programs; None: as the worker's machine allows."""


@dataclass(frozen=True)
class Answer:
    """What came of it."""

    worker: str
    """Address of the worker."""
    host: str
    failed: str = ""
    """Why there is no run: the ground failed on that machine."""
    hint: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Of the run's folder, as it stands in a store, what stays of every run: place → content."""
    archive: bytes = field(default=b"", repr=False)
    """The artefacts that are kept beside (tar); empty for none."""
    seconds: float = 0.0
    """Wall time at the worker, measuring included."""


@dataclass(frozen=True)
class Member:
    """A worker that takes part."""

    address: str
    host: str
    cores: int
    memory: int
    """Bytes."""


# --- Which version of this package a process runs: by the text of its modules, not by a number that somebody raises.


_PACKAGE = Path(harness.__file__).resolve().parent


@functools.cache
def build() -> str:
    """Digest of all modules of the package, hexadecimal: what two machines must share to work on one plan."""
    return build_of(_PACKAGE)


def build_of(package: Path) -> str:
    """The same of a package in some folder."""
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted(package.rglob("*.py")):
        digest.update(f"{file.relative_to(package)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def named() -> str:
    """The version for people: '0.1.0 (1234abcd…)'."""
    try:
        number = version("quic-lab")
    except PackageNotFoundError:
        number = "not installed"
    return f"{number} ({build()})"
