"""What a plan takes of the disk, and that one which does not fit is not begun."""

from __future__ import annotations

import json
import os
import shutil
from collections import namedtuple
from contextlib import nullcontext
from pathlib import Path

import pytest

from harness.cli import main
from harness.errors import EngineError
from harness.evaluation.retention import RequestedEvidence
from harness.execution import App, CheckoutPaths, Options
from harness.execution.estimates import DiskUse
from harness.execution.matrix import PlannedRun, Request
from harness.execution.scheduler import Campaign, LostRuns
from harness.formatting import format_size
from harness.outcome import Cell, LinkProof, MeasuredRun, Measurement, Outcome, Run
from harness.planning.estimate import STORED_BESIDE, STORED_BYTE, stored_bytes, written_bytes
from harness.store.compression import RETAINED_ENTRIES, disk_use
from harness.store.results import Store
from tests.examples import ROOT, cell, scenario

_Usage = namedtuple("_Usage", "total used free")


def _store(
    store: Store, stored_cell: Cell, size: int, repetition: int = 0, *, plain: bool = False, took: float | None = None
) -> Path:
    """A finished run with artefacts that do not shrink; `took`: seconds to its milestone."""
    partial = store.begin(stored_cell.key, repetition)
    (partial / "sim").mkdir()
    (partial / "sim" / "noise.gz").write_bytes(os.urandom(size))
    run = Run(cell=stored_cell, repetition=repetition, outcome=Outcome(status="completed"), started_at="2026-11-21")
    figures = (
        () if took is None else (Measurement(name="milestone_2MB", value=took, unit="s", flow=0, transfer="first"),)
    )
    place = store.finish(partial, run, MeasuredRun(version=1, measurements=figures, link=LinkProof(valid=True)))
    if plain:
        (place / "sim" / "trace_node_left.pcap").write_bytes(bytes(size))
    return place


def _planned(*cells: Cell) -> list[PlannedRun]:
    return [PlannedRun(tested_cell, 0) for tested_cell in cells]


def test_a_plan_takes_what_stored_runs_of_its_kind_took_else_an_upper_estimate(tmp_path: Path) -> None:
    store = Store(tmp_path)
    tested_cell, kind, unknown = cell(seed=1), cell(seed=2), cell(scenario(name="test/other"), seed=3)
    places = [_store(store, tested_cell, 100_000), _store(store, tested_cell, 300_000, 1)]
    need = DiskUse(store).need(_planned(tested_cell, kind, unknown), 2)
    largest = disk_use(places[1])
    assert need.maximum == 2 * largest + stored_bytes(unknown.scenario)
    assert need.temporary == 2 * written_bytes(tested_cell.scenario)
    assert (need.runs, need.estimated_runs) == (3, 1)
    # Its own runs tell better than those of its kind.
    _store(store, kind, 500_000)
    assert DiskUse(store).need(_planned(kind), 1).maximum == disk_use(store.folder(kind.key, 0))
    assert DiskUse(store).need([], 2).maximum == DiskUse(store).need([], 2).temporary == 0


def test_what_was_never_compressed_and_what_cannot_be_read_tell_nothing(tmp_path: Path) -> None:
    store, tested_cell = Store(tmp_path), cell()
    _store(store, tested_cell, 900_000, plain=True)
    assert DiskUse(store).need(_planned(tested_cell), 1).estimated_runs == 1
    broken = _store(store, cell(seed=9), 1000)
    (broken / "run.json").write_text("[]")
    assert DiskUse(store).need(_planned(tested_cell), 1).estimated_runs == 1


def test_figures_alone_take_little_and_so_do_those_who_refuse(tmp_path: Path) -> None:
    store, tested_cell = Store(tmp_path), cell()
    _store(store, tested_cell, 900_000)
    assert DiskUse(store, "figures").need(_planned(tested_cell), 1).maximum < 50_000
    refused = cell(parameters={"client.initial_cwnd": "7"})
    assert DiskUse(store).need(_planned(refused), 1).maximum == STORED_BESIDE


def test_of_failed_runs_only_what_fails_is_planned_to_stay(tmp_path: Path) -> None:
    store = Store(tmp_path)
    quick, slow, mixed, unknown = (cell(scenario(name=f"test/{seed}"), seed=seed) for seed in range(4))
    _store(store, quick, 900_000, took=2.0)
    _store(store, slow, 900_000, took=4.0)
    _store(store, mixed, 900_000, took=2.0)
    _store(store, mixed, 300_000, 1, took=4.0)

    def need(planned_cell: Cell) -> tuple[int, int]:
        disk_need = DiskUse(store, "failed").need(_planned(planned_cell), 2)
        # While it goes on a run takes as much, whatever becomes of it.
        assert disk_need.temporary == written_bytes(planned_cell.scenario)
        return disk_need.minimum, disk_need.maximum

    def figures(stored_cell: Cell) -> int:
        place = store.folder(stored_cell.key, 0)
        return sum(disk_use(place / name) for name in RETAINED_ENTRIES)

    assert need(quick) == (figures(quick), figures(quick))
    assert figures(quick) < 100_000
    assert need(slow) == (disk_use(store.folder(slow.key, 0)),) * 2
    assert need(mixed) == (figures(mixed), disk_use(store.folder(mixed.key, 1)))
    # Another seed is of the same kind.
    assert need(cell(mixed.scenario, seed=9)) == need(mixed)
    assert need(unknown) == (STORED_BESIDE, stored_bytes(unknown.scenario))
    # Nobody knows any more how much the artefacts of the one that failed took.
    store.strip(store.folder(slow.key, 0))
    assert need(slow) == (stored_bytes(slow.scenario),) * 2
    text = DiskUse(store, "failed").need(_planned(quick, unknown), 1).text
    assert " to " in text and "of disk, by how many fail" in text


def test_what_may_not_fit_is_cautioned_of_and_what_cannot_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, tested_cell = Store(tmp_path), cell()
    disk = DiskUse(store, "failed")
    need = disk.need(_planned(tested_cell), 1)

    def required(free: int) -> str:
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: _Usage(free, 0, free))
        return disk.require(need)

    assert required(need.maximum + need.temporary) == ""
    assert "where too many of them fail" in required(need.maximum + need.temporary - 1)
    assert "where too many of them fail" in required(need.minimum + need.temporary)
    with pytest.raises(EngineError, match="free, and 1 run to do take"):
        required(need.minimum + need.temporary - 1)


def test_what_servers_serve_is_counted_where_it_is_not_there_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, served = Store(tmp_path / "store"), tmp_path / "www"
    several = scenario(flows=[{"files": [{"count": 3, "size": "1 GB"}]}, {"stop": "60 s"}], objectives=[])
    planned = _planned(
        cell(several), cell(several, seed=2), cell(scenario(flows=[{"download": "2 GB"}], objectives=[]))
    )
    disk = DiskUse(store, "figures", served)
    need = disk.need(planned, 1)
    # 60 s at 50 Mbit/s are 375 MB, for which 500 MB are held ready.
    assert need.served_files == 3 * 10**9 + 500 * 10**6 + 2 * 10**9
    assert DiskUse(store, "figures").need(planned, 1).served_files == 0
    assert "5.5 GB of the cache for files to serve" in need.text

    def room(free: int) -> bool | None:
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: _Usage(free, 0, free))
        return disk.fits(need)

    assert room(need.maximum + need.temporary + need.served_files) is True
    assert room(need.maximum + need.temporary + need.served_files - 1) is False
    # Where the cache is on another disk each has its own.
    monkeypatch.setattr("harness.execution.estimates._device", lambda folder: folder == served)
    assert room(need.maximum + need.temporary) is True
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: _Usage(0, 0, 10**9))
    with pytest.raises(EngineError, match=r"free, and servers are to serve 5\.5 GB that are made first"):
        disk.require(need)
    served.mkdir()
    (served / "2GB.bin").touch()
    (served / "3x1GB").mkdir()
    assert disk.need(planned, 1).served_files == 500 * 10**6


def test_the_estimate_grows_with_what_is_transferred() -> None:
    small, large = (cell(scenario(flows=[{"download": size}], objectives=[])).scenario for size in ("1 MB", "1 GB"))
    assert stored_bytes(large) - stored_bytes(small) == round(STORED_BYTE * 999_000_000)


@pytest.mark.parametrize(
    ("free", "evidence", "fits"), [(10**12, "full", True), (10**6, "full", False), (10**6, "figures", False)]
)
def test_runs_that_do_not_fit_are_refused_before_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, evidence: RequestedEvidence, fits: bool
) -> None:
    for module in (
        "harness.execution.image_inventory",
        "harness.execution.local_backend",
        "harness.engine.images.build",
    ):
        monkeypatch.setattr(f"{module}.inspect_image", lambda reference: None)
    monkeypatch.setattr("harness.execution.campaign.docker_versions", lambda required: {})
    monkeypatch.setattr("harness.execution.campaign.remove_orphans", lambda cache, required: [])
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: _Usage(free, 0, free))
    monkeypatch.setattr("harness.execution.campaign.machine_lock", lambda engine, waits: nullcontext())
    begun: list[object] = []

    def work(self: Campaign) -> list[LostRuns]:
        begun.append(self)
        return []

    monkeypatch.setattr(Campaign, "work", work)
    app = App(CheckoutPaths(ROOT, tmp_path / "store", tmp_path / "state", tmp_path / "cache"))
    implementations = app.catalogue.find_implementations("ngtcp2", "client")
    request = Request(
        app.catalogue.find_scenarios(["satellite/medium"]),
        implementations,
        implementations,
        engine="virtual",
        sim_kernel="lab",
    )
    options = Options(evidence=evidence)
    if fits:
        app.run(request, options, lambda event: None)
    else:
        with pytest.raises(EngineError, match=r"store has 1\.0 MB free, and 3 runs to do take .* of disk") as refused:
            app.run(request, options, lambda event: None)
        assert refused.value.exit_code == 3
        assert all(word in refused.value.hint for word in ("harness prune", "--evidence", "--store"))
    assert len(begun) == fits


def test_plan_says_what_it_takes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def plan(*more: str) -> tuple[str, str]:
        words = ["harness", "plan", "satellite/medium", "--clients", "ngtcp2", "--servers", "ngtcp2", *more]
        monkeypatch.setattr("sys.argv", [*words, "--store", str(tmp_path)])
        with pytest.raises(SystemExit):
            main()
        captured = capsys.readouterr()
        return captured.out, captured.err

    _, err = plan()
    content = json.loads(plan("--json")[0])["disk"]
    assert content["stay"] == 3 * stored_bytes(cell(scenario(flows=[{"download": "200 MB"}], objectives=[])).scenario)
    assert f"{format_size(content['stay'])} of disk" in err
    assert f"{format_size(content['meanwhile'])} while they run, 3 of them by an upper estimate" in err
    assert json.loads(plan("--json", "--evidence", "figures")[0])["disk"]["stay"] == 3 * STORED_BESIDE
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: _Usage(1, 1, 1_000_000))
    assert "they do not fit" in plan()[1]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 kB"),
        (312_400, "312 kB"),
        (4_520_000, "4.5 MB"),
        (45_200_000, "45 MB"),
        (1.24e10, "12 GB"),
        (1.2e9, "1.2 GB"),
    ],
)
def test_sizes_are_said_in_units_of_a_thousand(size: float, text: str) -> None:
    assert format_size(size) == text
