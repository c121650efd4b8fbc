"""Markdown → HTML, for texts that are generated here. What is HTML in them is shown, not obeyed."""

from __future__ import annotations

import re
from collections.abc import Callable

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from harness.outcome import Cell

#: What generated pages have between their parts.
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def html(text: str, place: Callable[[str], str | None]) -> Markup:
    """A text as HTML.

    `place`: from the target of a link or a picture to where it is on the site; None where it is not there, of which
    the words alone stay.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(_COMMENT.sub("", text))
    for token in tokens:
        if token.children:
            token.children = _placed(token.children, place)
        if token.type == "table_open":
            token.attrSet("class", "plain")
    rendered = parser.renderer.render(tokens, parser.options, {})
    # A wide table scrolls by itself, by keyboard too.
    region = '<div class="scroll" tabindex="0" role="region" aria-label="table">'
    rendered = rendered.replace('<table class="plain">', f'{region}<table class="plain">')
    return Markup(_headed(rendered.replace("</table>", "</table></div>")))


def _placed(tokens: list[Token], place: Callable[[str], str | None]) -> list[Token]:
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


def _headed(text: str) -> str:
    """An empty heading of a table is no heading."""
    return re.sub(r"<th([^>]*)></th>", r"<td\1></td>", text)


# --- Where a cell's page is.


#: The page that shows whichever cell its address asks for.
CELL = "cell.html"


def address(cell: Cell) -> str:
    """Of a cell's page, as seen from the site's own folder; assets/site.js takes it apart."""
    return f"{CELL}?{cell.scenario.name}/{cell.key}"
