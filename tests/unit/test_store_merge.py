from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from harness.analysis.timeseries import SCHEMA
from harness.cli.entry import cli
from harness.cli.options import parse_shard, parse_stand_ins
from harness.engine.images.contents import Contents
from harness.errors import InputError
from harness.evaluation.cell_result import point_of
from harness.execution import App, CheckoutPaths
from harness.execution.matrix import Shard
from harness.outcome import Cell, MeasuredRun, Measurement, Outcome, Run
from harness.store.merge import merge
from harness.store.parquet import ColumnStore, write_columns
from harness.store.parquet.tables import StoredRun
from harness.store.results import Store
from tests.examples import ROOT, catalogue, cell

HERE = cell(engine="virtual")


def run(repetition: int = 0, where: Cell = HERE, status: str = "completed", **overrides: object) -> Run:
    outcome = Outcome.model_validate({"status": status})
    return Run(cell=where, repetition=repetition, outcome=outcome, **{"started_at": "2026-11-23", **overrides})


def measured(seconds: float = 2.0) -> MeasuredRun:
    figure = Measurement(name="completion", value=seconds, unit="s", flow=0, transfer="first")
    return MeasuredRun(version=1, measurements=(figure,))


def put(store: Store, stored_run: Run, seconds: float = 2.0) -> Path:
    folder = store.begin(stored_run.cell.key, stored_run.repetition)
    (folder / "notes").write_text("what the endpoint said")
    series = pl.DataFrame([(0, "throughput", 0.0, 1.0)], SCHEMA, orient="row")
    return store.finish(folder, stored_run, measured(seconds), series)


def test_what_is_missing_is_taken_with_all_that_it_has(tmp_path: Path) -> None:
    own, store = Store(tmp_path / "own"), Store(tmp_path / "other")
    put(own, run(0))
    put(store, run(0))
    put(store, run(1, contents={"sim": "d1"}), 3.0)
    store.keep_contents([Contents("d1", {"openssl": "3.5"}, {})])
    merge_result = merge(own, [store])
    assert (merge_result.merged, merge_result.present, merge_result.conflicts) == (1, 1, [])
    assert own.measured(HERE.key, 1) == measured(3.0)
    assert (own.folder(HERE.key, 1) / "notes").read_text() == "what the endpoint said"
    assert own.series(HERE.key, 1) is not None and own.contents("d1") is not None
    assert (merge(own, [store]).merged, list((tmp_path / "own" / "partial").iterdir())) == (0, [])


def test_other_figures_of_one_key_are_refused_and_the_rest_is_taken(tmp_path: Path) -> None:
    own, store = Store(tmp_path / "own"), Store(tmp_path / "other")
    put(own, run(0), 2.0)
    put(store, run(0), 2.5)
    put(store, run(1))
    merge_result = merge(own, [store])
    assert merge_result.merged == 1
    assert [conflict.why for conflict in merge_result.conflicts] == ["other figures: completion"]
    assert own.measured(HERE.key, 0) == measured(2.0)


@pytest.mark.parametrize(
    ("captures", "why"), [({"left": "a"}, []), ({"left": "b"}, ["other captures"])]
)  # fmt: skip
def test_in_virtual_time_captures_tell(captures: dict[str, str], why: list[str], tmp_path: Path) -> None:
    own, store = Store(tmp_path / "own"), Store(tmp_path / "other")
    put(own, run(captures={"left": "a"}, wall=1.0))
    put(store, run(captures=captures, wall=2.0))
    assert [conflict.why for conflict in merge(own, [store]).conflicts] == why


def test_in_real_time_two_runs_of_one_repetition_are_two_runs(tmp_path: Path) -> None:
    own, store, tested_cell = Store(tmp_path / "own"), Store(tmp_path / "other"), cell()
    put(own, run(where=tested_cell, wall=1.0))
    put(store, run(where=tested_cell, wall=2.0))
    assert [conflict.why for conflict in merge(own, [store]).conflicts] == [
        "another run of the same repetition, in real time"
    ]
    assert merge(own, [own]).present == 1


def test_what_the_ground_spoilt_makes_way(tmp_path: Path) -> None:
    own, store = Store(tmp_path / "own"), Store(tmp_path / "other")
    put(own, run(0, status="infrastructure"))
    put(own, run(1))
    put(store, run(0), 2.5)
    put(store, run(1, status="infrastructure"))
    merge_result = merge(own, [store])
    assert (merge_result.merged, merge_result.present, merge_result.conflicts) == (1, 1, [])
    assert own.measured(HERE.key, 0) == measured(2.5)


def test_a_store_in_columns_is_taken_from_too(tmp_path: Path) -> None:
    write_columns(tmp_path / "columns", [StoredRun(run(), measured(), None)], [])
    own = Store(tmp_path / "own")
    assert merge(own, [ColumnStore(tmp_path / "columns")]).merged == 1
    assert own.measured(HERE.key, 0) == measured()


def test_the_command_names_what_it_refuses(tmp_path: Path) -> None:
    put(Store(tmp_path / "own"), run(0), 2.0)
    put(Store(tmp_path / "other"), run(0), 2.5)
    result = CliRunner().invoke(cli, ["merge", str(tmp_path / "other"), "--store", str(tmp_path / "own"), "--json"])
    assert result.exit_code == 1
    content = json.loads(result.stdout)
    assert (content["taken"], [conflict["why"] for conflict in content["conflicts"]]) == (
        0,
        ["other figures: completion"],
    )
    own = CliRunner().invoke(cli, ["merge", str(tmp_path / "own"), "--store", str(tmp_path / "own")])
    assert own.exit_code != 0


# --- shards


def test_shards_share_a_matrix_out() -> None:
    points = [point_of(HERE.model_copy(update={"seed": seed})) for seed in range(200)]
    for of in (1, 3, 8):
        parts = [{point for point in points if Shard(number, of).includes(point)} for number in range(1, of + 1)]
        assert set().union(*parts) == set(points)
        assert sum(map(len, parts)) == len(points)
        assert min(map(len, parts)) > len(points) / of / 2


def test_the_shard_of_a_cell_is_not_its_bits() -> None:
    assert point_of(HERE) == point_of(HERE.model_copy(update={"key": "0" * 16, "engine_code": "other"}))


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/0", "-1/3", "a/b", "1/3/5"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"expected K/N"):
        parse_shard(text)
    assert parse_shard("") is None and parse_shard("2/3") == Shard(2, 3)


# --- images that stand in


def test_an_image_stands_in_for_an_implementation_s_own() -> None:
    places = CheckoutPaths(ROOT, ROOT / "results", ROOT / ".state", ROOT / ".cache")
    app = App(places, stand_ins={"quiche": "mine/quiche:dev"})
    mine, _ = app.catalogue.implementations()["quiche"]
    ours, _ = catalogue().implementations()["quiche"]
    assert (mine.image, mine.build) == ("mine/quiche:dev", None)
    assert mine.parameters == ours.parameters
    assert app.images.build_of(mine, ROOT / "images" / "quiche") is None
    with pytest.raises(InputError, match="no implementation 'quish'") as caught:
        App(places, stand_ins={"quish": "a"}).catalogue.implementations()
    assert "quiche" in caught.value.hint


@pytest.mark.parametrize("word", ["quiche", "quiche=", "=a", "quiche=A B", "quiche=--help"])
def test_what_names_no_image_is_refused(word: str) -> None:
    with pytest.raises(InputError, match="expected NAME="):
        parse_stand_ins([word])
    with pytest.raises(InputError, match="given twice"):
        parse_stand_ins(["quiche=a", "quiche=b"])
