"""A night and its baseline, made of stored results: cells that became slower, and the trend of some nights."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.evaluation.cell_result import CellResult
from harness.evaluation.regression.accepted_changes import apply_allowances
from harness.evaluation.regression.decision import decide, match_cells
from harness.report.gate import CellReport, GateReport
from harness.report.site.build import NightContext
from harness.report.trend import Night

#: What the gate says of the changed cell.
CAUSES = (
    "the engine's code",
    "the image of ngtcp2 (mine/ngtcp2:1.15 (version 1.15.0) → mine/ngtcp2:dev (version 1.16.0, revision 8f2d1c0a9b3e))",
    "libngtcp2-16 1.15.0-1 → 1.16.0-1 in quic-lab/ngtcp2:8f2d1c0a9b3e",
)


@dataclass(frozen=True)
class MadeNight:
    """The cells of a night, and what they are compared with."""

    now: list[CellResult]
    slower: CellResult
    """The one that changed."""
    context: NightContext


def slower_result(result: CellResult, factor: float) -> CellResult:
    """The same cell with other bits, and times that are so much longer."""
    cell = result.cell.model_copy(update={"key": result.cell.key[::-1], "engine_code": "other"})
    runs = []
    for run, measured in result.runs:
        assert measured is not None
        slower = tuple(
            measurement.model_copy(update={"value": measurement.value * factor})
            if measurement.unit == "s"
            else measurement
            for measurement in measured.measurements
        )
        runs.append((run.model_copy(update={"cell": cell}), measured.model_copy(update={"measurements": slower})))
    return replace(result, cell=cell, runs=tuple(runs))


def make_night(base: Sequence[CellResult], measured: Sequence[CellResult]) -> MadeNight:
    """A night in which the first of the measured cells takes 1.9 times as long, after twelve others."""
    slower = slower_result(measured[0], 1.9)
    now = [slower, *(result for result in base if result is not measured[0])]
    decided = apply_allowances(decide(match_cells(base, now), within=0.03), (), datetime.date(2026, 11, 28))
    report = GateReport(tuple(CellReport(decision, CAUSES) for decision in decided.cells), decided, 0.03)
    nights = [
        Night(
            f"2026-11-{day}", f"2026-11-{day}T00:00:00Z", [slower_result(result, 1 + day / 100) for result in measured]
        )
        for day in range(10, 22)
    ]
    return MadeNight(now, slower, NightContext(report, nights))


def measured_cells(results: Sequence[CellResult]) -> list[CellResult]:
    """Those cells in virtual time all of whose runs are measured."""
    return [
        result
        for result in results
        if result.cell.virtual_time and all(measured is not None for _, measured in result.runs)
    ]
