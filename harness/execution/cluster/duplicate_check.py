"""Runs that are made twice, on different workers: which ones, and whether they came out the same."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from harness.execution.matrix import PlannedRun
from harness.formatting import counted
from harness.outcome import MeasuredRun, Run
from harness.store.merge import parted


def is_sample(item: PlannedRun, share: float) -> bool:
    """Whether a run belongs to a share of all runs: by what it is, so that the same plan has the same sample."""
    digest = hashlib.blake2b(f"verify {item.cell.key}/{item.repetition}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def sample(items: list[PlannedRun], share: float) -> set[tuple[str, int]]:
    """(key, repetition) of the runs that are made twice; of few runs at least one."""
    if not items or share <= 0:
        return set()
    chosen = [item for item in items if is_sample(item, share)] or [min(items, key=lambda item: item.cell.key)]
    return {(item.cell.key, item.repetition) for item in chosen}


@dataclass
class Twice:
    """What came of the runs that were made twice."""

    same: int = 0
    parted: list[str] = field(default_factory=list)
    """Those that came out differently, in a sentence each."""
    alone: int = 0
    """Those that could not be made a second time, since there was no other worker."""

    def compare(
        self, one: tuple[Run, MeasuredRun | None], other: tuple[Run, MeasuredRun | None], workers: tuple[str, str]
    ) -> None:
        """Hold two runs of one key and repetition against each other, by the rule of a merge."""
        why = parted(*one, *other)
        if not why:
            self.same += 1
            return
        run = one[0]
        who = f"{run.name} {run.cell.scenario.name} {run.cell.client.name}→{run.cell.server.name}"
        self.parted.append(f"{who}: {why} ({workers[0]} and {workers[1]})")

    @property
    def sentence(self) -> str:
        """For people; empty where none was to be made twice."""
        parts = []
        if self.same or self.parted:
            runs = counted(self.same + len(self.parted), "run")
            came = "the same" if not self.parted else f"{self.same} came out the same, {len(self.parted)} did not"
            parts.append(f"{runs} made twice, on different workers: {came}")
        if self.alone:
            parts.append(f"{counted(self.alone, 'run')} could not be made twice: there is no other worker")
        return "; ".join(parts)
