"""Documents in Markdown, for pages and for summaries of CI jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.formatting import escape_html, escape_stored
from harness.report.document import (
    Block,
    BulletList,
    Column,
    Details,
    Document,
    Heading,
    Paragraph,
    Phrase,
    Span,
    Table,
    Verbatim,
    parts_of,
)


def render_markdown(document: Document) -> str:
    """The text of a document, ended by a new line; empty without blocks. Texts in it are shown as they are."""
    return render_blocks(document.blocks)


def render_blocks(blocks: Iterable[Block]) -> str:
    """The text of blocks that are part of a page, ended by a new line; empty without blocks."""
    text = "\n\n".join(rendered for block in blocks if (rendered := _block(block)))
    return f"{text}\n" if text else ""


def table_row(cells: Sequence[str]) -> str:
    """One row of a table, of texts in Markdown. Line ends in cells become spaces; HTML that no report writes is shown
    as text.
    """
    return "| " + " | ".join(escape_html(cell).replace("\n", " ") for cell in cells) + " |"


def _block(block: Block) -> str:
    """A block without the new line that ends it; empty where it is not for Markdown."""
    if block.medium == "terminal":
        return ""
    match block:
        case Heading():
            return f"{'#' * block.level} {_phrase(block.text)}"
        case Paragraph():
            return _phrase(block.text)
        case BulletList():
            return "\n".join(f"{block.bullet} {_phrase(item)}" for item in block.items)
        case Verbatim():
            return "\n".join(["```", *block.lines, "```"])
        case Details():
            summary = f"<details><summary>{escape_stored(block.summary)}</summary>"
            return "\n\n".join([summary, render_blocks(block.blocks).rstrip("\n"), "</details>"])
        case Table():
            return _table(block.of("markdown"))


def _table(table: Table) -> str:
    title = [f"**{escape_stored(table.title)}**"] if table.title else []
    if not table.rows:
        return "\n".join(title)
    # An empty heading takes no more than its bars.
    lines = ["|" + "".join(f" {text} |" if (text := _phrase(column.heading)) else " |" for column in table.columns)]
    lines.append(table_row(["---:" if column.right else "---" for column in table.columns]))
    lines += [table_row(list(map(_cell, table.columns, row.cells))) for row in table.rows]
    return "\n\n".join([*title, "\n".join(lines)])


def _cell(column: Column, cell: Phrase) -> str:
    text = _phrase(cell)
    return f"`{text}`" if column.code and text else text


def _phrase(phrase: Phrase) -> str:
    return "".join(_span(part) if isinstance(part, Span) else "<br>" for part in parts_of(phrase))


def _span(span: Span) -> str:
    text = escape_stored(span.text)
    if span.quoted:
        text = escape_stored(span.text.replace("\\", "\\\\")).replace("<", "&lt;")
    for mark, is_set in (("`", span.code), ("*", span.emphasis), ("**", span.strong)):
        text = f"{mark}{text}{mark}" if is_set and text else text
    return text
