from __future__ import annotations

import json
import math
import re
import struct
from pathlib import Path
from typing import Any

import altair as alt
import jsonschema
import polars as pl
import pytest
import vl_convert

from harness.cli import main
from harness.errors import EngineError, InputError
from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.outcome import Cell
from harness.report.plots import registry
from harness.report.plots.distribution import ecdf
from harness.report.plots.operating_point import beside_markers
from harness.report.plots.over_time import rates
from harness.report.plots.parts import axis_end, bin_rates, bin_series, format_brief, thin_series
from harness.report.plots.registry import plots
from harness.report.plots.render import Format, has_font, render_figure, render_figures, write_figures
from harness.report.plots.stored import is_queue_pair, load_drawings, run_folder
from harness.report.plots.view import PlotData
from harness.store.results import Store
from tests.plot_runs import drawn_of, link_sharing, link_sharing_run, page_cache, red_and_droptail, run_of
from tools.reference.study_pages import figures as documented

SECONDS = 20.0
OF_A_RUN = {name for name, plot in plots().items() if plot.of == "flows"}
WITHOUT_SERIES = {name for name in OF_A_RUN if not plots()[name].needs}


def _frame(*rows: tuple[str, float, float]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"flow": pl.String, "t": pl.Float64, "value": pl.Float64}, orient="row")


def _kept(folder: Path, *runs: PlotData) -> Store:
    store = Store(folder)
    for run in runs:
        place = store.begin(run.run.cell.key, run.run.repetition)
        store.finish(place, run.run, run.measured, run.series)
    return store


def _result(*runs: PlotData) -> CellResult:
    pairs = tuple((run.run, run.measured) for run in runs)
    cell = runs[0].run.cell
    return CellResult(cell, pairs, judge(cell.scenario, pairs), tuple(Path() for _ in pairs))


# --- figures


def test_the_figures_of_the_documents_are_there() -> None:
    shown = {figure.plot for figure in documented()}
    assert shown and shown <= set(plots())


def test_a_plot_is_what_stands_in_a_file_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new one is found by its mark: drawn, completed by a shell, and on the page of figures, with no list to add to."""
    monkeypatch.setattr(registry, "_PLOTS", dict(registry._PLOTS))

    @registry.plot("Nothing", "throughput")
    def something_new(run: PlotData) -> None:
        """What nobody has drawn yet."""

    assert {"something_new", *OF_A_RUN} <= set(plots())
    assert plots()["something_new"].shows == "What nobody has drawn yet."


@pytest.mark.parametrize("name", sorted(OF_A_RUN))
def test_every_figure_of_a_run_is_drawn(name: str) -> None:
    figure = render_figure(plots()[name], link_sharing_run(SECONDS))
    assert figure is not None
    # What is drawn is not held against the schema each time.
    _is_vega_lite(figure.specification)
    svg = vl_convert.vegalite_to_svg(figure.specification)
    assert plots()[name].title in svg
    assert "test/link-sharing · alpha → beta · server.congestion_control reno · virtual time · seed 1" in svg
    # Axes have their units, but those of names and of shares.
    titles = {text for text in re.findall(r">([^<>]+)</text>", svg) if "(" in text and text[0].isalpha()}
    assert titles <= {
        "time (s)", "throughput (Mbit/s)", "sending rate (Mbit/s)", "drops (1/s)", "cwnd (packets)", "queue (kB)",
        "of each flow (kB)", "in flight (packets)", "sRTT (ms)", "mean sRTT (ms)", "mean throughput (Mbit/s)", "mean in flight (packets)",
    }  # fmt: skip
    assert titles


def _is_vega_lite(specification: dict[str, Any]) -> None:
    """Raises where it is not: one look at what the schema has for its kind, with a few rows of the data."""
    kinds: dict[str, Any] = {"layer": alt.LayerChart, "hconcat": alt.HConcatChart, "vconcat": alt.VConcatChart}
    [kind] = [chart for word, chart in kinds.items() if word in specification]
    kind.validate({**specification, "datasets": {name: rows[:3] for name, rows in specification["datasets"].items()}})


def test_what_is_not_vega_lite_is_found() -> None:
    figure = render_figure(plots()["queue_window_rtt"], link_sharing_run(SECONDS))
    assert figure is not None
    wrong = json.loads(json.dumps(figure.specification).replace('"type": "line"', '"type": "lion"'))
    assert wrong != figure.specification
    with pytest.raises(jsonschema.ValidationError):
        _is_vega_lite(wrong)


@pytest.mark.parametrize("name", sorted(OF_A_RUN - WITHOUT_SERIES))
def test_a_flow_alone_is_drawn_as_wide_as_any(name: str) -> None:
    figure = render_figure(plots()[name], drawn_of(link_sharing(20, [{"start": "2 s", "stop": "20 s"}])))
    assert figure is not None
    svg = vl_convert.vegalite_to_svg(figure.specification)
    assert "NaN" not in svg
    symbol, label = (
        re.search(rf"role-legend-{part}.*?translate\((\d+),", svg, re.DOTALL) for part in ("symbol", "label")
    )
    # A legend's line is 20 pixels long, and its word begins beyond its end. Rows and drops have no legend.
    assert (symbol is None) == (name in ("congestion_window", "drop_rate", "marks_and_drops"))
    if symbol is not None:
        assert label is not None
        assert int(label[1]) - int(symbol[1]) > 10


def test_a_flow_without_drops_has_its_row() -> None:
    whole = link_sharing_run(SECONDS)
    assert whole.series is not None
    quiet = PlotData(whole.run, None, whole.series.filter((pl.col("name") != "drop") | (pl.col("t") < 1)), (10.0, 12.0))
    figure = render_figure(plots()["window_queue_drops"], quiet)
    assert figure is not None
    svg = vl_convert.vegalite_to_svg(figure.specification)
    # In the legend, and at the row.
    assert svg.count(">0 alpha → beta (reno)<") == 2


def test_numbers_stay_clear_of_markers_and_of_each_other() -> None:
    assert beside_markers([(0.0, 0.0)]) == [(13.0, 0.0)]
    spots = [(50.0, 50.0), (53.0, 52.0), (48.0, 47.0)]
    placed = beside_markers(spots)
    for own, place in zip(spots, placed, strict=True):
        assert math.dist(own, place) < 20
        others = [*spots, *(other for other in placed if other != place)]
        assert min(math.dist(place, other) for other in others) > 9


@pytest.mark.parametrize(
    ("value", "text"), [(5.7043, "5.7"), (10, "10"), (45.28, "45.3"), (1234.4, "1234"), (0.1234, "0.123")]
)
def test_numbers_in_figures_are_brief(value: float, text: str) -> None:
    assert format_brief(value) == text


def test_a_pair_is_drawn_beside_each_other_on_the_same_axes() -> None:
    red, droptail = red_and_droptail()
    figure = render_figure(plots()["red_beside_droptail"], red, droptail)
    assert figure is not None
    svg = vl_convert.vegalite_to_svg(figure.specification)
    for text in ("RED", "DropTail", "RED min 9 kB", "RED max 24 kB", "limit 25.9 kB", "test/red", "test/droptail"):
        assert text in svg
    left, right = figure.specification["hconcat"]
    for row in range(3):
        assert _domains(left["vconcat"][row]) == _domains(right["vconcat"][row]) != set()


def _domains(panel: Any) -> set[str]:
    """Domains of the value axis of a panel's layers."""
    layers = panel.get("layer", [panel])
    scales = [layer.get("encoding", {}).get("y", {}).get("scale", {}) for layer in layers]
    return {json.dumps(scale["domain"]) for scale in scales if "domain" in scale}


def test_what_is_missing_is_not_drawn() -> None:
    whole = link_sharing_run(SECONDS)
    without = PlotData(whole.run, whole.measured, None)
    assert {item.plot.name for item in render_figures(without)} == WITHOUT_SERIES
    empty = PlotData(whole.run, whole.measured, whole.series.clear() if whole.series is not None else None)
    assert {item.plot.name for item in render_figures(empty)} == WITHOUT_SERIES
    assert not list(render_figures(PlotData(whole.run, None, None)))


@pytest.mark.parametrize("name", ["throughput", "sending_rate", "cwnd", "in_flight", "srtt", "queue_length", "drop"])
def test_one_missing_series_costs_the_figures_that_need_it(name: str) -> None:
    whole = link_sharing_run(SECONDS)
    assert whole.series is not None
    part = PlotData(whole.run, whole.measured, whole.series.filter(pl.col("name") != name))
    needing = {item for item in OF_A_RUN if name in plots()[item].needs}
    assert needing
    assert not list(render_figures(part, only=needing))
    assert len(list(render_figures(part, only={"distribution", "drop_rate"} - needing))) >= 1


def test_points_drawn_are_bounded() -> None:
    # 16 flows for two minutes are 6000 points a flow, and as many rates as a panel may have points.
    flows: list[dict[str, object]] = [{"stop": "120 s"}] * 16
    run = drawn_of(link_sharing(120, flows))
    assert run.of_flows("cwnd").height == 96_000
    for item in render_figures(run):
        assert max(len(data) for data in item.specification["datasets"].values()) <= 12_000, item.plot.name


# --- looks


def test_flows_of_one_implementation_differ_in_lightness_and_dashes() -> None:
    flows = link_sharing_run(SECONDS).flows
    assert [flow.name for flow in flows] == [
        "0 alpha → beta (reno)", "1 alpha → beta (reno)", "2 alpha → beta (reno)", "3 UDP (uniform)",
    ]  # fmt: skip
    assert [flow.look.colour for flow in flows] == ["#1b9e77", "#0b3f30", "#76c5ad", "#9a9a9a"]
    assert [flow.look.dash for flow in flows] == [(), (6, 2), (2.5, 1.5), ()]
    assert {flow.look.shape for flow in flows[:3]} == {"circle"}
    assert [flow.responsive for flow in flows] == [True, True, True, False]


def test_each_implementation_has_its_colour_and_marker() -> None:
    named: list[dict[str, object]] = [
        {"client": "alpha", "server": server, "stop": "20 s"} for server in ("alpha", "beta", "gamma")
    ]
    looks = [flow.look for flow in drawn_of(link_sharing(20, named)).flows]
    assert [look.colour for look in looks] == ["#d95f02", "#1b9e77", "#b23a48"]
    assert [look.shape for look in looks] == ["square", "circle", "diamond"]
    # In grey the dashes tell them apart.
    assert len({look.dash for look in looks}) == 3


# --- the view


def test_a_detail_is_in_the_middle_of_the_time_all_flows_share() -> None:
    # All three run from 20 to 30 s: of that 3 s in the middle, on a whole second.
    assert link_sharing_run(50.0).detail == (23.0, 26.0)
    # Fifty round trips of 300 ms are more than 3 s, and fill the middle of 60 s.
    far: list[dict[str, object]] = [{"stop": "60 s"}]
    assert PlotData(run_of(link_sharing(60, far, delay="290 ms")), None, None).detail == (22.0, 37.0)
    assert PlotData(run_of(link_sharing(50)), None, None, (1.0, 2.0)).detail == (1.0, 2.0)


def test_a_detail_ends_with_a_flow_that_its_size_ends() -> None:
    flows: list[dict[str, object]] = [{"stop": "50 s"}, {"download": "2 MB", "start": "10 s"}]
    rows = [(flow, "throughput", t / 10, 1.0) for flow, span in ((0, (0, 500)), (1, (100, 160))) for t in range(*span)]
    series = pl.DataFrame(rows, schema=["flow", "name", "t", "value"], orient="row")
    # The second is there from 10 to 16 s, and has 2 s to find its share.
    assert PlotData(run_of(link_sharing(50, flows)), None, series).detail == (12.0, 15.0)


def test_flows_that_never_meet_have_a_detail_too() -> None:
    apart: list[dict[str, object]] = [{"stop": "10 s"}, {"start": "20 s", "stop": "30 s"}]
    begin, end = PlotData(run_of(link_sharing(30, apart)), None, None).detail
    assert 0 <= begin < end <= 30


def test_the_bottleneck_in_figures() -> None:
    run = PlotData(run_of(link_sharing(50)), None, None)
    assert run.end == 50
    assert run.queue_limit == 25
    # 10 Mbit/s for 20 ms are 25 kB, in frames of 1280 + 14 bytes.
    assert run.bdp == pytest.approx(25_000 / 1294)
    assert run.thresholds is None
    red, _ = red_and_droptail()
    assert red.thresholds == (9, 24)
    assert red.queue_limit == pytest.approx(20 * 1294 / 1000)


def test_access_delays_are_part_of_the_round_trip() -> None:
    own: list[dict[str, object]] = [{"stop": "9 s"}, {"stop": "9 s", "access_delay": "15 ms"}]
    run = PlotData(run_of(link_sharing(9, own)), None, None)
    # 20 ms of the path, and 0 and 30 ms of their own.
    assert run.round_trip == pytest.approx(35)
    assert run.bdp == pytest.approx(10e6 * 0.035 / 8 / 1294)


def test_capacity_follows_the_changes_asked_for_where_no_series_has_it() -> None:
    scenario = link_sharing(50)
    changed = scenario.path.model_validate(
        {
            **scenario.path.model_dump(mode="json", by_alias=True),
            "changes": [
                {"at": "10 s", "forward": {"rate": "4 Mbit/s"}},
                {"at": "20 s", "return": {"rate": "1 Mbit/s"}},
            ],
        }
    )
    run = PlotData(run_of(scenario.model_copy(update={"path_": changed})), None, None)
    assert run.capacity.rows() == [(0.0, 10.0), (10.0, 4.0), (50.0, 4.0)]
    assert link_sharing_run(50.0).capacity.rows() == [(0.0, 10.0), (50.0, 10.0)]


def test_series_outside_the_time_axis_are_left_out() -> None:
    whole = link_sharing_run(SECONDS)
    assert whole.series is not None
    late = pl.DataFrame([(0, "cwnd", 20.0, 1.0), (0, "cwnd", 99.0, 1.0)], schema=whole.series.schema, orient="row")
    assert PlotData(whole.run, None, pl.concat([whole.series, late])).of_flows("cwnd")["t"].max() < 20  # type: ignore[operator]


# --- what is computed for a figure


def test_smoothing_divides_what_passed_by_the_length_of_the_bin() -> None:
    # Bins of 0.1 s from 0.3 s on: two of them in the first half second, five in the second.
    rate = _frame(*(("a", t / 10, 5.0) for t in range(3, 10)))
    assert bin_rates(rate, 0.5).rows() == [("a", 0.25, 2.0), ("a", 0.75, 5.0)]
    assert bin_series(rate, 0.5).rows() == [("a", 0.25, 5.0), ("a", 0.75, 5.0)]


def test_drops_per_second_count_every_drop() -> None:
    drops = _frame(("", 0.1, 0), ("", 0.2, 1), ("", 0.49, 0), ("", 1.6, 2))
    assert rates(drops, 2.0).rows() == [(0.0, 6.0), (0.5, 0.0), (1.0, 0.0), (1.5, 2.0), (2.0, 0.0)]


def test_an_ecdf_is_of_the_time_a_flow_runs() -> None:
    run = drawn_of(link_sharing(10, [{"start": "2 s", "stop": "6 s"}]))
    name = run.flows[0].name
    values = [
        (name, 1.0, 99.0),
        (name, 2.0, 3.0),
        (name, 3.0, 1.0),
        (name, 4.0, 1.0),
        (name, 5.0, 7.0),
        (name, 6.0, 99.0),
    ]
    assert ecdf(run, _frame(*values)).select("x", "share").rows() == [(1, 0), (1, 0.25), (1, 0.5), (3, 0.75), (7, 1)]


def test_thinning_keeps_the_extremes_in_order() -> None:
    values = [(t * 37) % 101 + (500 if t == 4321 else 0) - (300 if t == 1234 else 0) for t in range(9000)]
    frame = _frame(*(("a", float(t), float(value)) for t, value in enumerate(values)), ("b", 0.0, 1.0))
    table = thin_series(frame, 600)
    assert table.filter(pl.col("flow") == "a").height <= 600
    assert table.filter(pl.col("flow") == "b").height == 1
    assert table["value"].max() == frame["value"].max()
    assert table["value"].min() == frame["value"].min()
    assert table.filter(pl.col("flow") == "a")["t"].is_sorted()
    short = frame.head(600)
    assert thin_series(short, 600).equals(short)


@pytest.mark.parametrize(
    ("values", "end"), [((9.7, 10.0), 12), ((0.013,), 0.015), ((38.2,), 40), ((101, 3), 120), ((None,), 1)]
)
def test_axes_end_at_round_figures_above_the_values(values: tuple[object, ...], end: float) -> None:
    assert axis_end(*values) == pytest.approx(end)


# --- what is drawn beside what


def test_red_belongs_beside_droptail_of_the_same_cell() -> None:
    red, droptail = (run.run.cell for run in red_and_droptail())
    assert is_queue_pair(red, droptail)
    assert not is_queue_pair(droptail, red)
    assert not is_queue_pair(red, red)
    assert not is_queue_pair(red, droptail.model_copy(update={"seed": 2}))
    flows = droptail.scenario.flows[:1]
    assert not is_queue_pair(
        red, droptail.model_copy(update={"scenario": droptail.scenario.model_copy(update={"flows": flows})})
    )


def test_a_partner_is_found_though_nobody_asked_for_it(tmp_path: Path) -> None:
    red, droptail = red_and_droptail()
    store = _kept(tmp_path, red, droptail)
    stored = [_result(red), _result(droptail)]

    def search(wanted: Any) -> list[CellResult]:
        return [result for result in stored if wanted(result.cell)]

    [drawing] = load_drawings(store, stored[:1], search, [], None)
    assert drawing.run.run.cell.key == red.run.cell.key
    assert drawing.partner is not None
    assert drawing.partner.run.cell.key == droptail.run.cell.key
    assert drawing.partner.series is not None
    [alone] = load_drawings(store, stored[1:], search, [], None)
    assert alone.partner is None


def test_the_first_repetition_is_drawn_or_the_one_asked_for(tmp_path: Path) -> None:
    first = link_sharing_run(SECONDS)
    second = PlotData(first.run.model_copy(update={"repetition": 1}), None, None)
    result, key = _result(first, second), first.run.cell.key

    def drawn(*asked: str) -> list[int]:
        return [item.run.run.repetition for item in load_drawings(Store(tmp_path), [result], _nothing, asked, None)]

    assert drawn() == [0]
    assert drawn(f"{key}/1", f"{key}/0") == [1, 0]
    with pytest.raises(InputError) as caught:
        drawn(f"{key}/7")
    assert key in caught.value.hint


def _nothing(wanted: Any) -> list[CellResult]:
    return []


# --- files


def test_files_of_a_run(tmp_path: Path) -> None:
    run, folder = link_sharing_run(SECONDS), tmp_path / "made" / "here"
    files = write_figures(run, folder, set(Format), page_cache(), only=["operating_point_plane"])
    assert [file.name for file in files] == ["operating_point_plane.png", "operating_point_plane.svg", "chosen.html"]
    png, svg, html = (file.read_bytes() for file in files)
    width, height = struct.unpack(">II", png[16:24])
    drawn = re.search(rb'<svg[^>]* width="(\d+)" height="(\d+)"', svg)
    assert png.startswith(b"\x89PNG")
    assert drawn is not None
    assert (width, height) == (2 * int(drawn[1]), 2 * int(drawn[2]))
    assert b'<figure id="operating_point_plane">' in html


def test_a_page_needs_nothing_from_elsewhere_and_its_data_cannot_leave_their_script(tmp_path: Path) -> None:
    data = link_sharing_run(SECONDS)
    title = 'Sharing </script><script>alert("x")</script>'
    cell = data.run.cell.model_copy(
        update={"scenario": data.run.cell.scenario.model_copy(update={"title": title, "name": "a/</b"})}
    )
    run = PlotData(data.run.model_copy(update={"cell": cell}), data.measured, data.series)
    [file] = write_figures(run, tmp_path, {Format.HTML}, page_cache())
    text = file.read_text()
    # Outside the scripts: the libraries' own text speaks of such things.
    assert not re.search(r'(src|href)="(?!#)|@import|url\(', re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL))
    assert "alert(&#34;x&#34;)" in text
    assert text.count("<script>") == text.count("</script>") == 2
    match = re.search(r"const figures = (\{.*\});\n", text)
    assert match is not None
    assert set(json.loads(match[1])) == OF_A_RUN
    # The second page takes the script from the cache.
    [path] = page_cache().iterdir()
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / path.name).write_text("/* kept */")
    [file] = write_figures(run, tmp_path, {Format.HTML}, tmp_path / "cache", only=["distribution"])
    assert "/* kept */" in file.read_text()


def test_a_run_without_anything_leaves_no_folder(tmp_path: Path) -> None:
    empty = PlotData(run_of(link_sharing(50)), None, None)
    assert write_figures(empty, tmp_path / "made", set(Format), page_cache()) == []
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_refuses_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineError, match="file"):
        write_figures(link_sharing_run(SECONDS), tmp_path / "file" / "below", {Format.SVG}, tmp_path)
    (tmp_path / "made" / "operating_point_plane.png").mkdir(parents=True)
    with pytest.raises(EngineError, match=r"operating_point_plane\.png"):
        write_figures(
            link_sharing_run(SECONDS), tmp_path / "made", {Format.PNG}, tmp_path, only=["operating_point_plane"]
        )


def test_this_machine_has_letters() -> None:
    assert has_font()


def test_folders_name_the_point() -> None:
    run = link_sharing_run(SECONDS)
    assert run_folder(run.run) == Path("test/link-sharing/alpha-beta-server.congestion_control=reno-virtual-1-0")
    cell: Cell = run.run.cell.model_copy(update={"parameters": {"path.forward.rate": "50 Mbit/s"}})
    moved = run.run.model_copy(update={"cell": cell})
    assert run_folder(moved) == Path("test/link-sharing/alpha-beta-path.forward.rate=50_Mbit_s-virtual-1-0")


# --- the command


def _command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> tuple[int | str | None, str, str]:
    monkeypatch.setattr("sys.argv", ["harness", "plot", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    out, err = capsys.readouterr()
    return caught.value.code, out, err


def test_the_command_prints_the_files_it_wrote(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _kept(tmp_path / "store", link_sharing_run(SECONDS))
    where = ("--store", str(tmp_path / "store"), "--out", str(tmp_path / "out"), "--formats", "svg")
    code, out, _ = _command(capsys, monkeypatch, *where, "--only", "drop_rate,congestion_window")
    assert code in (0, None)
    files = [Path(line) for line in out.splitlines()]
    assert [file.name for file in files] == ["congestion_window.svg", "drop_rate.svg"]
    assert all(file.is_file() and tmp_path / "out" in file.parents for file in files)


def test_the_command_says_when_series_are_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = link_sharing_run(SECONDS)
    _kept(tmp_path, PlotData(run.run, run.measured, None))
    code, out, err = _command(capsys, monkeypatch, "--store", str(tmp_path), "--formats", "svg")
    assert code in (0, None)
    assert {Path(line).stem for line in out.splitlines()} == WITHOUT_SERIES
    assert "no series are stored" in err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--only", "drop_rat"), "drop_rate"),
        (("--formats", "pnf"), "png"),
        (("--detail", "24-21"), "--detail 21-24"),
        (("--detail", "soon"), "--detail 21-24"),
    ],
)
def test_wrong_words_are_one_error_with_a_hint(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: tuple[str, str],
    hint: str,
) -> None:
    code, out, err = _command(capsys, monkeypatch, "--store", str(tmp_path), *words)
    assert code == 2
    assert out == ""
    assert words[1] in err
    assert hint in err
