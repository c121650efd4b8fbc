from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import polars as pl
import pytest

from harness import writing
from harness.analysis.metrics import VERSION
from harness.engine.process_owner import lives, owner
from harness.errors import EngineError, ResultError
from harness.execution.measured_store import StoredResults, remeasure
from harness.outcome import MEASURED_SCHEMA, MeasuredRun, Measurement, Outcome, Run
from harness.store import results
from harness.store.records import read_run
from harness.store.results import Store, disk_error
from tests.examples import cell, scenario


def _run(repetition: int = 0) -> Run:
    return Run(
        cell=cell(), repetition=repetition, outcome=Outcome(status="completed"), started_at="2026-11-21T00:00:00+00:00"
    )


def _finish(store: Store, run: Run) -> Path:
    return store.finish(store.begin(run.cell.key, run.repetition), run, MeasuredRun(version=1))


def test_a_finished_run_reads_back(tmp_path: Path) -> None:
    store, run = Store(tmp_path), _run()
    folder = store.begin(run.cell.key, 0)
    (folder / "artefact").write_text("kept")
    measured = MeasuredRun(
        version=1, measurements=(Measurement(name="completion", value=1.5, unit="s", flow=0, transfer="first"),)
    )
    place = store.finish(folder, run, measured)
    assert store.run(run.cell.key, 0) == run
    assert store.measured(run.cell.key, 0) == measured
    assert (place / "artefact").read_text() == "kept"
    assert store.cell_keys() == [run.cell.key]


def test_a_run_in_progress_is_no_run(tmp_path: Path) -> None:
    store, run = Store(tmp_path), _run()
    store.begin(run.cell.key, 0)
    assert store.runs(run.cell.key) == []
    assert store.cell_keys() == []


def test_runs_come_in_the_order_of_repetitions(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for repetition in (10, 2, 0):
        _finish(store, _run(repetition))
    assert [run.repetition for run in store.runs(cell().key)] == [0, 2, 10]


def test_a_fresh_run_replaces_and_nothing_is_lost(tmp_path: Path) -> None:
    store = Store(tmp_path)
    _finish(store, _run())
    place = _finish(store, _run())
    assert len(store.runs(cell().key)) == 1
    assert len(list((place.parent / "replaced").iterdir())) == 1


def test_a_cell_that_is_read_after_each_run_reads_each_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[bytes] = []

    def read_counted(text: bytes) -> Run:
        texts.append(text)
        return read_run(text)

    monkeypatch.setattr(results, "read_run", read_counted)
    store = Store(tmp_path)
    for repetition in range(5):
        _finish(store, _run(repetition))
        assert len(store.runs(cell().key)) == repetition + 1
    assert len(texts) == 5
    again = _run(3).model_copy(update={"started_at": "2026-11-22T00:00:00+00:00"})
    _finish(store, again)
    assert store.runs(cell().key)[3] == again


def test_orphans_of_ended_processes_go_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    store = Store(tmp_path)
    mine = store.begin("0123456789abcdef", 0)
    program = "from pathlib import Path; from harness.store.results import Store; import sys; Store(Path(sys.argv[1])).begin('feedfeedfeedfeed', 1)"
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    removed = store.remove_orphans()
    assert len(removed) == 1
    assert "feedfeedfeedfeed" in removed[0]
    assert mine.exists()


def test_an_owner_is_told_from_a_later_process_of_its_number() -> None:
    assert lives(owner())
    pid, start, boot = owner().split("-")
    assert not lives(f"{pid}-{int(start) + 1}-{boot}")
    assert not lives(f"{pid}-{start}-anotherboot")
    assert not lives("garbage")


_DAMAGED = {
    "{": "EOF while parsing",
    "": "Expecting value",
    "[]": "a list, not a record",
    "7": "one value, not a record",
    "null": "one value, not a record",
    "[" * 100_000: "too many to read",
    '{"schema": 2}': "cell: Field required",
    '{"schema": 2, "cell": {"client": 1, "server": []}}': "cell.key: Field required",
    '{"schema": 99}': "it is of schema 99, and this harness reads schema 2: use the newer harness that wrote it",
    '{"schema": 1}': "it is of schema 1, and this harness reads schema 2: it is no longer read",
    '{"schema": "2"}': "it is of schema '2', and this harness reads schema 2: it is no longer read",
    "{}": "it is of schema 1, and this harness reads schema 2: it is no longer read",
    '{"schema": 2, "cell": 7}': "cell: ",
    "\xff": "codec can't decode",
}


@pytest.mark.parametrize("text", _DAMAGED)
def test_a_damaged_run_is_left_out_by_name_and_the_others_stay(tmp_path: Path, text: str) -> None:
    warnings: list[str] = []
    store = Store(tmp_path, warnings.append)
    places = [_finish(store, _run(number)) for number in range(2)]
    (places[0] / "run.json").write_bytes(text.encode("latin-1"))
    for _ in range(2):
        assert [run.repetition for run in store.runs(cell().key)] == [1]
    (warning,) = warnings
    assert warning.startswith(f"the run {cell().key}/0 is left out: {places[0]}/run.json: not a run of this format: ")
    assert _DAMAGED[text] in warning or text == "{"
    with pytest.raises(ResultError, match=r"run\.json"):
        store.run(cell().key, 0)


def test_a_run_in_the_folder_of_another_is_left_out(tmp_path: Path) -> None:
    warnings: list[str] = []
    store = Store(tmp_path, warnings.append)
    place = _finish(store, _run())
    place.rename(place.with_name("4"))
    (tmp_path / "runs" / cell().key / "5").mkdir()
    assert store.runs(cell().key) == []
    assert f"it is {cell().key}/0, in the folder of another run" in warnings[0]
    assert "5 is left out: there is no run.json" in warnings[1]


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        (None, None),
        ("[]", None),
        ("{", None),
        ('{"schema": 2, "measurements": [1]}', None),
        ('{"schema": 99, "version": 1}', 99),
        ('{"schema": 1, "version": 1}', 1),
        ('{"version": 1}', 1),
        ("[" * 100_000, None),
    ],
)
def test_a_run_that_was_measured_and_is_not_any_more_is_left_out(
    tmp_path: Path, text: str | None, schema: int | None
) -> None:
    warnings: list[str] = []
    store = Store(tmp_path, warnings.append)
    for number in range(2):
        file = _finish(store, _run(number)) / "measured.json"
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    results = StoredResults(store, store)
    assert [run.repetition for run, _ in results.result_of(cell()).runs] == [0]
    assert len(results.find(lambda tested_cell: True)) == 1
    *before, warning = warnings
    assert warning.startswith(f"the run {cell().key}/1 is left out: there is no measured.json that can be read")
    assert [f"is not read: {file}: it is of schema {schema}, " in text for text in before] == [True] * (
        schema is not None
    )


def test_figures_of_another_schema_are_not_those_of_a_run_that_was_never_measured(tmp_path: Path) -> None:
    """A run that failed counts without figures; that it has some that cannot be read is said."""
    warnings: list[str] = []
    store = Store(tmp_path, warnings.append)
    run = _run().model_copy(update={"outcome": Outcome(status="crashed")})
    place = _finish(store, run)
    (place / "measured.json").write_text('{"schema": 99, "version": 1}')
    assert StoredResults(store, store).result_of(cell()).runs == ((run, None),)
    (warning,) = warnings
    assert "it is of schema 99, and this harness reads schema 2" in warning


def test_a_run_with_figures_of_another_schema_is_measured_again_where_it_can_be(tmp_path: Path) -> None:
    store = Store(tmp_path)
    place = _finish(store, _run())
    (place / "sim").mkdir()
    (place / "measured.json").write_text('{"schema": 99, "version": 1}')
    ((_, measured),) = StoredResults(store, store).result_of(cell()).runs
    assert measured is not None
    assert json.loads((place / "measured.json").read_text())["schema"] == MEASURED_SCHEMA


def test_a_store_that_cannot_be_written_is_read_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    place = _finish(store, _run())
    (place / "sim").mkdir()

    def refuse(*given: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Store, "write_measured", refuse)
    # It was measured by code of long ago.
    (result,) = StoredResults(store, store).find(lambda tested_cell: True)
    assert result.last is not None and result.last[1] is not None and result.last[1].version == VERSION
    with pytest.raises(EngineError, match="Read-only file system"):
        remeasure(store, _run())


def test_series_that_cannot_be_read_are_named_and_cost_nothing_else(tmp_path: Path) -> None:
    warnings: list[str] = []
    store = Store(tmp_path, warnings.append)
    (_finish(store, _run()) / "series.parquet").write_text("PAR1 and no more")
    assert store.series(cell().key, 0) is None
    assert len(store.runs(cell().key)) == 1
    assert warnings[0].startswith(f"the series of the run {cell().key}/0 are left out")


def test_a_full_disk_says_so(tmp_path: Path) -> None:
    error = disk_error(OSError(28, "No space left on device"), tmp_path)
    assert isinstance(error, EngineError)
    assert "disk is full" in error.message
    assert error.exit_code == 3


@pytest.mark.parametrize("name", ["series.parquet", "measured.json"])
def test_a_disk_that_is_full_for_figures_is_the_disk_s_fault(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = writing._create_in

    def full(folder: int, called: str, file: Path, mode: int = 0o666) -> BinaryIO:
        return Path("/dev/full").open("wb") if called == f"{name}.new" else usual(folder, called, file, mode)

    monkeypatch.setattr(writing, "_create_in", full)
    series = pl.DataFrame({"flow": [0], "name": ["cwnd"], "t": [0.0], "value": [1.0]})
    with pytest.raises(EngineError, match="disk is full"):
        Store(tmp_path).write_measured(tmp_path, MeasuredRun(version=VERSION), series)


@pytest.mark.parametrize(
    "loss",
    [
        "1 %",
        {"good_to_bad": "1 %", "bad_to_good": "30 %"},
        {"good_to_bad": "1 %", "bad_to_good": "9 %", "loss_in_good": "0.1 %"},
    ],
)
def test_every_kind_of_loss_survives_the_store(tmp_path: Path, loss: object) -> None:
    directions = {
        "forward": {"rate": "50 Mbit/s", "delay": "9 ms", "loss": loss},
        "return": {"rate": "1 Mbit/s", "delay": "9 ms"},
    }
    run = Run(cell=cell(scenario(path=directions)), repetition=0, outcome=Outcome(status="completed"), started_at="")
    store = Store(tmp_path)
    _finish(store, run)
    assert store.runs(run.cell.key) == [run]
