from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from harness.engine.build_queue import BESIDE_RUN, LANES, Step, Work, awaited_builds, next_run, next_step, seconds_left

#: What `make run` has to build on a fresh machine: image → (seconds, what it is built on).
FRESH: Mapping[str, tuple[float, tuple[str, ...]]] = {
    "sim-host": (20, ()),
    "lab-kernel": (240, ()),
    "sim-lab": (5, ("lab-kernel",)),
    "endpoint": (20, ()),
    "ngtcp2": (5, ("endpoint",)),
    "picoquic": (40, ("endpoint",)),
    "go": (30, ()),
    "quic-go": (40, ("go", "endpoint")),
    "rust": (60, ()),
    "quiche": (280, ("rust", "endpoint")),
}
NAMES = ("picoquic", "ngtcp2", "quiche", "quic-go")


def _steps(table: Mapping[str, tuple[float, tuple[str, ...]]] = FRESH) -> dict[str, Step]:
    return {name: Step(name, name, seconds, frozenset(on)) for name, (seconds, on) in table.items()}


def _pair(client: str, server: str) -> frozenset[str]:
    return frozenset({"sim-host", "sim-lab", client, server})


def _matrix(names: Sequence[str] = NAMES) -> list[frozenset[str]]:
    return [_pair(client, server) for client in names for server in names]


def _without(work: Work, *finished: str) -> Work:
    return replace(
        work,
        steps={name: step for name, step in work.steps.items() if name not in finished},
        under_way={name: since for name, since in work.under_way.items() if name not in finished},
    )


def _begun(work: Work) -> tuple[Work, list[str]]:
    """The work with all builds begun that begin now, and their names."""
    names = []
    while (step := next_step(work)) is not None:
        names.append(step.name)
        work = replace(work, under_way={**work.under_way, step.reference: 0.0})
    return work, names


def test_first_comes_what_the_first_run_waits_for_longest_and_then_what_is_short() -> None:
    work, begun = _begun(Work(_steps(), _matrix()))
    # The lab kernel is everybody's longest way; what the second lane builds beside it is what ngtcp2 needs.
    assert begun == ["lab-kernel", "endpoint"]
    order = []
    for _ in range(3):
        done = next(name for name in work.under_way if name != "lab-kernel")
        work, more = _begun(_without(work, done))
        order += more
        if not more:
            break
    # The others would take the cores that the lab kernel needs.
    assert order == ["sim-host", "ngtcp2"]


def test_beside_runs_what_is_left_is_built_one_by_one_the_nearest_first() -> None:
    left = Work(_steps(), _matrix(), running=1, ended=1)
    work = _without(left, "sim-host", "lab-kernel", "sim-lab", "endpoint", "ngtcp2")
    assert next_run(work) == 5
    order = []
    while work.steps:
        work, begun = _begun(work)
        order += begun
        assert len(begun) == 1
        work = _without(work, *begun)
    assert order == ["picoquic", "go", "quic-go", "rust", "quiche"]


def test_nothing_is_built_beside_the_first_run() -> None:
    ready = _without(Work(_steps(), _matrix()), "sim-host", "lab-kernel", "sim-lab", "endpoint", "ngtcp2")
    for work in (ready, replace(ready, running=1)):
        assert next_step(work) is None
    assert next_step(replace(ready, ended=1)) is not None


def test_runs_go_in_plan_order_as_far_as_their_images_are_there() -> None:
    pairs = _matrix(("a", "b"))
    steps = {"b": Step("b", "b", 1)}
    twice = Work(steps, [*pairs, *pairs])
    # a→a, and then its repetition rather than wait for b.
    assert next_run(twice) == 0
    assert next_run(replace(twice, needs=twice.needs[1:])) == 3
    assert next_run(replace(twice, needs=[need for need in twice.needs if "b" in need])) is None
    assert next_run(replace(twice, steps={})) == 0


def test_what_is_awaited_is_named_with_the_time_it_still_takes() -> None:
    work = Work({"x": Step("x", "x", 100), "y": Step("y", "y", 30)}, [frozenset("xy")], {"x": 60, "y": 40})
    assert [(step.name, left) for step, left in awaited_builds(work)] == [("x", 40), ("y", 0)]
    assert awaited_builds(Work({}, [frozenset("x")])) == []


def test_the_estimate_overlaps_builds_with_runs() -> None:
    steps = {"x": Step("x", "x", 100)}
    # Alone; then beside a run of 50 s, in which 30 s of the build get done.
    assert seconds_left(Work(steps, [frozenset("x")]), [10], 1) == 110
    later = Work(steps, [frozenset(), frozenset("x")], ended=1)
    assert seconds_left(later, [50, 10], 1) == 50 + 100 - BESIDE_RUN * 50 + 10
    # The first run is alone.
    assert seconds_left(replace(later, ended=0), [50, 10], 1) == 50 + 100 + 10
    # Of what was begun, only the rest.
    assert seconds_left(Work(steps, [frozenset("x")], {"x": 90}), [10], 1) == 20
    assert seconds_left(Work({}, [frozenset()] * 3, running=1), [10] * 3, 2, [4]) == 20
    assert seconds_left(Work({}, []), [], 1) == 0
    # Two builds share the machine.
    two = {name: Step(name, name, 60) for name in "xy"}
    assert seconds_left(Work(two, [frozenset("xy")]), [0], 1) == 120


def test_runs_of_which_all_images_are_there_begin_as_others_end() -> None:
    work = Work({}, [frozenset[str]()] * 3, running=1)
    # Beside the one that takes 5 s, 4 s and 3 s; then 2 s, from 5 s on.
    assert seconds_left(work, [4.0, 3.0, 2.0], 2, [5.0]) == 7.0
    assert seconds_left(work, [4.0, 3.0, 2.0], 1, [5.0]) == 14.0
    assert seconds_left(Work({}, ()), [], 2) == 0.0


def test_an_estimate_of_a_campaign_is_made_with_each_run() -> None:
    """Of as many runs as it has, and so it must not look at all of them for each of them."""
    looks = 0

    class Needs(frozenset[str]):
        def __hash__(self) -> int:
            nonlocal looks
            looks += 1
            return super().__hash__()

        def __iter__(self) -> Iterator[str]:
            nonlocal looks
            looks += 1
            return super().__iter__()

    many = 300
    seconds_left(Work({}, [Needs({"alpha"})] * many, ended=1), [1.0] * many, 2)
    assert looks <= 2 * many


def test_a_fresh_machine_is_estimated_with_its_builds_beside_the_runs() -> None:
    everything = seconds_left(Work(_steps(), _matrix()), [60] * 16, 1)
    builds = sum(seconds for seconds, _ in FRESH.values())
    assert 16 * 60 + 265 < everything < 16 * 60 + builds - 200


@st.composite
def _works(draw: st.DrawFn) -> tuple[dict[str, Step], list[frozenset[str]]]:
    names = [f"i{number}" for number in range(draw(st.integers(1, 8)))]
    steps = {}
    for position, name in enumerate(names):
        below = draw(st.frozensets(st.sampled_from(names[:position]), max_size=3)) if position else frozenset()
        steps[name] = Step(name, name, draw(st.floats(1, 300)), below)
    needs = draw(st.lists(st.frozensets(st.sampled_from(names), max_size=4), max_size=6))
    return steps, needs


@given(_works())
def test_whatever_is_needed_gets_built_and_nothing_before_what_it_is_built_on(
    builds: tuple[dict[str, Step], list[frozenset[str]]],
) -> None:
    steps, needs = builds
    work = Work(steps, needs)
    built: list[str] = []
    while work.needs:
        index = next_run(work)
        if index is not None:
            work = replace(work, needs=[need for number, need in enumerate(work.needs) if number != index])
            continue
        work, begun = _begun(work)
        assert len(work.under_way) <= LANES
        for name in begun:
            assert steps[name].bases <= set(built)
        # There is always something to wait for; the last one begun ends first.
        done = list(work.under_way)[-1]
        built.append(done)
        work = _without(work, done)
    assert len(set(built)) == len(built)
    assert set().union(*needs) <= set(built) if needs else not built
