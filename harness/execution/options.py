"""Options of a checkout and of a campaign."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.engine.confinement import MEMORY
from harness.engine.docker.host_jitter import PATIENCE
from harness.engine.images.cache import LIMIT
from harness.engine.kernel import OWN, LabKernel
from harness.engine.virtual.uml_guest import STALL
from harness.evaluation.retention import Artefacts
from harness.execution.cluster.address import ClusterOptions


@dataclass(frozen=True)
class Places:
    """Folders of a checkout, and options of its cache and registry."""

    root: Path
    store: Path
    state: Path
    """Logs of builds, what a probe found."""
    cache: Path
    """Served files, certificates, exported images."""
    host_cpu: bool = False
    """Endpoints in virtual time see the host's processor, also where the lab's own could be had."""
    cache_limit: int = LIMIT
    """Bytes that the cache may grow to."""
    registry: str = ""
    """Where images are looked for before they are built, as `docker pull` names it; empty for nowhere."""


@dataclass(frozen=True)
class Options:
    """How a plan is executed."""

    fresh: bool = False
    """Run again what is stored."""
    retry: frozenset[str] = frozenset({"infrastructure"})
    """Outcomes that do not count as done."""
    attempts: int = 3
    """How often a run is tried while the ground spoils it (`harness.outcome.Outcome.passing`)."""
    patience: float = PATIENCE
    """Seconds that runs may wait, in all, for a machine that keeps time before they are tried again; with 0 they are
    not."""
    log_limit: int = 2 << 30
    """Bytes an endpoint may write to its logs."""
    memory: int = MEMORY
    """Bytes of memory an endpoint may have, in real time."""
    jobs: int = 1
    """Runs side by side; more than one only in virtual time, where they cannot disturb each other."""
    stall: float = STALL
    """CPU seconds a virtual clock may stand still."""
    kernel: LabKernel = OWN
    """What labs in virtual time run on."""
    artefacts: Artefacts = "all"
    """Of which runs what they were measured from is kept. Figures, link proof, series and digests always are."""
    cluster: ClusterOptions | None = None
    """Where runs in virtual time are made, if not here."""
