"""Runs that did not take place, since an image of theirs could not be built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import EngineError
from harness.evaluation.cell_result import CellResult
from harness.formatting import counted


@dataclass(frozen=True)
class LostRuns:
    """Runs that cannot take place, because an image of theirs could not be built."""

    image: str
    error: EngineError
    runs: int


class UnbuiltError(EngineError):
    """Everything was done but the runs of images that could not be built."""

    def __init__(self, message: str, hint: str, results: Sequence[CellResult]) -> None:
        super().__init__(message, hint)
        self.results = list(results)
        """All cells, with the runs they have."""


def lost_runs(lost: Sequence[LostRuns], logs: Path) -> tuple[str, str]:
    """What to say at the end of runs that were lost: a message and a hint. `logs`: the folder of the builds' logs."""
    names = ", ".join(item.image for item in lost)
    what = "1 image" if len(lost) == 1 else f"{len(lost)} images"
    return (
        f"{what} could not be built ({names}): {counted(sum(item.runs for item in lost), 'run')} left out",
        f"the reason is above and in {logs}; the same command runs what is missing",
    )
