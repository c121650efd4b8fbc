"""The site of stored runs: what its pages say, and what the files are."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli import main
from harness.cli.signals import FAILED, USAGE
from harness.errors import InputError
from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.outcome import InteropCheck, LinkProof, MeasuredRun, Measurement, Outcome, Run
from harness.report.site import build
from harness.report.site.build import to_html
from harness.report.site.cell import MOST, cell_page, read_opening
from harness.report.site.implementation import implementation_page, implementations
from harness.report.site.overview import (
    ACTIVITIES,
    ITSELF,
    LINKS,
    QUESTIONS,
    Fastest,
    Guide,
    build_matrix,
    heading_spans,
    overview,
)
from harness.report.site.pictures import axis_ticks, corners, objective_scale, received_picture
from harness.report.site.study import pack, study_pages
from harness.report.tile import build_tile, headline, heat
from harness.scenario.schema import Flow, Implementation, Objective
from harness.store.results import Store
from harness.units import Size
from tests.examples import ROOT, implementation, scenario
from tests.examples import cell as make_cell
from tests.packed_pages import cells_of, page_with_lists, script_content, site_cells
from tests.plot_runs import download_run, link_sharing_run, page_cache

CellResults = list[CellResult]


def _result(
    client: str = "alpha", server: str = "beta", seconds: tuple[float, ...] = (4.0,), *, status: str = "completed",
    bound: float = 3.0, parameters: dict[str, str] | None = None, title: str = "a case", **overrides: Any,
) -> CellResult:  # fmt: skip
    """A cell of the 10 MB download whose 2 MB came after so many seconds, in a run each."""
    objective = Objective.model_validate({"metric": "milestone_2MB", "at_most": f"{bound} s"})
    content = {"objectives": [objective], "milestones": [Size.parse("2 MB"), Size.parse("10 MB")], **overrides}
    tested_scenario = scenario(title=title, **content)
    players = [implementation(client), implementation(server)]
    cell = make_cell(tested_scenario, players[0], players[1], engine="virtual", parameters=parameters or {})
    pairs = []
    for number, value in enumerate(seconds):
        outcome = Outcome.model_validate(
            {"status": status, "detail": "why <b>not</b>" if status != "completed" else ""}
        )
        run = Run(cell=cell, repetition=number, outcome=outcome, started_at="2026-11-21T00:00:00Z", wall=2.0)
        times = {"milestone_2MB": value, "milestone_10MB": 3 * value, "completion": 3 * value}
        measurements = tuple(
            Measurement(name=name, value=at, unit="s", flow=0, transfer="first") for name, at in times.items()
        )
        pairs.append((run, MeasuredRun(version=1, link=LinkProof(valid=True), measurements=measurements)))
    folders = tuple(Path("/store/runs") / cell.key / str(run.repetition) for run, _ in pairs)
    return CellResult(cell, tuple(pairs), judge(cell.scenario, pairs, [str(path) for path in folders]), folders)


def _nothing(wanted: Callable[[Any], bool]) -> CellResults:
    return []


def _site(folder: Path, results: CellResults, store: Store | None = None) -> build.Site:
    return build.render_site(folder, results, store or Store(folder.parent / "store"), _nothing, page_cache())


def _stored(folder: Path) -> tuple[Store, CellResult]:
    """A run with its series and a qlog of either side, in a store."""
    drawn, store = download_run(), Store(folder)
    place = store.begin(drawn.run.cell.key, 0)
    for role in ("client", "server"):
        (place / "flow0" / role).mkdir(parents=True)
        lines = [{"qlog_format": "JSON-SEQ"}, {"time": 5.0, "name": "transport:packet_sent", "data": {"n": "<i>"}}]
        lines += [{"time": 7.5, "name": "recovery:packet_lost", "data": {"n": 2}}]
        (place / "flow0" / role / "a.sqlog").write_text("".join(f"\x1e{json.dumps(line)}\n" for line in lines))
    place = store.finish(place, drawn.run, drawn.measured, drawn.series)
    pairs = ((drawn.run, drawn.measured),)
    verdict = judge(drawn.run.cell.scenario, pairs, [str(place)])
    return store, CellResult(drawn.run.cell, pairs, verdict, (place,))


# --- the matrix


def test_pairs_without_parameters_go_down_and_across() -> None:
    cell_matrix = build_matrix([_result(client, server) for client in ("b", "a") for server in ("y", "x")])
    assert (cell_matrix.down, cell_matrix.across) == (("client",), ("server",))
    assert cell_matrix.rows == (("a",), ("b",)) and cell_matrix.columns == (("x",), ("y",))
    assert cell_matrix.cells[("b",), ("x",)][0].cell.server.name == "x"


def test_implementations_with_themselves_alone_are_a_column_and_no_diagonal() -> None:
    """A history of 60 releases had 3,600 places, 60 of them with a cell."""
    cell_matrix = build_matrix([_result(name, name) for name in ("b", "c", "a")])
    assert (cell_matrix.down, cell_matrix.across) == ((ITSELF,), ())
    assert cell_matrix.rows == (("a",), ("b",), ("c",)) and cell_matrix.columns == ((),)
    assert cell_matrix.cells[("b",), ()][0].cell.server.name == "b"


def test_what_is_asked_for_goes_across_beside_pairs() -> None:
    results = [_result(parameters={"server.congestion_control": word}) for word in ("cubic", "reno")]
    cell_matrix = build_matrix(results)
    assert cell_matrix.down == ("client", "server") and cell_matrix.across == ("server.congestion_control",)
    assert cell_matrix.columns == (("cubic",), ("reno",))


def test_cells_that_only_the_seed_tells_apart_have_a_column_each() -> None:
    first = _result()
    cell = first.cell.model_copy(update={"seed": 7, "key": "7" * 16})
    cell_matrix = build_matrix([first, CellResult(cell, first.runs, first.verdict, first.folders)])
    assert cell_matrix.across == ("seed",) and cell_matrix.columns == (("1",), ("7",))


def test_values_that_go_together_are_columns_and_those_that_do_not_are_rows_and_columns() -> None:
    def asked(rate: str, delay: str) -> CellResult:
        base = _result()
        parameters = {"path.forward.rate": rate, "path.forward.delay": delay}
        tested_scenario = base.cell.scenario.model_copy(
            update={"flows": (base.cell.scenario.flows[0].model_copy(update={"client": "alpha", "server": "beta"}),)}
        )
        cell = base.cell.model_copy(
            update={"scenario": tested_scenario, "parameters": parameters, "key": f"{rate}{delay}"}
        )
        return CellResult(cell, base.runs, base.verdict, base.folders)

    cell_matrix = build_matrix([asked(rate, delay) for rate in ("1 Mbit/s", "2 Mbit/s") for delay in ("5 ms", "9 ms")])
    assert len(cell_matrix.rows) == len(cell_matrix.columns) == 2
    diagonal = build_matrix([asked("1 Mbit/s", "5 ms"), asked("2 Mbit/s", "9 ms")])
    assert diagonal.rows == ((),) and len(diagonal.columns) == 2


def test_headings_span_the_columns_that_share_them() -> None:
    place = (("a", "1"), ("a", "2"), ("b", "1"))
    assert heading_spans(place, 0) == [("a", 2), ("b", 1)]
    assert heading_spans(place, 1) == [("1", 1), ("2", 1), ("1", 1)]


# --- figures


def test_a_tile_has_the_figure_that_its_objectives_are_about_beside_what_it_is_held_against() -> None:
    tile = build_tile(_result(seconds=(4.0, 4.2, 4.4)))
    assert (tile.figure, tile.symbol, tile.beside.objective) == ("4.20", "✕", "≤ 3")
    assert float(tile.beside.ideal) < float(tile.beside.textbook)


def test_of_a_cell_that_nothing_is_demanded_of_completion_or_fairness_stands() -> None:
    tested_scenario = _result().cell.scenario.model_copy(update={"objectives": ()})
    assert headline(tested_scenario)[0].metric == "milestone_10MB"
    assert headline(link_sharing_run(10.0).run.cell.scenario)[0].metric == "jain_shared"


def test_a_cell_without_figures_has_its_reason() -> None:
    tile = build_tile(_result(status="crashed"))
    assert tile.value is None and tile.figure == "crashed"


def _of_flows(count: int) -> CellResult:
    """A cell of so many flows whose goodput is its number, and their fairness."""
    plain = _result(flows=[Flow(download=Size.parse("10 MB"))] * count, objectives=[])
    (run, _), *_ = plain.runs
    goodputs = [Measurement(name="goodput", value=index, unit="Mbit/s", flow=index) for index in range(count)]
    fairness = Measurement(name="jain_shared", value=0.5, unit="1")
    pairs = ((run, MeasuredRun(version=1, link=LinkProof(valid=True), measurements=(*goodputs, fairness))),)
    return replace(plain, runs=pairs)


def test_the_page_of_a_few_flows_has_the_metrics_of_each_and_tells_which_is_which() -> None:
    page = cell_page(_of_flows(3))
    assert [(row.name, row.text) for row in page.figures][:2] == [("flow0_goodput", "0"), ("flow1_goodput", "1")]
    assert dict(page.facts)["flows"] == "0 alpha → beta, 1 alpha → beta, 2 alpha → beta"


def test_a_row_stands_for_a_metric_of_many_flows() -> None:
    page = cell_page(_of_flows(201))
    rows = [(row.name, row.text, row.n) for row in page.figures]
    assert rows == [("flow*_goodput", "100 [0, 200]", 201), ("jain_shared", "0.5", 1)]
    assert "flows" not in dict(page.facts)


@pytest.mark.parametrize(("seconds", "expected"), [(3.1, 1), (4.0, 2), (9.0, 3), (2.9, 1), (1.0, 3)])
def test_heat_grows_with_the_distance_from_the_bound(seconds: float, expected: int) -> None:
    assert heat(_result(seconds=(seconds,))) == expected


def test_the_scale_of_an_objective_has_bound_interval_and_theory_on_it() -> None:
    result = _result(seconds=(4.0, 4.2, 4.4))
    scale = objective_scale(result, result.verdict.objectives[0])
    assert scale.allowed == (0.0, scale.bound)
    assert scale.span is not None and scale.median is not None
    assert scale.bound < scale.span[0] <= scale.median <= scale.span[1] <= 100
    assert [name for name, _, _ in scale.marks] == ["textbook slow start", "line rate"]


def test_what_was_received_has_milestones_between_the_axes() -> None:
    received = received_picture(_result())
    assert received is not None
    assert [milestone.label for milestone in received.milestones] == ["2MB", "10MB"]
    assert received.milestones[0].y > received.milestones[1].y and received.milestones[0].x < received.milestones[1].x
    assert len(received.demanded) == 1 and "10MB after 12.00 s" in received.words


def test_nothing_received_is_no_picture() -> None:
    assert received_picture(_result(status="crashed")) is None


@pytest.mark.parametrize(("end", "last", "count"), [(10.0, 10.0, 6), (0.7, 0.6, 4), (23.0, 20.0, 5), (108.0, 100.0, 3)])
def test_ticks_are_round_numbers(end: float, last: float, count: int) -> None:
    ticks = axis_ticks(end)
    assert ticks[0] == 0 and ticks[-1] == pytest.approx(last) and len(ticks) == count


# --- pages


def test_the_overview_counts_verdicts_and_lists_what_can_be_filtered() -> None:
    page = overview([_result(), _result("gamma", seconds=(2.0,), parameters={"server.congestion_control": "reno"})])
    assert page.verdicts == {"pass": 1, "fail": 1}
    assert page.players["client"] == ("alpha", "gamma")
    assert page.parameters == {"server.congestion_control": ("reno",)}


def test_the_way_in_names_the_fastest_stack_of_each_link() -> None:
    def measured(name: str, *results: tuple[str, str, float]) -> CellResults:
        return [_result(client, server, (seconds,), name=name) for client, server, seconds in results]

    results = measured("satellite/medium", ("alpha", "beta", 4.0), ("beta", "beta", 2.5), ("alpha", "alpha", 3.0))
    results += measured("access/download-wifi", ("alpha", "gamma", 1.0))
    results += measured("dumbbell/fairness", ("alpha", "beta", 1.0))
    # What was set by hand says nothing about the stack.
    results += [_result("gamma", "gamma", (0.5,), name="satellite/medium", parameters={"server.initial_cwnd": "400"})]
    guide = overview(results).guide
    (downloads,) = guide.rows.values()
    assert guide.anchors == {"beside each other": "dumbbell-fairness-virtual"}
    assert [fastest.names if fastest else None for fastest in downloads] == ["beta", None, None, "alpha → gamma", None]
    assert downloads[0] == Fastest("satellite-medium-virtual", "beta", "2.50 s", 3)
    assert overview(measured("mine/case", ("alpha", "beta", 1.0))).guide == Guide({}, {})


def test_the_way_in_asks_for_scenarios_that_there_are() -> None:
    for name in (*QUESTIONS.values(), *(name for names in ACTIVITIES.values() for name in names)):
        assert (ROOT / f"scenarios/{name}.yaml").is_file(), name
    assert {len(names) for names in ACTIVITIES.values()} == {len(LINKS)}


def test_an_implementation_s_page_has_its_defaults_and_what_it_did_wrong() -> None:
    wrong = _result("gamma", "beta")
    outcome = Outcome(status="crashed", role="client", detail="it fell")
    run = wrong.runs[0][0].model_copy(update={"outcome": outcome})
    pairs = ((run, wrong.runs[0][1]),)
    wrong = CellResult(wrong.cell, pairs, judge(wrong.cell.scenario, pairs), wrong.folders)
    results = [_result(), wrong]
    gamma: Implementation = implementations(results)["gamma"]
    page = implementation_page(gamma, results)
    assert [failure_reason.sentence for failure_reason in page.failure_reasons] == [
        "Crashed (client) in 1 of 1 runs: it fell."
    ]
    assert page.counts == (("error", 1),) and page.defaults
    assert [(part.role, part.listed, part.counts) for part in page.parts] == [("client", True, (("error", 1),))]
    assert implementation_page(implementations(results)["beta"], results).failure_reasons == ()


def test_studies_without_runs_have_no_page() -> None:
    assert study_pages([_result()]) == []


def test_a_cell_s_page_names_the_runs_its_verdict_rests_on_and_how_to_make_them_again() -> None:
    page = cell_page(_result(seconds=(4.0, 4.2)))
    assert [run_row.counts for run_row in page.runs] == [True, True]
    assert page.again.startswith("harness run test/case --clients alpha --servers beta --engine virtual")
    assert page.proof.valid and "2 of 2" in page.proof.sentence


def test_checks_of_a_test_case_say_in_how_many_runs_they_held_and_what_was_wrong() -> None:
    good = InteropCheck(check="version", asked=True, status="passed", sentence="all are of version 1")
    wrong = InteropCheck(
        check="handshakes", asked=1, status="failed", sentence="2 were seen", sender="server", packet=9, t=0.5
    )
    check = wrong.model_copy(update={"status": "passed", "sentence": "1 was seen", "sender": None})
    base = _result(seconds=(1.0, 1.1))
    checked = ((good, check), (good, wrong))
    runs = tuple(
        (run, measured.model_copy(update={"checks": run_checks}))
        for (run, measured), run_checks in zip(base.runs, checked, strict=True)
        if measured is not None
    )
    check_lines = cell_page(CellResult(base.cell, runs, base.verdict, base.folders)).checks
    assert [
        (check_line.check, check_line.asked, check_line.status, check_line.counted) for check_line in check_lines
    ] == [
        ("version", "", "pass", "2 of 2 runs"),
        ("handshakes", "1", "fail", "1 of 2 runs"),
    ]
    assert check_lines[1].sentence == "2 were seen (packet 9 of the right capture, at 0.500000 s)"


def test_markdown_shows_html_that_somebody_wrote_and_obeys_none() -> None:
    text = "# T\n\n<!-- mark -->\n<script>x</script> [here](#t) [there](../x.md)\n\n| a |\n| --- |\n| **b** |\n"
    markup = to_html(text, lambda target: target if target.startswith("#") else None)
    assert "<script>" not in markup and "mark" not in markup
    assert '<a href="#t">here</a>' in markup and "there" in markup and "x.md" not in markup
    assert "<strong>b</strong>" in markup


# --- the folder


def test_all_that_persons_wrote_is_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\"'"
    results = [_result(title=evil), _result("gamma", status="crashed")]
    _site(tmp_path / "site", results)
    pages = [page_with_lists(file) for file in (tmp_path / "site").rglob("*.html")]
    pages += [entry["page"] for entry in site_cells(tmp_path / "site").values()]
    assert sum("&lt;script&gt;alert(1)" in text for text in pages) > 1
    for text in pages:
        assert "<script>alert" not in text and "why <b>not</b>" not in text


def test_every_link_leads_somewhere_and_nothing_is_fetched_from_elsewhere(tmp_path: Path) -> None:
    store, result = _stored(tmp_path / "store")
    rendered_site = _site(tmp_path / "site", [result, _result("gamma")], store)
    site = tmp_path / "site"
    files = list(site.rglob("*.html"))
    scripts = {script.name: cells_of(script) for script in (site / "cells").glob("*.js")}
    cells = {key: entry for script_cells in scripts.values() for key, entry in script_cells.items()}
    assert rendered_site.pages == len(files) - 1 + len(cells) > 5 and rendered_site.size == sum(
        file.stat().st_size for file in (tmp_path / "site").rglob("*") if file.is_file()
    )
    pages = [(file, page_with_lists(file)) for file in files]
    pages += [(site / "cell.html", entry["page"]) for entry in cells.values()]
    for file, text in pages:
        assert not re.search(r'(?:src|rel="stylesheet" href)="(?:https?:)?//', text)
        for target in re.findall(r'(?:href|src)="([^"]+)"', text):
            place, _, anchor = target.partition("#")
            place, _, cell = place.partition("?")
            if place.startswith(("data:", "http")):
                continue
            path = (file.parent / unquote(place)).resolve() if place else file
            assert path.exists(), f"{file}: {target}"
            if cell:
                scenario, _, key = cell.rpartition("/")
                assert key in scripts[f"{scenario.replace('/', '-')}.js"], f"{file}: {target}"
            if anchor and not place:
                assert f'id="{anchor}"' in text, f"{file}: {target}"


@given(st.lists(st.tuples(st.integers(0, 600), st.integers(0, 200)), min_size=2, max_size=40))
def test_a_line_without_points_of_its_straight_parts_looks_the_same(steps: list[tuple[int, int]]) -> None:
    points = [
        (float(x), float(y)) for x, y in accumulate(steps, lambda point, step: (point[0] + step[0], point[1] + step[1]))
    ]
    kept = list(corners(points))
    assert (kept[0], kept[-1]) == (points[0], points[-1]) and set(kept) <= set(points)
    for x, y in points:
        parts = [(a, b) for a, b in pairwise(kept) if a[1] <= y <= b[1]]
        passes = [a[0] + (b[0] - a[0]) * (y - a[1]) / (b[1] - a[1]) if b[1] > a[1] else x for a, b in parts]
        assert min(abs(x - place) for place in passes) <= 0.3 + 1e-9
    assert list(corners([(0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 9.0)])) == [(0, 0), (3, 3), (4, 9)]


def test_a_cell_that_is_not_of_todays_bits_says_so(tmp_path: Path) -> None:
    _, result = _stored(tmp_path / "store")
    for name, older in (("today", ()), ("before", ("the simulator",))):
        _site(tmp_path / name, [replace(result, staleness=older)])
        page = site_cells(tmp_path / name)[result.cell.key]["page"]
        index = page_with_lists(tmp_path / name / "index.html")
        assert ("‡ From other code or images than today's: the simulator." in page) == bool(older)
        assert ('title="from other code or images than today\'s">‡<' in index) == bool(older)


def test_the_page_of_a_stored_run_has_its_figures_its_artefacts_and_its_qlogs(tmp_path: Path) -> None:
    store, result = _stored(tmp_path / "store")
    _site(tmp_path / "site", [result], store)
    key = result.cell.key
    text = site_cells(tmp_path / "site")[key]["page"]
    assert 'id="transfer"' in text and (tmp_path / "site" / "assets" / "vega.js").exists()
    assert "vconcat" in script_content(tmp_path / "site" / "figures" / f"{key}.js")["transfer"]
    assert f'href="../store/runs/{key}/0/run.json"' in text
    assert f"qlog.html#{key}-0-0" in text and f"qlog.html#{key}-0-1" in text
    trace = script_content(tmp_path / "site" / "qlogs" / f"{key}-0-0.js")
    assert trace["whose"] == "flow0 client"
    assert trace["events"] == [
        [0.0, "transport:packet_sent", '{"n": "<i>"}'], [2.5, "recovery:packet_lost", '{"n": 2}'],
    ]  # fmt: skip


def test_a_site_without_series_and_qlogs_carries_no_script_for_them(tmp_path: Path) -> None:
    _site(tmp_path / "site", [_result()])
    assert sorted(file.name for file in (tmp_path / "site" / "assets").iterdir()) == ["site.css", "site.js"]


def test_the_same_results_make_the_same_site(tmp_path: Path) -> None:
    assert pack([1, "ä"]) == pack([1, "ä"])
    sites = []
    for _ in range(2):
        _site(tmp_path / "site", [_result(), _result("gamma")])
        sites.append({file: file.read_bytes() for file in (tmp_path / "site").rglob("*") if file.is_file()})
    assert sites[0] == sites[1]


def test_a_site_replaces_an_older_one_with_the_cells_that_are_gone(tmp_path: Path) -> None:
    store, result = _stored(tmp_path / "store")
    _site(tmp_path / "site", [_result(), result], store)
    (tmp_path / "site" / "cells" / "older.html").touch()
    _site(tmp_path / "site", [_result()])
    assert list(site_cells(tmp_path / "site")) == [_result().cell.key]
    assert [file.name for file in (tmp_path / "site" / "cells").iterdir()] == ["test-case.js"]
    assert not list((tmp_path / "site" / "figures").iterdir())


def test_an_interrupted_site_leaves_the_older_one_and_does_not_hinder_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> Iterator[tuple[str, str]]:
        yield "assets/site.css", "half"
        raise KeyboardInterrupt

    for folder in (tmp_path / "new", tmp_path / "older"):
        if folder.name == "older":
            _site(folder, [_result()])
        before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(build, "_files", interrupted)
            _site(folder, [_result()])
        assert all(file.read_bytes() == content for file, content in before.items())
        _site(folder, [_result()])
        assert list(site_cells(folder)) == [_result().cell.key]
        assert not list(folder.glob(".*"))


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<html>mine")
    with pytest.raises(InputError, match="no site of this program"):
        _site(tmp_path, [_result()])
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="not a folder"):
        _site(tmp_path / "file", [_result()])
    assert (tmp_path / "index.html").read_text() == "<html>mine"


# --- qlogs


def test_a_trace_of_arrays_and_one_of_differences_are_read(tmp_path: Path) -> None:
    arrays = tmp_path / "a.qlog"
    arrays.write_text('{"qlog_version": "draft-00"}\n[1000, 0, "transport", "packet_sent", {"n": 1}],\n'
                      '[3000, 0, "transport", "packet_sent", {"n": 2}],\n')  # fmt: skip
    assert [at for at, _, _ in read_opening(arrays).events] == [0.0, 2000.0]
    relative = tmp_path / "b.sqlog"
    relative.write_text('{"time_format": "relative_to_previous_event"}\n'
                        + '{"time": 2, "name": "quic:packet_sent", "data": {}}\n' * 3)  # fmt: skip
    assert [at for at, _, _ in read_opening(relative).events] == [0.0, 2.0, 4.0]


def test_of_a_long_trace_the_beginning_is_read(tmp_path: Path) -> None:
    file = tmp_path / "long.sqlog"
    file.write_text("".join(f'{{"time": {n}, "name": "x:y", "data": {{"n": {n}}}}}\n' for n in range(MOST + 10)))
    trace_opening = read_opening(file)
    assert trace_opening.cut and len(trace_opening.events) == MOST


# --- the command


def _main(monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> object:
    monkeypatch.setenv("HARNESS_CACHE", str(page_cache()))
    monkeypatch.setattr("sys.argv", ["harness", *map(str, words)])
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code


def test_the_command_prints_the_site_s_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _stored(tmp_path / "store")
    site = tmp_path / "a site"
    assert _main(monkeypatch, "report", "html", site, "--store", tmp_path / "store") in (0, None)
    captured = capsys.readouterr()
    assert captured.out == f"{(site / 'index.html').as_uri()}\n" and "pages" in captured.err


def test_open_hands_the_address_to_the_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _stored(tmp_path / "store")
    opened: list[str] = []

    def browser(address: str) -> bool:
        opened.append(address)
        return True

    monkeypatch.setattr("webbrowser.open", browser)
    assert _main(monkeypatch, "report", "html", tmp_path / "s", "--store", tmp_path / "store", "--open") in (0, None)
    assert opened == [(tmp_path / "s" / "index.html").as_uri()]


def test_a_run_whose_site_has_no_place_begins_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.txt").touch()
    assert _main(monkeypatch, "run", "satellite/small", "--html", tmp_path, "--store", tmp_path / "store") == USAGE
    assert "no site of this program" in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


def test_a_run_ends_with_the_address_of_its_site(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, result = _stored(tmp_path / "store")
    monkeypatch.setattr("harness.execution.App.run", lambda self, request, options, listen: [result])
    words = [
        "satellite/small",
        "--clients",
        "ngtcp2",
        "--servers",
        "ngtcp2",
        "--no-figures",
        "--store",
        str(store.root),
    ]
    code = _main(monkeypatch, "run", *words, "--html", tmp_path / "site")
    assert code in (0, None, FAILED)
    captured = capsys.readouterr()
    assert captured.out.startswith("a case (test/link-sharing")
    assert f"\nsite: {(tmp_path / 'site' / 'index.html').as_uri()}\n" in captured.out
    assert list(site_cells(tmp_path / "site")) == [result.cell.key]
