from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli.environment import open_app
from harness.errors import InputError
from harness.evaluation.regression.baseline import BaselineComparison, read_comparison, write_changed_cells
from harness.evaluation.regression.decision import decide, match_cells
from harness.store.identity import Ledger
from harness.store.results import Store
from tests.examples import cell, scenario
from tests.unit.test_gate import nothing_known, other_bits, result
from tools.reference.changed import Reasons, changed, changed_page, draw_changes, read_reasons


def test_of_a_baseline_the_cells_that_changed_are_kept_and_shown(tmp_path: Path) -> None:
    slower, steady, tested_cell = (
        cell(scenario(name=f"x/{name}"), engine="virtual").model_copy(update={"key": digit * 16})
        for name, digit in (("slower", "a"), ("steady", "b"), ("gone", "c"))
    )
    base = [result([10.0, 10.1], where=slower), result([5.0], where=steady), result([7.0], where=tested_cell)]
    now = [result([12.0, 12.2], where=other_bits(slower)), result([5.0], where=steady)]
    path = tmp_path / "former"
    assert write_changed_cells(path, decide(match_cells(base, now), within=0.03), 0.03, Store(tmp_path / "none")) == 2
    assert json.loads((path / "compared.json").read_text()) == {
        "within": 0.03, "counts": {"worse": 1, "same": 1, "gone": 1},
    }  # fmt: skip

    compared = read_comparison(path)
    assert compared is not None
    former = open_app(path).results.find(lambda cell: True)
    assert {cell_result.cell.scenario.name for cell_result in former} == {"x/slower", "x/gone"}
    # Of today all cells are there; the page has those that were kept.
    changeds = changed(former, now, compared.within, (nothing_known, nothing_known), Ledger())
    assert [(cell_report.decision.status, cell_report.decision.pair.cell.scenario.name) for cell_report in changeds] == [
        ("gone", "x/gone"), ("worse", "x/slower"),
    ]  # fmt: skip
    page = changed_page(changeds, compared)
    assert "The comparison has 3 cells: 1 worse, 1 gone, 1 same." in page and "more than 3 %" in page
    assert page.index("The largest deterioration is in x/slower") < page.index("```")
    (row,) = (text for text in page.splitlines() if text.startswith("|") and "x/slower" in text)
    assert "10.1 → 12.1 s (× 1.2" in row and "n = 2 and 2" in row and "the engine's code" in row
    assert "| gone | x/gone | 1 cell | – |  |" in page and "x/steady" not in page
    assert "No runs are stored." in changed_page([], replace(compared, counts={}))


def test_a_comparison_that_is_kept_already_stays(tmp_path: Path) -> None:
    (tmp_path / "compared.json").write_text("{}")
    with pytest.raises(InputError, match="something is there already"):
        write_changed_cells(tmp_path, [], 0.03, Store(tmp_path / "none"))
    assert read_comparison(tmp_path / "nowhere") is None


def test_a_sentence_of_before_stands_beside_that_of_today(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(
        "# Page\n\nIt takes\n8 s. It was 9 s.\n\n| a | 1 |\n| b | a | 2 |\n\n## Part\n\n* It takes 3 s.\n| a | 4 |\n"
    )
    file = tmp_path / "sentences.yaml"
    file.write_text(
        "causes:\n- {cells: [x/*], cause: It is drawn.}\n"
        "sentences:\n"
        " README.md:\n"
        "  - {before: It takes 10 s., now: takes}\n"
        "  - {before: a 5, now: '| a |'}\n"
        "  - {before: gone, now: null}\n"
        "  - {before: It takes 1 s., now: takes, below: Part}\n"
        "  - {before: a 6, now: '| a |', below: Part}\n"
    )
    reasons = read_reasons(file, tmp_path)
    assert [sentence.now for sentence in reasons.sentences] == ["It takes 8 s.", "a; 1", None, "It takes 3 s.", "a; 4"]
    page = changed_page([], BaselineComparison(within=0.03, counts={"same": 1}), reasons)
    assert "| README.md | It takes 10 s. | It takes 8 s. |" in page and "| README.md | gone | no longer said |" in page
    file.write_text("causes: []\nsentences:\n README.md:\n  - {before: x, now: takes 7 s}\n")
    with pytest.raises(InputError, match=r"README\.md has no sentence with 'takes 7 s'"):
        read_reasons(file, tmp_path)


def test_the_largest_change_of_a_cell_is_drawn_and_its_cause_named() -> None:
    where = cell(scenario(name="x/slower"), engine="virtual")
    base, now = result([10.0, 10.1], where=where), result([12.0, 12.2], where=other_bits(where))
    changeds = changed([base], [now], 0.03, (nothing_known, nothing_known), Ledger())
    text = json.dumps(draw_changes(changeds))
    compared = BaselineComparison(within=0.03, counts={"worse": 1})
    assert "| It became slower. |" in changed_page(changeds, compared, Reasons(((("x/s*",), "It became slower."),)))
    assert "| – |" in changed_page(changeds, compared, Reasons(((("y/*",), "It became slower."),)))
    assert "x/slower" in text and '"worse"' in text and "1.2" in text
    assert draw_changes([]) is None
