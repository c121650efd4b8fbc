"""Which runs guard an equivalence, and what is made of their bytes; the runs themselves are made up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from harness.catalogue import Catalogue
from harness.cli.quality import parse_share
from harness.errors import InputError
from harness.execution import Options
from harness.execution.matrix import Request
from harness.outcome import Cell, Outcome, RandomBytes, Run
from harness.repro import equivalence, parallel_runs
from harness.repro.checkout import read_digests, scenario_document
from harness.repro.equivalence import ChangedComponent, ProofAttempt, Prover
from harness.repro.guard_set import features, guard_set, sample
from harness.repro.parallel_runs import RepeatedRun, run_again
from harness.repro.report import again_lines, again_report, changed_lines, difference_lines, report, result_lines
from harness.store.identity import Component, Ledger, components, scenario_keys, with_key
from harness.store.results import Store
from tests.examples import cell, images, implementation, path, scenario
from tests.unit.test_identity import entry, ledger

ENGINE: Component = ("engine", "virtual")
CHANGING = scenario(
    name="test/changing",
    path=path(changes=[{"at": "2 s", "forward": {"rate": "1 Mbit/s"}}]).model_dump(by_alias=True),
)
#: Has something that the former has not.
PLAIN = scenario(name="test/plain", certificates=2)


def stored(stored_cell: Cell, captures: str = "same", wall: float = 1.0, repetition: int = 0) -> Run:
    return Run(
        cell=stored_cell, repetition=repetition, outcome=Outcome(status="completed"), started_at="2026-11-25", wall=wall,
        captures={"left": captures, "right": captures}, random={"client0": RandomBytes(bytes=1, digest=captures)},
    )  # fmt: skip


def virtual(definition: Any = None, client: str = "alpha", server: str = "beta", **parameters: str) -> Cell:
    tested_cell = cell(
        definition, implementation(client), implementation(server), engine="virtual", parameters=parameters
    )
    return with_key(tested_cell.model_copy(update={"engine_code": "digest-0"}))


class FakeApp:
    """A checkout whose engine has another digest than the stored runs', and in which some cells are other labs."""

    def __init__(self, known: Ledger, other_labs: Sequence[str] = ()) -> None:
        self.ledger = known
        self.paths = SimpleNamespace(root=Path("/nowhere"))
        self._other_labs = other_labs

    def current_cell(self, planned_cell: Cell) -> Cell:
        return (
            planned_cell.model_copy(update={"compiled": "other"})
            if planned_cell.scenario.name in self._other_labs
            else planned_cell
        )


@pytest.fixture
def prover(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a prover: `differs` names scenarios whose cells come out otherwise today."""

    def make(
        runs: Sequence[Run], known: Ledger | None = None, differs: Sequence[str] = (), digest: str = "digest-1",
        other_labs: Sequence[str] = (), images: Mapping[str, str] | None = None, **overrides: Any,
    ) -> Prover:  # fmt: skip
        digests = {component: value for run in runs for component, value in components(run.cell).items()}

        def component_digests(app: Any, names: Iterable[str] = ()) -> dict[Component, str]:
            # Releases have a digest where they are asked for alone.
            named = {item for item in digests if "@" not in item[1] or item[1] in names}
            changed: dict[Component, str] = {("image", name): value for name, value in (images or {}).items()}
            return {item: digests[item] for item in named} | changed | {ENGINE: digest}

        monkeypatch.setattr(equivalence, "component_digests", component_digests)

        def run_again(app: Any, runs: Sequence[Run], *words: Any) -> Iterator[RepeatedRun]:
            for run in runs:
                differing = run.cell.scenario.name in differs
                yield RepeatedRun(run, stored(run.cell, "other") if differing else run, None)

        monkeypatch.setattr(equivalence, "run_again", run_again)
        return Prover(FakeApp(known or Ledger(), other_labs), runs, **overrides)  # type: ignore[arg-type]

    return make


def no_base() -> Any:
    raise InputError("no commit has these digests")


class FakeBase:
    """A base whose runs come out as `captures` says."""

    def __init__(self, captures: str) -> None:
        self._captures = captures
        self.cells_run: list[str] = []

    def run(self, planned_cell: Cell, repetition: int, store: Path) -> Run:
        self.cells_run.append(planned_cell.scenario.name)
        return stored(planned_cell, self._captures, repetition=repetition)


# --- the guard set


def test_the_guard_set_touches_all_that_the_runs_touch_and_has_nothing_to_spare() -> None:
    runs = [
        stored(virtual(), wall=1.0),
        stored(virtual(CHANGING), wall=5.0),
        stored(virtual(CHANGING, "beta", "alpha"), wall=9.0),
        stored(virtual(client="beta", server="alpha"), wall=2.0),
        *(stored(virtual(**{"server.congestion_control": word}), wall=3.0) for word in ("reno", "cubic")),
        stored(virtual(scenario(name="test/v6", ip_version=6)), wall=1.5),
    ]
    chosen = guard_set(runs)
    every = frozenset[Any]().union(*(features(run.cell) for run in runs))
    assert frozenset[Any]().union(*(features(run.cell) for run in chosen)) == every
    for left_out in chosen:
        others = (features(run.cell) for run in chosen if run is not left_out)
        assert frozenset[Any]().union(*others) != every
    # What is dear stands for nothing that cheaper ones do not have.
    assert 9.0 not in {run.wall for run in chosen}
    assert guard_set(list(reversed(runs))) == chosen
    assert guard_set([]) == []


def test_a_sample_is_a_share_of_the_cells() -> None:
    runs = [
        stored(virtual(scenario(timeout=f"{number} s")), repetition=repetition)
        for number in range(1, 21)
        for repetition in range(2)
    ]
    drawn = sample(runs, 0.25, 1)
    assert len({run.cell.key for run in drawn}) == len(drawn) == 5
    assert {run.repetition for run in drawn} == {0}
    assert drawn == sample(runs, 0.25, 1) != sample(runs, 0.25, 2)
    assert sample(runs, 0.0, 1) == []
    assert [parse_share(text) for text in ("5%", " 5 %", "100%", "0%")] == [0.05, 0.05, 1.0, 0.0]
    for wrong in ("5", "nan%", "101%", "-1%", "x%", ""):
        with pytest.raises(InputError, match="is no share"):
            parse_share(wrong)


# --- proving


def prove(tested_prover: Prover, tmp_path: Path, base: Any = no_base, **overrides: Any) -> ProofAttempt:
    return tested_prover.prove(tested_prover.changed(), tmp_path, base, **overrides)


def test_the_same_bytes_make_an_entry(prover: Any, tmp_path: Path) -> None:
    tested_prover = prover([stored(virtual(PLAIN)), stored(virtual(CHANGING))])
    tried = prove(tested_prover, tmp_path)
    assert tried.proven
    assert tried.changed == (ChangedComponent(ENGINE, "digest-0", "digest-1"),)
    written = tested_prover.ledger_with(tried)
    (added,) = written.entries.equivalences
    assert (added.digest, added.same_as, added.except_, added.proof.cells) == ("digest-1", "digest-0", (), 2)
    assert written.identity(ENGINE, "digest-1", frozenset) == "digest-0"
    assert list(changed_lines(tried)) == ["the engine virtual: digest-0 → digest-1"]
    assert list(result_lines(tried)) == ["the same bytes in 2 guard cells: the digests are the same thing"]
    assert json.loads(json.dumps(report(tried)))["proven"] is True


def test_a_release_of_an_implementation_guards_too(prover: Any, tmp_path: Path) -> None:
    release = implementation("alpha").model_copy(update={"name": "alpha@1.2.0"})
    of_release = with_key(virtual().model_copy(update={"client": release, "server": release}))
    tried = prove(prover([stored(of_release)]), tmp_path)
    assert tried.proven
    assert [item.stored.cell.client.name for item in tried.compared] == ["alpha@1.2.0"]


def test_nothing_new_is_nothing_to_prove(prover: Any, tmp_path: Path) -> None:
    for known_ledger, digest in ((Ledger(), "digest-0"), (ledger(entry("digest-1", "digest-0")), "digest-1")):
        tried = prove(prover([stored(virtual())], known_ledger, digest=digest), tmp_path)
        assert tried.proven
        assert not tried.changed
        assert list(result_lines(tried)) == ["nothing to prove: every digest is that of stored results"]


def test_other_bytes_are_refused_with_the_cell_and_a_scope_accepts_the_rest(prover: Any, tmp_path: Path) -> None:
    runs = [stored(virtual(PLAIN)), stored(virtual(CHANGING)), stored(virtual(client="beta", server="alpha"))]
    tried = prove(prover(runs, differs=["test/changing"]), tmp_path)
    assert not tried.proven
    assert [item.stored.cell.scenario.name for item in tried.differing] == ["test/changing"]
    assert tried.suggestion == ("at", "changes")
    lines = list(result_lines(tried))
    assert lines[0].startswith("differs: test/changing alpha→beta (")
    assert "left capture, right capture, random bytes of client0" in lines[0]
    assert "1 of 3 guard cells differ: nothing was written" in lines
    assert any("--except at,changes" in line for line in lines)

    scoped = prover(runs, differs=["test/changing"], excepted=("changes",))
    tried = prove(scoped, tmp_path)
    assert tried.proven
    assert tried.excluded_cells == 1
    (added,) = scoped.ledger_with(tried).entries.equivalences
    assert (added.except_, added.proof.cells) == (("changes",), 2)
    assert list(result_lines(tried))[-1].endswith(
        "the digests are the same thing, but for cells that use changes (1 of the reference)"
    )


def test_where_the_base_comes_out_so_too_the_machine_is_another_one_and_nothing_differs(
    prover: Any, tmp_path: Path
) -> None:
    announced: list[str] = []
    tested_prover = prover(
        [stored(virtual(PLAIN)), stored(virtual(CHANGING))],
        differs=["test/changing"],
        announce_differences=lambda compared: announced.extend(difference_lines(compared)),
    )
    base = FakeBase("other")
    assert prove(tested_prover, tmp_path, lambda: base).proven
    assert announced[0].startswith("1 guard cell came out otherwise than the reference's; an earlier revision")
    assert announced[1].startswith("  test/changing alpha→beta (")
    # What gave the reference's bytes was not run again.
    assert base.cells_run == ["test/changing"]
    tried = prove(tested_prover, tmp_path, lambda: FakeBase("same"))
    assert not tried.proven
    assert tried.differing[0].folders is not None
    tried = prove(tested_prover, tmp_path)
    assert not tried.proven
    assert any("no commit has these digests" in line for line in result_lines(tried))


def test_with_a_base_of_its_own_every_cell_is_run_by_both(prover: Any, tmp_path: Path) -> None:
    tested_prover = prover([stored(virtual(PLAIN)), stored(virtual(CHANGING))])
    base = FakeBase("same")
    assert tested_prover.prove(tested_prover.changed({ENGINE: "digest-0"}), tmp_path, lambda: base, afresh=True).proven
    assert sorted(base.cells_run) == ["test/changing", "test/plain"]
    assert not tested_prover.prove(tested_prover.changed(), tmp_path, lambda: FakeBase("other"), afresh=True).proven
    with pytest.raises(InputError, match="nothing is stored with the base's digest of engine virtual, digest-x"):
        tested_prover.changed({ENGINE: "digest-x"})


def test_a_cell_that_is_another_lab_proves_nothing(prover: Any, tmp_path: Path) -> None:
    runs = [stored(virtual(PLAIN)), stored(virtual(CHANGING))]
    tried = prove(prover(runs, other_labs=["test/changing"]), tmp_path)
    assert not tried.proven
    assert tried.uncovered == ("at", "changes")
    assert any(line.startswith("another lab: test/changing alpha→beta") for line in result_lines(tried))
    # The key is in another cell, or out of scope.
    again = scenario(name="test/again", path=CHANGING.model_dump(by_alias=True)["path"], certificates=2)
    assert prove(prover([*runs, stored(virtual(again))], other_labs=["test/changing"]), tmp_path).proven
    assert prove(prover(runs, other_labs=["test/changing"], excepted=("changes",)), tmp_path).proven
    # No digest is new, and still something would be run otherwise.
    tried = prove(prover(runs, digest="digest-0", other_labs=["test/changing"]), tmp_path)
    assert not tried.proven
    assert any("1 cell of the reference would be run otherwise" in line for line in result_lines(tried))


def test_what_no_cell_has_is_not_proven(prover: Any, tmp_path: Path) -> None:
    tested_prover = prover([stored(virtual(CHANGING))], excepted=("changes",))
    tried = prove(tested_prover, tmp_path)
    assert not tried.proven
    assert list(result_lines(tried)) == ["the engine virtual is in no cell that could be run: nothing was written"]
    with pytest.raises(InputError, match="no scenario has a key 'chnages'"):
        prover([stored(virtual())], excepted=("chnages",))


def test_an_image_that_no_cell_has_gets_no_entry_and_hinders_no_other(prover: Any, tmp_path: Path) -> None:
    runs = [stored(virtual(PLAIN)), stored(virtual(CHANGING, "gamma", "beta"))]
    tested_prover = prover(runs, excepted=("changes",), images={"gamma": "image-digest-1"})
    tried = prove(tested_prover, tmp_path)
    assert tried.proven
    assert [entry.component for entry in tested_prover.ledger_with(tried).entries.equivalences] == [ENGINE]
    assert next(result_lines(tried)) == "no entry, for no guard cell has it: the image gamma"
    # Alone it would be all that there is to prove.
    tried = prove(prover(runs, excepted=("changes",), images={"gamma": "image-digest-1"}, digest="digest-0"), tmp_path)
    assert not tried.proven
    assert list(result_lines(tried)) == ["the image gamma is in no cell that could be run: nothing was written"]


def test_an_implementation_that_is_left_out_has_to_be_run_again_and_hinders_no_other(
    prover: Any, tmp_path: Path
) -> None:
    runs = [stored(virtual(PLAIN)), stored(virtual(CHANGING, "gamma", "beta"))]
    new_image = {"gamma": "image-digest-1"}
    assert not prove(prover(runs, differs=["test/changing"], images=new_image), tmp_path).proven
    tested_prover = prover(runs, differs=["test/changing"], images=new_image, without=("gamma",))
    tried = prove(tested_prover, tmp_path)
    assert tried.proven
    assert [item.stored.cell.scenario.name for item in tried.compared] == ["test/plain"]
    written = tested_prover.ledger_with(tried)
    (added,) = written.entries.equivalences
    assert (added.component, added.without) == (ENGINE, ("gamma",))
    assert list(result_lines(tried))[-1].endswith("but for cells that use gamma (1 of the reference)")
    assert report(tried)["without"] == ["gamma"]
    # Today's cells of the one that was left out have the new digest; all others keep their key.
    plain, changing = (run.cell.model_copy(update={"engine_code": "digest-1"}) for run in runs)
    assert with_key(plain, written).key == with_key(runs[0].cell, written).key
    assert with_key(changing, written).key != with_key(runs[1].cell, written).key
    with pytest.raises(InputError, match="--without: no stored cell has the image of 'gama'"):
        prover(runs, without=("gama",))


def test_releases_are_left_out_by_a_word(prover: Any, tmp_path: Path) -> None:
    release = implementation("alpha").model_copy(update={"name": "alpha@1.2.0"})
    of_release = with_key(virtual().model_copy(update={"client": release}))
    tested_prover = prover([stored(virtual(PLAIN)), stored(of_release)], without=("releases",))
    tried = prove(tested_prover, tmp_path)
    assert [item.stored.cell.client.name for item in tried.compared] == ["alpha"]
    written = tested_prover.ledger_with(tried)
    assert with_key(of_release.model_copy(update={"engine_code": "digest-1"}), written).key != of_release.key


def test_a_change_is_compared_with_the_newest_runs_or_with_most(prover: Any, tmp_path: Path) -> None:
    newest = with_key(virtual(PLAIN).model_copy(update={"engine_code": "digest-9"}))
    runs = [
        *(stored(virtual(PLAIN), repetition=number) for number in range(3)),
        stored(newest).model_copy(update={"started_at": "2026-11-26"}),
    ]
    assert prover(runs).changed() == [ChangedComponent(ENGINE, "digest-9", "digest-1")]
    assert prover(runs, against="most").changed() == [ChangedComponent(ENGINE, "digest-0", "digest-1")]
    # Stored with today's digest: nothing is new, but most runs have another one.
    assert prover(runs, digest="digest-9").changed() == []
    tested_prover = prover(runs, digest="digest-9", against="most")
    assert tested_prover.changed() == [ChangedComponent(ENGINE, "digest-0", "digest-9")]
    written = tested_prover.ledger_with(prove(tested_prover, tmp_path))
    assert with_key(newest, written).key == runs[0].cell.key
    # A digest that entries end at cannot be the same as an earlier one.
    ended = ledger(entry("digest-8", "digest-9"))
    assert prover(runs, ended, digest="digest-9", against="most").changed() == []


def test_an_interrupted_attempt_has_its_folder_until_a_digest_changes(prover: Any) -> None:
    runs = [stored(virtual(PLAIN))]
    assert prover(runs).fingerprint == prover(runs).fingerprint != prover(runs, digest="digest-2").fingerprint


def test_runs_of_an_interrupted_attempt_are_not_made_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [stored(virtual(PLAIN)), stored(virtual(CHANGING))]
    store = Store(tmp_path)
    scenarios_run = list[str]()

    def run_unjudged(planned: Any, engine: Any, into: Store, *words: Any) -> tuple[Run, None]:
        scenarios_run.append(planned.cell.scenario.name)
        (run,) = (run for run in runs if run.cell.key == planned.cell.key)
        into.finish(into.begin(run.cell.key, run.repetition), run, None)
        return run, None

    monkeypatch.setattr(parallel_runs, "run_unjudged", run_unjudged)
    monkeypatch.setattr(parallel_runs, "create_engine", lambda *words: SimpleNamespace(close=lambda: None))
    app: Any = SimpleNamespace(
        provenance=lambda images: None, cache=None, current_cell=lambda planned_cell: planned_cell,
        inventory=SimpleNamespace(build_images_of=lambda planned_cell, listen: planned_cell),
    )  # fmt: skip

    def again(chosen: Sequence[Run]) -> list[str]:
        repeated = run_again(app, chosen, store, Options(jobs=1), lambda event: None)
        return [item.repeated.cell.scenario.name for item in repeated]

    assert again(runs[:1]) == ["test/plain"] == scenarios_run
    assert sorted(again(runs)) == ["test/changing", "test/plain"]
    assert scenarios_run == ["test/plain", "test/changing"]


def test_a_later_change_is_held_against_the_one_before(prover: Any, tmp_path: Path) -> None:
    known_ledger = ledger(entry("digest-1", "digest-0", "changes"))
    tested_prover = prover([stored(virtual(PLAIN)), stored(virtual(CHANGING))], known_ledger, digest="digest-2")
    (changed,) = tested_prover.changed()
    assert changed.before == "digest-1"
    tried = prove(tested_prover, tmp_path)
    # Cells with changes are of another identity, and are not there yet.
    assert [item.stored.cell.scenario.name for item in tried.compared] == ["test/plain"]


def test_entries_of_digests_that_nothing_is_stored_with_are_no_base(prover: Any, tmp_path: Path) -> None:
    """Runs may have been stored by code whose digest nobody has proven."""
    known_ledger = ledger(entry("digest-8", "digest-9"))
    tested_prover = prover([stored(virtual(PLAIN))], known_ledger)
    assert tested_prover.changed() == [ChangedComponent(ENGINE, "digest-0", "digest-1")]
    assert prove(tested_prover, tmp_path).proven


def test_entries_are_tried_again_by_the_runs_that_rest_on_them(prover: Any, tmp_path: Path) -> None:
    known_ledger = ledger(
        entry("digest-1", "digest-0"), entry("sim-digest-1", "sim-digest-0", kind="simulator", name="sim")
    )
    runs = [stored(virtual(PLAIN)), stored(virtual(CHANGING))]
    tested_prover = prover(runs, known_ledger)
    lines = list(again_lines(tested_prover.prove_again(tmp_path, no_base), known_ledger))
    assert lines[0].startswith("engine virtual digest-1 = digest-0") and lines[0].endswith("holds in 2 cells")
    assert lines[1].endswith("no stored run rests on it")
    tested_prover = prover(runs, known_ledger, differs=["test/changing"])
    tried = tested_prover.prove_again(tmp_path, no_base)
    assert "differs in 1 of 2 cells: test/changing" in next(iter(again_lines(tried, known_ledger)))
    assert [item["holds"] for item in again_report(tried)["entries"]] == [False, True]
    assert all(attempt.proven for attempt in tested_prover.prove_again(tmp_path, lambda: FakeBase("other")).values())


# --- another revision


def test_a_cell_is_handed_over_as_a_file_that_amounts_to_the_same_lab(tmp_path: Path) -> None:
    swept = scenario(vary={"path.forward.rate": ["10 Mbit/s", "20 Mbit/s"]}, repetitions=3)
    request = Request([swept, CHANGING], [implementation("alpha")], [implementation("beta")], engine="virtual")
    from harness.execution.matrix import build_matrix

    for tested_cell in build_matrix(request, images("alpha", "beta"), cell().sim_image):
        file = tmp_path / "cell.yaml"
        file.write_text(json.dumps(scenario_document(tested_cell)))
        assert "vary" not in yaml.safe_load(file.read_text())
        read = Catalogue(tmp_path).scenario(file)
        again = Request(
            [read], request.clients, request.servers, engine="virtual", parameters=tested_cell.parameters
        )  # fmt: skip
        (rebuilt_cell,) = build_matrix(again, images("alpha", "beta"), tested_cell.sim_image)
        assert rebuilt_cell.key == tested_cell.key
        assert scenario_keys(rebuilt_cell) == scenario_keys(tested_cell)


def test_digests_of_a_revision_are_read_or_refused() -> None:
    assert read_digests('{"engine": {"virtual": "digest-0"}}') == {ENGINE: "digest-0"}
    for wrong in ("", "[]", '{"engine": 1}'):
        with pytest.raises(InputError, match="cannot be read"):
            read_digests(wrong)
