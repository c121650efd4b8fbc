from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.engine.images.contents import Contents
from harness.evaluation.cell_result import point_of
from harness.evaluation.publish import publish_runs
from harness.evaluation.staleness import NOT_ASKED, mark_outdated, outdated_note
from harness.execution.measured_store import StoredResults
from harness.outcome import (
    Cell,
    DirectionProof,
    InteropCheck,
    LinkProof,
    MeasuredRun,
    Measurement,
    Observation,
    Outcome,
    Run,
)
from harness.store.cell_names import CellNames
from harness.store.identity import Ledger, with_key
from harness.store.parquet import ColumnStore
from harness.store.results import Store
from tests.examples import cell, scenario

VERSION = 7


def _other_bits(stored_cell: Cell, **overrides: object) -> Cell:
    return with_key(stored_cell.model_copy(update=overrides))


def _stored(
    store: Store, stored_cell: Cell, repetition: int = 0, at: str = "2026-01-01", version: int = VERSION
) -> Run:
    run = Run(
        cell=stored_cell,
        repetition=repetition,
        outcome=Outcome(status="completed"),
        started_at=at,
        contents={"sim": "d1"},
    )
    measured = MeasuredRun(version=version, link=LinkProof(valid=True))
    store.finish(store.begin(stored_cell.key, repetition), run, measured)
    return run


def _results(store: Store, *cells: Cell) -> list[object]:
    stored_results = StoredResults(store, store)
    return [stored_results.result_of(tested_cell) for tested_cell in cells]


def test_runs_are_taken_over_and_read_the_same(tmp_path: Path) -> None:
    store, tested_cell = Store(tmp_path / "store"), cell()
    runs = [_stored(store, tested_cell, repetition) for repetition in (0, 1)]
    store.keep_contents([Contents("d1", {"openssl": "3"}, {}), Contents("unused", {}, {})])
    published_runs = publish_runs(tmp_path / "kept", _results(store, tested_cell), store, lambda run: False)  # type: ignore[arg-type]
    assert (published_runs.runs, published_runs.replaced) == (2, 0)
    columns = ColumnStore(tmp_path / "kept")
    assert columns.runs(tested_cell.key) == runs
    assert [contents.digest for contents in columns.every_contents()] == ["d1"]
    assert StoredResults(columns, None).result_of(tested_cell).verdict == StoredResults(store, store).result_of(
        tested_cell
    ).verdict.model_copy(update={"evidence": tuple(str(columns.folder(tested_cell.key, number)) for number in (0, 1))})


def test_a_cell_of_other_bits_gives_way_to_a_newer_one_and_what_is_not_taken_stays(tmp_path: Path) -> None:
    store, old = Store(tmp_path / "store"), cell()
    new, beside = _other_bits(old, engine_code="new"), cell(scenario(name="test/beside"), seed=3)
    _stored(store, old, at="2026-01-01")
    _stored(store, beside, at="2026-01-01")
    publish_runs(tmp_path / "kept", _results(store, old, beside), store, lambda run: False)  # type: ignore[arg-type]
    _stored(store, new, at="2026-01-02")
    published_runs = publish_runs(tmp_path / "kept", _results(store, new), store, lambda run: False)  # type: ignore[arg-type]
    assert (published_runs.runs, published_runs.replaced) == (1, 1)
    assert ColumnStore(tmp_path / "kept").cell_keys() == sorted([new.key, beside.key])
    # An older one does not drive out a newer one.
    publish_runs(tmp_path / "kept", _results(store, old), store, lambda run: False)  # type: ignore[arg-type]
    assert ColumnStore(tmp_path / "kept").cell_keys() == sorted([new.key, beside.key])


def test_a_row_says_what_of_it_is_not_of_today(tmp_path: Path) -> None:
    store, tested_cell = Store(tmp_path), cell()
    sim = tested_cell.sim_image.model_copy(update={"identity": "another"})
    old = _other_bits(tested_cell, sim_image=sim, engine_code="old", seed=2)
    gone = cell(scenario(name="test/gone"), seed=4)
    for stored, version in ((tested_cell, VERSION), (old, VERSION - 1), (gone, VERSION)):
        _stored(store, stored, version=version)
    now = _other_bits(tested_cell, seed=2)
    today = {point_of(cell): cell for cell in (tested_cell, now)}
    results = mark_outdated(_results(store, tested_cell, old, gone), today, VERSION, Ledger())  # type: ignore[arg-type]
    assert [result.staleness for result in results] == [
        (),
        ("the engine's code", "the simulator", "the measuring code"),
        (NOT_ASKED,),
    ]
    assert outdated_note(results) == (
        "‡ 2 of 3 were run with other code or images than today's. They differ in the engine's code (1), the measuring "
        "code (1), the simulator (1). 1 are no longer asked for."
    )
    many = [replace(results[1], staleness=tuple(f"the image of {name}" for name in "abcdefg"))]
    assert outdated_note(many).endswith("the image of e (1), 2 more.")
    assert outdated_note(results[:1]) == ""


def test_of_a_test_case_what_its_verdict_rests_on_is_taken(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    # By its name alone a cell has no key of its own.
    plain, case = cell(seed=3), cell(scenario(name="interop/retry"))
    direction_proof = DirectionProof(packets=9)
    measured = MeasuredRun(
        version=VERSION,
        measurements=(Measurement(name="completion", value=1.5, unit="s", flow=0, transfer="first"),),
        observed=(Observation(role="server", parameter="initial_cwnd", value=10, unit="packets", source="a test"),),
        checks=(InteropCheck(check="retry", asked="used", status="failed", sentence="the server sent no Retry"),),
        link=LinkProof(valid=True, to_client=direction_proof, further={"other to_client": direction_proof}),
    )
    for tested_cell in (plain, case):
        run = Run(cell=tested_cell, repetition=0, outcome=Outcome(status="completed"), started_at="2026-01-01", trail="ab",
                  captures={"left": "cd"})  # fmt: skip
        store.finish(store.begin(tested_cell.key, 0), run, measured)
    publish_runs(tmp_path / "kept", _results(store, plain, case), store, lambda run: False)  # type: ignore[arg-type]
    columns = ColumnStore(tmp_path / "kept")
    assert columns.measured(plain.key, 0) == measured
    measured_run, stored_run = columns.measured(case.key, 0), columns.run(case.key, 0)
    assert measured_run == MeasuredRun(version=VERSION, checks=measured.checks, link=LinkProof(valid=True))
    assert stored_run is not None
    assert (stored_run.trail, stored_run.captures) == ("", {"left": "cd"})
    verdicts = [StoredResults(place, None).result_of(case).verdict.sentence for place in (store, columns)]
    assert verdicts[0] == verdicts[1]


def test_the_first_run_of_a_cell_keeps_its_trail(tmp_path: Path) -> None:
    store, tested_cell = Store(tmp_path / "store"), cell()
    for repetition in (0, 1, 2):
        run = Run(cell=tested_cell, repetition=repetition, outcome=Outcome(status="completed"), started_at="2026-01-01",
                  trail="1:ab", captures={"left": "cd"})  # fmt: skip
        store.finish(
            store.begin(tested_cell.key, repetition), run, MeasuredRun(version=VERSION, link=LinkProof(valid=True))
        )
    publish_runs(tmp_path / "kept", _results(store, tested_cell), store, lambda run: False)  # type: ignore[arg-type]
    kept = ColumnStore(tmp_path / "kept").runs(tested_cell.key)
    assert [run.trail for run in kept] == ["1:ab", "", ""]
    assert {run.captures["left"] for run in kept} == {"cd"}


def test_cells_are_chosen_by_their_names_before_runs_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "store")
    other = _other_bits(cell(), scenario=scenario().model_copy(update={"name": "another"}), seed=5)
    for item in (cell(), other):
        _stored(store, item)
        _stored(store, item, 1)
    publish_runs(tmp_path / "kept", _results(store, cell(), other), store, lambda run: False)  # type: ignore[arg-type]
    columns, read = ColumnStore(tmp_path / "kept"), list[str]()
    runs_of = columns.runs

    def runs(key: str) -> list[Run]:
        read.append(key)
        return runs_of(key)

    monkeypatch.setattr(columns, "runs", runs)
    named = CellNames(scenarios=frozenset({"another"}))
    assert columns.cell_keys(named) == [other.key]
    assert columns.cell_keys() == sorted([cell().key, other.key])
    (result,) = StoredResults(columns, None).find(among=named)
    assert result.cell == other and [run.repetition for run, _ in result.runs] == [0, 1]
    assert {*read} == {other.key}
    assert StoredResults(columns, None).find(among=CellNames(clients=frozenset({"nobody"}))) == []
    # A folder of runs gives the same cells, though it has to read them all.
    (from_folder,) = StoredResults(store, store).find(among=named)
    assert from_folder.cell == result.cell and from_folder.runs == result.runs


def test_a_cell_that_is_not_there_has_no_runs(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    _stored(store, cell())
    publish_runs(tmp_path / "kept", _results(store, cell()), store, lambda run: False)  # type: ignore[arg-type]
    columns = ColumnStore(tmp_path / "kept")
    assert columns.runs("f" * 16) == [] and columns.run("f" * 16, 0) is None and columns.run(cell().key, 7) is None
