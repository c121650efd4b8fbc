"""Response times of each pair, by what is beside its requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult
from harness.outcome import Interval
from harness.report.studies import measured_cells
from studies.latency.claims import IDLE, LOADED, QUEUE, QUEUES

#: What stands in the place of a queue where the link is idle.
ALONE = "idle"


@dataclass(frozen=True)
class Response:
    """One pair's requests, with one load."""

    pair: str
    load: str
    """`ALONE`, or the queue that is loaded."""
    median: Interval
    """ms."""
    late: Interval | None
    """95th percentile, ms."""
    per_minute: Interval | None
    unanswered: Interval | None


def responses(results: Sequence[CellResult]) -> list[Response]:
    """Of every pair and load, the loads in the order of the scenario, the fastest pair first."""
    rows = [
        response
        for scenario in (IDLE, LOADED)
        for result in measured_cells(results, scenario)
        if result.cell.virtual_time and (response := _response(result)) is not None
    ]
    order = (ALONE, *QUEUES)
    return sorted(rows, key=lambda row: (order.index(row.load), row.median.median, row.pair))


def _response(result: CellResult) -> Response | None:
    cell = result.cell
    median = result.interval("response_time_p50", 0, "first")
    if median is None:
        return None
    return Response(
        pair=f"{cell.client.name} → {cell.server.name}",
        load=str(cell.parameters[QUEUE]) if cell.scenario.name == LOADED else ALONE,
        median=median,
        late=result.interval("response_time_p95", 0, "first"),
        per_minute=result.interval("responses_per_minute", 0, "first"),
        unanswered=result.interval("unanswered_requests", 0, "first"),
    )
