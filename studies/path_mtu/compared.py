"""Stored runs as rows: what one sender did when the path's MTU fell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult
from harness.outcome import Interval, proven_outcome
from harness.stats.intervals import interval
from studies.path_mtu.claims import Case


@dataclass(frozen=True)
class Row:
    """One sender on one kind of path."""

    name: str
    is_tcp: bool
    runs: int
    completed: int
    seconds: Interval | None
    """Of the whole download."""
    recovery: Interval | None
    """From the fall of the MTU until data came again, s; infinite where they did not, or the download did not end."""
    largest: Interval | None
    """The largest IP packet that arrived after it, B."""
    size_drops: Interval | None
    """Packets that were too large."""
    endings: tuple[str, ...]
    """How runs that did not complete ended, each once."""

    @property
    def survives(self) -> bool:
        """Whether every download came to its end."""
        return self.completed == self.runs

    @property
    def is_affected(self) -> bool:
        """Whether any of its packets was too large."""
        return self.size_drops is not None and self.size_drops.high > 0


def rows(results: Sequence[CellResult], case: Case) -> list[Row]:
    """The senders of a case, by name, TCP last."""
    found = [
        _row(result)
        for result in results
        if result.cell.scenario.name in (case.quic, case.tcp) and result.measurements and result.cell.virtual_time
    ]
    return sorted(found, key=lambda row: (row.is_tcp, row.name))


def _row(result: CellResult) -> Row:
    is_tcp = result.cell.scenario.flows[0].kind == "tcp"
    outcomes = [proven_outcome(run, measured) for run, measured in result.runs]
    recoveries = [
        math.inf if value is None or outcome.status != "completed" else value
        for (_, measured), outcome in zip(result.runs, outcomes, strict=True)
        if measured is not None
        for value in [measured.value("mtu_recovery_time", 0, "first")]
        if value is not None or any(absence.metric == "mtu_recovery_time" for absence in measured.absent)
    ]
    return Row(
        name="TCP (Linux)" if is_tcp else result.cell.implementation("server", 0).name,
        is_tcp=is_tcp,
        runs=len(result.runs),
        completed=sum(outcome.status == "completed" for outcome in outcomes),
        seconds=result.interval("completion", 0, "first"),
        recovery=interval(recoveries) if recoveries else None,
        largest=result.interval("discovered_mtu_to_client", 0, "first"),
        size_drops=result.interval("size_drops_to_client", 0, "first"),
        endings=tuple(
            dict.fromkeys(
                outcome.reason.replace("_", " ") or outcome.status.replace("_", " ")
                for outcome in outcomes
                if outcome.status != "completed"
            )
        ),
    )
