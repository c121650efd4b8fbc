"""Tables that fit: one with more columns than there is room for is stacked, and every part says whose rows it has.

Nothing is cut. Columns that identify a row stand in every part; where not even those have room beside one other, each
row becomes a block of lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

#: What a column takes besides its text: a space on either side, and a line.
_AROUND = 3
#: Narrower than this no identifying column is folded to.
_NARROWEST = 8

Entry = str | Text


@dataclass(frozen=True)
class Column:
    """A column of a table that is to fit."""

    heading: str
    identifies: bool = False
    """Whether it is among those that tell a row from the others."""
    right: bool = False
    """Whether its figures stand at its right edge."""


@dataclass(frozen=True)
class Row:
    """A row, a cell a column."""

    cells: Sequence[Entry]
    reference: bool = False
    """A line to read the others by: dim, and below a rule."""


@dataclass(frozen=True)
class Fitted:
    """A table as wide as the console it is printed on, whatever its columns need."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The parts, below a title and what was done to make them fit."""
        yield Text(self.title, style="italic")
        widths = self._widths()
        names = [index for index, column in enumerate(self.columns) if column.identifies]
        rest = [index for index in range(len(self.columns)) if index not in names]
        room = options.max_width - 1
        for index in rest:
            # A sentence among figures is folded.
            widths[index] = min(widths[index], max(room // 2, _NARROWEST))
        beside = max((widths[index] for index in rest), default=0)
        free = room - beside - _AROUND * (len(names) + bool(rest))
        folded = _folded([widths[index] for index in names], free)
        if folded is None:
            yield from self._blocks()
            return
        for place, index in enumerate(names):
            widths[index] = folded[place]
        parts = list(_parts(rest, widths, room - sum(width + _AROUND for width in folded)))
        if len(parts) > 1:
            needed = 1 + sum(width + _AROUND for width in self._widths())
            said = f"in {len(parts)} parts: it needs {needed} columns, and here are {options.max_width}"
            yield Text(f"{said} (COLUMNS={needed} gives them)", style="dim")
        for part in parts:
            yield self._table(sorted([*names, *part]), widths)

    def _widths(self) -> list[int]:
        """What each column needs. Names of reference lines are folded into what the others need."""
        return [
            max(
                [cell_len(column.heading)]
                + [
                    max(map(cell_len, _plain(row.cells[index]).splitlines()), default=0)
                    for row in self.rows
                    if not (row.reference and column.identifies)
                ]
            )
            for index, column in enumerate(self.columns)
        ]

    def _table(self, chosen: Sequence[int], widths: Sequence[int]) -> Table:
        table = Table(header_style="bold")
        for index in chosen:
            column = self.columns[index]
            table.add_column(
                Text(column.heading), justify="right" if column.right else "left", overflow="fold",
                min_width=widths[index], max_width=widths[index],
            )  # fmt: skip
        ruled = False
        for row in self.rows:
            if row.reference and not ruled:
                table.add_section()
                ruled = True
            # What people wrote is no markup.
            entries = (row.cells[index] for index in chosen)
            made = (Text(entry) if isinstance(entry, str) else entry for entry in entries)
            table.add_row(*made, style="dim" if row.reference else None)
        return table

    def _blocks(self) -> Iterator[Text]:
        """Each row as lines, a line a column that has something to say."""
        for row in self.rows:
            for column, cell in zip(self.columns, row.cells, strict=True):
                if _plain(cell):
                    yield Text.assemble((f"{column.heading}: ", "bold"), cell)
            yield Text("")


def _plain(cell: Entry) -> str:
    return cell.plain if isinstance(cell, Text) else cell


def _folded(widths: Sequence[int], room: int) -> list[int] | None:
    """The widths, the widest of them made narrower until all have room; None where that is too narrow to read."""
    made = list(widths)
    while sum(made) > room:
        widest = max(range(len(made)), key=made.__getitem__, default=None)
        if widest is None or made[widest] <= _NARROWEST:
            return None
        made[widest] -= 1
    return made


def _parts(columns: Sequence[int], widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """The columns in as many parts as it takes, in their order; one part of none."""
    part, left = list[int](), room
    for index in columns:
        if part and widths[index] + _AROUND > left:
            yield part
            part, left = [], room
        part.append(index)
        left -= widths[index] + _AROUND
    yield part
