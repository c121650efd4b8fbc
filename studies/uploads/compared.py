"""Uploads by pair, beside what the line rate allows and beside a download."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.evaluation.cell_result import CellResult
from harness.netem.bounds import ideal_time
from harness.netem.mobility import flow_timeline
from harness.outcome import Interval
from harness.planning.endpoint_config import application_protocol
from harness.report.studies import measured_cells
from harness.units import Size
from studies.uploads.claims import BOTH_WAYS, DOWNLOAD, MEDIUM


def pair_text(result: CellResult) -> str:
    """'quic-go → aioquic, h3'."""
    cell = result.cell
    return f"{cell.client.name} → {cell.server.name}, {application_protocol(cell, 0)}"


def seconds(result: CellResult, flow: int = 0, metric: str = "completion") -> Interval | None:
    """A time of a flow's first transfer, s; None where no run has it."""
    return result.interval(metric, flow, "first")


def milestone(result: CellResult, size: Size) -> Interval | None:
    """When that much has come, s; None where no run has it."""
    return seconds(result, 0, f"milestone_{size.label()}")


def completed_cells(cells: Sequence[CellResult], scenario: str) -> list[CellResult]:
    """The cells whose time of the whole file is known, the fastest first."""
    timed = [(whole.median, cell) for cell in measured_cells(cells, scenario) if (whole := seconds(cell)) is not None]
    return [cell for _, cell in sorted(timed, key=lambda item: (item[0], pair_text(item[1])))]


def ideal_times(result: CellResult) -> dict[Size, float]:
    """Milestone → the least time in which the line rate allows it, s."""
    course = flow_timeline(result.cell.scenario)
    return {size: ideal_time(course, size) for size in result.cell.scenario.milestones}


def alone_and_beside(cells: Sequence[CellResult]) -> dict[str, tuple[Interval | None, ...]]:
    """Pair → s of its download alone and beside its upload, then of its upload alone and beside its download."""
    alone = {
        (scenario, pair_text(result)): result
        for scenario in (DOWNLOAD, MEDIUM)
        for result in measured_cells(cells, scenario)
        if not result.cell.parameters
    }
    rows = {}
    for result in measured_cells(cells, BOTH_WAYS):
        spans: list[Interval | None] = []
        for flow, scenario in enumerate((DOWNLOAD, MEDIUM)):
            single = alone.get((scenario, pair_text(result)))
            spans += [None if single is None else seconds(single), seconds(result, flow)]
        rows[pair_text(result)] = tuple(spans)
    return rows


def ratio(span: Interval | None, base: Interval | None) -> float | None:
    """Of two medians; None where one is unknown or infinite."""
    if span is None or base is None or not math.isfinite(span.median) or not math.isfinite(base.median):
        return None
    return span.median / base.median
