"""The headline figures of cells over the nights of a folder of stores, a table a scenario. Pure.

It shows, and decides nothing: whether a figure has changed is said by `harness.report.gate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.analysis.interop.registry import case_of
from harness.evaluation.cell_result import CellResult, point_of
from harness.formatting import format_count
from harness.outcome import ENGINES, EngineName
from harness.report.document import Block, Column, Document, Heading, Paragraph, Row, Span, Table
from harness.report.results import SYMBOLS, group_by_scenario
from harness.report.tile import Tile, build_tile, headline

#: A terminal shows so many nights at most, the last ones.
_RECENT = 7
#: Changes below so many percent are shown in percent.
_SMALL_CHANGE = 10


@dataclass(frozen=True)
class Night:
    """A store of one night."""

    name: str
    """Name of the store's folder, such as 2026-11-28."""
    begun: str
    """When its first run began, ISO 8601."""
    results: Sequence[CellResult]


@dataclass(frozen=True)
class TrendRow:
    """A cell over the nights."""

    name: str
    """The pair, with its parameters."""
    tiles: tuple[Tile | None, ...]
    """What each night has of it, the oldest first."""

    @property
    def newest(self) -> Tile:
        """The last night's."""
        return next(tile for tile in reversed(self.tiles) if tile is not None)

    @property
    def factor(self) -> float | None:
        """The last figure over the one before it; None where there are no two figures, or the one before is zero."""
        figures = [tile.value for tile in self.tiles if tile is not None and tile.value is not None]
        return figures[-1] / figures[-2] if len(figures) > 1 and figures[-2] else None


@dataclass(frozen=True)
class ScenarioTrend:
    """The cells of a scenario and engine over the nights."""

    scenario: str
    title: str
    engine: EngineName
    figure: str
    """The headline figure, with its unit."""
    nights: tuple[str, ...]
    """The oldest first."""
    rows: tuple[TrendRow, ...]

    @property
    def anchor(self) -> str:
        """Its name in an address."""
        return f"{self.scenario}-{self.engine}".replace("/", "-")

    @property
    def is_test_case(self) -> bool:
        """Whether it is a test case of the interop runner, whose figure is a verdict."""
        return case_of(self.scenario) is not None


def order_nights(nights: Sequence[Night]) -> list[Night]:
    """The nights by the begin of their first runs."""
    return sorted(nights, key=lambda night: (night.begun, night.name))


def trends(nights: Sequence[Night]) -> list[ScenarioTrend]:
    """The trends of all scenarios of these nights, in the order of the newest night."""
    ordered = order_nights(nights)
    names = tuple(night.name for night in ordered)
    by_night = [{point_of(result.cell): result for result in night.results} for night in ordered]
    newest: dict[tuple[object, ...], CellResult] = {}
    for cells in by_night:
        newest |= cells
    output = []
    for results in group_by_scenario(list(newest.values())):
        cell = results[0].cell
        rows = []
        for result in results:
            nightly = [cells.get(point_of(result.cell)) for cells in by_night]
            rows.append(TrendRow(result.name, tuple(None if item is None else build_tile(item) for item in nightly)))
        output.append(
            ScenarioTrend(
                cell.scenario.name,
                cell.scenario.title,
                cell.engine,
                headline(cell.scenario)[1],
                names,
                tuple(rows),
            )
        )
    return output


def factor_text(row: TrendRow) -> str:
    """The last figure beside the one before: '× 1.9', '+0.4 %', '=' where they are equal, nothing without two."""
    if row.factor is None or row.factor == 1:
        return "" if row.factor is None else "="
    share = 100 * (row.factor - 1)
    return f"{share:+.2g} %" if abs(share) < _SMALL_CHANGE else f"× {row.factor:.3g}"


def trend_document(nights: Sequence[Night]) -> Document:
    """A table a scenario: cells down, nights across. A terminal leaves out the older nights where they do not fit."""
    sections = trends(nights)
    blocks: list[Block] = []
    for section in sections:
        last = len(section.nights) - 1
        columns = [
            Column("", identifies=True),
            *(
                Column(
                    name, right=True, if_fits=index < last - 1, medium=None if index > last - _RECENT else "markdown"
                )
                for index, name in enumerate(section.nights)
            ),
            Column("the last two", right=True),
        ]
        rows = [Row([row.name, *(_entry(tile) for tile in row.tiles), factor_text(row)]) for row in section.rows]
        time = ENGINES[section.engine].time
        blocks += [Heading(f"{section.scenario} ({time}): {section.figure}", 3), Table(columns, rows)]
    count = format_count(len(nights), "night")
    shown = f", the last {_RECENT} shown" if len(nights) > _RECENT else ""
    decides = "'harness gate' decides whether a figure has changed"
    blocks.append(Paragraph(f"{count}{shown}; {decides}", medium="terminal"))
    blocks.append(Paragraph(f"{count}; {decides}", medium="markdown"))
    return Document({"schema": 1, "trends": [_data(section) for section in sections]}, blocks)


def _entry(tile: Tile | None) -> Span:
    if tile is None:
        return Span("–")
    return Span(f"{tile.symbol} {tile.figure}", style=SYMBOLS[tile.result.verdict.status][1])


def _data(section: ScenarioTrend) -> dict[str, Any]:
    return {
        "scenario": section.scenario,
        "engine": section.engine,
        "figure": section.figure,
        "nights": list(section.nights),
        "cells": [
            {
                "cell": row.name,
                "factor": row.factor,
                "nights": [
                    None
                    if tile is None
                    else {
                        "key": tile.result.cell.key,
                        "verdict": tile.result.verdict.status,
                        "value": tile.value,
                        "n": len(tile.result.runs),
                    }
                    for tile in row.tiles
                ],
            }
            for row in section.rows
        ],
    }
