"""One document, three renderers: what each shows, what it leaves out, and what none lets through."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from harness.cli.consoles import print_document
from harness.formatting import escape_html, format_beyond, format_list
from harness.report.document import (
    Block,
    BulletList,
    Column,
    DeferredBlocks,
    DeferredData,
    Details,
    Document,
    Heading,
    LineBreak,
    Medium,
    Paragraph,
    Phrase,
    Row,
    Span,
    Table,
    Verbatim,
    join_phrases,
    plain_text,
    render_json,
)
from harness.report.markdown import render_blocks, render_markdown
from harness.report.terminal import render_terminal, styled_text
from tests.rendering import printed

#: What a stranger may write: a command to a terminal, HTML, a picture, the end of a cell, markup of Rich's.
STRANGE = "\x1b[2J<script>x</script> ![p](http://x) a|b [red]c[/red] :smile:"
COLUMNS = (Column("pair", identifies=True), Column("s", right=True), Column("why", text=24))
TABLE = Table(COLUMNS, (Row(("a → b", "1.00", "late")), Row(("b → c", "12.00", ""))))


def styled(block: Block) -> str:
    """What a terminal with colours shows."""
    out = io.StringIO()
    render_terminal(Document({}, (block,)), Console(file=out, width=80, force_terminal=True, color_system="standard"))
    return out.getvalue()


# --- texts


@pytest.mark.parametrize(
    ("phrase", "markdown", "plain"),
    [
        ("a name", "a name", "a name"),
        ("", "", ""),
        (Span("goodput", code=True), "`goodput`", "goodput"),
        (Span("4.5 s", strong=True), "**4.5 s**", "4.5 s"),
        (Span("ideal", emphasis=True), "*ideal*", "ideal"),
        (Span("✓ pass", style="green"), "✓ pass", "✓ pass"),
        (Span("", code=True), "", ""),
        (("of ", Span("x/y", code=True), LineBreak(), "z"), "of `x/y`<br>z", "of x/y z"),
        ("two\nlines", "two lines", "two\nlines"),
        ("a|b", "a\\|b", "a|b"),
        ("<b>bold</b> and 1 < 2", "&lt;b>bold&lt;/b> and 1 < 2", "<b>bold</b> and 1 < 2"),
        ("[a](http://x)", "[a]\\(http://x)", "[a](http://x)"),
        (Span("1 < 2 \\ `x`", quoted=True), "1 &lt; 2 \\\\ `x`", "1 < 2 \\ `x`"),
    ],
)
def test_a_text_in_markdown_and_on_a_terminal(phrase: Phrase, markdown: str, plain: str) -> None:
    assert render_blocks([Paragraph(phrase)]) == (f"{markdown}\n" if markdown else "")
    assert plain_text(phrase) == plain
    assert printed([Paragraph(phrase)]) == f"{plain}\n"


def test_texts_are_joined_with_a_separator_between_each_two() -> None:
    assert join_phrases([], ", ") == ()
    joined = join_phrases([Span("a", code=True), ("b", Span("c", strong=True))], LineBreak())
    assert render_blocks([Paragraph(joined)]) == "`a`<br>b**c**\n"


def test_a_style_is_for_a_terminal_alone() -> None:
    assert "\x1b[32m✓ pass" in styled(Paragraph(Span("✓ pass", style="green")))
    assert "\x1b[1m4.5 s" in styled(Paragraph(Span("4.5 s", strong=True)))
    assert "\x1b[3mideal" in styled(Paragraph(Span("ideal", emphasis=True)))
    assert "\x1b[33mcareful" in styled(Paragraph("careful", "yellow"))
    assert "\x1b[32m✓ pass" in styled(Table((Column("verdict"),), (Row((Span("✓ pass", style="green"),)),)))


@pytest.mark.parametrize(
    "block",
    [
        Heading(STRANGE),
        Paragraph(STRANGE),
        Paragraph(Span(STRANGE, strong=True, quoted=True)),
        BulletList([STRANGE]),
        Details(STRANGE, [Paragraph(STRANGE)]),
        Table((Column(STRANGE),), (Row((STRANGE,)),), STRANGE),
        Table((Column("a", code=True),), (Row((STRANGE,)),)),
    ],
    ids=lambda block: type(block).__name__,
)
def test_what_a_stranger_wrote_is_text(block: Block) -> None:
    page = render_blocks([block])
    assert escape_html(page) == page and "\x1b" not in page
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(page)
    assert not re.search(r"<(script|img|a)\b", html)
    shown = printed([block], 400)
    assert "\x1b" not in shown and "\\x1b[2J<script>x</script>" in shown
    assert "[red]c[/red] :smile:" in shown


def test_only_styles_give_a_terminal_commands() -> None:
    text = styled_text(("a\x1b[2J", Span("b\u202e", style="red")))
    assert text.plain == "a\\x1b[2Jb\\u202e"


# --- blocks


def test_blocks_of_a_page_stand_apart() -> None:
    blocks: list[Block] = [
        Heading("Title"),
        Heading("Below", 3),
        Paragraph("One."),
        BulletList(["a", "b"]),
        BulletList(["c"], bullet="*"),
        TABLE,
    ]
    assert render_blocks(blocks) == (
        "## Title\n\n### Below\n\nOne.\n\n- a\n- b\n\n* c\n\n"
        "| pair | s | why |\n| --- | ---: | --- |\n| a → b | 1.00 | late |\n| b → c | 12.00 |  |\n"
    )
    assert render_blocks([]) == render_markdown(Document({}, ())) == ""
    assert render_blocks([BulletList([]), Paragraph(""), Paragraph("a")]) == "a\n"


def test_blocks_on_a_terminal_are_lines() -> None:
    blocks: list[Block] = [Heading("Title"), Paragraph("One."), BulletList(["a", "b"]), Verbatim(["c", "  d"])]
    assert printed(blocks) == "Title\nOne.\n  a\n  b\n  c\n    d\n"
    assert printed([]) == ""


def test_a_sentence_is_one_line_however_long() -> None:
    """It can be searched and copied."""
    assert printed([Paragraph("word " * 40)], 60).count("\n") == 1
    assert printed([BulletList(["word " * 40])], 60).count("\n") == 1


def test_details_are_folded_on_a_page_and_stand_below_their_summary_on_a_terminal() -> None:
    details = Details("Last words", [Paragraph("run k/0:"), Verbatim(["server0| <b> bye"])])
    assert render_blocks([details]) == (
        "<details><summary>Last words</summary>\n\nrun k/0:\n\n```\nserver0| <b> bye\n```\n\n</details>\n"
    )
    assert printed([details]) == "Last words\nrun k/0:\n  server0| <b> bye\n"


@pytest.mark.parametrize(
    "block",
    [Heading("x"), Paragraph("x"), BulletList(["x"]), Verbatim(["x"]), Details("x", [Paragraph("x")]), TABLE],
    ids=lambda block: type(block).__name__,
)
def test_a_block_may_be_of_one_medium(block: Block) -> None:
    media: tuple[Medium, Medium] = ("terminal", "markdown")
    assert printed([block]) and render_blocks([block])
    for medium in media:
        limited: Block = replace(block, medium=medium)
        assert bool(printed([limited])) == (medium == "terminal")
        assert bool(render_blocks([limited])) == (medium == "markdown")
        # So is what is folded away.
        folded = Details("summary", [limited])
        assert (printed([folded]) == "summary\n") == (medium == "markdown")
        assert ("</summary>\n\n\n\n</details>" in render_blocks([folded])) == (medium == "terminal")


# --- tables


def test_a_column_may_be_of_one_medium() -> None:
    columns = (
        Column("client", identifies=True, medium="terminal"),
        Column("server", identifies=True, medium="terminal"),
        Column("client → server", medium="markdown"),
        Column("s", right=True),
    )
    table = Table(
        columns, (Row(("a", "b", "a → b", "1.00")), Row(("", "ideal", Span("ideal", emphasis=True), "0.5"), True))
    )
    assert render_blocks([table]) == ("| client → server | s |\n| --- | ---: |\n| a → b | 1.00 |\n| *ideal* | 0.5 |\n")
    shown = printed([table])
    assert re.search(r"client +┃ server +┃ +s ", shown) and "→" not in shown
    assert [row.reference for row in table.of("markdown").rows] == [False, True]
    assert TABLE.of("terminal") is TABLE


def test_a_column_of_names_is_code_in_markdown_alone() -> None:
    table = Table(
        (Column("metric", code=True), Column(Span("x.y", code=True))), (Row(("goodput", "1")), Row(("", "2")))
    )
    assert render_blocks([table]) == "| metric | `x.y` |\n| --- | --- |\n| `goodput` | 1 |\n|  | 2 |\n"
    assert "`" not in printed([table])


def test_without_rows_only_the_title_is_left() -> None:
    assert printed([Table(COLUMNS, (), "Figures")]) == "Figures\n"
    assert render_blocks([Table(COLUMNS, (), "Figures")]) == "**Figures**\n"
    assert printed([Table(COLUMNS, ())]) == render_blocks([Table(COLUMNS, ())]) == ""
    assert render_blocks([Paragraph("a"), Table(COLUMNS, ()), Paragraph("b")]) == "a\n\nb\n"


def test_a_title_stands_above() -> None:
    titled = replace(TABLE, title="Figures")
    assert printed([titled]).startswith("Figures\n┏")
    assert render_blocks([titled]).startswith("**Figures**\n\n| pair | s | why |\n")


def test_an_empty_heading_takes_its_bars_alone() -> None:
    table = Table((Column(""), Column("alpha", right=True)), (Row(("beta", "1")),))
    assert render_blocks([table]) == "| | alpha |\n| --- | ---: |\n| beta | 1 |\n"


def test_a_table_folds_its_texts_and_drops_what_need_not_be_there() -> None:
    columns = (*COLUMNS, Column("because", text=24, if_fits=True))
    table = Table(columns, (Row(("a → b", "1.00", "many words in a row " * 3, "and even more " * 3)),))
    wide, narrow = printed([table], 200), printed([table], 50)
    assert "because" in wide and "because" not in narrow and "parts" not in narrow
    assert max(map(len, narrow.splitlines())) <= 50
    assert "manywordsinarow" * 3 in re.sub(r"[\s│]", "", narrow.replace("a → b", "").replace("1.00", ""))
    # A page has all of it.
    assert "| because |" in render_blocks([table])


def test_a_reference_line_that_says_nothing_is_not_printed() -> None:
    rows = (Row(("a", "1")), Row(("objective", ""), reference=True))
    table = Table((Column("server", identifies=True), Column("s", right=True)), rows)
    assert "objective" not in printed([table])
    assert "| objective |  |" in render_blocks([table])


# --- data, and the command line


def test_json_is_the_data() -> None:
    document = Document({"schema": 1, "cells": []}, [Paragraph("no cells")])
    assert render_json(document) == {"schema": 1, "cells": []}


def test_blocks_that_take_time_are_made_when_they_are_rendered() -> None:
    rendered: list[str] = []

    def make() -> list[Block]:
        rendered.append("again")
        return [Paragraph("late")]

    document = Document({"schema": 1}, DeferredBlocks(make))
    assert render_json(document) == {"schema": 1} and rendered == []
    assert printed(document) == render_markdown(document) == "late\n" and len(rendered) == 2


def test_data_that_takes_time_is_made_when_it_is_looked_into() -> None:
    computed: list[str] = []

    def make() -> dict[str, int]:
        computed.append("again")
        return {"schema": 1, "cells": 0}

    document = Document(DeferredData(make), [Paragraph("early")])
    assert printed(document) == "early\n" and computed == []
    assert render_json(document) == {"schema": 1, "cells": 0} and len(document.data) == 2 and len(computed) == 1


def test_one_function_prints_in_the_way_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    document = Document({"title": STRANGE}, [Paragraph(Span("Title", strong=True)), BulletList(["item"])])
    print_document(document)
    assert capsys.readouterr().out == "Title\n  item\n"
    print_document(document, markdown=True)
    assert capsys.readouterr().out == "**Title**\n\n- item\n"
    # JSON comes before Markdown.
    print_document(document, markdown=True, as_json=True)
    output = capsys.readouterr().out
    assert json.loads(output) == {"title": STRANGE} and "\x1b" not in output


def test_what_is_beyond_a_limit_is_displayed_beyond_it() -> None:
    numbers = [(1.96, 1), (1.0032, 1), (1.00004, 1), (0.997, 1), (0.2, 0), (math.inf, 1)]
    texts = [format_beyond(value, limit, 2) for value, limit in numbers]
    assert texts == ["1.96", "1.003", "1.00004", "1.00", "0.20", "inf"]


def test_a_list_in_a_sentence() -> None:
    names = ["one", "two", "three"]
    assert [format_list(names[:count]) for count in range(4)] == ["", "one", "one and two", "one, two and three"]
