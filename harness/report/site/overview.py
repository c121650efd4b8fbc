"""The first page: a heat map per scenario, and all cells as one table. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult
from harness.evaluation.staleness import outdated_note
from harness.outcome import Cell
from harness.report import effort_summary, group_by_scenario
from harness.report.column_selection import columns
from harness.report.results import SYMBOLS, reference_lines
from harness.report.site.figures import Tile, build_tile, headline
from harness.report.site.interop import cells_on_page
from harness.report.site.matrix import CellMatrix, build_matrix
from harness.report.studies import installed_studies
from harness.scenario.parameters import ROLES, Role

#: The page of test cases.
INTEROP = "interop.html"
#: The most cells that a browser lists within a second.
MOST = 1500
#: Verdict → its meaning, for new readers.
MEANING = {
    "pass": "all demands are met",
    "fail": "a demand is missed",
    "measured": "nothing was demanded",
    "inconclusive": "the runs cannot tell",
    "unsupported": "somebody does not do what was asked",
    "error": "the runs failed",
}


@dataclass(frozen=True)
class TargetTime:
    """A line of reference values that a table's figures are compared with."""

    name: str
    """Name, with its parameters where there are several lines of its kind."""
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """One scenario under one engine."""

    anchor: str
    name: str
    title: str
    engine: str
    figure: str
    """The figure in the cells, with its unit."""
    matrix: CellMatrix
    tiles: dict[str, Tile]
    """By the key of the cell."""
    headings: tuple[str, ...]
    lines: tuple[TargetTime, ...]
    note: str
    """A note on cells from other versions of the code or images than today's, if staleness was checked."""


@dataclass(frozen=True)
class Overview:
    """The page."""

    sections: tuple[Section, ...]
    tiles: tuple[Tile, ...]
    """Of all sections, in their order."""
    verdicts: dict[str, int]
    """Verdict → number of cells, without zeros, in the order of the tables."""
    scenarios: tuple[str, ...]
    engines: tuple[str, ...]
    players: dict[Role, tuple[str, ...]]
    parameters: dict[str, tuple[str, ...]]
    """Name of a parameter → the values that were set."""
    effort: str
    elsewhere: dict[str, int]
    """Page → number of cells that only this page lists."""


def implementation_names(cell: Cell, role: Role) -> list[str]:
    """Names of the implementations in a role, over all flows, in order."""
    names = (cell.implementation(role, index).name for index in range(len(cell.scenario.flows)))
    return list(dict.fromkeys(names))


def listed_elsewhere(results: Sequence[CellResult]) -> dict[str, str]:
    """Key → page of the cells that only another page lists, if there are many cells: the interop page lists those of
    test cases, and a study's page those of its design.
    """
    if len(results) <= MOST:
        return {}
    pages = {result.cell.key: INTEROP for result in cells_on_page(results).values()}
    for result in results:
        if result.cell.scenario.study is not None:
            name = next((name for name, study in installed_studies().items() if study.rests_on(result)), None)
            if name is not None:
                pages[result.cell.key] = f"studies/{name}.html"
    return pages


def overview(results: Sequence[CellResult]) -> Overview:
    """The page of these cells."""
    elsewhere, effort_text = listed_elsewhere(results), effort_summary(results)
    results = [result for result in results if result.cell.key not in elsewhere]
    sections = tuple(_build_section(cells) for cells in group_by_scenario(results))
    tiles = tuple(section_tile for section in sections for section_tile in section.tiles.values())
    counts: Counter[str] = Counter(result.verdict.status for result in results)
    values: dict[str, dict[str, None]] = {}
    for cells in group_by_scenario(results):
        for result in cells:
            for name, value in sorted(result.cell.parameters.items()):
                values.setdefault(name, {})[str(value)] = None
    return Overview(
        sections,
        tiles,
        {status: counts[status] for status in SYMBOLS if counts[status]},
        tuple(dict.fromkeys(section.name for section in sections)),
        tuple(sorted({section.engine for section in sections})),
        {
            role: tuple(sorted({name for result in results for name in implementation_names(result.cell, role)}))
            for role in ROLES
        },
        {name: tuple(distinct) for name, distinct in sorted(values.items())},
        effort_text,
        dict(Counter(elsewhere.values())),
    )


def _build_section(cells: Sequence[CellResult]) -> Section:
    scenario, engine = cells[0].cell.scenario, cells[0].cell.engine
    metric_columns = columns(scenario)
    lines = [
        TargetTime(line.name + "".join(f", {name} {value}" for name, value in line.told.items()), tuple(line.texts))
        for line in reference_lines([result.cell for result in cells], [metric for metric, _ in metric_columns])
        if any(line.texts)
    ]
    return Section(
        anchor=f"{scenario.name}-{engine}".replace("/", "-"),
        name=scenario.name,
        title=scenario.title,
        engine=engine,
        figure=headline(scenario)[1],
        matrix=build_matrix(cells),
        tiles={result.cell.key: build_tile(result) for result in cells},
        headings=tuple(heading for _, heading in metric_columns),
        lines=tuple(lines),
        note=outdated_note(cells),
    )
