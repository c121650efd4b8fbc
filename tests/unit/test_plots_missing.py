"""What `harness run` draws in the end, and that nothing about it costs verdicts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Never

import pytest

from harness.cli import main
from harness.errors import EngineError
from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.execution.matrix import Request, build_matrix
from harness.outcome import Run, Verdict
from harness.report.plots import stored
from harness.report.plots.render import page_script
from harness.report.plots.render import write_figures as whole
from harness.report.plots.stored import (
    DrawingSummary,
    cells_with_figures,
    count_current_figures,
    draw_outdated,
    draw_sheets,
    find_subjects,
)
from harness.report.plots.view import PlotData
from harness.scenario.schema import Flow
from harness.store.results import MEASURED, Store
from tests.examples import SIM, images, implementation, scenario
from tests.plot_runs import download_run, link_sharing_run, page_cache, red_and_droptail

SECONDS = 10.0


def _bare(count: int) -> list[PlotData]:
    """Runs of cells with different seeds, which have two figures each: their means."""
    data = link_sharing_run(SECONDS)
    cells = [data.run.cell.model_copy(update={"seed": seed, "key": f"{seed:016x}"}) for seed in range(1, count + 1)]
    return [PlotData(data.run.model_copy(update={"cell": cell}), data.measured, None) for cell in cells]


def _stored(folder: Path, runs: Sequence[PlotData]) -> tuple[Store, list[CellResult]]:
    store, results = Store(folder), []
    for run in runs:
        place = store.finish(store.begin(run.run.cell.key, 0), run.run, run.measured, run.series)
        pairs = ((run.run, run.measured),)
        results.append(CellResult(run.run.cell, pairs, judge(run.run.cell.scenario, pairs), (place,)))
    return store, results


def _sheets(folder: Path, results: list[CellResult]) -> list[stored.FigureSheet]:
    subjects = find_subjects(results, _nothing)
    return [stored.FigureSheet(subject, folder / "figures" / f"{number}") for number, subject in enumerate(subjects)]


def _nothing(wanted: Any) -> list[CellResult]:
    return []


def _drawn(folder: Path, store: Store, results: list[CellResult], messages: list[str] | None = None) -> DrawingSummary:
    say = (messages if messages is not None else []).append
    return draw_outdated(store, results, _nothing, folder / "figures", page_cache(), 1, say)


# --- what is drawn


SIZE: dict[str, object] = {"download": "10 MB"}
STOP: dict[str, object] = {"stop": "20 s"}


@pytest.mark.parametrize(
    ("flows", "drawn"),
    [
        ([SIZE], False),
        ([SIZE | {"start": "1 s"}], False),
        ([STOP], True),
        ([SIZE, SIZE], True),
        # It has no file whose milestones could tell instead.
        ([SIZE | {"kind": "tcp"}], True),
    ],
)
def test_what_is_measured_over_time_is_drawn(flows: list[dict[str, object]], drawn: bool) -> None:
    tested_scenario = scenario(flows=[Flow.model_validate(flow) for flow in flows], objectives=[])
    assert tested_scenario.has_series is drawn
    linux = implementation("linux", protocols=("tcp", "udp"))
    request = Request([tested_scenario], [implementation("alpha")], [implementation("beta")])
    cell = build_matrix(request, images("alpha", "beta", "linux"), SIM, {"linux": linux})[0]
    run = link_sharing_run(SECONDS).run.model_copy(update={"cell": cell})
    result = CellResult(cell, ((run, None),), judge(tested_scenario, []), (Path("x"),))
    assert cells_with_figures([result]) == ([result] if drawn else [])


def test_a_cell_without_a_run_is_not_drawn(tmp_path: Path) -> None:
    _, [result] = _stored(tmp_path, _bare(1))
    assert cells_with_figures([result]) == [result]
    assert cells_with_figures([CellResult(result.cell, (), result.verdict, ())]) == []


def test_what_is_there_is_not_drawn_again(tmp_path: Path) -> None:
    store, results = _stored(tmp_path, _bare(2))
    messages: list[str] = []
    summary = _drawn(tmp_path, store, results, messages)
    assert summary.sentence("here") == "4 figures of 2 cells in here"
    assert len(messages) == 1 and messages[0].startswith("drawing the figures of 2 cells")
    files = sorted(file.name for file in (tmp_path / "figures").rglob("*.*") if file.is_file())
    assert files == sorted(["figures.html", "in_flight_operating_point.svg", "operating_point_plane.svg"] * 2)
    again = _drawn(tmp_path, store, results, messages)
    assert again.sentence("here") == "4 figures of 2 cells in here (all drawn before)"
    assert len(messages) == 1


def test_what_was_measured_since_is_drawn_again(tmp_path: Path) -> None:
    store, results = _stored(tmp_path, _bare(2))
    _drawn(tmp_path, store, results)
    file = store.folder(results[0].cell.key, 0) / MEASURED
    after = file.stat().st_mtime_ns + 3600 * 10**9
    os.utime(file, ns=(after, after))
    summary = _drawn(tmp_path, store, results)
    assert [item.sheet.name for item in summary.drawn] == [f"{results[0].cell.key}/0"]
    assert summary.sentence("here") == "4 figures of 2 cells in here (1 drawn before)"


def test_a_partner_measured_since_is_drawn_again(tmp_path: Path) -> None:
    store, results = _stored(tmp_path, red_and_droptail(8.0))
    [red, droptail] = find_subjects(results, lambda wanted: [result for result in results if wanted(result.cell)])
    assert red.partner is not None and red.partner[0].cell.key == results[1].cell.key
    assert droptail.partner is None
    assert set(red.files(store)) > set(droptail.files(store))
    assert len(droptail.files(store)) == 3


def test_a_picture_that_is_gone_or_a_page_of_some_is_not_all(tmp_path: Path) -> None:
    store, results = _stored(tmp_path, _bare(1))
    [item] = _drawn(tmp_path, store, results).drawn
    folder, shown = item.sheet.folder, item.sheet.subject.files(store)
    assert count_current_figures(folder, shown) == 2
    assert count_current_figures(folder, [*shown, folder / "figures.html"]) == 0
    (folder / "operating_point_plane.svg").unlink()
    assert count_current_figures(folder, shown) == 0
    (folder / "figures.html").rename(folder / "chosen.html")
    assert count_current_figures(folder, shown) == 0
    assert count_current_figures(tmp_path / "none", shown) == 0


def test_several_processes_draw_the_same(tmp_path: Path) -> None:
    store, results = _stored(tmp_path, _bare(2))
    # Else each of them would bundle it.
    page_script(page_cache())
    summary = DrawingSummary(tuple(draw_sheets(store.root, _sheets(tmp_path, results), page_cache(), 2)), ())
    assert summary.problems() == []
    assert summary.sentence("here") == "4 figures of 2 cells in here"


# --- what goes wrong


def test_one_cell_that_cannot_be_drawn_costs_the_others_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, results = _stored(tmp_path, _bare(3))

    def write(run: PlotData, *words: Any, **names: Any) -> list[Path]:
        if run.run.cell.seed < 3:
            raise ValueError("no such colour")
        return whole(run, *words, **names)

    monkeypatch.setattr(stored, "write_figures", write)
    summary = _drawn(tmp_path, store, results)
    assert summary.problems() == [
        f"no figures of 2 cells (such as {results[0].cell.key}/0): ValueError: no such colour"
    ]
    assert summary.sentence("here") == "2 figures of 1 cell in here"


def test_a_process_that_dies_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, results = _stored(tmp_path, _bare(2))
    monkeypatch.setattr(stored, "_draw", _Deadly())
    summary = DrawingSummary(tuple(draw_sheets(store.root, _sheets(tmp_path, results), tmp_path, 2)), ())
    assert {item.figures for item in summary.drawn} == {0}
    assert len(summary.drawn) == 2
    [problem] = summary.problems()
    assert "BrokenProcessPool" in problem


class _Deadly:
    """What another process is to do, and ends by as soon as it hears of it: before it has imported what draws."""

    def __reduce__(self) -> tuple[Callable[[int], Never], tuple[int]]:
        return os._exit, (9,)


# --- the command


def _command(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    results: list[CellResult],
    *words: str,
) -> tuple[int | str | None, str, str]:
    monkeypatch.setenv("HARNESS_CACHE", str(page_cache()))
    monkeypatch.setattr("harness.execution.App.run", lambda self, request, options, listen: results)
    where = ["dumbbell/link-sharing", "--clients", "ngtcp2", "--servers", "ngtcp2", "--store", str(folder)]
    monkeypatch.setattr("sys.argv", ["harness", "run", *where, *words])
    with pytest.raises(SystemExit) as caught:
        main()
    out, err = capsys.readouterr()
    return caught.value.code, out, err.replace("\n", " ")


@pytest.fixture
def failed(tmp_path: Path) -> list[CellResult]:
    """A cell that was run, and failed."""
    _, [result] = _stored(tmp_path, _bare(1))
    return [
        CellResult(result.cell, result.runs, Verdict(status="fail", reason="too_slow", sentence=""), result.folders)
    ]


def test_a_run_ends_with_figures(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failed: list[CellResult]
) -> None:
    code, out, err = _command(capsys, monkeypatch, tmp_path, failed, "--jobs", "1")
    assert code == 1
    assert "test/link-sharing" in out
    assert f"2 figures of 1 cell in {tmp_path / 'figures'}" in err
    code, _, err = _command(capsys, monkeypatch, tmp_path, failed)
    assert code == 1
    assert f"2 figures of 1 cell in {tmp_path / 'figures'} (all drawn before)" in err


def test_a_run_of_downloads_ends_with_the_worst_and_names_its_path(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = download_run()
    _, results = _stored(tmp_path, [data, replace(data, run=_other(data.run))])
    _, out, err = _command(capsys, monkeypatch, tmp_path, results)
    file = next(tmp_path.rglob("transfer.svg"))
    assert f"over time: {file}" in err
    assert f"harness plot {data.run.name} draws it" in err or f"harness plot {'f' * 16}/0 draws it" in err
    assert "test/link-sharing" in out
    # One of them, once.
    assert list(tmp_path.rglob("transfer.svg")) == [file]
    before = file.stat().st_mtime_ns
    _, _, err = _command(capsys, monkeypatch, tmp_path, results)
    assert f"over time: {file}" in err and file.stat().st_mtime_ns == before
    file.unlink()
    _command(capsys, monkeypatch, tmp_path, results, "--no-figures")
    assert not file.exists()


def _other(run: Run) -> Run:
    return run.model_copy(update={"cell": run.cell.model_copy(update={"key": "f" * 16, "seed": 2})})


def test_a_run_ends_without_figures_where_none_are_wanted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failed: list[CellResult]
) -> None:
    code, _, err = _command(capsys, monkeypatch, tmp_path, failed, "--no-figures")
    assert code == 1
    assert "figure" not in err
    assert not (tmp_path / "figures").exists()


@pytest.mark.parametrize("error", [EngineError("the disk is full"), RuntimeError("the disk is full")])
@pytest.mark.parametrize("where", ["write_figures", "find_subjects"])
def test_figures_that_fail_change_no_exit_code(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    failed: list[CellResult],
    error: Exception,
    where: str,
) -> None:
    def fail(*words: object, **names: object) -> None:
        raise error

    monkeypatch.setattr(stored, where, fail)
    code, out, err = _command(capsys, monkeypatch, tmp_path, failed)
    assert code == 1
    assert "test/link-sharing" in out
    assert "warning: no figures" in err
    assert "the disk is full" in err
    assert "Traceback" not in err


def test_an_interrupt_while_drawing_ends_with_the_verdicts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failed: list[CellResult]
) -> None:
    def interrupted(*words: object, **names: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stored, "write_figures", interrupted)
    code, out, err = _command(capsys, monkeypatch, tmp_path, failed)
    assert code == 130
    assert "test/link-sharing" in out
    assert "all runs are stored" in err
    assert "Traceback" not in err
