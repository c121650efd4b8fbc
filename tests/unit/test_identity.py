"""Keys of cells, what a scenario uses, and the ledger of digests that are the same thing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from harness import derived
from harness.derived import DerivedValues
from harness.errors import InputError
from harness.execution.checkout import LEDGER
from harness.outcome import Cell, Image, Outcome, Run
from harness.store import identity
from harness.store.identity import (
    Equivalence,
    EquivalenceProof,
    Ledger,
    cell_identities,
    cell_key,
    components,
    drop_empty,
    read_ledger,
    scenario_keys,
    with_key,
    write_ledger,
)
from harness.store.parquet import ColumnStore
from harness.store.results import Store
from harness.topology import build_lab, digest_content
from harness.units import Duration
from tests.examples import ROOT, cell, path, scenario
from tools.reference.campaign import ledger_of_stored

PROOF = EquivalenceProof(cells=84, commit="0123abcd", date="2026-11-25", lab_kernel="ff" * 32)
REFERENCE = ROOT / "results" / "reference"


def entry(digest: str, same_as: str, *excepted: str, kind: str = "engine", name: str = "virtual") -> Equivalence:
    content = {"kind": kind, "name": name, "digest": digest, "same_as": same_as, "except": excepted, "proof": PROOF}
    return Equivalence.model_validate(content)


def ledger(*entries: Equivalence) -> Ledger:
    known_ledger = Ledger()
    for equivalence in entries:
        known_ledger = known_ledger.with_entry(equivalence)
    return known_ledger


def virtual(code: str = "digest-0", **overrides: Any) -> Cell:
    return with_key(cell(engine="virtual", **overrides).model_copy(update={"engine_code": code}))


# --- what a scenario uses


def test_keys_are_those_that_are_set_and_the_words_they_choose() -> None:
    plain = scenario_keys(cell())
    assert {"path", "forward", "rate", "delay", "flows", "download"} <= plain
    assert not plain & {"title", "objectives", "changes", "jitter", "loss", "red", "moves", "droptail"}
    changed = path(changes=[{"at": "2 s", "forward": {"rate": "1 Mbit/s"}}])
    red = path(forward={"rate": "5 Mbit/s", "delay": "5 ms", "queue": "RED 1 BDP"})
    assert scenario_keys(cell(scenario(path=changed.model_dump(by_alias=True)))) - plain == {"changes", "at"}
    assert {"queue", "red", "discipline", "limit"} <= scenario_keys(cell(scenario(path=red.model_dump(by_alias=True))))


def test_names_that_users_choose_are_no_keys_and_parameters_are() -> None:
    paths = {"campus": path().model_dump(by_alias=True), "cellular": path().model_dump(by_alias=True)}
    several = scenario_keys(cell(scenario(path=None, paths=paths)))
    assert "paths" in several
    assert not several & {"campus", "cellular"}
    tested_cell = cell(parameters={"server.congestion_control": "reno"})
    assert "server.congestion_control" in scenario_keys(tested_cell)
    tested_scenario = scenario(parameters={"client.initial_rtt": "50 ms"})
    assert "client.initial_rtt" in scenario_keys(cell(tested_scenario))


# --- the lab's digest


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=2),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    )
)
def test_a_key_that_says_nothing_changes_no_digest(document: Any) -> None:
    nothings: tuple[Any, ...] = (None, False, "", [], {}, {"x": None})
    for nothing in nothings:
        assert drop_empty({"known": document, "later": nothing}) == drop_empty({"known": document})
    assert drop_empty({"known": 0, "none": 0.0}) == {"known": 0, "none": 0.0}
    # Places in a list count.
    assert drop_empty([None, document])[0] is None


def test_the_digest_of_a_lab_is_of_this_and_nothing_else(snapshot: SnapshotAssertion) -> None:
    """Whatever changes here makes every stored cell another one: change it with care, and prove nothing by habit."""
    changed = path(changes=[{"at": "2 s", "forward": {"rate": "1 Mbit/s"}}])
    lab = build_lab(cell(scenario(path=changed.model_dump(by_alias=True))), 0)
    assert json.dumps(drop_empty(digest_content(lab)), indent=1) == snapshot


# --- the ledger


def test_digests_are_followed_to_the_first_one() -> None:
    known_ledger = ledger(entry("digest-1", "digest-0"), entry("digest-2", "digest-1"))
    keys = {code: cell_key(virtual(code), known_ledger) for code in ("digest-0", "digest-1", "digest-2", "digest-3")}
    assert keys["digest-0"] == keys["digest-1"] == keys["digest-2"] != keys["digest-3"]
    assert cell_identities(virtual("digest-2"), known_ledger)["engine", "virtual"] == "digest-0"
    assert components(virtual("digest-2"))["engine", "virtual"] == "digest-2"
    # Another engine's digest of that name is another thing.
    compose = cell(engine="compose").model_copy(update={"engine_code": "digest-2"})
    assert cell_identities(compose, known_ledger)["engine", "compose"] == "digest-2"


def test_a_scope_leaves_out_the_cells_that_use_a_key() -> None:
    known_ledger = ledger(entry("digest-1", "digest-0", "changes"), entry("digest-2", "digest-1"))
    changing = scenario(path=path(changes=[{"at": "2 s", "forward": {"rate": "1 Mbit/s"}}]).model_dump(by_alias=True))
    inside, outside = (
        virtual("digest-2", definition=tested_scenario) if tested_scenario else virtual("digest-2")
        for tested_scenario in (None, changing)
    )
    assert cell_identities(inside, known_ledger)["engine", "virtual"] == "digest-0"
    assert cell_identities(outside, known_ledger)["engine", "virtual"] == "digest-1"


def test_what_has_another_identity_is_joined_by_nothing() -> None:
    known_ledger = ledger(entry("digest-1", "digest-0", "changes"), entry("digest-2", "digest-1"))
    changing = scenario(path=path(changes=[{"at": "2 s", "forward": {"rate": "1 Mbit/s"}}]).model_dump(by_alias=True))
    today: dict[tuple[Any, str], str] = {("engine", "virtual"): "digest-2"}
    assert [equivalence.digest for equivalence in known_ledger.equivalences_between(virtual("digest-0"), today)] == [
        "digest-2",
        "digest-1",
    ]
    assert known_ledger.equivalences_between(virtual("digest-0", definition=changing), today) == []
    assert [
        equivalence.digest
        for equivalence in known_ledger.equivalences_between(virtual("digest-1", definition=changing), today)
    ] == ["digest-2"]


def test_an_image_and_the_simulator_have_identities_too() -> None:
    known_ledger = ledger(
        entry("digest-of-alpha-2", "digest-of-alpha", kind="image", name="alpha"),
        entry("digest-of-sim-2", "digest-of-sim", kind="simulator", name="sim"),
    )
    before = cell()
    after = before.model_copy(
        update={
            "client_image": Image(reference="example/alpha:2", identity="digest-of-alpha-2"),
            "sim_image": Image(reference="example/sim:2", identity="digest-of-sim-2"),
        }
    )
    assert cell_key(before, known_ledger) == cell_key(after, known_ledger) != cell_key(after, Ledger())
    assert {equivalence.digest for equivalence in known_ledger.equivalences_between(before, components(after))} == {
        "digest-of-alpha-2",
        "digest-of-sim-2",
    }


def test_a_ledger_reads_back(tmp_path: Path) -> None:
    known_ledger = ledger(
        entry("digest-1", "digest-0", "changes", "red"),
        entry("12345678", "digest-1"),
        entry("digest-of-alpha-2", "digest-of-alpha", kind="image", name="alpha@1.2.0").model_copy(
            update={"without": ("beta",)}
        ),
    )
    write_ledger(tmp_path / "ledger.yaml", known_ledger)
    read = read_ledger(tmp_path / "ledger.yaml")
    assert read.entries == known_ledger.entries
    assert read.position_text(read.entries.equivalences[1]).startswith(f"{tmp_path / 'ledger.yaml'}:")
    assert read_ledger(tmp_path / "none.yaml") == Ledger()


_TEXT = """schema: 1
identities:
  - {kind: engine, name: virtual, digest: "digest-0"}
equivalences:
"""
_ENTRY = "  - {{kind: engine, name: virtual, digest: {0}, same_as: {1}{2}, proof: {{cells: 84, differing: {3}, commit: c, date: 2026-11-25}}}}\n"


def _entries(*entries: tuple[str, str, str, str]) -> str:
    return _TEXT + "".join(_ENTRY.format(*fields) for fields in entries)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_entries(("digest-1", "digest-9", "", "0")), ":5:.*digest-9 is no digest of engine virtual"),
        (
            _entries(("digest-1", "digest-0", "", "0"), ("digest-1", "digest-0", "", "0")),
            ":6:.*has another name already",
        ),
        (_entries(("digest-0", "digest-0", "", "0")), ":5:.*has another name already"),
        (_entries(("digest-1", "digest-2", "", "0"), ("digest-2", "digest-1", "", "0")), ":5:.*in a circle"),
        (_entries(("digest-1", "digest-0", ", except: [chnages]", "0")), ":5:.*no scenario has a key 'chnages'"),
        (_entries(("digest-1", "digest-0", "", "1")), ":5:.*differing"),
        (_entries(("short", "digest-0", "", "0")), ":5:.*digest"),
        ("schema: 2\n", ":1:.*schema"),
        ("equivalences: [{kind: engine}]\n", ":1:"),
        (_TEXT.replace("equivalences:", '  - {kind: engine, name: virtual, digest: "digest-0"}'), "stands here twice"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "ledger.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_ledger(file)


def test_no_entry_is_written_that_could_not_be_read() -> None:
    known_ledger = ledger(entry("digest-1", "digest-0"))
    for wrong in (entry("digest-1", "digest-2"), entry("digest-0", "digest-1")):
        with pytest.raises(ValueError, match=r"another name|in a circle"):
            known_ledger.with_entry(wrong)


def test_what_a_new_ledger_affects_is_all_that_passes_a_changed_entry() -> None:
    before, after = ledger(entry("digest-1", "digest-0")), ledger(entry("digest-1", "digest-0", "red"))
    longer = ledger(entry("digest-1", "digest-0"), entry("digest-2", "digest-1"), entry("digest-3", "digest-2"))
    assert after.affected(before.links) == {"digest-1"}
    assert longer.affected(after.links) == {"digest-1", "digest-2", "digest-3"}
    assert longer.affected(longer.links) == set()


# --- stores


def _kept(store: Store, stored_cell: Cell, repetition: int = 0) -> None:
    run = Run(cell=stored_cell, repetition=repetition, outcome=Outcome(status="completed"), started_at="")
    store.finish(store.begin(stored_cell.key, repetition), run, None)


def test_stored_runs_follow_the_ledger_and_come_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first, second = virtual("digest-0"), virtual("digest-1")
    _kept(store, first, 0)
    _kept(store, second, 1)
    assert sorted(store.cell_keys()) == sorted([first.key, second.key])
    known_ledger = ledger(entry("digest-1", "digest-0"))
    assert store.rekey(known_ledger) == 1
    assert store.cell_keys() == [first.key]
    runs = store.runs(first.key)
    # Each has the digests that it was made with.
    assert [(run.repetition, run.cell.engine_code) for run in runs] == [(0, "digest-0"), (1, "digest-1")]
    assert store.rekey(known_ledger) == 0
    # The entry was wrong, and is taken out again.
    assert store.rekey(Ledger()) == 1
    assert sorted(store.cell_keys()) == sorted([first.key, second.key])


def test_a_new_store_notes_the_ledger_with_its_first_run(tmp_path: Path) -> None:
    store, known_ledger = Store(tmp_path), ledger(entry("digest-1", "digest-0"))
    assert store.rekey(known_ledger) == 0
    _kept(store, with_key(virtual("digest-1"), known_ledger))
    assert json.loads((tmp_path / "runs" / "equivalences.json").read_text()) == [
        list(link) for link in known_ledger.links
    ]


def test_a_run_whose_place_is_taken_is_put_aside(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first, second = virtual("digest-0"), virtual("digest-1")
    _kept(store, first)
    _kept(store, second)
    assert store.rekey(ledger(entry("digest-1", "digest-0"))) == 1
    assert [run.cell.engine_code for run in store.runs(first.key)] == ["digest-0"]
    assert len(store.every_folder(first.key)) == 2


def test_a_pass_that_was_broken_off_is_finished_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, known_ledger = Store(tmp_path), ledger(entry("digest-1", "digest-0"))
    _kept(store, virtual("digest-1"), 1)
    rename = Path.rename
    monkeypatch.setattr(Path, "rename", lambda self, target: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        store.rekey(known_ledger)
    monkeypatch.setattr(Path, "rename", rename)
    assert store.rekey(known_ledger) == 1
    assert [run.repetition for run in store.runs(virtual("digest-0").key)] == [1]


def test_the_reference_has_the_keys_that_the_ledger_gives_it() -> None:
    """An entry that is added or taken out by hand shows here: `python -m tools.reference keep` gives runs their keys anew."""
    known_ledger, columns = read_ledger(ROOT / LEDGER), ColumnStore(REFERENCE)
    cells = {run.cell.key: run.cell for key in columns.cell_keys() for run in columns.runs(key)}
    assert {key for key, tested_cell in cells.items() if cell_key(tested_cell, known_ledger) != key} == set()
    # Every entry serves some stored run.
    needed = ledger_of_stored(known_ledger, cells.values())
    assert needed.entries == known_ledger.entries, "`python -m tools.reference run --tidy` drops the rest"


def test_entries_that_end_at_no_stored_run_are_of_no_use() -> None:
    client = virtual()
    name, digest_of_client = client.client.name, client.client_image.identity
    known_ledger = ledger(
        entry("digest-1", "digest-0"),
        entry("digest-2", "digest-1", "loss"),
        entry("digest-4", "digest-3", kind="image", name=name),
    )
    # A run with any digest of a chain needs the whole chain: today's digest may be at either side of it.
    for digest in ("digest-0", "digest-1", "digest-2"):
        assert [e.digest for e in ledger_of_stored(known_ledger, [virtual(digest)]).entries.equivalences] == [
            "digest-1",
            "digest-2",
        ]
    assert ledger_of_stored(known_ledger, [virtual("digest-9")]).entries.identities == ()
    both = known_ledger.with_entry(entry("digest-5", digest_of_client, kind="image", name=name))
    kept = ledger_of_stored(both, [virtual("digest-9")]).entries
    assert [(e.digest, e.same_as) for e in kept.equivalences] == [("digest-5", digest_of_client)]
    assert [identity.digest for identity in kept.identities] == [digest_of_client]


# --- digests of labs that are kept


@pytest.fixture
def kept_labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived, "_SETTLED", -60.0)
    values = DerivedValues()
    values.keep_in(tmp_path / "derived.json")
    monkeypatch.setattr(identity, "DERIVED", values)


@pytest.mark.usefixtures("kept_labs")
def test_a_kept_digest_of_a_lab_is_that_of_the_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = cell()
    cells = [
        plain,
        plain.model_copy(update={"seed": 2}),
        plain.model_copy(update={"sim_kernel": "lab"}),
        plain.model_copy(update={"engine": "virtual", "host_cpu": True}),
        plain.model_copy(update={"parameters": {"server.congestion_control": "reno"}}),
        plain.model_copy(update={"scenario": plain.scenario.model_copy(update={"timeout": Duration.parse("99 s")})}),
    ]
    digests = [identity.lab_digest(item) for item in cells]
    assert digests == [identity._derive_lab_digest(item) for item in cells]
    assert len({*digests}) == len(cells)
    monkeypatch.setattr(identity, "_derive_lab_digest", lambda item: pytest.fail("compiled again"))
    assert [identity.lab_digest(item.model_copy()) for item in cells] == digests
    # No image is part of a lab.
    other = Image(reference="other", identity="other")
    assert identity.lab_digest(plain.model_copy(update={"client_image": other, "engine_code": "other"})) == digests[0]


def test_a_lab_s_digest_is_kept_for_all_code_that_it_is_derived_with() -> None:
    code = "import sys, harness.store.identity; print(*(m.__file__ for m in sys.modules.values() if hasattr(m, '__file__')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    ours = {Path(file) for file in loaded if file.startswith(str(ROOT / "harness"))}
    # The package itself, empty modules of packages, and what keeps values decide nothing.
    beside = {ROOT / "harness" / name for name in ("__init__.py", "derived.py", "writing.py", "store/__init__.py")}
    assert ours - {*identity._lab_code()} <= beside
