"""Figures of one transfer, and of several runs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.netem import slow_start_time, timeline
from harness.outcome import MeasuredRun, Outcome, Verdict
from harness.report.plots.curves import build_curves, run_labels, stack_panels
from harness.report.plots.registry import plots
from harness.report.plots.render import render_figure, render_figures
from harness.report.plots.stored import comparison_folder, rank_runs
from harness.report.plots.view import PlotData
from tests.plot_runs import download_run, link_sharing_run


def _panels(*runs: PlotData) -> list[dict[str, Any]]:
    figure = render_figure(plots()["transfer" if len(runs) == 1 else "together"], *runs)
    assert figure is not None
    panels: list[dict[str, Any]] = figure.specification["vconcat"]
    return panels


def _titles(panel: dict[str, Any]) -> set[str]:
    titles = (layer.get("encoding", {}).get("y", {}).get("title") for layer in panel.get("layer", [panel]))
    return {title for title in titles if title}


def test_a_download_is_drawn_by_its_transfer_alone() -> None:
    def fitting(run: PlotData) -> set[str]:
        return {name for name, plot in plots().items() if plot.fits(run)}

    assert fitting(download_run()) == {"transfer"}
    assert "transfer" not in fitting(link_sharing_run(10.0)) and len(fitting(link_sharing_run(10.0))) > 8
    # Whoever asks for another gets it.
    assert [item.plot.name for item in render_figures(download_run(), only=["drop_rate"])] == ["drop_rate"]


def test_panels_share_the_time_axis() -> None:
    panels = _panels(download_run())
    assert [_titles(panel) for panel in panels[:4]] == [
        {"received (MB)"}, {"cwnd (packets)"}, {"sRTT (ms)"}, {"queue (kB)"},
    ]  # fmt: skip
    spans = {
        json.dumps(layer["encoding"]["x"]["scale"]["domain"])
        for panel in panels
        for layer in panel.get("layer", [panel])
        if "scale" in layer.get("encoding", {}).get("x", {})
    }
    assert len(spans) == 1


def test_the_textbook_is_the_table_s() -> None:
    run = download_run()
    [curve] = build_curves([run])
    size = run.run.cell.scenario.flows[0].file
    assert size is not None
    assert curve.textbook["t"][-1] == pytest.approx(slow_start_time(timeline(run.path), size, 12_000))
    assert curve.textbook["value"][-1] == pytest.approx(size.bytes / 1e6)
    cell = run.run.cell.model_copy(update={"parameters": {"server.initial_cwnd": 40}})
    [faster] = build_curves([replace(run, run=run.run.model_copy(update={"cell": cell}))])
    assert faster.textbook["t"][-1] == pytest.approx(slow_start_time(timeline(run.path), size, 48_000))
    assert faster.textbook["t"][-1] < curve.textbook["t"][-1]


def test_milestones_stand_where_they_were_measured() -> None:
    run = download_run()
    [curve] = build_curves([run])
    assert run.measured is not None
    assert curve.milestones["t"].to_list() == [measurement.value for measurement in run.measured.measurements]
    size = run.run.cell.scenario.flows[0].file
    assert size is not None and curve.milestones["value"].to_list() == [size.bytes // 2 / 1e6, size.bytes / 1e6]


def test_a_repeat_has_a_textbook_and_milestones_of_its_own() -> None:
    run = download_run()
    assert run.series is not None and run.measured is not None
    end = float(run.series.filter(pl.col("name") == "received")["t"].max())  # type: ignore[arg-type]
    again = run.series.filter(pl.col("name") == "received").with_columns(pl.col("t") + end + 1)
    measured = [*run.measured.measurements, run.measured.measurements[0].model_copy(update={"transfer": "repeat"})]
    both = replace(
        run,
        series=pl.concat([run.series, again]),
        measured=MeasuredRun(version=1, measurements=tuple(measured)),
    )
    [curve] = build_curves([both])
    assert curve.begins == pytest.approx([0.0, end + 1])
    assert curve.textbook["flow"].n_unique() == 2
    assert curve.milestones["t"].to_list()[-1] == pytest.approx(end + 1 + measured[0].value)


def test_of_a_flow_without_a_file_what_arrived_is_drawn() -> None:
    run = download_run()
    assert run.series is not None
    bare = replace(run, series=run.series.filter(pl.col("name") != "received"))
    [whole], [curve] = build_curves([run]), build_curves([bare])
    assert curve.received["value"][-1] == pytest.approx(whole.received["value"][-1], rel=1e-3)


def test_a_run_that_did_not_complete_is_shown_to_its_end() -> None:
    run = download_run()
    assert run.series is not None
    late = pl.DataFrame([(-1, "capacity", 20.0, 10.0)], schema=run.series.schema, orient="row")
    longer = replace(run, series=pl.concat([run.series, late]))
    stuck = replace(longer, run=run.run.model_copy(update={"outcome": Outcome(status="timed_out")}))

    def end(data: PlotData) -> float:
        panels = _panels(data)
        return float(panels[-1]["layer"][0]["encoding"]["x"]["scale"]["domain"][1])

    assert end(longer) == pytest.approx(8.0, rel=0.02)
    assert end(stuck) == pytest.approx(20.0, rel=0.03) and end(stuck) > 20


def test_without_a_window_there_is_no_panel_of_it() -> None:
    run = download_run()
    assert run.series is not None
    silent = replace(run, series=run.series.filter(~pl.col("name").is_in(["cwnd", "srtt"])))
    assert [_titles(panel) for panel in _panels(silent)[:2]] == [{"received (MB)"}, {"queue (kB)"}]
    assert stack_panels([replace(run, series=run.series.clear())]) is None


def test_what_became_of_packets_is_counted_beside_their_ticks() -> None:
    run = download_run()
    assert run.series is not None
    dropped = run.series.filter((pl.col("flow") == -1) & (pl.col("name") == "drop")).height
    marks = pl.DataFrame([(-1, "mark", 1.0, 0.0), (-1, "mark", 2.0, 0.0)], schema=run.series.schema, orient="row")
    rows = _panels(replace(run, series=pl.concat([run.series, marks])))[-1]
    assert rows["layer"][0]["encoding"]["y"]["scale"]["domain"] == [f"{dropped} dropped", "2 marked"]


# --- several runs


def test_the_legend_says_what_runs_differ_in() -> None:
    first, second, wide = download_run(), download_run(repetition=1), download_run(rate="20 Mbit/s")
    assert run_labels([first, second]) == ["repetition 0", "repetition 1"]
    cell = wide.run.cell.model_copy(update={"parameters": {"server.congestion_control": "bbr"}, "seed": 2})
    data = replace(wide, run=wide.run.model_copy(update={"cell": cell}))
    assert run_labels([first, data]) == [
        "server.congestion_control reno · seed 1",
        "server.congestion_control bbr · seed 2",
    ]
    # Where only the bits differ, the keys tell.
    keyed = replace(
        first, run=first.run.model_copy(update={"cell": first.run.cell.model_copy(update={"key": "f" * 16})})
    )
    assert run_labels([first, keyed]) == [f"cell {first.run.cell.key[:8]}", "cell ffffffff"]


def test_several_runs_share_axes_and_differ_in_looks() -> None:
    runs = [download_run(), download_run(repetition=1)]
    panels = _panels(*runs)
    assert [_titles(panel) for panel in panels[:4]] == [
        {"received (MB)"}, {"cwnd (packets)"}, {"sRTT (ms)"}, {"queue (kB)"},
    ]  # fmt: skip
    shown = [curve.shown for curve in build_curves(runs)]
    assert [drawn_flow.name for drawn_flow in shown] == ["repetition 0", "repetition 1"]
    assert len({(drawn_flow.look.colour, drawn_flow.look.dash) for drawn_flow in shown}) == 2
    domain = panels[-1]["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert [name.partition(" ")[2] for name in domain] == ["dropped · repetition 0", "dropped · repetition 1"]
    figure = render_figure(plots()["together"], *runs)
    assert figure is not None
    # What they have in common stands once, in the subtitle.
    assert figure.specification["title"]["subtitle"][0].count("test/link-sharing") == 1


def test_what_tells_runs_apart_is_never_cut() -> None:
    first = download_run()
    cell = first.run.cell.model_copy(update={"parameters": {"server.congestion_control": "a-very-long-name-of-one"}})
    panels = _panels(first, replace(first, run=first.run.model_copy(update={"cell": cell})))
    legends = [
        layer["encoding"]["color"]["legend"]
        for layer in panels[0]["layer"]
        if "legend" in layer["encoding"].get("color", {})
    ]
    assert [(legend["columns"], legend["labelLimit"]) for legend in legends] == [(1, 660)]


def test_flows_of_several_runs_keep_their_names() -> None:
    data = link_sharing_run(10.0)
    plot_data = replace(data, run=data.run.model_copy(update={"repetition": 1}))
    names = [curve.shown.name for curve in build_curves([data, plot_data])]
    assert names[0] == "repetition 0 · 0 alpha → beta (reno)"
    assert len(set(names)) == 8


def test_a_folder_of_several_runs_has_a_name_that_a_disk_takes() -> None:
    data, plot_data = download_run(), download_run(repetition=1)
    assert str(comparison_folder([data, plot_data])) == "together/repetition_0-and-repetition_1"
    cells = [
        data.run.cell.model_copy(update={"key": f"{number:016x}", "parameters": {"server.initial_cwnd": 10**number}})
        for number in range(40)
    ]
    many = [replace(data, run=data.run.model_copy(update={"cell": cell})) for cell in cells]
    assert len(comparison_folder(many).name) < 130
    assert comparison_folder(many) != comparison_folder(many[:-1])


# --- which run is told of in the end


def _result(status: str, times: list[float], outcome: str = "completed") -> CellResult:
    run = download_run()
    assert run.measured is not None
    pairs = []
    for number, seconds in enumerate(times):
        stored_run = run.run.model_copy(
            update={"repetition": number, "outcome": Outcome.model_validate({"status": outcome})}
        )
        measurement = run.measured.measurements[1].model_copy(update={"value": seconds})
        pairs.append((stored_run, MeasuredRun(version=1, measurements=(measurement,))))
    verdict = Verdict.model_validate({"status": status, "reason": "", "sentence": ""})
    return CellResult(run.run.cell, tuple(pairs), verdict, ())


def test_the_worst_run_is_looked_at_first() -> None:
    good, bad, broken = (
        _result("pass", [1.0, 9.0]),
        _result("fail", [3.0, 5.0, 4.0]),
        _result("error", [2.0], "crashed"),
    )
    order = [(item.verdict.status, run.repetition) for item, run, _ in rank_runs([good, bad, broken])]
    assert order == [("error", 0), ("fail", 1), ("fail", 2), ("fail", 0), ("pass", 1), ("pass", 0)]


def test_a_run_that_could_not_be_played_is_nothing_to_look_at() -> None:
    run = download_run()
    verdict = Verdict.model_validate({"status": "unsupported", "reason": "", "sentence": ""})
    nobody = run.run.model_copy(update={"outcome": Outcome(status="unsupported")})
    assert rank_runs([CellResult(run.run.cell, ((nobody, None),), verdict, ())]) == []


def test_flows_that_share_have_figures_of_their_own() -> None:
    data = link_sharing_run(10.0)
    pairs = ((data.run, data.measured),)
    assert rank_runs([CellResult(data.run.cell, pairs, judge(data.run.cell.scenario, pairs), ())]) == []
