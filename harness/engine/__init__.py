"""Engines bring a lab up, run it, bring everything down, and return what happened.

Nothing else starts a process of a lab.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from harness.outcome import Cpu, EngineName, Outcome, RandomBytes, Transfer
from harness.topology import Lab

#: Called with the name of the phase that begins (create, ready, transfer, pause, collect, remove).
Progress = Callable[[str], None]


@dataclass(frozen=True)
class EngineResult:
    """Observations of an engine, without any judgement."""

    outcome: Outcome
    transfers: tuple[Transfer, ...] = ()
    phases: dict[str, float] = field(default_factory=dict)
    sim_kernel: str = ""
    image_ids: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    virtual: float | None = None
    """Seconds of the lab's own clock, where that is not wall time."""
    cpu: Cpu | None = None
    """The processor that the endpoints saw, in virtual time."""
    lab_kernel: str = ""
    """SHA-256 of the lab kernel's file, in virtual time."""
    entered: str = ""
    """How that kernel entered the programs of its guest, and which kind of pages its memory had."""
    sandbox: str = ""
    """The sandbox of that kernel, in virtual time."""
    containers: str = ""
    """Limits and reachability of endpoints, in real time."""
    random: dict[str, RandomBytes] = field(default_factory=dict)
    """Random bytes that endpoints drew from their kernel, in virtual time."""


class Engine(Protocol):
    """One way to run a lab."""

    name: EngineName

    def run(self, lab: Lab, folder: Path, progress: Progress) -> EngineResult:
        """Run `lab` with its artefacts in `folder`.

        When this raises, nothing of the lab is left. When it returns, at most what `close` removes is left. Raises
        EngineError when the infrastructure failed before anything could run (daemon gone, subnet taken, disk full),
        and KeyboardInterrupt after it has removed the lab.
        """
        ...

    def close(self) -> None:
        """Remove what stays up between runs. The engine can run labs afterwards, too. Raises EngineError."""
        ...

    def cancel(self) -> None:
        """End the labs that other threads are running; their `run` raises EngineError."""
        ...

    def remove_orphans(self) -> list[str]:
        """Remove what dead harness processes have left. Returns the names of what was removed."""
        ...
