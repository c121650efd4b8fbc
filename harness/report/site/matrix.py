"""The cells of one table as a matrix: the dimensions in which they differ, assigned to rows and columns. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from harness.evaluation.cell_result import CellResult
from harness.report.parameters import requested_parameters

#: The value of a parameter in a cell that does not set it.
NOT_SET = "–"

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
        dimensions["client"] = [result.cell.client.name for result in results]
        dimensions["server"] = [result.cell.server.name for result in results]
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
    pair = [name for name in ("client", "server") if name in dimensions]
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
        orders.append(
            {value: at for at, value in enumerate(sorted(values) if name in ("client", "server") else values)}
        )
    unique = dict.fromkeys(places)
    return tuple(sorted(unique, key=lambda place: [order[value] for order, value in zip(orders, place, strict=True)]))


def heading_spans(place: Sequence[Place], level: int) -> list[tuple[str, int]]:
    """One level of headings above columns: (value, how many columns it spans)."""
    return [
        (prefix[level], len(list(group)))
        for prefix, group in itertools.groupby(place, key=lambda column: column[: level + 1])
    ]
