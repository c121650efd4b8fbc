"""Names that something printed are names that commands take."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.cli import main
from harness.cli.environment import open_app
from harness.cli.stored import select_stored, stored_cells
from harness.evaluation.cell_result import cell_names
from harness.outcome import MeasuredRun, Outcome, Run
from harness.store.identity import _without_later_keys
from harness.store.results import Store
from tests.examples import catalogue, cell
from tests.plot_runs import download_run


@dataclass(frozen=True)
class Kept:
    """A store with three cells of satellite/medium."""

    folder: Path
    plain: str
    swept: str
    virtual: str


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = tmp_path_factory.mktemp("store")
    store, [scenario] = Store(folder), catalogue().find_scenarios(["satellite/medium"])
    cells = [
        cell(scenario),
        cell(scenario, parameters={"server.congestion_control": "bbr", "path.forward.loss": "1 %"}),
        cell(scenario, engine="virtual"),
    ]
    for tested_cell in cells:
        for repetition in range(2):
            run = Run(
                cell=tested_cell,
                repetition=repetition,
                outcome=Outcome(status="completed"),
                started_at="2026-11-22T00:00:00+00:00",
            )
            store.finish(store.begin(tested_cell.key, repetition), run, MeasuredRun(version=10**6))
    return Kept(folder, *(tested_cell.key for tested_cell in cells))


def _keys(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, stored: Kept, *words: str) -> set[str]:
    monkeypatch.setattr("sys.argv", ["harness", "report", "--json", "--store", str(stored.folder), *words])
    with pytest.raises(SystemExit) as caught:
        main()
    out, err = capsys.readouterr()
    assert caught.value.code in (0, None), err
    return {content["key"] for content in json.loads(out)["cells"]}


def test_a_cell_answers_to_all_that_is_printed_of_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kept: Kept
) -> None:
    def keys(*words: str) -> set[str]:
        return _keys(capsys, monkeypatch, kept, *words)

    everything = {kept.plain, kept.swept, kept.virtual}
    assert keys() == keys("satellite/medium") == everything
    assert keys(kept.swept) == keys(kept.swept[:8]) == keys(f"{kept.swept}/1") == {kept.swept}
    swept = "alpha→beta congestion_control=bbr (path.forward.loss=1 %)"
    assert keys(swept) == keys(f"satellite/medium {swept}") == keys(swept.replace("→", "->")) == {kept.swept}
    # A line of plan, and one of progress.
    assert keys("satellite/medium alpha→beta server.congestion_control=bbr path.forward.loss=1 %") == {kept.swept}
    assert keys("satellite/medium alpha→beta (path.forward.loss=1 %) #1") == {kept.swept}
    # Two cells have the plain name, and the third is one of that pair, too.
    assert keys("alpha→beta") == everything
    assert keys(str(kept.folder / "runs" / kept.virtual / "0")) == {kept.virtual}
    assert keys(kept.plain, kept.virtual) == {kept.plain, kept.virtual}


def test_every_printed_name_is_accepted(kept: Kept) -> None:
    app, [run, _] = open_app(kept.folder), Store(kept.folder).runs(kept.swept)
    for name in (*cell_names(run.cell), run.name):
        assert run.cell.key in {result.cell.key for result in stored_cells(app, [name], "all", "all")}, name


def test_scenarios_and_runs_go_together(kept: Kept) -> None:
    selection = select_stored(open_app(kept.folder), ["satellite/medium", f"{kept.swept}/1"])
    assert {result.cell.key for result in selection.results} == {kept.plain, kept.swept, kept.virtual}
    # The first run of every cell, and the one that was named.
    assert set(selection.runs) == {f"{key}/0" for key in (kept.plain, kept.swept, kept.virtual)} | {f"{kept.swept}/1"}
    assert not selection.several


def test_other_options_still_choose(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kept: Kept
) -> None:
    with pytest.raises(AssertionError, match="no scenario"):
        _keys(capsys, monkeypatch, kept, kept.plain, "--clients", "beta")


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        ("alpha→betta", "is called 'alpha→betta'", "did you mean 'alpha→beta'"),
        ("satellite/mediun", "no scenario 'satellite/mediun'", "satellite/medium"),
        ("0000000", "no scenario '0000000'", ""),
        ("alpha→beta #7", "alpha→beta #7: no such repetition is stored", "there is: 0, 1"),
    ],
)
def test_what_nothing_is_called_is_one_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kept: Kept, word: str, message: str, hint: str
) -> None:
    monkeypatch.setattr("sys.argv", ["harness", "report", "--store", str(kept.folder), word])
    with pytest.raises(SystemExit) as caught:
        main()
    out, err = capsys.readouterr()
    assert (caught.value.code, out) == (2, "")
    assert message in err and hint in err


# --- plot


def _plotted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path, *words: str
) -> tuple[int | str | None, list[Path], str]:
    where = ("--store", str(folder), "--out", str(folder / "out"), "--formats", "svg")
    monkeypatch.setattr("sys.argv", ["harness", "plot", *where, *words])
    with pytest.raises(SystemExit) as caught:
        main()
    out, err = capsys.readouterr()
    return caught.value.code, [Path(line).relative_to(folder / "out") for line in out.splitlines()], err


def test_runs_that_are_named_share_a_figure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    for repetition in range(2):
        run = download_run(repetition=repetition)
        store.finish(store.begin(run.run.cell.key, repetition), run.run, run.measured, run.series)
    key = run.run.cell.key
    code, files, _ = _plotted(capsys, monkeypatch, tmp_path, f"{key}/0", f"{key}/1")
    assert code in (0, None)
    assert files == [Path("together/repetition_0-and-repetition_1/together.svg")]
    text = (tmp_path / "out" / files[0]).read_text()
    assert ">repetition 0<" in text and ">repetition 1<" in text and "NaN" not in text
    for word in ("received (MB)", "cwnd (packets)", "sRTT (ms)", "queue (kB)", "dropped · repetition 1"):
        assert word in text


def test_too_many_runs_for_one_figure_are_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store, run = Store(tmp_path), download_run()
    for number in range(9):
        stored_run = run.run.model_copy(update={"repetition": number})
        store.finish(store.begin(stored_run.cell.key, number), stored_run, run.measured, run.series)
    code, files, err = _plotted(capsys, monkeypatch, tmp_path, *(f"{run.run.cell.key}/{number}" for number in range(9)))
    assert (code, files) == (2, [])
    assert "9 runs in one figure" in err and "8 at most" in err


def test_a_cell_without_a_lab_keeps_its_digest_when_keys_are_added() -> None:
    """What a later key is by default was the only possibility before, so that it is in no digest."""
    flow = {"download": "1 MB"}
    request = {"path_": {"forward": {"rate": "1 Mbit/s", "duplicate": "0 %"}}, "flows": [{**flow, "count": 1}]}
    assert _without_later_keys(request) == {"path_": {"forward": {"rate": "1 Mbit/s"}}, "flows": [flow]}
    request["flows"] = [{**flow, "count": 2, "every": "0 ns"}]
    request["path_"] = [{"return": {"duplicate": "1 %"}}]
    assert _without_later_keys(request) == {
        "path_": [{"return": {"duplicate": "1 %"}}],
        "flows": [{**flow, "count": 2}],
    }
