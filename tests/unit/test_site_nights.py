"""What the site says of a night: what changed since the baseline, and the trend."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from harness.analysis.metrics import VERSION
from harness.cli import main
from harness.evaluation.cell_result import CellResult
from harness.evaluation.regression.accepted_changes import apply_allowances
from harness.evaluation.regression.decision import decide, match_cells
from harness.evaluation.verdict import judge
from harness.outcome import Cell, LinkProof, MeasuredRun, Measurement, Outcome, Run
from harness.report.gate import CellReport, GateReport
from harness.report.plots.nights import trend_figure
from harness.report.site import build
from harness.report.site.changes import changes_page
from harness.report.trend import Night, factor_text, trend_document, trends
from harness.store.results import Store
from tests.examples import cell, implementation, scenario
from tests.packed_pages import page_with_lists
from tests.plot_runs import page_cache
from tests.rendering import printed


def _cell(client: str = "alpha", server: str = "beta", bits: str = "") -> Cell:
    virtual_cell = cell(scenario(objectives=[]), implementation(client), implementation(server), engine="virtual")
    return virtual_cell.model_copy(update={"key": f"{bits * 16}"[:16], "engine_code": bits}) if bits else virtual_cell


def _result(where: Cell, seconds: float, day: int = 21) -> CellResult:
    run = Run(
        cell=where, repetition=0, outcome=Outcome(status="completed"), started_at=f"2026-11-{day}T00:00:00Z", wall=1.0
    )
    figures = tuple(
        Measurement(name=name, value=seconds, unit="s", flow=0, transfer="first")
        for name in ("milestone_10MB", "completion")
    )
    runs = ((run, MeasuredRun(version=VERSION, link=LinkProof(valid=True), measurements=figures)),)
    return CellResult(where, runs, judge(where.scenario, runs, ["x"]), (Path("x"),))


def _gate(base: Sequence[CellResult], now: Sequence[CellResult]) -> GateReport:
    applied = apply_allowances(decide(match_cells(base, now), within=0.03), (), datetime.date(2026, 11, 28))
    return GateReport(tuple(CellReport(decision, ("quiche 0.30 → 0.31",)) for decision in applied.cells), applied, 0.03)


def _night(*seconds: tuple[str, float], day: int = 21) -> Night:
    results = [_result(_cell(server=server), value, day) for server, value in seconds]
    return Night(f"2026-11-{day}", f"2026-11-{day}T00:00:00Z", results)


BASE = [_result(_cell(), 2.0), _result(_cell(server="gone"), 2.0), _result(_cell(server="same"), 2.0)]
NOW = [_result(_cell(bits="f"), 4.0), _result(_cell(server="same"), 2.0), _result(_cell(server="young"), 1.0)]


def test_the_page_of_changes_has_the_gravest_first_and_a_badge_for_each_cell_of_now() -> None:
    keys = {result.cell.key for result in NOW}
    page = changes_page(_gate(BASE, NOW), keys)
    assert [row.badge.status for row in page.rows] == ["worse", "gone", "new"]
    assert not page.open and "the gate is shut by 1 cell" in page.sentence
    worst, gone, young = page.rows
    assert "2 → 4 s (× 2)" in worst.figures and worst.causes == ("quiche 0.30 → 0.31",)
    assert worst.address.endswith("f" * 16) and young.address and not gone.address
    assert {key: badge.status for key, badge in page.badges.items()} == {
        "f" * 16: "worse", NOW[2].cell.key: "new"
    }  # fmt: skip


def test_the_site_of_a_night_shows_what_changed_in_the_map_in_the_table_and_on_the_cell(tmp_path: Path) -> None:
    night = build.NightContext(_gate(BASE, NOW), [_night(("beta", 2.0)), _night(("beta", 4.0), day=22)])
    build.render_site(tmp_path / "site", NOW, Store(tmp_path / "store"), lambda wanted: [], page_cache(), night=night)
    index = page_with_lists(tmp_path / "site" / "index.html")
    changes, trend = ((tmp_path / "site" / f"{name}.html").read_text() for name in ("changes", "trend"))
    assert index.count('class="badge worse"') == 2  # its tile, and its row of the table
    assert index.count('class="badge new"') == 2 and 'data-b="same"' in index
    assert '<select name="change">' in index and "<option>gone</option>" not in index
    assert "2 → 4 s (× 2)" in changes and "quiche 0.30 → 0.31" in changes
    assert f"{'f' * 16}" in changes and ">Trend</a>" in changes
    assert "× 2" in trend and trend.index("2026-11-22") < trend.index("2026-11-21")
    assert (tmp_path / "site" / "assets" / "vega.js").exists()


def test_a_site_that_is_compared_with_nothing_has_no_such_page(tmp_path: Path) -> None:
    build.render_site(tmp_path / "site", NOW, Store(tmp_path / "store"), lambda wanted: [], page_cache())
    index = page_with_lists(tmp_path / "site" / "index.html")
    assert not (tmp_path / "site" / "changes.html").exists() and not (tmp_path / "site" / "trend.html").exists()
    assert "badge" not in index and 'name="change"' not in index


def test_a_trend_has_each_cell_once_and_gaps_where_a_night_lacks_it() -> None:
    (trend,) = trends(
        [_night(("beta", 3.0), ("young", 1.0), day=23), _night(("beta", 2.0)), _night(("old", 9.0), day=22)]
    )
    assert trend.nights == ("2026-11-21", "2026-11-22", "2026-11-23")
    values = {row.name: [tile and tile.value for tile in row.tiles] for row in trend.rows}
    assert values == {
        "alpha→beta": [2.0, None, 3.0], "alpha→young": [None, None, 1.0], "alpha→old": [None, 9.0, None]
    }  # fmt: skip
    assert [factor_text(row) for row in sorted(trend.rows, key=lambda row: row.name)] == ["× 1.5", "", ""]


def test_a_figure_begins_at_zero_and_needs_two_nights() -> None:
    (trend,) = trends([_night(("beta", 2.0), ("young", 7.0)), _night(("beta", 2.1), day=22)])
    specification = trend_figure(trend)
    assert specification is not None
    layer = specification["layer"][0]
    assert layer["encoding"]["y"]["scale"]["domain"][0] == 0
    (points,) = specification["datasets"].values() if "datasets" in specification else [layer["data"]["values"]]
    assert {point["cell"] for point in points} == {"alpha→beta"}
    assert trend_figure(replace(trend, rows=trend.rows[1:])) is None


@pytest.mark.parametrize("width", [80, 140])
def test_the_table_of_nights(width: int, snapshot: SnapshotAssertion) -> None:
    nights = [_night(("beta", 2.0 + day / 100), ("young", 1.0), day=day) for day in range(20, 29)]
    assert printed(trend_document(nights), width) == snapshot


def _stored(root: Path, seconds: float, day: int) -> None:
    store, result = Store(root), _result(_cell(), seconds, day)
    ((run, measured),) = result.runs
    store.finish(store.begin(run.cell.key, 0), run, measured, None)


def _main(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> object:
    monkeypatch.setenv("HARNESS_CACHE", str(page_cache()))
    monkeypatch.setattr("sys.argv", ["harness", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code or 0


def test_the_command_reads_a_folder_of_stores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for day, seconds in ((22, 3.0), (21, 2.0)):
        _stored(tmp_path / "nights" / f"2026-11-{day}", seconds, day)
    assert _main(monkeypatch, ["report", "trend", str(tmp_path / "nights"), "--json"]) == 0
    (trend,) = json.loads(capsys.readouterr().out)["trends"]
    assert trend["nights"] == ["2026-11-21", "2026-11-22"]
    assert [night["value"] for night in trend["cells"][0]["nights"]] == [2.0, 3.0] and trend["cells"][0][
        "factor"
    ] == 1.5
    assert _main(monkeypatch, ["report", "trend", str(tmp_path)]) != 0
    assert "neither a store nor a folder of stores" in capsys.readouterr().err


def test_the_gate_writes_the_site_of_the_night(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nights = tmp_path / "nights"
    for day in (21, 22):
        _stored(nights / f"2026-11-{day}", 2.0, day)
    words = ["gate", "--baseline", str(tmp_path / "base"), "--update-baseline", "--nights", str(nights)]
    for day in (21, 22):
        night = nights / f"2026-11-{day}"
        assert _main(monkeypatch, [*words, "--store", str(night), "--html", str(night / "site")]) == 0
        assert (night / "site" / "index.html").as_uri() in capsys.readouterr().err
    assert not (nights / "2026-11-21" / "site" / "changes.html").exists()
    assert "1 same" in (nights / "2026-11-22" / "site" / "changes.html").read_text()
    assert "2 nights" in (nights / "2026-11-22" / "site" / "trend.html").read_text()
