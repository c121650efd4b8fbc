"""How many repetitions cells get."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.metrics import VERSION
from harness.cli.options import parse_repetitions
from harness.engine.build_queue import Step
from harness.errors import InputError
from harness.evaluation.cell_result import CellResult
from harness.evaluation.verdict import judge
from harness.execution import App, CheckoutPaths, Options
from harness.execution.events import Event, PlanMade, RunStarted
from harness.execution.matrix import PlannedRun, UntilDecided, plan_runs
from harness.execution.repetitions import RepetitionPlan
from harness.execution.scheduler import Claim
from harness.outcome import Cell
from harness.report.results import results_blocks
from harness.stats.intervals import COVERAGE, decisive_sizes, interval
from harness.store.identity import Ledger, cell_key
from harness.store.results import Store
from tests.engine_pairs import Pair, run
from tests.examples import ROOT, cell, scenario
from tests.rendering import printed

IN_TIME = scenario(objectives=[{"metric": "completion", "at_most": "10 s"}])


def planned_cell(engine: Literal["compose", "virtual"] = "compose", definition: object = None, seed: int = 1) -> Cell:
    tested_cell = cell(definition or IN_TIME, engine=engine, seed=seed)  # type: ignore[arg-type]
    assert tested_cell.key == cell_key(tested_cell, Ledger())
    return tested_cell


class World:
    """Runs that come out as written."""

    def __init__(self, outcomes: Sequence[Pair], asked: int | UntilDecided | None, planned: Cell) -> None:
        self.reports: list[str] = []
        self._outcomes = outcomes
        self._cell = planned
        self.series = RepetitionPlan([planned], asked, self._result, self.reports.append)

    def _result(self, planned: Cell, count: int) -> CellResult:
        pairs = tuple(self._outcomes[:count])
        return CellResult(planned, pairs, judge(planned.scenario, pairs), ())

    def rounds(self, done: int = 0) -> list[int]:
        """How many repetitions were asked for after each look."""
        batch = self.series.first_runs({(self._cell.key, number) for number in range(done)})
        counts = []
        while batch:
            counts.append(self.series.scheduled_count(self._cell))
            assert batch[-1].repetition == counts[-1] - 1
            batch = self.series.next_runs(self._cell)
        return counts


def _runs(*seconds: float) -> list[Pair]:
    return [run(completion=value) for value in seconds]


def test_values_are_decisive_where_their_interval_can_be_narrower() -> None:
    assert decisive_sizes(20) == [6, 9, 12, 15, 17, 20]
    assert decisive_sizes(5) == []


@given(st.lists(st.floats(0, 100), min_size=7, max_size=20))
def test_between_two_decisive_numbers_an_interval_only_grows(values: list[float]) -> None:
    if len(values) not in decisive_sizes(20):
        fewer, more = interval(values[:-1]), interval(values)
        assert more.low <= fewer.low and more.high >= fewer.high
    assert interval(values).coverage >= COVERAGE


@pytest.mark.parametrize(
    ("outcomes", "rounds"),
    [
        # All clearly in time, or late: as soon as the interval has its coverage.
        (_runs(*[8.0 + number / 100 for number in range(20)]), [1, 6]),
        (_runs(*[12.0 + number / 100 for number in range(20)]), [1, 6]),
        # One of them on the other side: the next look leaves out the extremes.
        (_runs(8, 8.1, 11, *[8.0 + number / 100 for number in range(20)]), [1, 6, 9]),
        # Now so, now so: to the bound.
        (_runs(*[8.0, 12.0] * 10), [1, 6, 9, 12, 15, 17, 20]),
        # A fault keeps the cell from passing, however many follow.
        ([run("crashed")] * 20, [1]),
        ([*_runs(8, 8.1), run("crashed"), *_runs(*[8.2] * 17)], [1, 6]),
        ([run("unsupported")] * 20, [1]),
        # Of what no run shows, more show nothing.
        ([run(milestone_2MB=1)] * 20, [1]),
        # A transfer that is not over in time is an observation.
        ([run("timed_out")] * 20, [1, 6]),
        # A spoilt run counts for nothing; this one is done again by the next command.
        ([*_runs(8, 8.1), run("infrastructure"), *_runs(*[8.0 + number / 100 for number in range(17)])], [1, 6, 9]),
    ],
)
def test_a_cell_is_run_until_it_is_decided(outcomes: list[Pair], rounds: list[int]) -> None:
    assert World(outcomes, UntilDecided(), planned_cell()).rounds() == rounds


def test_the_bound_is_kept() -> None:
    outcomes = _runs(*[8.0, 12.0] * 20)
    assert World(outcomes, UntilDecided(13), planned_cell()).rounds()[-2:] == [12, 13]
    assert World(outcomes, UntilDecided(6), planned_cell()).rounds() == [1, 6]


def test_what_is_stored_counts() -> None:
    decided, open_ones = _runs(*[8.0 + number / 100 for number in range(20)]), _runs(*[8.0, 12.0] * 10)
    assert World(decided, UntilDecided(), planned_cell()).rounds(done=10) == []
    assert World(decided, UntilDecided(), planned_cell()).rounds(done=3) == [6]
    world = World(open_ones, UntilDecided(), planned_cell())
    assert world.rounds(done=10) == [12, 15, 17, 20]
    assert world.series.stored_count() == 10


def test_in_virtual_time_what_chance_has_no_part_in_is_not_repeated() -> None:
    """Every repetition has a seed of its own; two that are the same in every figure say that it does not matter."""
    alike = World(_runs(*[8.0] * 20), UntilDecided(), planned_cell("virtual"))
    assert alike.rounds() == [1, 2]
    assert "2 repetitions are the same in every figure" in alike.reports[0]
    assert World(
        _runs(*[8.0 + number / 1e9 for number in range(20)]), UntilDecided(), planned_cell("virtual")
    ).rounds() == [
        1,
        2,
        6,
    ]
    # In real time equal figures are an accident.
    assert World(_runs(*[8.0] * 20), UntilDecided(), planned_cell()).rounds() == [1, 6]


def test_without_objectives_there_is_nothing_to_decide() -> None:
    tested_scenario = scenario(objectives=[], repetitions=3)
    assert World(_runs(*[8.0] * 20), UntilDecided(), planned_cell(definition=tested_scenario)).rounds() == [3]


def _printed(*seconds: float) -> str:
    pairs = _runs(*seconds)
    cells = [CellResult(planned_cell(), tuple(pairs), judge(IN_TIME, pairs), (Path("/runs"),) * len(pairs))]
    return printed(results_blocks(cells), 160)


def test_the_table_counts_verdicts_of_one_run() -> None:
    text = "1 verdict of 1 on n = 1: one run decides, with no interval around it (--repeat auto"
    assert text in _printed(8)
    assert text in _printed(12)
    assert "n = 1" not in _printed(8, 8.1)


def test_numbers_are_as_they_were() -> None:
    cells = [planned_cell(seed=seed) for seed in (1, 2, 3)]

    def result(planned: Cell, count: int) -> CellResult:
        raise AssertionError("nobody has to ask")

    series = RepetitionPlan(cells, 4, result)
    planned = plan_runs(cells, 4)
    assert series.possible_runs() == planned
    done = {(cells[0].key, 0), (cells[1].key, 3)}
    assert series.first_runs(done) == [item for item in planned if (item.cell.key, item.repetition) not in done]
    assert [series.next_runs(tested_cell) for tested_cell in cells] == [[], [], []]
    assert (series.stored_count(), series.scheduled_count(cells[2])) == (2, 4)
    assert RepetitionPlan(cells, None, result).first_runs(set()) == [
        PlannedRun(tested_cell, 0) for tested_cell in cells
    ]


def test_what_repeat_may_say() -> None:
    assert [parse_repetitions(text) for text in (None, "1", "12")] == [None, 1, 12]
    assert [parse_repetitions(text) for text in ("auto", "auto:50")] == [UntilDecided(20), UntilDecided(50)]
    for text in ("0", "-1", "", "auto:", "auto:x", "auto20", "many", "1.5"):
        with pytest.raises(InputError, match="expected a number, auto or auto:NUMBER"):
            parse_repetitions(text)
    with pytest.raises(InputError, match="fewer than 6"):
        parse_repetitions("auto:5")


class StoringGround:
    """Runs that end at once, as written, in a store."""

    def __init__(self, store: Store, seconds: Sequence[float]) -> None:
        self._store, self._seconds = store, seconds
        self.repetitions_run: list[int] = []

    def needs(self, planned: Cell) -> tuple[frozenset[str], list[Step]]:
        return frozenset(), []

    def make(self, step: Step, *, beside: bool) -> bool:
        raise AssertionError("nothing is built")

    def settle_images(self, planned: Cell) -> Cell:
        return planned

    def expected_seconds(self, planned: Cell) -> float:
        return 1.0

    def cancel(self) -> None:
        """Nothing goes on beside."""

    def claim(self, item: PlannedRun) -> Claim | int:
        return nullcontext()

    def is_done_elsewhere(self, item: PlannedRun) -> bool:
        return False

    def run(self, item: PlannedRun) -> float:
        stored_run, measured = run(completion=self._seconds[item.repetition])
        stored_run = stored_run.model_copy(update={"cell": item.cell, "repetition": item.repetition})
        partial = self._store.begin(item.cell.key, item.repetition)
        self._store.finish(partial, stored_run, measured and measured.model_copy(update={"version": VERSION}))
        self.repetitions_run.append(item.repetition)
        return 1.0


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_campaign_goes_on_with_a_cell_and_the_next_with_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    app = App(CheckoutPaths(ROOT, tmp_path / "store", tmp_path / "state", tmp_path / "cache"))
    # Of nine the interval leaves out the one that was late.
    ground = StoringGround(app.store, [8, 8.1, 11, *[8.0 + number / 100 for number in range(17)]])
    for name, fake in {
        "remove_orphans": lambda cache, required: [],
        "docker_versions": lambda required: {},
        "create_engine": lambda *given: SimpleNamespace(close=lambda: None),
        "machine_lock": lambda engine, waits: nullcontext(),
        "LocalBackend": lambda *given: ground,
    }.items():
        monkeypatch.setattr(f"harness.execution.campaign.{name}", fake)
    events: list[Event] = []
    tested_cell = planned_cell()

    def work(asked: int | UntilDecided | None, *, fresh: bool = False) -> CellResult:
        events.clear()
        ground.repetitions_run.clear()
        (result,) = app.run_cells([tested_cell], asked, Options(jobs=jobs, fresh=fresh), events.append)
        return result

    assert work(3).verdict.status == "inconclusive"
    result = work(UntilDecided())
    assert (result.verdict.status, len(result.runs)) == ("pass", 9)
    assert sorted(ground.repetitions_run) == [3, 4, 5, 6, 7, 8]
    assert [(event.to_run, event.stored, event.is_open_ended) for event in events if isinstance(event, PlanMade)] == [
        (3, 3, True)
    ]
    assert work(UntilDecided()).verdict.status == "pass"
    assert (ground.repetitions_run, [event for event in events if isinstance(event, RunStarted)]) == ([], [])
    # What is run again is run until it is decided again.
    assert len(work(UntilDecided(), fresh=True).runs) == 9
    assert sorted(ground.repetitions_run) == list(range(9))
