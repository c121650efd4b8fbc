"""Markdown → HTML, for generated texts. HTML in them is escaped."""

from __future__ import annotations

import re
from collections.abc import Callable

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from harness.outcome import Cell

#: Comments between the parts of generated pages.
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def to_html(text: str, place: Callable[[str], str | None]) -> Markup:
    """A text as HTML.

    `place`: maps the target of a link to its address on the site, or to None where it is not on the site. A link
    without an address keeps only its text. Pictures are dropped.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(_COMMENT.sub("", text))
    for token in tokens:
        if token.children:
            token.children = _resolve_links(token.children, place)
        if token.type == "table_open":
            token.attrSet("class", "plain")
    rendered = parser.renderer.render(tokens, parser.options, {})
    # A wide table scrolls horizontally, also by keyboard.
    region = '<div class="scroll" tabindex="0" role="region" aria-label="table">'
    rendered = rendered.replace('<table class="plain">', f'{region}<table class="plain">')
    return Markup(_fix_empty_headings(rendered.replace("</table>", "</table></div>")))


def _resolve_links(tokens: list[Token], place: Callable[[str], str | None]) -> list[Token]:
    output: list[Token] = []
    dropped: list[bool] = []
    for token in tokens:
        if token.type == "link_open":
            target = place(str(token.attrGet("href")))
            dropped.append(target is None)
            if target is None:
                continue
            token.attrSet("href", target)
        elif token.type == "link_close":
            if dropped.pop():
                continue
        elif token.type == "image":
            continue
        output.append(token)
    return output


def _fix_empty_headings(text: str) -> str:
    """HTML with empty table headings replaced by plain cells."""
    return re.sub(r"<th([^>]*)></th>", r"<td\1></td>", text)


# --- The address of a cell's page.


#: The page of all cells; its address says which cell it shows.
CELL = "cell.html"


def cell_address(cell: Cell) -> str:
    """The address of a cell's page, relative to the site's own folder; assets/site.js parses it."""
    return f"{CELL}?{cell.scenario.name}/{cell.key}"
