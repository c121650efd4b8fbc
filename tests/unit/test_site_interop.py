"""The page of the interop matrix: which test case of which pair has which colour, and where it leads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.evaluation.cell_result import CellResult
from harness.outcome import LinkProof, MeasuredRun, Outcome, Run, Verdict, VerdictStatus
from harness.report.site import build, overview
from harness.report.site.cell import cell_address
from harness.report.site.interop import interop_page
from harness.store.results import Store
from tests.examples import catalogue, implementation
from tests.examples import cell as make_cell
from tests.packed_pages import page_with_lists
from tests.plot_runs import page_cache
from tools.reference.interop_page import interop_page as document


def _result(client: str, server: str, case: str, status: VerdictStatus, sentence: str = "So it is.") -> CellResult:
    (scenario,) = catalogue().find_scenarios([f"interop/{case}"])
    cell = make_cell(scenario, implementation(client), implementation(server), engine="virtual")
    run = Run(cell=cell, repetition=0, outcome=Outcome(status="completed"), started_at="2026-11-21T00:00:00Z", wall=2.0)
    measured = MeasuredRun(version=1, link=LinkProof(valid=True), measurements=())
    verdict = Verdict(status=status, reason="crashed_client" if status == "fail" else "", sentence=sentence)
    return CellResult(cell, ((run, measured),), verdict, (Path("/store/runs") / cell.key / "0",))


def _square() -> list[CellResult]:
    """Two clients and two servers: one of the clients fails one case with everybody, and one pair another."""
    words: dict[str, dict[tuple[str, str], VerdictStatus]] = {
        "retry": {("alpha", "beta"): "pass", ("alpha", "gamma"): "pass",
                  ("delta", "beta"): "fail", ("delta", "gamma"): "fail"},
        "handshake": {("alpha", "beta"): "pass", ("alpha", "gamma"): "fail",
                      ("delta", "beta"): "unsupported", ("delta", "gamma"): "inconclusive"},
    }  # fmt: skip
    return [
        _result(*pair, case, status, f"{case} of {pair[0]} <b>x</b>")
        for case, pairs in words.items()
        for pair, status in pairs.items()
    ]


@pytest.mark.parametrize(
    ("results", "opening"),
    [
        (
            _square(),
            [
                "3 of 8 cells (a pair in a test case) succeed.",
                "1 fail, 2 more fail with every peer, 1 are unsupported, and 1 inconclusive (0 of them not exercised, 0 by chance: some seeds succeed).",
                "1 of 4 pairs succeed in every case that both take; alpha → beta in the most (2).",
                "Most failures are in S (2) and H (1).",
                "0 of 3 failures look to be an implementation's, 0 our endpoints', and nobody has looked into 3.",
            ],
        ),
        (
            [_result("alpha", "alpha", "handshakeloss", "unsupported")],
            [
                "0 of 1 cells (a pair in a test case) succeed.",
                "0 fail, 0 more fail with every peer, 1 are unsupported, and 0 inconclusive (0 of them not exercised, 0 by chance: some seeds succeed).",
            ],
        ),
    ],
)
def test_the_page_of_test_cases_opens_with_what_the_grid_shows(results: list[CellResult], opening: list[str]) -> None:
    scenarios = [catalogue().scenario(file) for file in catalogue().scenario_files()]
    page = document(scenarios, [], results)
    head, _, grid = page.partition("client ↓ server →")
    assert [line for line in head.splitlines() if line.startswith("* ")][: len(opening)] == [
        f"* {line}" for line in opening
    ]
    assert "## " not in head and grid.index("## How it is done") < grid.index("## Test cases")


def test_every_case_of_every_pair_has_its_colour_symbol_and_cell() -> None:
    results = _square()
    page = interop_page(results)
    assert page is not None and page.servers == ("beta", "gamma")
    seen = {
        (line.client, server): [
            (testcase_square.short, testcase_square.status, testcase_square.symbol) for testcase_square in squares
        ]
        for line in page.lines
        for server, squares in zip(page.servers, line.squares, strict=True)
    }
    # In the runner's order, and what fails with every peer is unsupported, as the runner has it, with a mark.
    assert seen == {
        ("alpha", "beta"): [("H", "pass", "✓"), ("S", "pass", "✓")],
        ("alpha", "gamma"): [("H", "fail", "✕"), ("S", "pass", "✓")],
        ("delta", "beta"): [("H", "unsupported", "–"), ("S", "unsupported", "⊘")],
        ("delta", "gamma"): [("H", "inconclusive", "~"), ("S", "unsupported", "⊘")],
    }
    keys = {
        (result.cell.client.name, result.cell.server.name, result.cell.scenario.name): result.cell.key
        for result in results
    }
    key = keys["alpha", "gamma", "interop/handshake"]
    assert page.lines[0].squares[1][0].address == f"cell.html?interop/handshake/{key}"
    assert [(case.name, [(word, count) for word, _, _, count in case.counts]) for case in page.cases] == [
        ("handshake", [("succeeded", 1), ("failed", 1), ("unsupported", 1), ("inconclusive", 1)]),
        ("retry", [("succeeded", 2), ("unsupported", 2)]),
    ]
    assert [(miss.pair, miss.square.short) for miss in page.misses] == [
        ("alpha → gamma", "H"), ("delta → beta", "S"), ("delta → gamma", "H"), ("delta → gamma", "S"),
    ]  # fmt: skip
    assert page.misses[1].square.why.startswith("Fails with every peer. retry of delta")


def test_cells_without_test_cases_have_no_such_page() -> None:
    assert interop_page([]) is None


def test_the_page_is_linked_and_leads_to_its_cells(tmp_path: Path) -> None:
    results = _square()
    build.render_site(tmp_path / "site", results, Store(tmp_path / "store"), lambda wanted: [], page_cache())
    text = page_with_lists(tmp_path / "site" / "interop.html")
    targets = re.findall(r'<li data-c="[A-Z]"><a class="[a-z]+" href="([^"]+)"', text)
    assert sorted(targets) == sorted(cell_address(result.cell) for result in results)
    assert all((tmp_path / "site" / target.partition("?")[0]).exists() for target in targets)
    assert "<b>x</b>" not in text
    assert 'href="interop.html"' in (tmp_path / "site" / "index.html").read_text()


def test_where_there_are_many_cells_test_cases_are_in_their_matrix_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [*_square(), _result("alpha", "beta", "goodput", "measured")]
    monkeypatch.setattr(overview, "MOST", len(results))
    assert len(overview.overview(results).tiles) == len(results)
    monkeypatch.setattr(overview, "MOST", len(results) - 1)
    page = overview.overview(results)
    assert (len(page.tiles), page.elsewhere) == (1, {"interop.html": len(results) - 1})
    build.render_site(tmp_path / "site", results, Store(tmp_path / "store"), lambda wanted: [], page_cache())
    sentence = f'{len(results) - 1} cells of the interop runner\'s test cases are in <a href="interop.html">'
    assert sentence in (tmp_path / "site" / "index.html").read_text()
    alpha = (tmp_path / "site" / "implementations" / "alpha.html").read_text()
    assert '<a href="../interop.html">interop/handshake</a>' in alpha
    assert f'<a href="../{cell_address(results[0].cell)}"' not in alpha
