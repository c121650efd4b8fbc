"""What others may have put into a store: pipes, devices, numbers that are none, tables of other things, bombs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import zstandard

from harness.analysis.metrics import measure_with_series
from harness.capture import files
from harness.capture.artefacts import capture_digests, find_changed_files, last_log_lines, other_digests
from harness.cli import main
from harness.cli.signals import FAILED, INFRASTRUCTURE, MET
from harness.engine.images.contents import Contents
from harness.errors import ResultError
from harness.evaluation.regression.baseline import read_comparison
from harness.execution.measured_store import StoredResults
from harness.outcome import Run
from harness.reading import UnfitFileError, read_regular
from harness.store.frames import SERIES_SCHEMA, TableError, read_frame
from harness.store.identity import Ledger
from harness.store.parquet import ColumnStore, write_columns
from harness.store.parquet.tables import StoredRun
from harness.store.records import MAX_RECORD_SIZE, read_measured, read_run
from harness.store.results import MEASURED, RUN, SERIES, Store
from tests.plot_runs import download_run
from tests.unit.shared_flows import write_two_flows

Damage = Callable[[Path], object]


def _pipe(file: Path) -> None:
    file.unlink(missing_ok=True)
    os.mkfifo(file)


def _device(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.symlink_to("/dev/zero")


def _folder(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.mkdir()


def _huge(file: Path) -> None:
    """A file with a hole, of more bytes than there is memory."""
    with file.open("wb") as content:
        content.truncate(1 << 42)


_NO_FILES: list[Damage] = [_pipe, _device, _folder, _huge]


@pytest.mark.parametrize("damage", _NO_FILES)
def test_what_is_no_regular_file_or_too_large_is_not_read_nor_waited_for(tmp_path: Path, damage: Damage) -> None:
    damage(tmp_path / "file")
    with pytest.raises(UnfitFileError, match=r"not a regular file|more than 67 MB"):
        read_regular(tmp_path / "file", MAX_RECORD_SIZE)
    with pytest.raises(OSError, match=r"not a regular file|more than \d+"):
        files.read_bytes(tmp_path / "file")
    with pytest.raises(UnfitFileError):
        read_frame(tmp_path / "file", SERIES_SCHEMA)


def _stored(root: Path, runs: int = 2) -> tuple[Store, list[Run], list[Path], list[str]]:
    """A store with runs that have figures and series, and what it has said."""
    warnings: list[str] = []
    store, drawn = Store(root, warnings.append), download_run()
    stored_runs = [drawn.run.model_copy(update={"repetition": number}) for number in range(runs)]
    places = [
        store.finish(store.begin(run.cell.key, run.repetition), run, drawn.measured, drawn.series)
        for run in stored_runs
    ]
    return store, stored_runs, places, warnings


@pytest.mark.parametrize("damage", _NO_FILES)
@pytest.mark.parametrize("name", [RUN, MEASURED, SERIES])
def test_a_run_with_such_a_file_is_left_out_by_name_and_the_others_stay(
    tmp_path: Path, name: str, damage: Damage
) -> None:
    store, runs, places, warnings = _stored(tmp_path)
    damage(places[0] / name)
    remaining_runs = StoredResults(store, store).result_of(runs[0].cell).runs
    assert [run.repetition for run, _ in remaining_runs] == ([0, 1] if name == SERIES else [1])
    assert store.series(runs[0].cell.key, 1) is not None
    if name == SERIES:
        assert store.series(runs[0].cell.key, 0) is None
    assert len(warnings) == 1 and f"{runs[0].cell.key}/0" in warnings[0]
    # Neither does who looks for digests that have another name wait for it.
    assert store.rekey(Ledger()) == 0


@pytest.mark.parametrize("damage", _NO_FILES)
def test_what_is_in_images_is_not_known_from_what_is_no_file(tmp_path: Path, damage: Damage) -> None:
    store = Store(tmp_path)
    store.keep_contents([Contents("d1", {"openssl": "3.5.1"}, {})])
    assert store.contents("d1") == Contents("d1", {"openssl": "3.5.1"}, {})
    damage(tmp_path / "images" / "d1.json")
    assert store.contents("d1") is None


@pytest.mark.parametrize("text", ['{"digest": "d1", "packages": {"a": 1}, "programs": {}}', "[]", '{"digest": 1}'])
def test_contents_of_other_things_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "d1.json").write_text(text)
    assert Store(tmp_path).contents("d1") is None


@pytest.mark.parametrize("damage", [_pipe, _device, _huge])
@pytest.mark.parametrize(
    "place", ["growth.csv", "lab.json", "sim/trace_node_left.pcap", "sim/counters.jsonl", "cpu.csv"]
)
def test_a_run_is_measured_without_an_artefact_that_is_no_file(tmp_path: Path, place: str, damage: Damage) -> None:
    run = write_two_flows(tmp_path)
    digests = {"captures": capture_digests(tmp_path), "artefacts": other_digests(tmp_path, 2)}
    damage(tmp_path / place)
    measured, _ = measure_with_series(tmp_path, run)
    assert any(place in warning for warning in measured.warnings)
    if damage is not _huge:
        assert place in find_changed_files(tmp_path, run.model_copy(update=digests))


@pytest.mark.parametrize("damage", [_pipe, _device])
def test_last_words_are_not_waited_for(tmp_path: Path, damage: Damage) -> None:
    damage(tmp_path / "client0.log")
    assert last_log_lines(tmp_path, download_run().run) == {}


def test_what_a_small_file_would_become_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_SIZE", 1 << 20)
    zeros = bytes(1 << 21)
    sized = zstandard.ZstdCompressor().compress(zeros)
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(zeros)
    for name, content in {"said": sized, "unsaid": unsized, "several": unsized + unsized}.items():
        (tmp_path / f"{name}.zst").write_bytes(content)
        with pytest.raises(OSError, match=r"more than 1\.0 MB"):
            files.read_bytes(tmp_path / f"{name}.zst")
    # A frame may say that it has more than there is memory.
    claimed = bytearray(sized)
    assert claimed[4] >> 6 == 2
    claimed[5:9] = b"\xff\xff\xff\xff"
    (tmp_path / "claimed.zst").write_bytes(claimed)
    with pytest.raises(OSError, match="more than"):
        files.read_bytes(tmp_path / "claimed.zst")


# --- numbers that are none


def _set(file: Path, place: tuple[str | int, ...], value: object) -> None:
    content: Any = json.loads(file.read_text())
    inner = content
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = value
    file.write_text(json.dumps(content))


_WRONG = {
    "a number that is none": (MEASURED, ("measurements", 0, "value"), float("nan")),
    "that as a word": (MEASURED, ("measurements", 0, "value"), "NaN"),
    "a state of no transfer": (MEASURED, ("attributed",), {"version": 1, "transfers": [
        {"flow": 0, "transfer": "first", "size": 1, "seconds": 1.0, "parts": [], "bands": "h5?x95"}]}),
    "a share that is infinite": (MEASURED, ("link", "steal"), "Infinity"),
    "half a character": (MEASURED, ("measurements", 0, "name"), "\ud800"),
    "a wall time that is none": (RUN, ("wall",), float("nan")),
    "half a character of a machine": (RUN, ("host", "cpu"), "\ud800"),
}  # fmt: skip


@pytest.mark.parametrize(
    "words", [["report", "--json"], ["report", "html", "SITE"], ["gate"], ["plot", "--formats", "svg"]]
)
def test_wrong_figures_cost_their_runs_and_no_command(
    tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, runs, places, _ = _stored(tmp_path / "store", len(_WRONG) + 1)
    shutil.copytree(tmp_path / "store", tmp_path / "before")
    for folder, (name, place, value) in zip(places, _WRONG.values(), strict=False):
        _set(folder / name, place, value)
    more = ["--baseline", str(tmp_path / "before")] if words == ["gate"] else []
    given = [str(tmp_path / "site") if word == "SITE" else word for word in words]
    monkeypatch.setattr("sys.argv", ["harness", *given, *more, "--store", str(tmp_path / "store")])
    code = MET
    try:
        main()
    except SystemExit as ended:
        code = int(ended.code or 0)
    captured = capsys.readouterr()
    assert code in (MET, FAILED), captured.err
    for number, what in enumerate(_WRONG):
        assert f"warning: the run {runs[0].cell.key}/{number} is left out" in captured.err, what


# --- tables of other things


def _columnar(root: Path, runs: int = 5) -> str:
    drawn = download_run()
    stored_runs = [drawn.run.model_copy(update={"repetition": number}) for number in range(runs)]
    write_columns(root, [StoredRun(run, drawn.measured, drawn.series) for run in stored_runs], [])
    return drawn.run.cell.key


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.mark.parametrize("damage", [_cut, Path.unlink, _pipe, _device, _folder, _huge])
@pytest.mark.parametrize("table", ["transfers", "cells", "definitions", "measurements"])
def test_a_table_that_cannot_be_read_is_one_error_of_the_whole_store(
    tmp_path: Path, table: str, damage: Damage
) -> None:
    warnings: list[str] = []
    key = _columnar(tmp_path)
    damage(tmp_path / f"{table}.parquet")
    columns = ColumnStore(tmp_path, warnings.append)
    with pytest.raises(ResultError, match=rf"{table}\.parquet: cannot be read"):
        [columns.measured(key, run.repetition) for run in columns.runs(key)]
    assert warnings == []


def test_a_command_says_that_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _columnar(tmp_path)
    _cut(tmp_path / "transfers.parquet")
    monkeypatch.setattr("sys.argv", ["harness", "report", "--store", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == INFRASTRUCTURE
    text = capsys.readouterr().err
    assert text.count("transfers.parquet") == 1 and "warning" not in text


_TABLES: dict[str, tuple[str, Callable[[pl.DataFrame], pl.DataFrame], str]] = {
    "another column": ("measurements", lambda frame: frame.rename({"value": "values"}), "no column 'value'"),
    "another type": ("measurements", lambda frame: frame.with_columns(pl.lit("x").alias("value")), "'value' is of String"),
    "NaN": ("measurements", lambda frame: frame.with_columns(pl.lit(float("nan")).alias("value")), "say NaN"),
    "no key": ("measurements", lambda frame: frame.with_columns(pl.lit(None, pl.String).alias("key")), "without a value"),
    "no cell": ("runs", lambda frame: frame.drop("build"), "no column 'build'"),
    "no figure": ("images", lambda frame: pl.DataFrame({"digest": ["a"]}), "no column 'kind'"),
}  # fmt: skip


@pytest.mark.parametrize("what", _TABLES)
def test_a_table_of_something_else_is_named_with_what_is_wrong(tmp_path: Path, what: str) -> None:
    table, change, why = _TABLES[what]
    key = _columnar(tmp_path)
    file = tmp_path / f"{table}.parquet"
    change(pl.read_parquet(file)).write_parquet(file)
    columns = ColumnStore(tmp_path)
    with pytest.raises(ResultError, match=rf"{table}\.parquet: cannot be read: .*{why}"):
        [columns.measured(key, run.repetition) for run in columns.runs(key)]
        columns.every_contents()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda frame: frame.rename({"t": "time"}), "no column 't'"),
        (lambda frame: frame.with_columns(pl.lit(float("nan")).alias("value")), "say NaN"),
        (lambda frame: frame.with_columns(pl.lit(None, pl.Float64).alias("value")), "without a value"),
        (lambda frame: frame.with_columns(pl.lit("much").alias("value")), "is of String"),
        (lambda frame: frame.with_columns(pl.lit(10**6).alias("flow")), "'flow' is of Int32, not of Int16"),
    ],
)
def test_series_of_something_else_are_none(
    tmp_path: Path, change: Callable[[pl.DataFrame], pl.DataFrame], why: str
) -> None:
    store, runs, places, warnings = _stored(tmp_path, 1)
    change(pl.read_parquet(places[0] / SERIES)).write_parquet(places[0] / SERIES)
    assert store.series(runs[0].cell.key, 0) is None
    (warning,) = warnings
    assert str(places[0] / SERIES) in warning and why in warning


def test_a_table_has_room_for_so_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.store.frames.MAX_ROWS", 9)
    pl.DataFrame({"t": [0.0] * 10}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(TableError, match="10 rows, and there is room for 9"):
        read_frame(tmp_path / "t.parquet", SERIES_SCHEMA)


def test_a_column_beyond_is_left_out_and_a_number_of_another_size_is_the_same(tmp_path: Path) -> None:
    frame = pl.DataFrame({"flow": [0], "name": ["cwnd"], "t": [1], "value": [2], "more": [object]}, strict=False)
    frame.drop("more").with_columns(more=pl.lit(1)).write_parquet(tmp_path / "t.parquet")
    table = read_frame(tmp_path / "t.parquet", SERIES_SCHEMA, exact=True)
    assert table.schema == pl.Schema(SERIES_SCHEMA)
    assert table.rows() == [(0, "cwnd", 1.0, 2.0)]


@pytest.mark.parametrize("text", ["[]", "{}", '{"within": NaN, "counts": {}}', '{"within": 0.1, "counts": [1]}', "{"])
def test_what_a_gate_kept_is_refused_where_it_is_something_else(tmp_path: Path, text: str) -> None:
    _columnar(tmp_path, 1)
    (tmp_path / "compared.json").write_text(text)
    with pytest.raises(ResultError, match=r"compared\.json"):
        read_comparison(tmp_path)


@pytest.mark.parametrize("read", [read_run, read_measured])
def test_json_has_no_other_numbers(read: Callable[[bytes], object]) -> None:
    with pytest.raises(ValueError, match="NaN, which is no number in JSON"):
        read(b'{"schema": 2, "wall": NaN}')
