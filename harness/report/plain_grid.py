"""A table as lines without colours: what Rich prints of the same one, to the character, in a tenth of the time.

Rich makes segments of every word of every cell, with its style. A pipe and a file have no styles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text


@dataclass
class PlainGrid:
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
        head, row = (
            (borders.head_left, borders.head_vertical, borders.head_right),
            (borders.mid_left, borders.mid_vertical, borders.mid_right),
        )
        yield borders.get_top(outer)
        yield from _joined(self._cells(self.headings, console, "bottom"), head)
        yield borders.get_row(outer, "head")
        for number, texts in enumerate(self.rows):
            yield from _joined(self._cells(texts, console, "top"), row)
            if number == self.section_after:
                yield borders.get_row(outer, "row")
        yield borders.get_bottom(outer)

    def _cells(self, texts: Sequence[str], console: Console, blank: Literal["top", "bottom"]) -> list[list[str]]:
        """The lines of each cell of a row, as many for each; blank ones above (`bottom`) or below the text."""
        cells = [
            _folded(text, width, right, console)
            for text, width, right in zip(texts, self.widths, self.right, strict=True)
        ]
        height = max(map(len, cells))
        for lines, width in zip(cells, self.widths, strict=True):
            missing = [" " * width] * (height - len(lines))
            lines[:] = [*missing, *lines] if blank == "bottom" else [*lines, *missing]
        return cells


def _folded(text: str, width: int, right: bool, console: Console) -> list[str]:
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
