"""Events during the execution of a plan, for progress displays and logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.errors import HarnessError
from harness.outcome import Cell, EngineName, Outcome, Run, Verdict


@dataclass(frozen=True)
class PlanMade:
    """The plan is complete: the amount of work, and its estimated duration."""

    to_run: int
    stored: int
    cells: int
    seconds: float
    is_open_ended: bool = False
    """Cells run until their objectives are decided; the plan has only the first runs."""
    varied_parameters: frozenset[str] = frozenset()
    """Parameters by which the cells of a scenario differ."""
    disk: str = ""
    """Disk space that it needs, in words."""


@dataclass(frozen=True)
class ImageStarted:
    """The build or pull of an image begins."""

    name: str
    seconds: float


@dataclass(frozen=True)
class BuildStarted:
    """The build of an image begins, in parallel to other work."""

    name: str
    seconds: float
    """Expected time of the build, alone on the machine."""


@dataclass(frozen=True)
class BuildEnded:
    """A build in parallel to other work has ended."""

    name: str
    seconds: float
    error: HarnessError | None = None
    """Why there is no image."""
    lost: int = 0
    """Number of runs that cannot be made without it."""


@dataclass(frozen=True)
class WaitingForImage:
    """No run can start until an image exists."""

    name: str
    seconds: float
    """Estimated remaining time of its build."""


@dataclass(frozen=True)
class WaitingForRun:
    """No run can start until another harness on this store has made one."""

    cell: Cell
    repetition: int
    process: int
    """Number of the process of that harness; 0 if it is not known."""


@dataclass(frozen=True)
class WaitingForMachine:
    """No run can start until another harness on this machine has ended, since one of the two runs real-time cells."""

    engine: EngineName
    """Engine of the waiting runs."""


@dataclass(frozen=True)
class RunTakenOver:
    """Another harness has made a run meanwhile, so it is not made again."""

    cell: Cell
    repetition: int


@dataclass(frozen=True)
class RunStarted:
    """A run begins."""

    cell: Cell
    repetition: int
    number: int
    total: int
    seconds: float
    """Expected duration of the run."""
    seconds_left: float


@dataclass(frozen=True)
class PhaseStarted:
    """The engine enters a phase of a run."""

    cell: Cell
    repetition: int
    phase: str


@dataclass(frozen=True)
class RunEnded:
    """A run that is not judged has ended."""

    cell: Cell
    repetition: int


@dataclass(frozen=True)
class RunFinished:
    """A run has ended and is stored."""

    cell: Cell
    run: Run
    outcome: Outcome
    """With the result of the link proof."""
    verdict: Verdict


@dataclass(frozen=True)
class ClusterProgress:
    """The progress of a cluster."""

    workers: int
    hosts: int
    cores: int
    completed: int
    total: int
    under_way: int
    rate: float
    """Runs per second since the start of the plan."""
    changed: bool = False
    """Workers joined or left."""


@dataclass(frozen=True)
class RunsVerified:
    """Runs were made twice, on different workers."""

    text: str


@dataclass(frozen=True)
class LabKernelUsed:
    """The lab kernel runs paths that the host's kernel cannot run."""

    text: str
    """Why, with what would bring the host's kernel what it lacks."""


@dataclass(frozen=True)
class Warned:
    """A warning that the user should check before trusting the results."""

    text: str
    cell: Cell | None = None
    """Cell of the run that the warning is about; None for a warning about all runs."""
    repetition: int = 0


Event = (
    PlanMade
    | ImageStarted
    | BuildStarted
    | BuildEnded
    | WaitingForImage
    | WaitingForRun
    | WaitingForMachine
    | RunTakenOver
    | RunStarted
    | PhaseStarted
    | RunEnded
    | RunFinished
    | ClusterProgress
    | RunsVerified
    | LabKernelUsed
    | Warned
)
Listener = Callable[[Event], None]
