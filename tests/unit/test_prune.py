"""Stored runs go where they are asked to go, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli import main
from harness.evaluation.publish import publish_runs
from harness.execution import App, CheckoutPaths
from harness.execution.checkout import LEDGER
from harness.execution.matrix import Request
from harness.execution.prune import RunPruner
from harness.outcome import Cell, MeasuredRun, Outcome, Run
from harness.store.identity import read_ledger
from harness.store.identity import with_key as keyed_by
from harness.store.results import Store
from tests.examples import ROOT

NEW, OLD = "2026-11-20T00:00:00+00:00", "2025-01-01T00:00:00+00:00"


@pytest.fixture(scope="module")
def today() -> Cell:
    """A cell that today's checkout asks for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.execution.image_inventory.inspect_image", lambda reference: None)
        patch.setattr("harness.engine.images.build.inspect_image", lambda reference: None)
        app = App(CheckoutPaths(ROOT, Path("store"), Path("state"), Path("cache")))
        implementations = app.catalogue.find_implementations("ngtcp2", "client")
        given = {"server.congestion_control": "cubic", "path.down.loss": "1 %"}
        request = Request(
            app.catalogue.find_scenarios(["satellite/small"]), implementations, implementations, engine="virtual", sim_kernel="lab",
            parameters=given,
        )  # fmt: skip
        return app.matrix(request, lambda event: None, pull=False)[0]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr("harness.execution.image_inventory.inspect_image", lambda reference: None)
    monkeypatch.setattr("harness.engine.images.build.inspect_image", lambda reference: None)
    return Store(tmp_path / "store")


def keyed(stored_cell: Cell) -> Cell:
    """A cell with the key that it has in this checkout."""
    return keyed_by(stored_cell, read_ledger(ROOT / LEDGER))


def _stored(store: Store, stored_cell: Cell, repetition: int = 0, at: str = NEW, status: str = "completed") -> Path:
    partial = store.begin(stored_cell.key, repetition)
    (partial / "sim").mkdir()
    (partial / "sim" / "counters.jsonl").write_text("{}\n" * 5000)
    outcome = Outcome.model_validate({"status": status})
    run = Run(cell=stored_cell, repetition=repetition, outcome=outcome, started_at=at)
    return store.finish(partial, run, MeasuredRun(version=1))


def _prune(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, store: Path, *words: str
) -> tuple[int, list[str], str]:
    monkeypatch.setattr("sys.argv", ["harness", "prune", *words, "--store", str(store)])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), [line.split()[0] for line in out.splitlines()], err


def _everything(folder: Path) -> set[str]:
    # The ledger that keys were made by is noted by whoever looks first.
    return {str(path.relative_to(folder)) for path in folder.rglob("*")} - {"runs/equivalences.json"}


def _others(current_cell: Cell) -> dict[str, Cell]:
    """Cells that nobody would run today, by why."""
    scenario = current_cell.scenario
    path = scenario.path.model_copy(update={"forward": scenario.path.return_})
    return {
        "the engine's code": keyed(current_cell.model_copy(update={"engine_code": "old"})),
        "the lab it amounts to": keyed(
            current_cell.model_copy(update={"scenario": scenario.model_copy(update={"path_": path})})
        ),
        "no scenario is called": keyed(
            current_cell.model_copy(update={"scenario": scenario.model_copy(update={"name": "gone/long"}), "seed": 2})
        ),
        "no such implementation": keyed(
            current_cell.model_copy(
                update={"client": current_cell.client.model_copy(update={"name": "nobody"}), "seed": 3}
            )
        ),
    }


def test_what_today_asks_for_is_told_from_what_it_does_not(
    store: Store, today: Cell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = _others(today)
    for cell in (today, today.model_copy(update={"scenario": today.scenario.model_copy(update={"title": "another"})})):
        _stored(store, cell)
    for tested_cell in cells.values():
        _stored(store, tested_cell)
    monkeypatch.setattr("sys.argv", ["harness", "prune", "--unwanted", "--dry-run", "--store", str(store.root)])
    with pytest.raises(SystemExit):
        main()
    out, err = capsys.readouterr()
    line_of_run = {line.split()[0]: line for line in out.splitlines()}
    # Other words make no other cell; the run that the second stands in for is in nobody's way any more.
    replaced = line_of_run.pop(f"{today.key}/0")
    assert replaced.endswith("replaced by a fresh run")
    assert {key.partition("/")[0] for key in line_of_run} == {tested_cell.key for tested_cell in cells.values()}
    for why, tested_cell in cells.items():
        assert why in line_of_run[f"{tested_cell.key}/0"]
    assert "would remove 5 runs, " in err
    assert len(store.cell_keys()) == 5


@pytest.mark.parametrize(
    ("words", "gone"),
    [
        (("--older-than", "30 d"), {1, 2}),
        (("--outcome", "crashed,wrong_file"), {2, 3}),
        (("--older-than", "30 d", "--outcome", "crashed"), {2}),
        (("satellite/small",), {0, 1, 2, 3}),
        (("satellite/medium",), set()),
        (("--unwanted",), set()),
        (("--older-than", "30 d", "--servers", "quiche"), set()),
    ],
)  # fmt: skip
def test_only_what_is_all_of_what_is_asked_goes_and_a_dry_run_says_the_same(
    store: Store, today: Cell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...], gone: set[int],
) -> None:  # fmt: skip
    kinds = [(NEW, "completed"), (OLD, "completed"), (OLD, "crashed"), (NEW, "wrong_file")]
    for number, (at, status) in enumerate(kinds):
        _stored(store, today, number, at, status)
    under_way = store.begin(today.key, 9)
    (under_way / "begun").write_text("")
    before = _everything(store.root)
    code, named, text = _prune(capsys, monkeypatch, store.root, *words, "--dry-run")
    assert (code, set(named)) == (0, {f"{today.key}/{number}" for number in gone})
    assert f"would remove {len(gone)} run" in text
    assert _everything(store.root) == before
    assert _prune(capsys, monkeypatch, store.root, *words)[1] == named
    assert {run.repetition for run in store.runs(today.key)} == {0, 1, 2, 3} - gone
    assert (under_way / "begun").exists()
    assert [item.name for item in (store.root / "partial").iterdir()] == [under_way.name]
    # And nothing is left of a cell that has no runs any more.
    assert (store.cell_keys() == []) == (gone == {0, 1, 2, 3})


def test_artefacts_go_alone_and_figures_stay(
    store: Store, today: Cell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = _stored(store, today)
    assert (place / "sim" / "counters.jsonl.zst").exists()
    assert _prune(capsys, monkeypatch, store.root, "--evidence")[1] == [f"{today.key}/0"]
    assert {item.name for item in place.iterdir()} == {"run.json", "measured.json"}
    assert store.measured(today.key, 0) == MeasuredRun(version=1)
    # It has none any more.
    assert _prune(capsys, monkeypatch, store.root, "--evidence")[1] == []


def test_what_cannot_be_read_is_left_alone_by_name(
    store: Store, today: Cell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, path = _stored(store, today), _stored(store, today, 1)
    (place / "run.json").write_text("{")
    code, named, text = _prune(capsys, monkeypatch, store.root, "satellite/small")
    assert (code, named) == (0, [f"{today.key}/1"])
    assert str(place) in text.replace("\n", "")
    assert place.exists()
    assert not path.exists()


def test_an_image_that_is_not_here_makes_nothing_unwanted(
    store: Store, today: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(CheckoutPaths(ROOT, store.root, Path("state"), Path("cache")))
    pruning = RunPruner(app, None, None)  # type: ignore[arg-type]
    tested_cell = keyed(today.model_copy(update={"engine_code": "old"}))
    assert "the engine's code" in pruning.unwanted(tested_cell)
    elsewhere = {"client_image": today.client_image.model_copy(update={"identity": "not-present:x"})}
    monkeypatch.setattr(App, "current_cell", lambda self, cell: keyed(cell.model_copy(update=elsewhere)))
    assert pruning.unwanted(tested_cell) == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing says which runs"),
        (("--outcome", "crashd"), "did you mean 'crashed'"),
        (("--older-than", "30"), "no age"),
        (("--older-than", "-3 d"), "no age"),
        (("--older-than", "nan d"), "no age"),
        (("--older-than", "d"), "no age"),
        (("satelite/small",), "satellite/small"),
    ],
)
def test_what_says_nothing_removes_nothing(
    store: Store, today: Cell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...], message: str,
) -> None:  # fmt: skip
    place = _stored(store, today, at=OLD)
    code, named, err = _prune(capsys, monkeypatch, store.root, *words)
    assert (code, named) == (2, [])
    assert message in err
    assert place.exists()


def test_what_is_published_is_never_touched(
    tmp_path: Path, store: Store, today: Cell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _stored(store, today, at=OLD)
    app = App(CheckoutPaths(ROOT, store.root, tmp_path / "state", tmp_path / "cache"))
    reference = store.root / "reference"
    publish_runs(reference, [app.results.result_of(today)], store, lambda run: False)
    before = {path.name: path.read_bytes() for path in reference.iterdir()}
    code, _, err = _prune(capsys, monkeypatch, reference, "--older-than", "1 d")
    assert code == 2
    assert "nothing of it goes" in err.replace("\n", " ")
    assert _prune(capsys, monkeypatch, store.root, "--older-than", "1 d")[1] == [f"{today.key}/0"]
    assert {path.name: path.read_bytes() for path in reference.iterdir()} == before
