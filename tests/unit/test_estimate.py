"""How long runs take: held against what the stored runs of the reference took."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from harness.cli.environment import REFERENCE
from harness.engine.images.build import Images
from harness.execution.estimates import load_experience
from harness.outcome import Cell, Outcome, Run
from harness.planning.estimate import (
    DurationModel,
    RunDuration,
    expected_seconds,
    stored_bytes,
    transferred_bytes,
    written_bytes,
)
from harness.scenario.schema import Flow, Scenario
from harness.store.parquet import ColumnStore
from harness.store.results import Store
from tests.examples import ROOT, cell, implementation, scenario

FOLDS = 8


@cache
def _took() -> list[RunDuration]:
    return ColumnStore(REFERENCE).durations()


#: A Java machine and browsers start many threads and processes. The model knows no stack: in the middle their runs take
#: 4.5 times as long as it says, those of Firefox 20 times (docs/use.md).
_SLOW_STARTERS = frozenset({"chromium", "firefox", "kwik"})


def _cells(took: Iterable[RunDuration]) -> dict[tuple[str, str], list[RunDuration]]:
    """Runs of one cell on one kind of machine, but those of slow starters."""
    durations: dict[tuple[str, str], list[RunDuration]] = defaultdict(list)
    for duration in took:
        if not {duration.cell.client.name, duration.cell.server.name} & _SLOW_STARTERS:
            durations[duration.cell.key, duration.machine].append(duration)
    return durations


def _within_two(estimate: float, walls: list[float]) -> bool:
    return 0.5 <= estimate / statistics.median(walls) <= 2


def test_of_nine_cells_in_ten_the_estimate_is_within_a_factor_of_two() -> None:
    """Each cell's by the runs of the other seven eighths of the cells alone."""
    keys = sorted({duration.cell.key for duration in _took()})
    fold = {key: index % FOLDS for index, key in enumerate(keys)}
    held = []
    for number in range(FOLDS):
        durations = [duration for duration in _took() if fold[duration.cell.key] != number]
        duration_models = {
            machine: DurationModel(durations, machine) for machine in {duration.machine for duration in _took()}
        }
        for (key, machine), runs in _cells(_took()).items():
            if fold[key] == number:
                held.append(
                    _within_two(
                        duration_models[machine].expected_seconds(runs[0].cell) / 1.1,
                        [duration.wall for duration in runs],
                    )
                )
    assert len(held) > 400
    assert sum(held) / len(held) >= 0.9


def test_a_release_is_estimated_by_others_of_its_implementation() -> None:
    quick, slow = (implementation(name, image="example/any:1") for name in ("quick@1.0.0", "slow@1.0.0"))
    took = [
        RunDuration(cell(scenario(), stack, stack, engine="virtual"), wall, "this machine")
        for stack, wall in ((quick, 1.0), (slow, 9.0))
    ]
    newer = implementation("quick@1.1.0", image="example/quick:2")
    planned = cell(scenario(), newer, newer, engine="virtual")
    assert DurationModel(took, "this machine").expected_seconds(planned) == pytest.approx(1.1)


def test_similar_runs_give_the_estimate_of_all_runs() -> None:
    cells = [duration.cell for duration in _took()[:: len(_took()) // 40]]
    by_all, store = DurationModel(_took(), "another machine"), ColumnStore(REFERENCE)
    for planned in cells:
        similar = store.durations([planned])
        assert len(similar) < len(_took()) / 10
        by_similar = DurationModel(similar, "another machine")
        assert by_similar.expected_seconds(planned) == pytest.approx(by_all.expected_seconds(planned))


def test_a_scenario_without_runs_is_estimated_from_some_of_its_server() -> None:
    tested_scenario = scenario(name="test/new")
    quiche = next(duration.cell.server for duration in _took() if duration.cell.server.name == "quiche")
    planned = cell(tested_scenario, quiche, quiche, engine="virtual")
    similar = ColumnStore(REFERENCE).durations([planned])
    assert {duration.cell.engine for duration in similar} == {"virtual"}
    assert 20 < len({duration.cell.key for duration in similar if duration.cell.server.name == "quiche"}) < 200
    estimates = [DurationModel(runs, "another machine").expected_seconds(planned) for runs in (similar, _took())]
    assert 0.5 < estimates[0] / estimates[1] < 2


def test_without_any_run_the_model_is_right_for_most_cells() -> None:
    """Up to how fast a machine is, which nothing but a run can tell: kinds of EPYC differ by a factor of two."""
    by_machine: dict[str, list[tuple[float, list[float]]]] = defaultdict(list)
    for (_, machine), runs in _cells(_took()).items():
        by_machine[machine].append((expected_seconds(runs[0].cell) / 1.1, [duration.wall for duration in runs]))
    held = []
    for cells in by_machine.values():
        pace = statistics.median(statistics.median(walls) / expected for expected, walls in cells)
        assert 1 / 3 <= pace <= 3
        held += [_within_two(pace * expected, walls) for expected, walls in cells]
    # Of those that it misses, a third is aioquic's: the model knows no stack, and Python takes longer.
    assert sum(held) / len(held) >= 0.75


def test_forty_flows_are_not_promised_in_a_few_seconds() -> None:
    # 118 MB in all: 15 s were promised of them once. 54 and 48 are taken (ngtcp2's server and quiche's, an AMD EPYC).
    flows = [Flow.model_validate({"stop": "47 s"})] * 40
    tested_scenario = scenario(
        flows=flows, objectives=[], path={"forward": _link("20 Mbit/s"), "return": _link("20 Mbit/s")}
    )
    tested_cell = cell(tested_scenario, engine="virtual")
    assert 25 <= expected_seconds(tested_cell) <= 102
    sixteen: dict[str, list[float]] = defaultdict(list)
    for took in _took():
        if took.cell.scenario.name == "dumbbell/sixteen":
            sixteen[took.machine].append(took.wall)
    assert sixteen
    for machine, walls in sixteen.items():
        # Forty flows for 47 s take five times as long as sixteen for 15 s, on whatever machine.
        assert 2 <= DurationModel(_took(), machine).expected_seconds(tested_cell) / statistics.median(walls) <= 10


def test_tcp_alone_writes_no_files_and_no_logs() -> None:
    def of(*kinds: str) -> Scenario:
        flows = [{"kind": kind, "stop": "100 s"} for kind in kinds]
        return scenario(flows=flows, objectives=[], path={"forward": _link("100 Mbit/s"), "return": _link("20 Mbit/s")})

    assert written_bytes(of("tcp", "tcp")) < 10**9 < 5 * 10**9 < written_bytes(of("tcp", "quic"))


def test_several_files_count_as_one_of_their_size() -> None:
    def of(**flow: object) -> Scenario:
        return scenario(flows=[flow], objectives=[])

    several, single = of(files=[{"count": 3, "size": "100 MB"}, {"count": 1, "size": "50 MB"}]), of(download="350 MB")
    for figure in (transferred_bytes, written_bytes, stored_bytes):
        assert figure(several) == figure(single)
    for engine in ("virtual", "compose"):
        expected = [expected_seconds(cell(tested_scenario, engine=engine)) for tested_scenario in (several, single)]
        assert expected[0] == expected[1]


def _link(rate: str) -> dict[str, str]:
    return {"rate": rate, "delay": "20 ms"}


def _ran(ended_cell: Cell, seconds: float) -> RunDuration:
    return RunDuration(ended_cell, seconds, "this one")


def test_the_nearest_runs_tell() -> None:
    slow, quick = implementation("slow"), implementation("quick")
    tested_scenario, there = scenario(name="test/here"), scenario(name="test/there", timeout="60 s")
    duration_model = DurationModel(
        [
            _ran(cell(tested_scenario, slow, slow, engine="virtual"), 200),
            _ran(cell(tested_scenario, quick, quick, engine="virtual"), 2),
        ],
        "this one",
    )
    assert duration_model.expected_seconds(cell(tested_scenario, slow, slow, engine="virtual")) == pytest.approx(220)
    # The same server in another scenario, with whoever.
    assert duration_model.expected_seconds(cell(there, quick, slow, engine="virtual")) == pytest.approx(220)
    assert duration_model.expected_seconds(cell(there, slow, quick, engine="virtual")) == pytest.approx(2.2)
    # Somebody never seen: between the two.
    assert (
        10
        < duration_model.expected_seconds(
            cell(tested_scenario, implementation("new"), implementation("new"), engine="virtual")
        )
        < 40
    )
    # An engine that nothing ran on is left to the model.
    real = cell(tested_scenario, slow, slow)
    assert duration_model.expected_seconds(real) == expected_seconds(real)


def test_this_machine_s_runs_come_before_those_of_others() -> None:
    tested_cell = cell(engine="virtual")
    took = [_ran(tested_cell, 10), RunDuration(tested_cell, 40, "another")]
    assert DurationModel(took, "this one").expected_seconds(tested_cell) == pytest.approx(11)
    assert DurationModel(took, "another").expected_seconds(tested_cell) == pytest.approx(44)
    assert DurationModel(took, "a third").expected_seconds(tested_cell) == pytest.approx(22)


def test_a_store_s_own_runs_are_known(tmp_path: Path) -> None:
    tested_cell = cell(engine="virtual")
    store = Store(tmp_path)
    run = Run(cell=tested_cell, repetition=0, outcome=Outcome(status="completed"), started_at="", wall=77.0)
    store.finish(store.begin(tested_cell.key, 0), run, None, None)
    duration_model = load_experience(store, tmp_path / "nothing", [tested_cell])
    assert duration_model.expected_seconds(tested_cell) == pytest.approx(77 * 1.1)
    # One that crashed says nothing of how long a run takes.
    assert math.isfinite(duration_model.expected_seconds(cell(engine="compose")))


def test_what_a_build_took_is_the_next_estimate(tmp_path: Path) -> None:
    images = Images(ROOT / "images", tmp_path)
    assert images.build_seconds(images.go) == images.go.seconds
    images._remember(images.go, 12.34)
    again = Images(ROOT / "images", tmp_path)
    assert (again.build_seconds(images.go), again.build_seconds(images.rust)) == (12.3, images.rust.seconds)
    (tmp_path / "build-times.json").write_text("[")
    assert images.build_seconds(images.go) == images.go.seconds
