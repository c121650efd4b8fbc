"""Documents on a terminal. A table that is too wide is split into parts, one below the other.

Nothing is cut. Every part of a table has the columns that identify a row. Where even these leave no room for one other
column, each row becomes a block of lines.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from harness.formatting import escape_controls
from harness.report.document import (
    Block,
    BulletList,
    Column,
    Details,
    Document,
    Heading,
    Paragraph,
    Phrase,
    Row,
    Span,
    Table,
    Verbatim,
    parts_of,
    plain_text,
)

#: What a column takes besides its text: a space on either side, and a line.
_PADDING = 3
#: Minimum width of a folded identifying column.
_MIN_WIDTH = 8
#: A column is widened for words of a reference line up to this length.
_MAX_WORD = 12


def render_terminal(document: Document, console: Console) -> None:
    """Print a document. Control characters in its texts are written out, and nothing in them is markup."""
    for is_line, parts in itertools.groupby(_parts(document.blocks), lambda part: isinstance(part, _Line)):
        lines = [part for part in parts if isinstance(part, _Line)] if is_line else []
        if lines and console.color_system is None:
            # Together, since each print takes its time.
            console.print(_PlainLines(lines), soft_wrap=True)
            continue
        for part in lines or parts:
            if isinstance(part, _Line):
                text = Text(part.indent) + styled_text(part.phrase)
                console.print(text, style=part.style or None, soft_wrap=True)
            else:
                # Its lines fit, and plain ones are not taken apart again to be cut.
                console.print(part, crop=console.color_system is not None)


def _parts(blocks: Iterable[Block]) -> Iterator[_Line | FittedTable]:
    for block in blocks:
        if block.medium == "markdown":
            continue
        match block:
            case Heading():
                yield _Line(block.text, "bold")
            case Paragraph():
                yield _Line(block.text, block.style)
            case BulletList():
                yield from (_Line(item, block.style, "  ") for item in block.items)
            case Verbatim():
                yield from (_Line(line, "dim", "  ") for line in block.lines)
            case Details():
                yield _Line(block.summary, "italic")
                yield from _parts(block.blocks)
            case Table():
                yield FittedTable(block.of("terminal"))


@dataclass(frozen=True)
class _Line:
    """A line of any length, which is not folded."""

    phrase: Phrase
    style: str
    indent: str = ""


@dataclass(frozen=True)
class _PlainLines:
    """Lines without colours."""

    lines: Sequence[_Line]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield a segment a line."""
        for line in self.lines:
            text = line.indent + escape_controls(plain_text(line.phrase))
            yield Segment(f"{text.expandtabs(console.tab_size)}\n")


def styled_text(phrase: Phrase) -> Text:
    """A text with its styles, as Rich prints it."""
    text = Text()
    for part in parts_of(phrase):
        if isinstance(part, Span):
            looks = (part.style, "bold" if part.strong else "", "italic" if part.emphasis else "")
            # What is written out is longer: the width counts as it is printed.
            text.append(escape_controls(part.text), " ".join(filter(None, looks)) or None)
        else:
            text.append(" ")
    return text


# --- Tables that fit the console.


@dataclass(frozen=True)
class FittedTable:
    """A table as wide as the console it is printed on, whatever its columns need."""

    table: Table

    @property
    def columns(self) -> Sequence[Column]:
        """The columns of the table."""
        return self.table.columns

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the title, a note where the table is split, and the parts."""
        widths = self._widths(folded=False)
        needed = 1 + self._whole(widths)
        if needed > options.max_width and any(column.if_fits for column in self.columns):
            always = [index for index, column in enumerate(self.columns) if not column.if_fits]
            yield from FittedTable(self.table.select(always)).__rich_console__(console, options)
            return
        if self.table.title:
            yield Text(escape_controls(self.table.title), style="italic")
        if not self.table.rows:
            return
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
            spread = self._spread(selected, widths, room)
            yield self._plain_grid(selected, spread) if console.color_system is None else self._grid(selected, spread)

    def _spread(self, selected: Sequence[int], widths: Sequence[int], room: int) -> list[int]:
        """Return the widths, with spare room of a part given to its text columns as far as they need it."""
        widened = list(widths)
        texts = {index: self._text_widths[index] for index in selected if self.columns[index].text}
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
            content_width, heading_width = self._text_widths[index], _width(_heading(column, folded=folded))
            column_widths.append(max(heading_width, min(content_width, column.text) if column.text else content_width))
        return column_widths

    @cached_property
    def _text_widths(self) -> list[int]:
        """Width of the widest cell of each column. The name of a reference line counts by its longest word."""
        widest = [0] * len(self.columns)
        for row, texts in zip(self.table.rows, self._texts, strict=True):
            for index, content in enumerate(texts):
                shown = _wrap_name(content) if row.reference and self.columns[index].identifies else content
                widest[index] = max(widest[index], _width(shown))
        return widest

    @cached_property
    def _texts(self) -> list[list[str]]:
        """The cells of every row, as they are printed."""
        return [[escape_controls(plain_text(cell)) for cell in row.cells] for row in self.table.rows]

    def _plain_grid(self, selected: Sequence[int], widths: Sequence[int]) -> _PlainGrid:
        """The same as `_grid`, for a console without colours."""
        columns = [self.columns[index] for index in selected]
        chosen_widths = [widths[index] for index in selected]
        headings = [_fitted_heading(column, width) for column, width in zip(columns, chosen_widths, strict=True)]
        grid = _PlainGrid(headings, chosen_widths, [column.right for column in columns])
        ruled = False
        for row, texts in zip(self.table.rows, self._texts, strict=True):
            if row.reference and not self._says(row, selected):
                continue
            if row.reference and not ruled:
                grid.section_after, ruled = len(grid.rows) - 1, True
            grid.rows.append([texts[index] for index in selected])
        return grid

    def _grid(self, selected: Sequence[int], widths: Sequence[int]) -> Grid:
        grid = Grid(header_style="bold")
        for index in selected:
            column, width = self.columns[index], widths[index]
            heading = _fitted_heading(column, width)
            justify: Literal["left", "right"] = "right" if column.right else "left"
            grid.add_column(Text(heading), justify=justify, overflow="fold", min_width=width, max_width=width)
        ruled = False
        for row in self.table.rows:
            if row.reference and not self._says(row, selected):
                continue
            if row.reference and not ruled:
                grid.add_section()
                ruled = True
            # Text that people wrote is not markup.
            cells = (styled_text(row.cells[index]) for index in selected)
            grid.add_row(*cells, style="dim" if row.reference else None)
        return grid

    def _says(self, row: Row, selected: Sequence[int]) -> bool:
        """Whether a reference line has any entry besides its name in these columns."""
        return any(plain_text(row.cells[index]) for index in selected if not self.columns[index].identifies)

    def _blocks(self) -> Iterator[Text]:
        """Each row as lines, one per column that is not empty."""
        for row in self.table.rows:
            for column, cell in zip(self.columns, row.cells, strict=True):
                if plain_text(cell):
                    yield Text.assemble((f"{_heading(column, folded=False)}: ", "bold"), styled_text(cell))
            yield Text("")


def _heading(column: Column, *, folded: bool) -> str:
    """The heading. That of an identifying column, a parameter's name, is folded at its dots."""
    heading = escape_controls(plain_text(column.heading))
    return heading.replace(".", ".\n") if folded and column.identifies else heading


def _fitted_heading(column: Column, width: int) -> str:
    """The heading of a column of that width."""
    return _heading(column, folded=_width(_heading(column, folded=False)) > width)


def _wrap_name(name: str) -> str:
    """A reference line's name as it is folded: at its words, and within long ones."""
    return "\n".join(word[:_MAX_WORD] for word in name.split())


def _width(text: str) -> int:
    if text.isascii() and text.isprintable():
        return len(text)
    return max(map(cell_len, text.splitlines()), default=0)


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


# --- A table as lines without colours: what Rich prints of the same one, to the character.
#
# Rich makes segments of every word of every cell, with its style. A pipe and a file have no styles.


@dataclass
class _PlainGrid:
    """Columns of fixed widths, with borders as Rich's HEAVY_HEAD has them. Longer texts are folded."""

    headings: Sequence[str]
    widths: Sequence[int]
    """Of each column, without its padding."""
    right: Sequence[bool]
    """Whether the texts of a column stand at its right."""
    rows: list[list[str]] = field(default_factory=list)
    section_after: int | None = None
    """The row below which a line is."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield a segment a line."""
        for line in self._lines(console, options):
            yield Segment(f"{line}\n")

    def _lines(self, console: Console, options: ConsoleOptions) -> Iterator[str]:
        borders = box.HEAVY_HEAD.substitute(options, safe=console.safe_box)
        outer = [width + 2 for width in self.widths]
        # Names of implementations stand in many rows.
        fold = cache(partial(_folded, console))
        head, row = (
            (borders.head_left, borders.head_vertical, borders.head_right),
            (borders.mid_left, borders.mid_vertical, borders.mid_right),
        )
        yield borders.get_top(outer)
        yield from _joined(self._cells(self.headings, fold, "bottom"), head)
        yield borders.get_row(outer, "head")
        for number, texts in enumerate(self.rows):
            yield from _joined(self._cells(texts, fold, "top"), row)
            if number == self.section_after:
                yield borders.get_row(outer, "row")
        yield borders.get_bottom(outer)

    def _cells(
        self, texts: Sequence[str], fold: Callable[[str, int, bool], list[str]], blank: Literal["top", "bottom"]
    ) -> list[list[str]]:
        """The lines of each cell of a row, as many for each; blank ones above (`bottom`) or below the text."""
        folded = [fold(*cell) for cell in zip(texts, self.widths, self.right, strict=True)]
        height = max(map(len, folded))
        cells = []
        for lines, width in zip(folded, self.widths, strict=True):
            missing = [" " * width] * (height - len(lines))
            cells.append([*missing, *lines] if blank == "bottom" else [*lines, *missing])
        return cells


def _folded(console: Console, text: str, width: int, right: bool) -> list[str]:
    """The lines of a text, each as wide as its column."""
    # Where each character takes a column, and none is a line's end.
    if len(text) <= width and cell_len(text) == len(text) and "\n" not in text and "\t" not in text:
        return [text.rstrip().rjust(width) if right else text.ljust(width)]
    lines = Text(text).wrap(console, width, justify="right" if right else "left", overflow="fold")
    # A column of no width has marks alone, which Rich cuts off.
    return [line.plain if width else "" for line in lines]


def _joined(cells: Sequence[Sequence[str]], borders: tuple[str, str, str]) -> Iterator[str]:
    left, between, right = borders
    for lines in zip(*cells, strict=True):
        yield f"{left} {f' {between} '.join(lines)} {right}"
