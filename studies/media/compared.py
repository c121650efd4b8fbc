"""The cells behind the page of media, by pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.evaluation.cell_result import CellResult
from harness.outcome import Interval
from harness.planning.endpoint_config import application_protocol
from harness.report.studies import measured_cells


def in_virtual_time(results: Sequence[CellResult], scenario: str) -> list[CellResult]:
    """The cells of a scenario in virtual time that have measurements."""
    return [result for result in measured_cells(results, scenario) if result.cell.virtual_time]


def cells_of(results: Sequence[CellResult], scenario: str) -> dict[str, CellResult]:
    """'quic-go → quiche, h3' → its cell."""
    return {pair_text(result): result for result in in_virtual_time(results, scenario)}


def pair_text(result: CellResult) -> str:
    """'quic-go → quiche, h3'."""
    return f"{result.cell.client.name} → {result.cell.server.name}, {application_protocol(result.cell, 0)}"


def spans_of(cells: Mapping[str, CellResult], metric: str) -> dict[str, Interval]:
    """Pair → a metric of its first transfer, where it was measured."""
    spans = {pair: result.interval(metric, 0, "first") for pair, result in cells.items()}
    return {pair: span for pair, span in spans.items() if span is not None}


def is_smooth(result: CellResult) -> bool:
    """Whether all of a cell's runs play without a stall."""
    stalls = result.interval("stalls", 0, "first")
    return stalls is not None and stalls.high == 0
