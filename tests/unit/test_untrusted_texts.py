"""What a stored text may try with whoever reads it: escapes of a terminal, HTML, lines that are commands."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from rich.table import Table as Grid
from rich.text import Text

from harness.capture.artefacts import last_log_lines
from harness.cli import consoles, main
from harness.cli.consoles import (
    annotate,
    print_document,
    print_error,
    print_json,
    print_markdown,
    print_text,
    print_warning,
    table_console,
)
from harness.errors import HarnessError
from harness.evaluation.cell_result import CellResult
from harness.evaluation.regression.accepted_changes import AppliedAllowances
from harness.evaluation.verdict import judge
from harness.formatting import escape_cell, escape_controls, escape_html, escape_stored, format_value
from harness.outcome import MeasuredRun, Outcome, Run, Status
from harness.report import gate, interop
from harness.report.document import Column, Row, Table
from harness.report.grid import grid_document
from harness.report.markdown import render_markdown
from harness.report.metrics import metrics_document
from harness.report.plots.registry import plots
from harness.report.plots.render import PageHeading, RenderedFigure, render_page
from harness.report.results import results_document
from harness.report.site import build
from harness.report.site.cell import read_opening
from harness.report.terminal import FittedTable
from harness.store.results import Store
from tests.packed_pages import page_with_lists, site_cells
from tests.plot_runs import download_run, page_cache

#: What clears a screen, by seven bits and by eight; sets a window's title; goes back over what was printed; turns what
#: comes behind it round; and is HTML that would run, or fetch, or hide what comes behind it.
ESCAPES = "\x1b[2J\x9b2J\x1b]0;title\x07\rbegin\x08\x7f\u202e\u2066"
HTML = "<script>alert(1)</script><img src=http://example.org/x.png onerror=alert(1)><!--"
STRANGE = f"{ESCAPES}{HTML}![x](http://example.org/y.png)[click](http://example.org)|a|b"
_LEFT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def test_what_a_terminal_obeys_is_written_out() -> None:
    assert escape_controls(ESCAPES) == (
        r"\x1b[2J\x9b2J\x1b]0;title\x07\rbegin\x08\x7f\u202e\u2066"
    )  # fmt: skip
    assert escape_controls("\ud800") == r"\ud800"
    for plain in ("lines\nand\ttabs", "größer → 5 µs ≤ ✓ 中文", ""):
        assert escape_controls(plain) is plain
    assert not _LEFT.search("".join(map(escape_controls, map(chr, range(0x3000)))))
    assert format_value(ESCAPES) == f"'{escape_controls(ESCAPES)}'"


def test_html_is_shown_but_for_what_reports_write() -> None:
    own = "| a<br>b | p < 0.01, 3 <4 |\n<details><summary>x</summary>\n</details>"
    assert escape_html(own) == own
    for strange in (HTML, "<br onclick=x>", "<details open>", "<BR>", "</div>", "<?php", "<!DOCTYPE>", "<a\nhref=x>"):
        assert "<" not in escape_html(strange).replace("<br>", ""), strange
    # Brackets and lines of our own texts stay as they were.
    assert escape_cell("[a](b)|\n") == "[a](b)\\| "
    assert escape_stored("[a](b)|\n<b>") == "[a]\\(b)\\| &lt;b>"


def test_no_reader_of_markdown_makes_anything_of_a_quoted_text() -> None:
    html = (
        MarkdownIt("commonmark", {"html": True})
        .enable("table")
        .render(f"| a |\n| --- |\n| {escape_stored(STRANGE)} |\n")
    )
    assert set(re.findall(r"<(\w+)", html)) == {"table", "thead", "tbody", "tr", "th", "td"}


# --- the terminal


def _shown_by(print_it: object, monkeypatch: pytest.MonkeyPatch, *, terminal: bool = True) -> str:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")
    assert callable(print_it)
    print_it()
    return screen.getvalue()


def _own(text: str) -> str:
    """Without the colours and styles that are printed on purpose."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def _a_table() -> None:
    table_console().print(
        FittedTable(Table([Column(STRANGE, identifies=True), Column("b", text=9)], [Row([STRANGE, STRANGE])], STRANGE))
    )


def _a_table_of_rich_s() -> None:
    grid = Grid(title=STRANGE)
    grid.add_column(STRANGE)
    grid.add_row(Text(STRANGE, style="red"))
    table_console().print(grid)


@pytest.mark.parametrize(
    "print_it",
    [
        lambda: print_warning(STRANGE),
        lambda: print_error(HarnessError(STRANGE, STRANGE)),
        lambda: print_text(STRANGE),
        lambda: print_markdown(STRANGE),
        lambda: print_json({STRANGE: STRANGE}),
        lambda: table_console().print(STRANGE, style="bold", soft_wrap=True),
        lambda: table_console().print(Text(STRANGE, style="red")),
        _a_table,
        _a_table_of_rich_s,
    ],
)
def test_nothing_that_is_printed_moves_a_terminal(print_it: object, monkeypatch: pytest.MonkeyPatch) -> None:
    output = _own(_shown_by(print_it, monkeypatch))
    assert output and not _LEFT.search(output)


def test_colours_are_printed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[" in _shown_by(lambda: table_console().print(Text("x", style="red")), monkeypatch)


def test_json_says_what_is_stored(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"text": STRANGE})
    output = capsys.readouterr().out
    assert json.loads(output) == {"text": STRANGE} and not _LEFT.search(output)


def test_no_line_is_a_command_to_a_ci_job_s_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "first\n::set-output name=a::b\n  ::stop-commands::x\n##[add-mask]y\nstd::move"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for print_it in (lambda: print_text(text), lambda: print_warning(text), lambda: table_console().print(text)):
        output = _shown_by(print_it, monkeypatch, terminal=False)
        assert not re.search(r"^\s*(::|##\[)", output, re.MULTILINE) and "std::move" in output
    # Those that are meant are given.
    assert _shown_by(lambda: annotate("::error::x\x1b"), monkeypatch, terminal=False) == "::error::x\\x1b\n"
    monkeypatch.delenv("GITHUB_ACTIONS")
    assert consoles.without_commands(text) == text


# --- reports


def _strange(status: Status = "crashed") -> CellResult:
    """A cell all of whose texts are a stranger's."""
    drawn = download_run()
    scenario = drawn.run.cell.scenario.model_copy(update={"title": STRANGE, "description": STRANGE})
    who = drawn.run.cell.client.model_copy(update={"title": STRANGE, "notes": STRANGE, "version": STRANGE,
                                                   "licence": STRANGE})  # fmt: skip
    cell = drawn.run.cell.model_copy(update={"scenario": scenario, "client": who})
    outcome = Outcome(status=status, role="client", reason=STRANGE, detail=STRANGE, log_tail=(STRANGE,) * 2)
    run: Run = drawn.run.model_copy(update={"cell": cell, "outcome": outcome, "warnings": (STRANGE,)})
    measured: MeasuredRun | None = drawn.measured
    pairs = ((run, measured),)
    return CellResult(cell, pairs, judge(scenario, pairs, ["/store"]), (Path("/store/runs/x/0"),))


@pytest.mark.parametrize("status", ["crashed", "timed_out", "completed"])
@pytest.mark.parametrize(
    "report",
    [results_document, grid_document, metrics_document, gate.nightly_document,
     lambda results: interop.interop_document(interop.matrix_of(results))],
)  # fmt: skip
def test_no_report_in_markdown_has_a_stranger_s_html(report: object, status: Status) -> None:
    assert callable(report)
    markdown = escape_html(render_markdown(report([_strange(status)])))
    assert not _LEFT.search(markdown)
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    known = {"p", "strong", "em", "code", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "h2", "br", "pre",
             "details", "summary", "hr"}  # fmt: skip
    assert set(re.findall(r"<(\w+)", html)) <= known
    assert "<!--" not in html


def test_the_command_of_a_summary_prints_no_html(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store, ((run, measured),) = Store(tmp_path), _strange("timed_out").runs
    store.finish(store.begin(run.cell.key, 0), run, measured)
    for words in (["report", "summary"], ["report", "--markdown"], ["report"], ["report", "junit"], ["judge"]):
        monkeypatch.setattr("sys.argv", ["harness", *words, "--store", str(tmp_path)])
        with contextlib.suppress(SystemExit):
            main()
        captured = capsys.readouterr()
        assert run.cell.scenario.name in captured.out and not _LEFT.search(captured.out + captured.err)
        assert words in (["report"], ["judge"]) or "<img" not in captured.out.replace("&lt;", "")


def test_no_line_of_the_gate_has_html() -> None:
    passage = gate.GateReport((), AppliedAllowances((), (), ()), 0.03)
    text = render_markdown(gate.gate_document(passage))
    assert escape_html(text) == text


def test_junit_is_xml_and_shows_what_was_said() -> None:
    text = gate.junit_verdicts([_strange()])
    assert not _LEFT.search(text)
    suites = ElementTree.fromstring(text)
    assert escape_controls(ESCAPES) in "".join(suites.itertext()) and len(list(suites.iter("testcase"))) == 1


def test_a_table_for_the_terminal_says_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    output = _own(_shown_by(lambda: print_document(results_document([_strange()])), monkeypatch))
    assert not _LEFT.search(output)


def test_the_last_words_of_an_endpoint_are_printable(tmp_path: Path) -> None:
    (tmp_path / "client0.log").write_text(f"{STRANGE}\n")
    (lines,) = last_log_lines(tmp_path, download_run().run).values()
    assert lines and all(line.isprintable() for line in lines)


# --- the site


def _site(folder: Path) -> Path:
    result = _strange()
    shown_result = replace(result, folders=(folder / "store",))
    build.render_site(folder / "site", [shown_result], Store(folder / "store"), lambda wanted: [], page_cache())
    return folder / "site"


def test_pages_run_nothing_but_the_site_s_own_scripts(tmp_path: Path) -> None:
    pages = list(_site(tmp_path).rglob("*.html"))
    assert len(pages) > 4
    for file in pages:
        text = file.read_text()
        head = text.index("<head>")
        policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)
        assert policy is not None and policy.start() < min(text.index("<link"), text.index("<script")), file
        # Whatever stands before it is not under it.
        assert re.sub(r"\s", "", text[head + 6 : policy.start()]) == '<metacharset="utf-8">'
        rules = dict(rule.strip().partition(" ")[::2] for rule in policy[1].replace("&#39;", "'").split(";"))
        assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
        assert rules["script-src"] == "'self' 'unsafe-eval'"
        assert not any("http" in rule or "*" in rule for rule in rules.values())
        # Nothing that the policy would stop is on a page: no script stands in it, and nothing runs on an event.
        inline = [tag for tag in re.findall(r"<script[^>]*>", text) if "src=" not in tag]
        assert all('type="text/plain"' in tag or 'type="application/json"' in tag for tag in inline), file
        _require_still(page_with_lists(file))
    for cell_entry in site_cells(tmp_path / "site").values():
        _require_still(cell_entry["page"])


class _Tags(HTMLParser):
    """The tags of a page, as a browser reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, list[tuple[str, str | None]]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, attrs))


def _require_still(text: str) -> None:
    """No tag of a page does something by itself, or leads to anything but a page."""
    tags = _Tags()
    tags.feed(text)
    assert {tag for tag, _ in tags.seen}.isdisjoint({"img", "iframe", "object", "embed", "base"})
    for _, attributes in tags.seen:
        assert not [name for name, _ in attributes if name.startswith("on")]
        assert not [value for _, value in attributes if (value or "").lower().startswith(("javascript:", "data:text"))]


def test_stored_texts_are_shown_on_pages_and_obeyed_by_none(tmp_path: Path) -> None:
    for file in _site(tmp_path).rglob("*.html"):
        text = page_with_lists(file)
        assert not _LEFT.search(text), file
        assert "<img" not in text and "<script>alert" not in text and "<!--<" not in text, file
    for cell_entry in site_cells(tmp_path / "site").values():
        assert (
            not _LEFT.search(cell_entry["page"])
            and "<img" not in cell_entry["page"]
            and escape_controls(ESCAPES) in cell_entry["page"]
        )


def test_events_of_a_trace_are_shown(tmp_path: Path) -> None:
    event = {"time": 1.0, "name": f"a{ESCAPES}", "data": {"x": ESCAPES}}
    (tmp_path / "a.sqlog").write_text(f"\x1e{json.dumps(event, ensure_ascii=False)}\n")
    for _, name, text in read_opening(tmp_path / "a.sqlog").events:
        assert not _LEFT.search(name + text)


def test_a_page_of_figures_runs_its_own_scripts_by_their_digests() -> None:
    plot = next(iter(plots().values()))
    heading = PageHeading(STRANGE, STRANGE, STRANGE)
    text = render_page(heading, [RenderedFigure(plot, {"title": f"{STRANGE}</script>"})], "var own = '</script>';")
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', text)
    assert policy is not None
    allowed = set(re.findall(r"sha256-([\w+/=]+)", policy[1]))
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert {base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts} == allowed
    assert len(scripts) == 2 and "'unsafe-inline'" not in policy[1].replace("&#39;", "'").split("style-src")[0]
    assert "<img" not in text
