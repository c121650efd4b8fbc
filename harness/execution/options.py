"""Options of a checkout and of a campaign."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.engine.confinement import MEMORY
from harness.engine.docker.host_jitter import PATIENCE
from harness.engine.images.cache import LIMIT
from harness.engine.kernel import OWN, LabKernel
from harness.engine.virtual.uml_guest import STALL

if TYPE_CHECKING:
    from harness.evaluation.retention import RequestedEvidence
    from harness.execution.cluster.address import ClusterOptions


@dataclass(frozen=True)
class CheckoutPaths:
    """Folders of a checkout, and options of its cache and registry."""

    root: Path
    """Has scenarios/ and images/: the checkout, or what an installed program has of it."""
    store: Path
    state: Path
    """Build logs, and results of probes."""
    cache: Path
    """Served files, certificates, exported images."""
    host_cpu: bool = False
    """In virtual time endpoints see the host's processor, even if the lab's own is available."""
    cache_limit: int = LIMIT
    """Maximum size of the cache, bytes."""
    registry: str = ""
    """Registry that is searched for images before they are built, as `docker pull` names it; empty for none."""
    workspace: Path | None = None
    """A folder with scenarios, images and results of the user's own."""

    @property
    def home(self) -> Path:
        """The folder whose results/ are the store, unless another one is named."""
        return self.workspace or self.root


@dataclass(frozen=True)
class Options:
    """How a plan is executed."""

    fresh: bool = False
    """Make stored runs again."""
    retry: frozenset[str] = frozenset({"infrastructure"})
    """Outcomes of stored runs that are made again."""
    attempts: int = 3
    """Maximum attempts of a run that the environment invalidates (`harness.outcome.Outcome.passing`)."""
    patience: float = PATIENCE
    """Seconds that runs may wait, in all, for a machine that keeps time before they are tried again; with 0 they are
    not."""
    log_limit: int = 2 << 30
    """Maximum size of an endpoint's logs, bytes."""
    memory: int = MEMORY
    """Maximum memory of an endpoint in real time, bytes."""
    jobs: int = 1
    """Number of parallel runs; more than one only in virtual time, where they cannot disturb each other."""
    stall: float = STALL
    """CPU seconds for which a virtual clock may stand still."""
    kernel: LabKernel = OWN
    """Kernel of labs in virtual time."""
    evidence: RequestedEvidence = "full"
    """What new runs keep of the files that they are measured from."""
    evidence_required: bool = False
    """Stored runs that keep less are made again."""
    cluster: ClusterOptions | None = None
    """Cluster for runs in virtual time; None for this machine."""
