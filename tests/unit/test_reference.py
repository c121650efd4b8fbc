from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from harness.analysis.metrics import VERSION
from harness.analysis.time_breakdown import VERSION as RULES
from harness.errors import EngineError, InputError
from harness.evaluation.cell_result import CellResult
from harness.evaluation.publish import publish_runs, remove_cells
from harness.evaluation.verdict import judge as real_judge
from harness.execution import App, CheckoutPaths, Options
from harness.execution.matrix import MAX_RUNS
from harness.outcome import (
    Attributed,
    Attribution,
    Cell,
    LinkProof,
    MeasuredRun,
    Outcome,
    Run,
    State,
    StateShare,
    Verdict,
)
from harness.scenario.schema import Scenario
from harness.store.parquet import ColumnStore
from tests.examples import ROOT
from tools.reference.campaign import CAMPAIGN, Reference, Share

_TWO = """
schema: 1
requests:
  - {scenarios: [satellite/medium, satellite/large], clients: "ngtcp2,quiche", servers: "ngtcp2,quiche", pairs: itself, repeat: 2}
  - {scenarios: [satellite/medium], clients: ngtcp2, servers: quiche, engine: compose, vary: {initial_rtt: [100 ms, 200 ms]}}
"""


def _reference(folder: Path, text: str = _TWO) -> Reference:
    (folder / "reference").mkdir()
    (folder / "reference" / CAMPAIGN).write_text(text)
    app = App(CheckoutPaths(ROOT, folder / "store", folder / "state", folder / "cache"))
    return Reference(app, folder / "reference")


def _shares(reference: Reference, engine: str = "virtual", *only: str) -> list[Share]:
    return list(reference.shares(engine, only, lambda event: None))  # type: ignore[arg-type]


def _stored(reference: Reference, share: Share, repetition: int, *, valid: bool = True) -> None:
    store, cell = reference._app.store, share.cells[0]
    run = Run(cell=cell, repetition=repetition, outcome=Outcome(status="completed"), started_at="2026-01-01")
    measured = MeasuredRun(version=1, link=LinkProof(valid=valid))
    store.finish(store.begin(cell.key, repetition), run, measured)


def test_a_request_has_its_cells_and_what_is_to_do(tmp_path: Path) -> None:
    reference = _reference(tmp_path)
    (share,) = _shares(reference)
    assert {(cell.client.name, cell.server.name) for cell in share.cells} == {("ngtcp2",) * 2, ("quiche",) * 2}
    assert (len(share.cells), len(share.missing_runs)) == (4, 8)
    (real,) = _shares(reference, "compose")
    assert len(real.cells) == 2
    (limited,) = _shares(reference, "virtual", "satellite/large")
    assert len(limited.cells) == 2
    assert _shares(reference, "virtual", "queue") == []


def test_what_is_stored_or_kept_is_not_done_again(tmp_path: Path) -> None:
    reference = _reference(tmp_path)
    (share,) = _shares(reference)
    _stored(reference, share, 0)
    _stored(reference, share, 1, valid=False)
    (after,) = _shares(reference)
    assert len(after.missing_runs) == len(share.missing_runs) - 1, "one whose link is not proven is no run"
    results = reference.unstored_results(after.cells, after.request.repeat)
    assert [result.cell.key for result in results] == [share.cells[0].key]
    publish_runs(reference.root, results, reference._app.stored_runs, lambda run: False)
    assert reference.unstored_results(after.cells, after.request.repeat) == []
    # Elsewhere, without the store, the reference is enough.
    (tmp_path / "elsewhere").mkdir()
    other = _reference(tmp_path / "elsewhere")
    other.root = reference.root
    (again,) = _shares(other)
    assert len(again.missing_runs) == len(share.missing_runs) - 1


_MANY = """
schema: 1
implementations: [quiche, picoquic]
requests:
  - {scenarios: [satellite/medium], repeat: 30000}
  - {scenarios: [studies/reach-50-10], search: 2}
"""


def _with_another(folder: Path, reference: Reference) -> Reference:
    """The same with one more image."""
    text = (ROOT / "images" / "quinn" / "image.yaml").read_text().replace("name: quinn\n", "name: another\n")
    text = re.sub("colour: .*", 'colour: "#010203"', text)
    shutil.copytree(ROOT / "images" / "quinn", folder / "another")
    (manifest := folder / "another" / "image.yaml").write_text(text)
    return Reference(App(reference._app.paths, [manifest]), reference.root)


def test_a_new_image_is_in_no_request_until_the_campaign_lists_it(tmp_path: Path) -> None:
    reference = _reference(tmp_path, _MANY)
    with_another = _with_another(tmp_path, reference)
    assert "another" in with_another._app.catalogue.implementations()
    for asked in reference.requests():
        cells = with_another.matrix(asked, lambda event: None)
        assert {cell.server.name for cell in cells} == {"quiche", "picoquic"}
        assert {cell.client.name for cell in cells} <= {"quiche", "picoquic"}
        assert [cell.key for cell in cells] == [cell.key for cell in reference.matrix(asked, lambda event: None)]
    (reference.root / CAMPAIGN).write_text(_MANY.replace("picoquic]", "another]"))
    listed = Reference(with_another._app, reference.root)
    cells = listed.matrix(listed.requests()[0], lambda event: None)
    assert {cell.client.name for cell in cells} == {"quiche", "another"}
    (reference.root / CAMPAIGN).write_text(_MANY.replace("picoquic]", "picoquick]"))
    with pytest.raises(InputError, match="picoquick"):
        _shares(Reference(reference._app, reference.root))


def test_what_is_stored_has_no_limit_and_what_is_not_is_not_planned(tmp_path: Path) -> None:
    """Four pairs times 30,000 runs are more than a `harness run` may ask for at once."""
    reference = _reference(tmp_path, _MANY)
    cells = reference.matrix(reference.requests()[0], lambda event: None)
    assert 30_000 * len(cells) > MAX_RUNS
    stored = [cell for cell in cells if cell.client.name == cell.server.name == "quiche"]
    results = [reference._app.results.result_of(cell, 1) for cell in stored]
    assert [result.staleness for result in reference.with_staleness(results, lambda event: None)] == [()]
    planned = reference.current_cells(lambda event: None, stored).values()
    assert {cell.client.name for cell in planned} == {cell.server.name for cell in planned} == {"quiche"}


_SEARCH = """
schema: 1
requests:
  - {scenarios: [studies/reach-50-10], servers: "quiche,ngtcp2", search: 6}
"""


def _searched(reference: Reference, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The app's runs are of nobody, and come to no end in time; what is run, by key."""
    ran: list[str] = []

    def run_cells(cells: Sequence[Cell], *_: object) -> list[CellResult]:
        for cell in cells:
            ran.append(cell.key)
            run = Run(cell=cell, repetition=0, outcome=Outcome(status="timed_out"), started_at="2026-01-01")
            app.store.finish(app.store.begin(cell.key, 0), run, measured)
        return [app.results.result_of(cell, 1) for cell in cells]

    app, measured = reference._app, MeasuredRun(version=VERSION, link=LinkProof(valid=True))
    monkeypatch.setattr(app, "run_cells", run_cells)
    return ran


_WHY = """
schema: 1
requests:
  - {scenarios: [satellite/medium], clients: quiche, servers: quiche, repeat: 1, why: true}
"""


def test_an_experiment_runs_the_cell_and_then_what_its_parts_ask_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = _reference(tmp_path, _WHY)
    app, ran = reference._app, list[Cell]()
    seconds: dict[State, float] = {"slow_start": 4.0, "flow_control": 1.0, "line_rate": 15.0}
    parts = tuple(StateShare(state=state, seconds=share) for state, share in seconds.items())
    attribution = Attribution(flow=0, transfer="first", size=100_000_000, seconds=20.0, parts=parts)
    attributed = Attributed(version=RULES, transfers=(attribution,))
    measured = MeasuredRun(version=VERSION, link=LinkProof(valid=True), attributed=attributed)

    def run_cells(cells: Sequence[Cell], *_: object) -> list[CellResult]:
        for cell in cells:
            ran.append(cell)
            run = Run(cell=cell, repetition=0, outcome=Outcome(status="completed"), started_at="2026-01-01")
            app.store.finish(app.store.begin(cell.key, 0), run, measured)
        return [app.results.result_of(cell, 1) for cell in cells]

    monkeypatch.setattr(app, "run_cells", run_cells)
    (share,) = _shares(reference)
    assert len(share.missing_runs) == len(share.cells) == 1 and share.name.endswith("virtual, with causes removed)")
    results = reference.work(share, Options(), lambda event: None)
    assert [sorted(cell.parameters) for cell in ran] == [
        [],
        ["server.initial_cwnd"],
        ["client.connection_window", "client.stream_window"],
        ["client.connection_window", "client.stream_window", "server.initial_cwnd"],
    ]
    assert {result.cell.key for result in results} == {cell.key for cell in ran}
    # The same command knows now what the request consists of, and runs nothing.
    (again,) = _shares(reference)
    assert {cell.key for cell in again.cells} == {cell.key for cell in ran} and not again.missing_runs


def test_what_is_kept_can_be_made_afresh(tmp_path: Path) -> None:
    """All but what is in the store: so that a command that was interrupted goes on."""
    reference = _reference(tmp_path)
    (share,) = _shares(reference)
    _stored(reference, share, 0)
    publish_runs(
        reference.root, reference.unstored_results(share.cells, 2), reference._app.stored_runs, lambda run: False
    )
    assert len(_shares(reference)[0].missing_runs) == 7
    elsewhere = App(CheckoutPaths(ROOT, tmp_path / "other", tmp_path / "state", tmp_path / "cache"))
    assert len(_shares(Reference(elsewhere, reference.root))[0].missing_runs) == 7
    afresh = Reference(elsewhere, reference.root, fresh=True)
    assert len(_shares(afresh)[0].missing_runs) == 8
    _stored(afresh, share, 0)
    assert len(_shares(afresh)[0].missing_runs) == 7
    assert [result.cell.key for result in afresh.unstored_results(share.cells, 2)] == [share.cells[0].key]


@pytest.mark.parametrize("end", [KeyboardInterrupt(), EngineError("the clock stood still")])
def test_what_was_finished_is_published_after_an_early_end(
    end: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = _reference(tmp_path)
    (share,) = _shares(reference)

    def interrupted(*arguments: object) -> None:
        _stored(reference, share, 0)
        raise end

    monkeypatch.setattr(reference._app, "run_cells", interrupted)
    with pytest.raises(type(end)):
        reference.work(share, Options(), lambda event: None)
    announced: list[int] = []
    published = reference.publish([], lambda results: set(), announced.append, last=True)
    assert announced == [1]
    assert published is not None and published.runs == 1
    assert len(_shares(Reference(reference._app, reference.root))[0].missing_runs) == len(share.missing_runs) - 1


def test_a_search_is_gone_through_and_goes_on_from_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = _reference(tmp_path, _SEARCH)
    ran = _searched(reference, monkeypatch)
    (share,) = _shares(reference)
    # At first what is done untold, of either.
    assert len(share.cells) == len(share.missing_runs) == 2
    results = reference.work(share, Options(), lambda event: None)
    assert len(ran) == len(set(ran)) == len(results) == 12
    assert {result.cell.key for result in results} == set(ran)
    # Nothing is asked for twice, here, or where there is the reference alone; and all of it is of today.
    (again,) = _shares(reference)
    assert (len(again.cells), again.missing_runs) == (12, ())
    publish_runs(reference.root, results, reference._app.stored_runs, lambda run: False)
    assert reference.work(again, Options(), lambda event: None) == []
    (tmp_path / "elsewhere").mkdir()
    other = _reference(tmp_path / "elsewhere", _SEARCH.replace("search: 6", "search: 7"))
    other.root, further = reference.root, _searched(other, monkeypatch)
    (reference.root / CAMPAIGN).write_text(_SEARCH.replace("search: 6", "search: 7"))
    assert {result.staleness for result in other.with_staleness(results, lambda event: None)} == {()}
    (more,) = _shares(other)
    assert (len(more.cells), len(more.missing_runs)) == (14, 2)
    assert len(other.work(more, Options(), lambda event: None)) == 2 == len(further)


def test_a_search_goes_by_runs_that_are_in_part_kept_and_in_part_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = _SEARCH.replace("search: 6", "search: 6, repeat: 2").replace('"quiche,ngtcp2"', "ngtcp2")
    reference = _reference(tmp_path, text)
    (share,) = _shares(reference)
    _stored(reference, share, 0)
    publish_runs(
        reference.root, reference.unstored_results(share.cells, 2), reference._app.stored_runs, lambda run: False
    )
    (tmp_path / "elsewhere").mkdir()
    other = _reference(tmp_path / "elsewhere", text)
    other.root = reference.root
    (before,) = _shares(other)
    assert (len(before.cells), len(before.missing_runs)) == (1, 1)
    _stored(other, share, 1)
    # Both repetitions of what is done untold are known, so that it is known what comes next.
    (after,) = _shares(other)
    assert after.cells[0].key == share.cells[0].key
    assert len(after.cells) > 1 and len(after.missing_runs) == 2 * (len(after.cells) - 1)
    judged = list[tuple[str, list[int]]]()

    def judge(scenario: Scenario, pairs: Sequence[tuple[Run, MeasuredRun | None]], paths: Sequence[str]) -> Verdict:
        judged.append((scenario.name, [run.repetition for run, _ in pairs]))
        return real_judge(scenario, pairs, paths)

    monkeypatch.setattr("tools.reference.campaign.judge", judge)
    _shares(other)
    assert judged == [("studies/reach-50-10", [0, 1])]


def test_what_nobody_asks_for_can_be_dropped(tmp_path: Path) -> None:
    reference = _reference(tmp_path)
    assert reference.unrequested(lambda event: None) == set()
    (share,) = _shares(reference)
    for cell in share.cells:
        _stored(reference, Share(share.request, (cell,), ()), 0)
    publish_runs(
        reference.root, reference.unstored_results(share.cells, 2), reference._app.stored_runs, lambda run: False
    )
    assert reference.unrequested(lambda event: None) == set()
    large = {cell.key for cell in share.cells if cell.scenario.name == "satellite/large"}
    (reference.root / CAMPAIGN).write_text(_TWO.replace("satellite/medium, satellite/large", "satellite/medium"))
    unasked = reference.unrequested(lambda event: None)
    assert len(unasked) == 2 and unasked == large
    remove_cells(reference.root, unasked)
    assert set(ColumnStore(reference.root).cell_keys()) == {cell.key for cell in share.cells} - unasked


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schema: 1\nrequests:\n  - {scenarios: [satellite], client: ngtcp2}\n", ":3:"),
        ("schema: 1\nrequests:\n  - {scenarios: [satellite], repeat: 0}\n", ":3:"),
        (
            "schema: 1\nrequests:\n  - {scenarios: [satellite], set: {congestion: bbr}}\n",
            "request 1: nothing is called",
        ),
        ("schema: 1\nrequests:\n  - {scenarios: [satelite]}\n", "satelite"),
        ("schema: 1\nrequests:\n  - {scenarios: [satellite], search: 0}\n", ":3:"),
        (
            "schema: 1\nrequests:\n  - {scenarios: [satellite], pairs: itself, search: 9}\n",
            "a search has all its pairs",
        ),
        (
            "schema: 1\nrequests:\n  - {scenarios: [satellite], why: true, search: 9}\n",
            "a search is no experiment on its cells",
        ),
        ("schema: 1\nrequests:\n  - {scenarios: [satellite/medium], search: 9}\n", "no factors to search over"),
        ("schema: 1\nrequests:\n  - {scenarios: [satellite], clients: ngtcp}\n", "ngtcp"),
    ],
)
def test_what_a_campaign_cannot_ask(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        _shares(_reference(tmp_path, text))


def test_there_is_none(tmp_path: Path) -> None:
    reference = _reference(tmp_path)
    (reference.root / CAMPAIGN).unlink()
    with pytest.raises(InputError, match="there is no"):
        _shares(reference)


def test_the_repository_s_campaign_asks_for_every_scenario() -> None:
    app = App(CheckoutPaths(ROOT, ROOT / "results", ROOT / ".state", ROOT / ".cache"))
    reference = Reference(app, ROOT / "results" / "reference")
    asked = {
        scenario.name
        for request in reference.requests()
        for scenario in app.catalogue.find_scenarios(request.scenarios)
    }
    every = {app.catalogue.scenario_name(file) for file in app.catalogue.scenario_files()}
    # Those of `harness check` are about manifests, and on no page.
    assert asked == {name for name in every if not name.startswith("check/")}


def test_published_runs_have_no_path_of_the_machine_that_made_them() -> None:
    runs = pl.read_parquet(ROOT / "results" / "reference" / "runs.parquet", columns=["warnings", "measured_warnings"])
    texts = pl.concat([column.explode().drop_nulls() for column in runs]).unique()
    assert len(texts) > 10
    assert texts.filter(texts.str.contains(r"(?:^|\W)/(?:home|root|tmp|work|Users|var)/")).to_list() == []
