from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.engine.images.contents import Contents
from harness.errors import ResultError
from harness.evaluation.publish import publish_runs, rekey, remove_cells
from harness.execution.measured_store import StoredResults
from harness.outcome import (
    Contestant,
    DirectionProof,
    LinkProof,
    MeasuredRun,
    Measurement,
    Observation,
    Outcome,
    RandomBytes,
    Run,
    Transfer,
)
from harness.store import parquet
from harness.store.cell_names import CellNames
from harness.store.frames import read_frame
from harness.store.identity import Equivalence, Ledger, with_key
from harness.store.parquet import ColumnStore, write_columns
from harness.store.parquet.tables import TABLES, StoredRun
from harness.store.results import is_columnar
from tests.examples import cell, images, implementation, scenario

ROOT = Path(__file__).resolve().parents[2]
_WORDS = st.text(st.characters(codec="utf-8"), max_size=12)
_NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=64)


@st.composite
def _entries(draw: st.DrawFn) -> StoredRun:
    """A run with everything in it that a run can have."""
    contestant = Contestant(implementation=implementation("gamma"), image=images("gamma")["gamma"])
    tested_cell = cell().model_copy(update={"others": {"gamma": contestant} if draw(st.booleans()) else {}})
    run = Run(
        cell=tested_cell,
        repetition=draw(st.integers(0, 3)),
        outcome=Outcome(
            status=draw(st.sampled_from(("completed", "crashed"))),
            role=draw(st.sampled_from((None, "client", "sim"))),
            exit_code=draw(st.none() | st.integers(0, 255)),
            detail=draw(_WORDS),
            log_tail=tuple(draw(st.lists(_WORDS, max_size=2))),
        ),
        started_at="2026-11-21T00:00:00+00:00",
        transfers=tuple(
            Transfer(flow=flow, index=0, size=10, started_ns=10**18, ended_ns=draw(st.integers(0, 2**62)))
            for flow in range(draw(st.integers(0, 2)))
        ),
        phases=draw(st.dictionaries(_WORDS, st.floats(0, 9), max_size=2)),
        virtual=draw(st.none() | st.floats(0, 1e6)),
        cpu=draw(st.sampled_from((None, "lab", "host"))),
        captures=draw(st.dictionaries(st.sampled_from(("left", "right")), _WORDS)),
        random={"client0": RandomBytes(bytes=3, digest="d")} if draw(st.booleans()) else {},
        effective={"client.initial_cwnd": draw(st.integers(0, 9)), "server.congestion_control": draw(_WORDS)},
        host={"cpus": 2, "cpu": draw(_WORDS)},
        warnings=tuple(draw(st.lists(_WORDS, max_size=2))),
    )
    if draw(st.booleans()):
        return StoredRun(run, None)
    measured = MeasuredRun(
        version=draw(st.integers(0, 99)),
        measurements=tuple(
            Measurement(name=draw(_WORDS), value=draw(_NUMBERS | st.just(math.inf)), unit="s")
            for _ in range(draw(st.integers(0, 3)))
        ),
        observed=tuple(
            Observation(role="client", parameter="initial_cwnd", value=value, unit="1", source=draw(_WORDS))
            for value in draw(st.lists(_NUMBERS | _WORDS, max_size=2))
        ),
        link=draw(
            st.none()
            | st.builds(
                LinkProof,
                valid=st.booleans(),
                problems=st.lists(_WORDS, max_size=2).map(tuple),
                to_client=st.builds(DirectionProof, packets=st.integers(0, 9), rate_mbps=st.none() | _NUMBERS),
                changes_late_ms=st.lists(_NUMBERS, max_size=2).map(tuple),
                steal=st.none() | st.floats(0, 1),
            )
        ),
        warnings=tuple(draw(st.lists(_WORDS, max_size=2))),
    )
    return StoredRun(run, measured)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(stored_runs=st.lists(_entries(), max_size=3, unique_by=lambda stored_run: stored_run.run.repetition))
def test_what_is_written_reads_back(tmp_path: Path, stored_runs: list[StoredRun]) -> None:
    write_columns(tmp_path, stored_runs, [])
    back = ColumnStore(tmp_path).entries()
    assert [(stored_run.run, stored_run.measured) for stored_run in back] == [
        (stored_run.run, stored_run.measured)
        for stored_run in sorted(stored_runs, key=lambda stored_run: stored_run.run.repetition)
    ]


def _entry(repetition: int = 0, *, series: bool = False) -> StoredRun:
    run = Run(cell=cell(), repetition=repetition, outcome=Outcome(status="completed"), started_at="")
    frame = pl.DataFrame(
        {"flow": [0, -1], "name": ["throughput", "queue"], "t": [0.0, 0.5], "value": [1.0, 2.0]},
        schema={"flow": pl.Int16, "name": pl.String, "t": pl.Float64, "value": pl.Float64},
    )
    return StoredRun(run, MeasuredRun(version=1), frame if series else None)


def test_a_writer_that_was_killed_leaves_nothing_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign was killed while it published, and its unfinished tables stayed in the reference."""
    others = tmp_path / ".runs.2-2-2"
    for file in (killed := tmp_path / ".cells.1-1-1", others):
        file.touch()
    monkeypatch.setattr(parquet, "lives", lambda label: label != "1-1-1")
    write_columns(tmp_path, [_entry()], [])
    assert not killed.exists()
    assert others.exists()
    assert ColumnStore(tmp_path).runs(cell().key)


def test_a_store_in_columns_answers_as_one_of_folders_does(tmp_path: Path) -> None:
    assert not is_columnar(tmp_path)
    contents = Contents("d1", {"openssl": "3.5.1"}, {"/usr/local/bin/server": "abcd"})
    write_columns(tmp_path, [_entry(2), _entry(0, series=True)], [contents])
    assert is_columnar(tmp_path)
    store, key = ColumnStore(tmp_path), cell().key
    assert store.cell_keys() == [key]
    assert [run.repetition for run in store.runs(key)] == [0, 2]
    assert store.run(key, 1) is None
    assert store.run("other", 0) is None
    assert store.measured(key, 2) == MeasuredRun(version=1)
    assert store.measured(key, 1) is None
    frame, table = store.series(key, 0), _entry(series=True).series
    assert frame is not None
    assert table is not None
    assert frame.equals(table)
    assert store.series(key, 2) is None
    assert store.contents("d1") == contents
    assert store.contents("d2") is None


def test_the_runs_of_one_scenario_are_read_without_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, other = cell(), cell(scenario(name="test/other"), seed=2)
    entries = [
        StoredRun(
            Run(cell=stored_cell, repetition=0, outcome=Outcome(status="completed"), started_at=""),
            MeasuredRun(version=1, measurements=(Measurement(name="goodput", value=1.0, unit="Mbit/s"),)),
        )
        for stored_cell in (ours, other)
    ]
    write_columns(tmp_path, entries, [])
    keys_read: dict[str, list[set[str]]] = {}

    def read(file: Path, *words: Any, **more: Any) -> pl.DataFrame:
        frame = read_frame(file, *words, **more)
        if "key" in frame.columns:
            keys_read.setdefault(file.stem, []).append({*frame["key"]})
        return frame

    monkeypatch.setattr(parquet, "read_frame", read)
    results = StoredResults(store := ColumnStore(tmp_path), None)
    names = CellNames(scenarios=frozenset({ours.scenario.name}))
    (result,) = results.find(among=names)
    assert [run.cell.key for run, _ in result.runs] == [ours.key]
    assert result.runs[0][1] == entries[0].measured
    keys_read.pop("cells")
    assert keys_read == {
        name: [{ours.key}] if name in ("runs", "measurements") else [set()]
        for name in ("runs", "transfers", "measurements", "observations", "links")
    }
    # Those of others are there for whoever asks.
    assert {item.cell.key for item in results.find()} == {ours.key, other.key}
    assert store.measured(other.key, 0) == entries[1].measured


def test_the_same_runs_give_the_same_bytes_in_whatever_order_they_come(tmp_path: Path) -> None:
    entries = [_entry(number, series=number == 0) for number in range(3)]
    for name, stored_runs in (("one", entries), ("other", entries[::-1])):
        write_columns(tmp_path / name, stored_runs, [])
    for table in TABLES:
        assert (tmp_path / "one" / f"{table}.parquet").read_bytes() == (
            tmp_path / "other" / f"{table}.parquet"
        ).read_bytes()
    assert {file.name for file in (tmp_path / "one").iterdir()} == {f"{table}.parquet" for table in TABLES}


def test_a_file_that_is_older_than_a_field_gives_its_default(tmp_path: Path) -> None:
    write_columns(tmp_path, [_entry()], [])
    file = tmp_path / "runs.parquet"
    pl.read_parquet(file).drop("trail", "contents", "outcome_log_tail").write_parquet(file)
    assert ColumnStore(tmp_path).runs(cell().key) == [_entry().run]


@pytest.mark.parametrize("content", [b"", b"PAR1 and something else"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    write_columns(tmp_path, [_entry()], [])
    (tmp_path / "measurements.parquet").write_bytes(content)
    with pytest.raises(ResultError, match=r"measurements\.parquet"):
        ColumnStore(tmp_path).measured(cell().key, 0)


def test_a_row_that_cannot_be_read_costs_its_run_only(tmp_path: Path) -> None:
    runs = [Run(cell=cell(), repetition=n, outcome=Outcome(status="crashed"), started_at="") for n in range(3)]
    write_columns(tmp_path, [StoredRun(run, None) for run in runs], [])
    file, warnings = tmp_path / "runs.parquet", list[str]()
    damaged = pl.when(pl.col("repetition") == 1).then(pl.lit("exploded")).otherwise(pl.col("outcome_status"))
    pl.read_parquet(file).with_columns(damaged.alias("outcome_status")).write_parquet(file)
    columns = ColumnStore(tmp_path, warnings.append)
    for _ in range(2):
        assert columns.runs(cell().key) == [runs[0], runs[2]]
    (warning,) = warnings
    assert warning.startswith(f"the run {cell().key}/1 is left out: {tmp_path}: ")


@pytest.mark.parametrize("schema", [99, 1, None])
@pytest.mark.parametrize("column", ["schema_", "measured_schema_"])
def test_a_run_of_another_schema_is_left_out_by_name(tmp_path: Path, column: str, schema: int | None) -> None:
    write_columns(tmp_path, [_entry()], [])
    file = tmp_path / "runs.parquet"
    pl.read_parquet(file).with_columns(pl.lit(schema, pl.Int64).alias(column)).write_parquet(file)
    warnings: list[str] = []
    columns = ColumnStore(tmp_path, warnings.append)
    results = StoredResults(columns, None).result_of(cell())
    assert results.runs == ()
    assert warnings[-1].startswith(f"the run {cell().key}/0 is left out: ")
    assert f"it is of schema {schema or 1}, and this harness reads schema 2" in warnings[0]
    # Written anew, the store would lose it.
    for write in (lambda: remove_cells(tmp_path, []), lambda: publish_runs(tmp_path, [], columns, lambda run: False)):
        with pytest.raises(ResultError, match=rf"is not written: .* of schema {schema or 1}"):
            write()


def test_a_store_without_a_column_for_the_schema_is_of_the_first(tmp_path: Path) -> None:
    write_columns(tmp_path, [_entry()], [])
    file = tmp_path / "runs.parquet"
    pl.read_parquet(file).drop("schema_").write_parquet(file)
    warnings: list[str] = []
    assert ColumnStore(tmp_path, warnings.append).runs(cell().key) == []
    assert "it is of schema 1, and this harness reads schema 2: it is no longer read" in warnings[0]


def test_runs_of_one_key_have_the_digests_that_made_them(tmp_path: Path) -> None:
    ledger = Ledger().with_entry(
        Equivalence.model_validate(
            {
                "kind": "simulator", "name": "sim", "digest": "digest-of-sim-2", "same_as": "digest-of-sim",
                "proof": {"cells": 9, "commit": "c", "date": "2026-11-25"},
            }
        )
    )  # fmt: skip
    before = _entry()
    image = cell().sim_image.model_copy(update={"identity": "digest-of-sim-2"})
    after = _entry(1).run.model_copy(update={"cell": with_key(cell().model_copy(update={"sim_image": image}))})
    write_columns(tmp_path, [before, StoredRun(after, None)], [])
    assert len(ColumnStore(tmp_path).cell_keys()) == 2
    assert rekey(tmp_path, ledger) == 1
    runs = ColumnStore(tmp_path).runs(cell().key)
    assert [run.cell.sim_image.identity for run in runs] == ["digest-of-sim", "digest-of-sim-2"]
    assert rekey(tmp_path, ledger) == 0
    assert rekey(tmp_path, Ledger()) == 1
    assert len(ColumnStore(tmp_path).cell_keys()) == 2
