"""Grids of all pairs: clients down, servers across, one figure or reason per pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from harness.evaluation.cell_result import CellResult, current_scenario
from harness.evaluation.staleness import outdated_note, row_text
from harness.outcome import proven_outcome
from harness.report.document import Block, Column, Document, Paragraph, Row, Span, Table
from harness.report.parameters import requested_parameters
from harness.report.results import SYMBOLS, group_by_scenario
from harness.scenario.metric_names import MetricName

#: Metric of a pair's figure.
METRIC = MetricName("completion", 0, "first")
#: Minimum width of a folded reason: its longest word.
_REASON_WIDTH = len("unsupported")


def entry(
    result: CellResult, metric: MetricName = METRIC, format_value: Callable[[float], str] = "{:.2f}".format
) -> str:
    """Median of a metric (by default, seconds to the last byte); else the reason code of the verdict.

    Where no run completed, although most had the metric, the figure stands with what failed afterwards.
    """
    span = result.interval(*metric)
    if span is None or not math.isfinite(span.median):
        return result.verdict.reason
    value = format_value(span.median)
    if "completed" in result.outcomes:
        return value
    outcomes = (proven_outcome(run, measured) for run, measured in result.runs)
    failed = next(outcome for outcome in outcomes if outcome.failed_transfer)
    return f"{value} (then {' '.join(filter(None, [failed.status, failed.role]))})"


def _rows(results: Sequence[CellResult]) -> tuple[list[str], list[tuple[str, list[CellResult | None]]]]:
    """(servers, [(client, its cells in the order of the servers)])."""
    cells = {(result.cell.client.name, result.cell.server.name): result for result in results}
    clients, servers = (sorted({pair[index] for pair in cells}) for index in (0, 1))
    return servers, [(client, [cells.get((client, server)) for server in servers]) for client in clients]


def _groups(results: Sequence[CellResult]) -> list[tuple[str, list[CellResult]]]:
    """(title, cells) of each grid: one for a scenario, an engine, and each set of parameters."""
    groups = []
    for cells in group_by_scenario(results):
        scenario, engine = current_scenario(cells), cells[0].cell.engine
        points: dict[tuple[tuple[str, object], ...], list[CellResult]] = {}
        for result in cells:
            points.setdefault(tuple(sorted(result.cell.parameters.items())), []).append(result)
        for point_cells in points.values():
            suffix = requested_parameters([result.cell for result in point_cells]).suffix
            groups.append((f"{scenario.title} ({scenario.name}, engine {engine}{suffix})", point_cells))
    return groups


def grid_document(results: Sequence[CellResult]) -> Document:
    """The grids, for people alone: as data, `results_document` has their cells."""
    return Document({}, grid_blocks(results))


def grid_blocks(results: Sequence[CellResult]) -> list[Block]:
    """The grids as part of a page."""
    return _grids(results, lambda result: entry(result).replace("_", " "))


def verdict_grid_blocks(
    results: Sequence[CellResult], further: Mapping[str, Mapping[str, str]] | None = None
) -> list[Block]:
    """The same with the symbol of each verdict. Implementations that met only themselves are below the grid.

    `further`: title → server → text, rows below the clients.
    """
    peers = {name for result in results for name in _pair(result) if len(set(_pair(result))) > 1}
    cross, isolated = list[CellResult](), list[CellResult]()
    for result in results:
        (cross if not peers or peers.intersection(_pair(result)) else isolated).append(result)
    self_pairs = ", ".join(f"{result.cell.client.name} {row_text(_verdict(result), result)}" for result in isolated)
    self_pair_note = [Paragraph(f"Others, each with itself: {self_pairs}.")] if isolated else []
    return [*_grids(cross, _verdict, further or {}), *self_pair_note]


def _pair(result: CellResult) -> tuple[str, str]:
    return result.cell.client.name, result.cell.server.name


def _verdict(result: CellResult) -> str:
    return f"{SYMBOLS[result.verdict.status][0]} {entry(result).replace('_', ' ')}"


def _grids(
    results: Sequence[CellResult],
    format_cell: Callable[[CellResult], str],
    further: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Block]:
    blocks: list[Block] = []
    for title, cells in _groups(results):
        servers, rows = _rows(cells)
        columns = [Column("", identifies=True), *(Column(server, right=True, text=_REASON_WIDTH) for server in servers)]
        grid_rows = [
            Row([client, *("–" if cell is None else _cell(cell, format_cell(cell)) for cell in row_cells)])
            for client, row_cells in rows
        ]
        grid_rows += [
            Row([name, *(texts.get(server, "–") for server in servers)]) for name, texts in (further or {}).items()
        ]
        heading = (Span(title, strong=True), ": seconds to the last byte, client ↓ server →")
        stale = outdated_note(cells)
        blocks += [Paragraph(heading), Table(columns, grid_rows), *([Paragraph(stale)] if stale else [])]
    return blocks


def _cell(result: CellResult, text: str) -> Span:
    return Span(row_text(text, result), style=SYMBOLS[result.verdict.status][1])
