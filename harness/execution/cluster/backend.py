"""What the driver of a cluster's plan works with: the ground of a checkout, and the runs that it hands out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from harness.execution.cluster.messages import Answer, Order
from harness.execution.matrix import PlannedRun
from harness.execution.run_lock import Claim
from harness.outcome import Cell, MeasuredRun, Run


class Ground(Protocol):
    """What the driver of a plan works with."""

    def order(self, item: PlannedRun, driver: str) -> tuple[Order, int]:
        """A run as a worker is told of it, and the bytes of memory that it takes there. Raises EngineError."""
        ...

    def claim(self, item: PlannedRun) -> Claim | int:
        """See `harness.execution.scheduler.Ground`."""
        ...

    def made_elsewhere(self, item: PlannedRun) -> bool:
        """See `harness.execution.scheduler.Ground`."""
        ...

    def expected(self, cell: Cell) -> float:
        """See `harness.execution.scheduler.Ground`."""
        ...

    def take(self, item: PlannedRun, answer: Answer, attempt: int) -> bool:
        """Store what a worker made, and tell of it; whether it is to be made once more. Raises HarnessError."""
        ...

    def unpacked(self, item: PlannedRun, answer: Answer) -> tuple[Run, MeasuredRun | None]:
        """What a worker made, to be held against what is stored. Raises ResultError."""
        ...

    def stored(self, item: PlannedRun) -> tuple[Run, MeasuredRun | None]:
        """A run that is stored. Raises ResultError."""
        ...


@dataclass
class Task:
    """A run that was handed out, or will be."""

    item: PlannedRun
    attempt: int = 1
    first: str = ""
    """Worker that made it, where this is to be the second time; it is then made on another, and not stored."""
    failed: tuple[str, ...] = ()
    """What was said by machines whose ground failed."""
    claim: Claim | None = None
    memory: int = 0
    alone: bool = False
    """Workers died that had it among others: it is made with no other under way, and given up if they die again."""
    gone: int = 0
    """How often all workers went that could make it."""
