"""Each stack's download on a path that reorders packets, beside the same path that keeps them in order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult
from harness.outcome import Interval
from harness.report.studies import measured_cells
from studies import per
from studies.reordering.claims import CASES, IN_ORDER, Case


@dataclass(frozen=True)
class Transfer:
    """What was measured of one stack's runs on one path; None where nothing was."""

    runs: int
    seconds: Interval | None
    """Of the whole download; infinite where it did not end."""
    spurious: Interval | None
    """Packets taken for lost that came all the same."""
    extent: Interval | None
    """How many places late a packet came, the most."""


@dataclass(frozen=True)
class Stack:
    """One stack with itself."""

    name: str
    is_tcp: bool
    in_order: Transfer | None
    reordered: dict[Case, Transfer]

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.name} (TCP)" if self.is_tcp else self.name

    def spurious(self, case: Case) -> Interval | None:
        """Packets of a run taken for lost that came; None where it was not measured."""
        transfer = self.reordered.get(case)
        return None if transfer is None else transfer.spurious

    def slowdown(self, case: Case) -> Interval | None:
        """How many times the median time in order the download takes; None where one of them is not known."""
        transfer = self.reordered.get(case)
        longer = None if transfer is None else transfer.seconds
        base = None if self.in_order is None else self.in_order.seconds
        if longer is None or base is None or math.isinf(base.median):
            return None
        return per(longer, base.median)


def stacks(results: Sequence[CellResult]) -> list[Stack]:
    """Every stack with itself that has runs with reordering, in virtual time, by name; TCP last."""
    by_case = {case: _transfers(results, case.scenario) for case in CASES}
    in_order = _transfers(results, IN_ORDER)
    keys = {key for found in by_case.values() for key in found}
    made = [
        Stack(
            name=name,
            is_tcp=is_tcp,
            in_order=in_order.get((name, is_tcp)),
            reordered={case: found[name, is_tcp] for case, found in by_case.items() if (name, is_tcp) in found},
        )
        for name, is_tcp in keys
    ]
    return sorted(made, key=lambda stack: (stack.is_tcp, stack.name))


def _transfers(results: Sequence[CellResult], scenario: str) -> dict[tuple[str, bool], Transfer]:
    """(Name, whether it is TCP) → its runs of a scenario."""
    return {
        (result.cell.server.name, not result.cell.server.speaks_quic): _transfer(result)
        for result in measured_cells(results, scenario)
        if result.cell.virtual_time and result.cell.client.name == result.cell.server.name
    }


def _transfer(result: CellResult) -> Transfer:
    return Transfer(
        runs=len(result.values("completion", 0, "first")),
        seconds=result.interval("completion", 0, "first"),
        spurious=result.interval("spurious_losses", 0, "first"),
        extent=result.interval("reordering_extent", 0, "first"),
    )
