"""What each sender and TCP have of the link that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult
from harness.outcome import Interval
from harness.report.studies import controller_of, measured_cells, shared_throughputs
from studies.coexistence.claims import TCP, TCP_CONTROLLER


@dataclass(frozen=True)
class Contest:
    """A sender beside Linux's TCP CUBIC."""

    server: str
    controller: str
    """Of the sender's congestion control; empty where its manifest names none."""
    own: Interval
    """Mbit/s of the sender."""
    tcp: Interval
    """Mbit/s of TCP."""
    fairness: Interval | None
    """Jain's index of the two."""
    queue: Interval | None
    """Mean delay of the queue, ms."""

    @property
    def title(self) -> str:
        """For people: 'nginx (reno)'."""
        return f"{self.server} ({self.controller})" if self.controller else self.server

    @property
    def share(self) -> float:
        """The sender's part of what both have."""
        return self.own.median / (self.own.median + self.tcp.median)


def contests(results: Sequence[CellResult], scenario: str) -> list[Contest]:
    """Of every sender on one path in virtual time, who takes most first."""
    rows = [
        contest
        for result in measured_cells(results, scenario)
        if result.cell.virtual_time and (contest := _contest(result)) is not None
    ]
    return sorted(rows, key=lambda row: (-row.share, row.server))


def without_row(results: Sequence[CellResult], scenario: str) -> list[CellResult]:
    """The cells of one path in virtual time that have a run that did not complete."""
    return [
        result for result in measured_cells(results, scenario) if result.cell.virtual_time and not result.all_completed
    ]


def left_to_tcp(rows: Sequence[Contest]) -> dict[Contest, Interval]:
    """Contest → what TCP has, as a part of what it has beside another TCP. Empty where TCP has nothing there."""
    base = next((row.tcp for row in rows if row.server == TCP and row.tcp.low > 0), None)
    if base is None:
        return {}
    # The ends are the worst and the best that both intervals allow: the two are of other runs.
    return {
        row: Interval(
            n=row.tcp.n,
            median=row.tcp.median / base.median,
            low=row.tcp.low / base.high,
            high=row.tcp.high / base.low,
            coverage=row.tcp.coverage * base.coverage,
        )
        for row in rows
    }


def _contest(result: CellResult) -> Contest | None:
    cell = result.cell
    both = shared_throughputs(result)
    if both is None or controller_of(cell, 1) != TCP_CONTROLLER:
        return None
    own, tcp = both
    return Contest(
        server=cell.server.name,
        controller=controller_of(cell),
        own=own,
        tcp=tcp,
        fairness=result.interval("jain_means"),
        queue=result.interval("mean_queue_delay"),
    )
