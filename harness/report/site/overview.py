"""The first page: a heat map per scenario, and all cells as one table. Pure."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult, current_scenario, pair_of
from harness.evaluation.staleness import outdated_note
from harness.outcome import ENGINES, Cell, EngineName
from harness.report.column_selection import columns
from harness.report.parameters import requested_parameters
from harness.report.results import SYMBOLS, effort_summary, group_by_scenario, reference_lines
from harness.report.site.interop import cells_on_page
from harness.report.studies import installed_studies
from harness.report.tile import Tile, build_tile, headline
from harness.scenario.parameters import ROLES, Role

# --- The cells of one table as a matrix: the dimensions in which they differ, assigned to rows and columns.


#: The dimension of implementations each of which runs with itself alone: clients by servers would be a diagonal.
ITSELF = "client and server"
#: The dimensions whose values are names of implementations.
_OF_IMPLEMENTATIONS = (*ROLES, ITSELF)

Place = tuple[str, ...]
"""A value for each dimension of one side."""


@dataclass(frozen=True)
class CellMatrix:
    """Cells by the dimensions in which they differ."""

    down: tuple[str, ...]
    """Names of the dimensions of the rows."""
    across: tuple[str, ...]
    """Names of the dimensions of the columns."""
    rows: tuple[Place, ...]
    columns: tuple[Place, ...]
    cells: dict[tuple[Place, Place], list[CellResult]]
    """(row, column) → cells; cells that do not differ share a place."""
    shared: dict[str, str]
    """Parameters with the same value in all cells."""


def build_matrix(results: Sequence[CellResult]) -> CellMatrix:
    """The matrix of one table's cells, at least one; implementations are sorted by name, other values by first cell."""
    parameters = requested_parameters([result.cell for result in results])
    dimensions: dict[str, list[str]] = {}
    if results[0].cell.scenario.open_roles:
        clients, servers = ([result.cell.implementation(role).name for result in results] for role in ROLES)
        each_with_itself = clients == servers and len(set(clients)) > 1
        dimensions |= {ITSELF: clients} if each_with_itself else dict(zip(ROLES, (clients, servers), strict=True))
    values = [parameters.cells(result.cell) for result in results]
    for index, name in enumerate(parameters.varied):
        dimensions[name] = [value[index] for value in values]
    seeds = [str(result.cell.seed) for result in results]
    processors = ["host" if result.cell.host_cpu else "lab" for result in results]
    conditions = {"seed": seeds, "processor": processors}
    dimensions |= {name: column for name, column in conditions.items() if len(set(column)) > 1}
    down, across = _sides(dimensions)
    cells: dict[tuple[Place, Place], list[CellResult]] = {}
    for index, result in enumerate(results):
        place = tuple(tuple(dimensions[name][index] for name in side) for side in (down, across))
        cells.setdefault((place[0], place[1]), []).append(result)
    rows, columns = (_sort_places([place[side] for place in cells], names) for side, names in ((0, down), (1, across)))
    shared = {name: str(value) for name, value in parameters.shared.items()}
    return CellMatrix(down, across, rows, columns, cells, shared)


def _sides(dimensions: dict[str, list[str]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(dimensions of the rows, dimensions of the columns)."""
    pair = [name for name in _OF_IMPLEMENTATIONS if name in dimensions]
    remaining = [name for name in dimensions if name not in pair]
    if not remaining:
        return tuple(pair[:1]), tuple(pair[1:])
    if pair:
        return tuple(pair), tuple(remaining)
    for cut in sorted(range(1, len(remaining)), key=lambda cut: abs(cut - len(remaining) / 2)):
        sides = (tuple(remaining[:cut]), tuple(remaining[cut:]))
        down, across = (
            {tuple(row) for row in zip(*(dimensions[name] for name in side), strict=True)} for side in sides
        )
        points = {tuple(point) for point in zip(*(dimensions[name] for name in remaining), strict=True)}
        if len(down) * len(across) == len(points):
            return sides
    # The dimensions are not independent, so every combination of values is a column.
    return (), tuple(remaining)


def _sort_places(places: Sequence[Place], names: Sequence[str]) -> tuple[Place, ...]:
    """The distinct places, sorted: implementations by name, values in the order of the cells, small before large."""
    orders = []
    for index, name in enumerate(names):
        values = list(dict.fromkeys(place[index] for place in places))
        orders.append({value: at for at, value in enumerate(sorted(values) if name in _OF_IMPLEMENTATIONS else values)})
    unique = dict.fromkeys(places)
    return tuple(sorted(unique, key=lambda place: [order[value] for order, value in zip(orders, place, strict=True)]))


def heading_spans(place: Sequence[Place], level: int) -> list[tuple[str, int]]:
    """One level of headings above columns: (value, how many columns it spans)."""
    return [
        (prefix[level], len(list(group)))
        for prefix, group in itertools.groupby(place, key=lambda column: column[: level + 1])
    ]


# --- The page.


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


#: The links that people have, as the table at the top of the page names them.
LINKS = ("GEO satellite", "low orbit", "4G", "Wi-Fi", "cable")
#: What people do on them → the scenario of each of these links.
ACTIVITIES = {
    "download": ("satellite/medium", *(f"access/download-{name}" for name in ("leo", "lte", "wifi", "docsis"))),
    "upload": ("upload/geo", *(f"access/upload-{name}" for name in ("leo", "lte", "wifi", "docsis"))),
    "page load": tuple(f"web/{name}" for name in ("geo", "low-orbit", "lte", "wifi", "docsis")),
}
#: What else is asked of stacks → the scenario that answers it.
QUESTIONS = {
    "beside TCP": "dumbbell/beside-tcp",
    "beside each other": "dumbbell/fairness",
    "beside a call": "media/call",
    "after a move": "handover/migrate",
}


@dataclass(frozen=True)
class Fastest:
    """The fastest cell of a scenario, for whoever looks for a stack for a link."""

    anchor: str
    """Of the scenario's heat map."""
    names: str
    """Its implementations."""
    figure: str
    """Its time with the unit."""
    count: int
    """Cells that were compared."""


@dataclass(frozen=True)
class Guide:
    """The way in: for each activity the fastest stack on each link, and where other questions are answered."""

    rows: dict[str, tuple[Fastest | None, ...]]
    """Activity → as many as there are links; None where nothing was measured."""
    anchors: dict[str, str]
    """Question → the heat map that answers it."""


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
    engine: EngineName
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

    guide: Guide
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
        _guide(sections),
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


def _guide(sections: Sequence[Section]) -> Guide:
    """The way in; runs in virtual time come first where a scenario has both."""
    by_name: dict[str, Section] = {}
    for section in sections:
        if section.name not in by_name or ENGINES[section.engine].virtual_time:
            by_name[section.name] = section
    rows = {
        activity: tuple(_fastest(by_name[name]) if name in by_name else None for name in names)
        for activity, names in ACTIVITIES.items()
    }
    return Guide(
        {activity: row for activity, row in rows.items() if any(row)},
        {question: by_name[name].anchor for question, name in QUESTIONS.items() if name in by_name},
    )


def _fastest(section: Section) -> Fastest | None:
    """The fastest cell without parameters of its own; None where no cell has a time."""
    timed = [
        (tile.value, pair_of(tile.result.cell), tile.figure)
        for tile in section.tiles.values()
        if tile.value is not None and not tile.result.cell.parameters
    ]
    if not timed or not section.figure.endswith(" s"):
        return None
    _, pair, figure = min(timed)
    return Fastest(section.anchor, " → ".join(dict.fromkeys(pair)), f"{figure} s", len(timed))


def _build_section(cells: Sequence[CellResult]) -> Section:
    scenario, engine = current_scenario(cells), cells[0].cell.engine
    metric_columns = columns(scenario)
    lines = [
        TargetTime(
            line.name + "".join(f", {name} {value}" for name, value in line.parameters.items()), tuple(line.texts)
        )
        for line in reference_lines(
            scenario, [result.cell for result in cells], [metric for metric, _ in metric_columns]
        )
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
