"""Messages between a driver and its workers. Both have the same version; until that is known, nothing is sent."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import harness
from harness.engine.kernel import Entry
from harness.evaluation.retention import RequestedEvidence
from harness.execution.cluster.image_transfer import SentImage

#: Prefixes of the names of two worker resources: its number of threads, and its memory in bytes. The version of the
#: package follows. Workers of another version do not have these resources, and so never get a run.
CORE, MEMORY = "quic-lab-core-", "quic-lab-memory-"
#: Prefix of the topic on which workers request files from their driver; the name of the driver follows.
REQUEST_TOPIC = "quic-lab-wanted-"


@dataclass(frozen=True)
class RunOrder:
    """A run that a worker is to make."""

    cell: str
    """JSON."""
    repetition: int
    images: Mapping[str, SentImage]
    """Reference → image, for every image of the run."""
    contents: Mapping[str, str]
    """Reference → digest of the image's contents, if it is known."""
    driver: str
    """Name of the driver, which follows `WANTED` in the topic."""
    files: str = ""
    """Folder or URL (fsspec) that parcels are read from; empty if the driver sends them."""
    commit: str = ""
    evidence: RequestedEvidence = "full"
    stall: float = 60.0
    log_limit: int = 2 << 30
    entry: Entry | None = None
    """How the lab kernel enters the programs of its guest; None: as the worker's machine allows."""


@dataclass(frozen=True)
class RunAnswer:
    """The result of an order."""

    worker: str
    """Address of the worker."""
    host: str
    failed: str = ""
    """Why there is no run: the environment failed on that machine."""
    hint: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Files of the run's folder that every run keeps: path below the folder → content."""
    archive: bytes = field(default=b"", repr=False)
    """The kept artefacts (tar); empty if there are none."""
    seconds: float = 0.0
    """Wall time at the worker, including measuring."""


@dataclass(frozen=True)
class WorkerInfo:
    """An enrolled worker."""

    address: str
    host: str
    cores: int
    memory: int
    """Bytes."""


# --- The version of this package that a process runs: a digest of its modules, not a number that somebody maintains.


_PACKAGE = Path(harness.__file__).resolve().parent


@functools.cache
def package_digest() -> str:
    """Digest of all modules of the package, hexadecimal: two machines that work on one plan must have the same."""
    return digest_package(_PACKAGE)


def digest_package(package: Path) -> str:
    """The same digest, of the package in a folder."""
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted(package.rglob("*.py")):
        digest.update(f"{file.relative_to(package)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def version_text() -> str:
    """The version for people: '0.1.0 (1234abcd…)'."""
    try:
        number = version("quic-lab")
    except PackageNotFoundError:
        number = "not installed"
    return f"{number} ({package_digest()})"
