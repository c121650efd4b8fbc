from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from harness.engine.build_queue import Step
from harness.errors import EngineError
from harness.execution.events import (
    BuildEnded,
    BuildStarted,
    Event,
    RunStarted,
    RunTakenOver,
    WaitingForImage,
    WaitingForRun,
)
from harness.execution.locks import claim_run
from harness.execution.matrix import PlannedRun, plan_runs
from harness.execution.scheduler import Campaign, Claim, LostRuns, lost_runs_message
from harness.outcome import Cell
from tests.examples import cell, implementation

#: Seconds after which a test that hangs gives up.
PATIENCE = 10.0


def _name(item: PlannedRun) -> str:
    return f"{item.cell.client.name}→{item.cell.server.name} #{item.repetition}"


class FakeGround:
    """Images that are there when a test says so, and runs that note their order."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = {step.reference: step for step in steps}
        self.needed: Callable[[Cell], set[str]] = lambda cell: {cell.client.name, cell.server.name}
        self.gates: dict[str, threading.Event] = {}
        """Builds that wait until a test lets them go on."""
        self.release_when_awaited = False
        """Builds wait until somebody is told to wait for them."""
        self.errors: dict[str, EngineError] = {}
        self.changes: dict[str, Callable[[], None]] = {}
        """Builds after which cells need something else."""
        self.steps_made: list[tuple[str, bool]] = []
        self.runs_made: list[str] = []
        self.callbacks: dict[str, Callable[[], None]] = {}
        """What happens within a run, by its pair."""
        self.cancelled = threading.Event()
        self.built: dict[str, threading.Event] = {}
        """Builds of which a test wants to know that their end was reported."""
        self.root: Path | None = None
        """Where claims are; without, nobody else makes anything."""
        self.elsewhere: set[str] = set()
        """What another harness has made."""

    def needs(self, cell: Cell) -> tuple[frozenset[str], list[Step]]:
        wanted = frozenset(self.needed(cell))
        left, needed_steps = list(wanted), set()
        while left:
            name = left.pop()
            if name in self.steps and name not in needed_steps:
                needed_steps.add(name)
                left += self.steps[name].bases
        return wanted, [self.steps[name] for name in needed_steps]

    def make(self, step: Step, *, beside: bool) -> bool:
        gate = self.gates.get(step.reference)
        limit = time.monotonic() + PATIENCE
        while gate is not None and not gate.wait(0.01):
            if self.cancelled.is_set():
                raise EngineError("ended")
            assert time.monotonic() < limit
        if step.reference in self.errors:
            raise self.errors[step.reference]
        self.steps_made.append((step.reference, beside))
        del self.steps[step.reference]
        if step.reference in self.changes:
            self.changes[step.reference]()
            return True
        return False

    def settle_images(self, cell: Cell) -> Cell:
        missing = self.needed(cell) & self.steps.keys()
        assert not missing, f"{cell.client.name}→{cell.server.name} began without {missing}"
        return cell

    def claim(self, item: PlannedRun) -> Claim | int:
        return nullcontext() if self.root is None else claim_run(self.root, item.cell.key, item.repetition)

    def is_done_elsewhere(self, item: PlannedRun) -> bool:
        return _name(item) in self.elsewhere

    def run(self, item: PlannedRun) -> float:
        name = _name(item)
        self.runs_made.append(name)
        self.callbacks.get(name, lambda: None)()
        return 1.0

    def expected_seconds(self, cell: Cell) -> float:
        return 1.0

    def cancel(self) -> None:
        self.cancelled.set()


def _todo(names: str, repetitions: int = 1) -> list[PlannedRun]:
    implementations = {name: implementation(name) for name in names}
    return plan_runs(
        [cell(client=implementations[client], server=implementations[server]) for client in names for server in names],
        repetitions,
    )


def _steps(table: Mapping[str, tuple[float, str]]) -> list[Step]:
    return [Step(name, name, seconds, frozenset(on.split())) for name, (seconds, on) in table.items()]


def _work(todo: list[PlannedRun], ground: FakeGround, jobs: int = 1) -> tuple[list[LostRuns], list[Event]]:
    events: list[Event] = []

    def listen(event: Event) -> None:
        events.append(event)
        if isinstance(event, WaitingForImage) and ground.release_when_awaited:
            ground.gates[event.name].set()
        if isinstance(event, BuildEnded) and event.name in ground.built:
            ground.built[event.name].set()

    lost = Campaign(todo, jobs, ground, listen).work()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(("build-", "run_"))]
    return lost, events


def _after(ground: FakeGround, name: str) -> Callable[[], None]:
    """Let a build go on, and come back when it is done and reported."""
    ground.built[name] = threading.Event()

    def go_on() -> None:
        ground.gates[name].set()
        assert ground.built[name].wait(PATIENCE)

    return go_on


def test_runs_begin_with_what_is_there_and_the_rest_is_built_beside() -> None:
    ground = FakeGround(_steps({"b": (300, "")}))
    ground.gates["b"] = threading.Event()
    ground.callbacks["a→a #1"] = _after(ground, "b")
    lost, events = _work(_todo("ab", 2), ground)
    assert lost == []
    # a's repetition comes before b is there; from then on the plan's order counts.
    assert ground.runs_made == ["a→a #0", "a→a #1", *(f"{pair} #{n}" for n in (0, 1) for pair in ("a→b", "b→a", "b→b"))]
    assert ground.steps_made == [("b", True)]
    assert [event.number for event in events if isinstance(event, RunStarted)] == list(range(1, 9))
    assert {event.total for event in events if isinstance(event, RunStarted)} == {8}
    assert not [event for event in events if isinstance(event, WaitingForImage)]


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_cell_whose_runs_have_ended_may_need_more(jobs: int) -> None:
    ground, events = FakeGround([]), list[Event]()
    todo, asked, others_ended = _todo("ab"), list[str](), threading.Event()

    def end_last() -> None:
        """By the time it ends, nothing else is left to begin."""
        assert jobs == 1 or others_ended.wait(PATIENCE)

    ground.callbacks["a→b #0"] = end_last

    def further(ended_cell: Cell) -> list[PlannedRun]:
        pair = f"{ended_cell.client.name}→{ended_cell.server.name}"
        asked.append(pair)
        if {"a→a", "b→a", "b→b"} <= set(asked):
            others_ended.set()
        more = {"a→b": [1, 2], "b→a": []}.get(pair, [])
        return [PlannedRun(ended_cell, number) for number in more] if asked.count(pair) == 1 else []

    assert Campaign(todo, jobs, ground, events.append, further).work() == []
    assert sorted(ground.runs_made) == ["a→a #0", "a→b #0", "a→b #1", "a→b #2", "b→a #0", "b→b #0"]
    # Once for each cell whose last run has ended, and not while another of its runs goes on.
    assert sorted(asked) == ["a→a", "a→b", "a→b", "b→a", "b→b"]
    assert max(event.total for event in events if isinstance(event, RunStarted)) == 6


def test_a_wait_is_told_with_what_it_is_for() -> None:
    ground = FakeGround(_steps({"base": (5, ""), "a": (100, "base")}))
    ground.gates["a"], ground.release_when_awaited = threading.Event(), True
    lost, events = _work(_todo("a"), ground)
    assert (lost, ground.runs_made) == ([], ["a→a #0"])
    # Nothing ran meanwhile: the builds had all the cores.
    assert ground.steps_made == [("base", False), ("a", False)]
    assert [type(event) for event in events if isinstance(event, BuildStarted | BuildEnded)] == [
        BuildStarted, BuildEnded, BuildStarted, BuildEnded,
    ]  # fmt: skip
    waits = [event for event in events if isinstance(event, WaitingForImage)]
    assert [wait.name for wait in waits] == ["a"]
    assert waits[0].seconds == pytest.approx(100, abs=1)


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_failed_build_costs_only_the_runs_that_need_it(jobs: int) -> None:
    ground = FakeGround(_steps({"base": (1, ""), "b": (10, "base"), "c": (20, "")}))
    failed = EngineError("the image base could not be built; the end of its log:\n  no", "read it")
    ground.errors["base"] = failed
    lost, events = _work(_todo("abc"), ground, jobs)
    assert sorted(ground.runs_made) == ["a→a #0", "a→c #0", "c→a #0", "c→c #0"]
    assert lost == [LostRuns("base", failed, 5)]
    ended = [event for event in events if isinstance(event, BuildEnded) and event.error is not None]
    assert [(event.name, event.error, event.lost) for event in ended] == [("base", failed, 5)]
    # b was never tried.
    assert [name for name, _ in ground.steps_made] == ["c"]


def test_lost_runs_are_summed_up() -> None:
    error = EngineError("x")
    message, hint = lost_runs_message([LostRuns("a", error, 1)], Path("/s/builds"))
    assert message == "1 image could not be built (a): 1 run left out"
    assert "/s/builds" in hint
    assert "2 images could not be built (a, b): 8 runs" in lost_runs_message(
        [LostRuns("a", error, 1), LostRuns("b", error, 7)], Path("/s")
    )[0]  # fmt: skip


def test_what_cells_need_is_asked_again_when_a_build_says_so() -> None:
    """So it is with the simulator: whether the lab kernel is needed shows when the host's kernel has been asked."""
    ground = FakeGround(_steps({"sim-host": (20, "")}))
    ground.needed = lambda cell: {"sim-host"}

    def settle() -> None:
        ground.steps["lab"] = Step("lab", "lab", 240)
        ground.needed = lambda cell: {"lab"}

    ground.changes["sim-host"] = settle
    lost, _ = _work(_todo("ab"), ground)
    assert (lost, len(ground.runs_made)) == ([], 4)
    assert [name for name, _ in ground.steps_made] == ["sim-host", "lab"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_fails_on_the_ground_ends_everything(jobs: int) -> None:
    ground = FakeGround(_steps({"b": (300, "")}))
    ground.gates["b"] = threading.Event()

    def fail() -> None:
        raise EngineError("the disk is full")

    ground.callbacks["a→a #0"] = fail
    begun = time.monotonic()
    with pytest.raises(EngineError, match="the disk is full"):
        _work(_todo("ab"), ground, jobs)
    assert ground.cancelled.is_set()
    assert time.monotonic() - begun < PATIENCE / 2
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(("build-", "run_"))]


@pytest.mark.usefixtures("terminal_signals")
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_while_everything_waits_ends_builds_and_threads(jobs: int) -> None:
    ground = FakeGround(_steps({"a": (300, "")}))
    ground.gates["a"] = threading.Event()
    timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
    timer.start()
    begun = time.monotonic()
    events: list[Event] = []
    with pytest.raises(KeyboardInterrupt):
        Campaign(_todo("a"), jobs, ground, events.append).work()
    timer.join()
    # That a build was ended is no news.
    assert not [event for event in events if isinstance(event, BuildEnded)]
    assert ground.cancelled.is_set()
    assert time.monotonic() - begun < PATIENCE / 2
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(("build-", "run_"))]


def test_a_mistake_in_a_build_thread_is_not_waited_for() -> None:
    ground = FakeGround(_steps({"a": (300, "")}))

    def broken() -> None:
        raise RuntimeError("a mistake")

    ground.changes["a"] = broken
    with pytest.raises(RuntimeError, match="a mistake"):
        _work(_todo("a"), ground)


def test_the_time_left_learns_from_the_runs() -> None:
    ground = FakeGround([])
    ground.expected_seconds = lambda cell: 10.0  # type: ignore[method-assign]
    todo = _todo("ab")
    campaign = Campaign(todo, 1, ground, lambda event: None)
    assert campaign.seconds() == pytest.approx(40, abs=0.1)
    events: list[Event] = []
    Campaign(todo, 1, ground, events.append).work()
    left = [event.seconds_left for event in events if isinstance(event, RunStarted)]
    # A run took 1 s of the 10 that were expected. The current run counts.
    assert left == pytest.approx([40, 3, 2, 1], abs=0.1)


class SharedRuns:
    """What several harnesses have made on one store. No run ends before each of them has one under way."""

    def __init__(self, harnesses: int) -> None:
        self.runs_made: set[str] = set()
        self._harnesses = harnesses
        self._begun: set[int] = set()
        self._all_begun = threading.Event()

    def make(self, harness: int, name: str) -> None:
        self._begun.add(harness)
        if len(self._begun) == self._harnesses:
            self._all_begun.set()
        assert self._all_begun.wait(PATIENCE)
        self.runs_made.add(name)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody gives notice of is looked for more often."""
    monkeypatch.setattr("harness.execution.scheduler.POLL_INTERVAL", 0.005)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("harnesses", [2, 3])
def test_harnesses_on_one_store_make_each_run_once(tmp_path: Path, jobs: int, harnesses: int) -> None:
    shared = SharedRuns(harnesses)
    todo, grounds = _todo("abc", 2), [FakeGround([]) for _ in range(harnesses)]
    events: list[list[Event]] = [[] for _ in grounds]
    for number, ground in enumerate(grounds):
        ground.root, ground.elsewhere = tmp_path, shared.runs_made
        for item in todo:
            ground.callbacks[_name(item)] = partial(shared.make, number, _name(item))
    threads = [
        threading.Thread(target=Campaign(todo, jobs, ground, events_of_harness.append).work)
        for ground, events_of_harness in zip(grounds, events, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    runs_made = [name for ground in grounds for name in ground.runs_made]
    assert sorted(runs_made) == sorted(map(_name, todo)), "each once, whoever made it"
    for ground, events_of_harness in zip(grounds, events, strict=True):
        taken = [event for event in events_of_harness if isinstance(event, RunTakenOver)]
        assert len(ground.runs_made) + len(taken) == len(todo), "each has them all in the end"
    assert not list((tmp_path / "claims").iterdir())


@pytest.mark.usefixtures("quick")
def test_what_another_harness_makes_is_waited_for_by_name_and_comes_last(tmp_path: Path) -> None:
    ground, events, todo = FakeGround([]), list[Event](), _todo("ab")
    ground.root = tmp_path
    held = claim_run(tmp_path, todo[0].cell.key, 0)
    assert not isinstance(held, int)

    def listen(event: Event) -> None:
        events.append(event)
        if isinstance(event, WaitingForRun):
            assert len(ground.runs_made) == 3, "there was something else to do"
            held.__exit__(None, None, None)

    Campaign(todo, 1, ground, listen).work()
    assert ground.runs_made == ["a→b #0", "b→a #0", "b→b #0", "a→a #0"], (
        "it had not finished: who holds a claim may be killed"
    )
    (wait,) = [event for event in events if isinstance(event, WaitingForRun)]
    assert (wait.cell.key, wait.repetition, wait.process) == (todo[0].cell.key, 0, os.getpid())
