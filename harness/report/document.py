"""A report as a document: its data for JSON, and blocks that a terminal and a page in Markdown share.

Texts are plain. The renderers escape what a stranger may have written: `harness.report.terminal` control characters,
`harness.report.markdown` also HTML, links and the ends of cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

Medium = Literal["terminal", "markdown"]

#: Minimum width of a column of sentences.
SENTENCE_WIDTH: Final = 24


# --- Texts


@dataclass(frozen=True)
class Span:
    """A part of a text with a look of its own."""

    text: str
    style: str = ""
    """Rich's style on a terminal. Markdown has none."""
    code: bool = False
    """A name as one types it: between backticks in Markdown."""
    strong: bool = False
    emphasis: bool = False
    quoted: bool = False
    """An endpoint's own words: Markdown shows every < and every backslash in them."""


@dataclass(frozen=True)
class LineBreak:
    """A new line within a cell. A terminal, which folds cells, has a space."""


Phrase = str | Span | LineBreak | tuple[str | Span | LineBreak, ...]
"""A text, whole or in parts."""


def parts_of(phrase: Phrase) -> tuple[Span | LineBreak, ...]:
    """The parts of a text."""
    parts = phrase if isinstance(phrase, tuple) else (phrase,)
    return tuple(Span(part) if isinstance(part, str) else part for part in parts)


def plain_text(phrase: Phrase) -> str:
    """A text without its looks, unescaped."""
    return "".join(part.text if isinstance(part, Span) else " " for part in parts_of(phrase))


def join_phrases(phrases: Sequence[Phrase], separator: Phrase) -> Phrase:
    """Several texts as one, with a separator between each two."""
    joined: list[Span | LineBreak] = []
    for index, phrase in enumerate(phrases):
        joined += [*(parts_of(separator) if index else ()), *parts_of(phrase)]
    return tuple(joined)


# --- Blocks


@dataclass(frozen=True)
class Heading:
    """The heading of a section."""

    text: Phrase
    level: int = 2
    medium: Medium | None = None
    """Where it stands; None for everywhere. So it is with every block and column."""


@dataclass(frozen=True)
class Paragraph:
    """A sentence or several. A terminal prints it as one line, so that it can be searched and copied."""

    text: Phrase
    style: str = ""
    medium: Medium | None = None


@dataclass(frozen=True)
class BulletList:
    """Sentences, a line each."""

    items: Sequence[Phrase]
    style: str = ""
    bullet: Literal["-", "*"] = "-"
    """Of Markdown. A terminal indents the lines instead."""
    medium: Medium | None = None


@dataclass(frozen=True)
class Verbatim:
    """Lines of a log: a fenced block in Markdown. The caller answers for it that no line ends the block."""

    lines: Sequence[str]
    medium: Medium | None = None


@dataclass(frozen=True)
class Details:
    """Blocks that a page folds away below a summary."""

    summary: str
    blocks: Sequence[Block]
    medium: Medium | None = None


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    heading: Phrase
    identifies: bool = False
    """Whether it is among those that tell a row from the others."""
    right: bool = False
    """Whether its figures stand at its right edge."""
    text: int = 0
    """Of sentences or lists, which a terminal may fold: how narrow; 0 for what is not folded."""
    if_fits: bool = False
    """Whether a terminal leaves it out where the table would not fit with it."""
    code: bool = False
    """Whether its cells are names as one types them."""
    medium: Medium | None = None


@dataclass(frozen=True)
class Row:
    """A row: a cell per column, of both media."""

    cells: Sequence[Phrase]
    reference: bool = False
    """A line to read the others by. A terminal prints it dim and below a rule, unless it says nothing."""


@dataclass(frozen=True)
class Table:
    """Rows below headings. Without rows only the title is rendered."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    title: str = ""
    medium: Medium | None = None

    def of(self, medium: Medium) -> Table:
        """The table with the columns that a medium shows."""
        selected = [index for index, column in enumerate(self.columns) if column.medium in (None, medium)]
        if len(selected) == len(self.columns):
            return self
        return self.select(selected)

    def select(self, selected: Sequence[int]) -> Table:
        """The table with some of its columns, by their numbers."""
        rows = [Row([row.cells[index] for index in selected], row.reference) for row in self.rows]
        return Table([self.columns[index] for index in selected], rows, self.title, self.medium)


Block = Heading | Paragraph | BulletList | Verbatim | Details | Table


@dataclass(frozen=True)
class DeferredBlocks:
    """Blocks that are made when they are rendered: of many cells that takes time, which JSON need not wait for."""

    make: Callable[[], Iterable[Block]]

    def __iter__(self) -> Iterator[Block]:
        return iter(self.make())


class DeferredData(Mapping[str, Any]):
    """Data that is made when somebody looks into it: of many cells that takes time, which blocks need not wait for."""

    def __init__(self, make: Callable[[], Mapping[str, Any]]) -> None:
        self._make = make

    @cached_property
    def _content(self) -> Mapping[str, Any]:
        return self._make()

    def __getitem__(self, key: str) -> Any:
        return self._content[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)


@dataclass(frozen=True)
class Document:
    """A report. `data` is what `--json` prints."""

    data: Mapping[str, Any]
    blocks: Iterable[Block]


def render_json(document: Document) -> dict[str, Any]:
    """The data of a document, as `--json` prints it."""
    return dict(document.data)
