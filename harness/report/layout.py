"""Tables that fit the console: a table that is too wide is split into parts, one below the other.

Nothing is cut. Every part has the columns that identify a row. Where even these leave no room for one other column,
each row becomes a block of lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from harness.formatting import escape_controls
from harness.outcome import Interval

#: What a column takes besides its text: a space on either side, and a line.
_PADDING = 3
#: Minimum width of a folded identifying column.
_MIN_WIDTH = 8
#: A column is widened for words of a reference line up to this length.
_MAX_WORD = 12

#: Minimum width of a column of sentences.
SENTENCE_WIDTH = 24

Entry = str | Text


@dataclass(frozen=True)
class Column:
    """A column of a `Fitted` table."""

    heading: str
    identifies: bool = False
    """Whether it is among those that tell a row from the others."""
    right: bool = False
    """Whether its figures stand at its right edge."""
    text: int = 0
    """Of sentences or lists, which may be folded: how narrow; 0 for what is not folded."""
    if_fits: bool = False
    """Whether it is left out where the table would not fit with it."""


@dataclass(frozen=True)
class Row:
    """A row: a cell per column."""

    cells: Sequence[Entry]
    reference: bool = False
    """A line to read the others by: dim, and below a rule."""


@dataclass(frozen=True)
class FittedTable:
    """A table as wide as the console it is printed on, whatever its columns need."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the title, a note where the table is split, and the parts."""
        widths = self._widths(folded=False)
        needed = 1 + self._whole(widths)
        if needed > options.max_width and any(column.if_fits for column in self.columns):
            yield from self._always().__rich_console__(console, options)
            return
        yield Text(self.title, style="italic")
        room = options.max_width - 1
        if needed > options.max_width:
            widths = self._widths(folded=True)
        names = [index for index, column in enumerate(self.columns) if column.identifies]
        values = [index for index in range(len(self.columns)) if index not in names]
        widest_value = max((widths[index] for index in values), default=0)
        padding = _PADDING * (len(names) + bool(values))
        folded = _fold_widths([widths[index] for index in names], room - widest_value - padding)
        if folded is None:
            yield from self._blocks()
            return
        for index, width in zip(names, folded, strict=True):
            widths[index] = width
        parts = list(_split_columns(values, widths, room - self._whole(folded)))
        if len(parts) > 1:
            notice = f"in {len(parts)} parts: it needs {needed} columns, and here are {options.max_width}"
            yield Text(f"{notice} (COLUMNS={needed} gives them)", style="dim")
        for part in parts:
            selected = sorted([*names, *part])
            yield self._table(selected, self._spread(selected, widths, room))

    def _always(self) -> FittedTable:
        """The same without the columns that are there only where they fit."""
        columns = [index for index, column in enumerate(self.columns) if not column.if_fits]
        rows = [Row([row.cells[index] for index in columns], row.reference) for row in self.rows]
        return FittedTable(self.title, [self.columns[index] for index in columns], rows)

    def _spread(self, selected: Sequence[int], widths: Sequence[int], room: int) -> list[int]:
        """Return the widths, with spare room of a part given to its text columns as far as they need it."""
        widened = list(widths)
        texts = {index: self._text(index) for index in selected if self.columns[index].text}
        spare = room - self._whole([widened[index] for index in selected])
        while spare > 0 and (narrow := [index for index, full_width in texts.items() if widened[index] < full_width]):
            widened[min(narrow, key=widened.__getitem__)] += 1
            spare -= 1
        return widened

    @staticmethod
    def _whole(widths: Sequence[int]) -> int:
        return sum(width + _PADDING for width in widths)

    def _widths(self, *, folded: bool) -> list[int]:
        """Width that each column needs. Texts are folded; headings of identifying columns only with `folded`."""
        column_widths = []
        for index, column in enumerate(self.columns):
            content_width, heading_width = self._text(index), _width(_heading(column) if folded else column.heading)
            column_widths.append(max(heading_width, min(content_width, column.text) if column.text else content_width))
        return column_widths

    def _text(self, index: int) -> int:
        """Width of the widest cell of a column. The name of a reference line counts by its longest word."""
        column, widest = self.columns[index], 0
        for row in self.rows:
            content = _plain_text(row.cells[index])
            widest = max(widest, _width(_wrap_name(content) if row.reference and column.identifies else content))
        return widest

    def _table(self, selected: Sequence[int], widths: Sequence[int]) -> Table:
        table = Table(header_style="bold")
        for index in selected:
            column, width = self.columns[index], widths[index]
            heading = column.heading if _width(column.heading) <= width else _heading(column)
            justify: Literal["left", "right"] = "right" if column.right else "left"
            table.add_column(Text(heading), justify=justify, overflow="fold", min_width=width, max_width=width)
        ruled = False
        for row in self.rows:
            if row.reference and not self._says(row, selected):
                continue
            if row.reference and not ruled:
                table.add_section()
                ruled = True
            # Text that people wrote is not markup.
            entries = (row.cells[index] for index in selected)
            cells = (Text(_plain_text(entry)) if isinstance(entry, str) else entry for entry in entries)
            table.add_row(*cells, style="dim" if row.reference else None)
        return table

    def _says(self, row: Row, selected: Sequence[int]) -> bool:
        """Whether a reference line has any entry besides its name in these columns."""
        return any(_plain_text(row.cells[index]) for index in selected if not self.columns[index].identifies)

    def _blocks(self) -> Iterator[Text]:
        """Each row as lines, one per column that is not empty."""
        for row in self.rows:
            for column, cell in zip(self.columns, row.cells, strict=True):
                if _plain_text(cell):
                    yield Text.assemble((f"{column.heading}: ", "bold"), cell)
            yield Text("")


def _heading(column: Column) -> str:
    """The heading. That of an identifying column, a parameter's name, is folded at its dots."""
    return column.heading.replace(".", ".\n") if column.identifies else column.heading


def _wrap_name(name: str) -> str:
    """A reference line's name as it is folded: at its words, and within long ones."""
    return "\n".join(word[:_MAX_WORD] for word in name.split())


def _width(text: str) -> int:
    return max(map(cell_len, text.splitlines()), default=0)


def _plain_text(cell: Entry) -> str:
    # As it is printed: what is written out is longer.
    return cell.plain if isinstance(cell, Text) else escape_controls(cell)


def _fold_widths(widths: Sequence[int], room: int) -> list[int] | None:
    """Narrow the widest columns until all have room. None where that is too narrow to read."""
    narrowed = list(widths)
    while sum(narrowed) > room:
        widest = max(range(len(narrowed)), key=narrowed.__getitem__, default=None)
        if widest is None or narrowed[widest] <= _MIN_WIDTH:
            return None
        narrowed[widest] -= 1
    return narrowed


def _split_columns(columns: Sequence[int], widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """Split the columns, in their order, into as many parts as it takes. Without columns: one empty part."""
    part, space = list[int](), room
    for index in columns:
        if part and widths[index] + _PADDING > space:
            yield part
            part, space = [], room
        part.append(index)
        space -= widths[index] + _PADDING
    yield part


# --- Numbers and intervals as tables and sentences have them.


#: Rates from this one on, Mbit/s, have one decimal.
_MIN_DECIMAL: Final = 0.1


def number_text(value: float) -> str:
    """A number with three significant digits at least; 'never' for infinity."""
    if math.isinf(value):
        return "never"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def rate_text(value: float) -> str:
    """A rate in Mbit/s with one decimal. A smaller one has three significant digits."""
    return f"{value:.1f}" if not value or value >= _MIN_DECIMAL else f"{value:.3g}"


def unit_text(unit: str) -> str:
    """A unit in a table; nothing for a number."""
    return "" if unit == "1" else unit


def span_text(span: Interval | None) -> str:
    """Median, and the interval of several runs where its ends are displayed differently."""
    if span is None:
        return "–"
    median, low, high = map(number_text, (span.median, span.low, span.high))
    return median if span.n == 1 or median == low == high else f"{median} [{low}, {high}]"


def percentage(span: Interval | None) -> str:
    """The median of a share."""
    return "–" if span is None else f"{span.median:.1%}"
