"""Histories and searches over releases: what is the same, what changed, and how few runs tell."""

from __future__ import annotations

import datetime
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli.releases import require_one_cell_each
from harness.errors import InputError
from harness.evaluation.cell_result import CellResult
from harness.evaluation.release_bisection import bisect
from harness.evaluation.release_history import Criterion, ReleaseResult, ScenarioHistory, change_between, differ
from harness.evaluation.verdict import judge
from harness.outcome import Attributed, Attribution, LinkProof, MeasuredRun, Measurement, Outcome, Run, StateShare
from harness.report.history import bisection_document, change_sentence, history_document
from harness.scenario.metric_names import MetricName
from harness.scenario.schema import Release, Version
from tests.examples import cell, implementation, scenario
from tests.rendering import printed

COMPLETION = MetricName("completion", 0, "first")


def release(
    version: str,
    seconds: float | None = None,
    *,
    slow_start: float = 1.0,
    capture: str = "",
    problem: str = "",
    day: int = 1,
) -> ReleaseResult:
    """A release whose only download took so long, with so much of it in slow start."""
    published = Release(version=Version(version), date=datetime.date(2026, 1, day))
    name = f"mine@{version}"
    if seconds is None:
        return ReleaseResult(name, published, None, problem)
    played = cell(
        scenario(objectives=[], milestones=[]), server=implementation(name, version=version, image="example/mine:1")
    )
    measured = MeasuredRun(
        version=1,
        link=LinkProof(valid=True),
        measurements=(
            Measurement(
                name="completion", flow=0, transfer="first", value=seconds, unit="s", direction="lower", source="client file"
            ),
        ),
        attributed=Attributed(
            version=1,
            transfers=(
                Attribution(
                    flow=0, transfer="first", size=10**7, seconds=seconds,
                    parts=(
                        StateShare(state="slow_start", seconds=slow_start),
                        StateShare(state="line_rate", seconds=seconds - slow_start),
                    ),
                ),
            ),
        ),
    )  # fmt: skip
    run = Run(
        cell=played, repetition=0, outcome=Outcome(status="completed"), started_at="",
        captures={"left": capture or version, "right": capture or version},
    )  # fmt: skip
    runs = ((run, measured),)
    return ReleaseResult(name, published, CellResult(played, runs, judge(played.scenario, runs), (Path(),)))


def test_the_same_captures_are_the_same_release() -> None:
    change = change_between(release("1.0.0", 5, capture="x"), release("1.1.0", 5, capture="x"), [COMPLETION])
    assert change.identical and change_sentence(change) == "same bytes as 1.0.0"


def test_a_change_names_the_figures_and_the_parts_of_the_time() -> None:
    change = change_between(release("1.0.0", 8, slow_start=3), release("1.1.0", 6, slow_start=1), [COMPLETION])
    assert change.figures == {"completion": (8, 6)}
    assert change_sentence(change) == "completion 8 → 6 (-25%): slow start 2 s less"


def test_other_bytes_with_the_same_figures_are_no_change_of_figures() -> None:
    change = change_between(release("1.0.0", 8), release("1.1.0", 8.01), [COMPLETION])
    assert not change.identical and not change.figures
    assert change_sentence(change) == "other bytes than 1.0.0, the same figures"


def test_a_release_without_runs_is_passed_over_and_says_why() -> None:
    results = (release("1.0.0", 8), release("1.1.0", problem="could not be built: no such crate"), release("1.2.0", 6))
    history = ScenarioHistory(scenario(objectives=[], milestones=[]), results)
    assert history.changes["mine@1.2.0"].before.name == "mine@1.0.0"
    text = printed(history_document("mine", [history]))
    assert "could not be built: no such crate" in text and "completion 8 → 6" in text
    data = history_document("mine", [history]).data["scenarios"][0]["releases"]
    assert [item["problem"] != "" for item in data] == [False, True, False]
    assert data[2]["change"]["before"] == "mine@1.0.0" and data[1]["medians"] == {"completion": None}


@pytest.mark.parametrize(
    ("better", "improves", "earlier", "later", "changed"),
    [
        ("lower", False, 10, 10.3, True),
        ("lower", False, 10, 10.1, False),
        ("lower", False, 10, 8, False),
        ("lower", True, 10, 8, True),
        ("lower", False, 10, math.inf, True),
        ("lower", True, math.inf, 8, True),
        ("lower", False, math.inf, math.inf, False),
        ("higher", False, 10, 8, True),
        ("higher", True, 10, 8, False),
        ("neutral", False, 10, 12, True),
        ("neutral", False, 10, 8, True),
    ],
)
def test_what_counts_as_a_change(better: str, improves: bool, earlier: float, later: float, changed: bool) -> None:
    criterion = Criterion(COMPLETION, better, 0.02, improves)  # type: ignore[arg-type]
    before, after = release("1.0.0", 1), release("1.1.0", 1)
    figures = {before.name: earlier, after.name: later}

    class Fixed(ReleaseResult):
        def median(self, metric: MetricName) -> float | None:
            return figures[self.name]

    pair = [Fixed(item.name, item.release, item.result) for item in (before, after)]
    assert criterion.is_changed(*pair) is changed


@pytest.mark.parametrize(
    ("before", "after", "share", "differing"),
    [(8, 8.03, 0.005, False), (8, 8.05, 0.005, True), (math.inf, 6, 0.02, True), (6, math.inf, 0.02, True),
     (math.inf, math.inf, 0.02, False), (0, 0, 0, False), (0, 1, 0.5, True)],
)  # fmt: skip
def test_which_figures_differ(before: float, after: float, share: float, differing: bool) -> None:
    assert differ(before, after, share) is differing


def test_any_other_byte_is_a_change() -> None:
    criterion = Criterion(None)
    assert criterion.is_changed(release("1.0.0", 5, capture="x"), release("1.1.0", 5, capture="y"))
    assert not criterion.is_changed(release("1.0.0", 5, capture="x"), release("1.1.0", 5, capture="x"))


@given(st.integers(1, 200), st.data())
def test_the_first_changed_release_is_found(count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, count))
    tried = list[int]()

    def is_changed(index: int) -> bool:
        tried.append(index)
        return index >= first

    found = bisect(count, is_changed)
    assert found.first_changed == (first if first < count else None)
    assert found.last_before == first - 1 and not found.skipped
    # The oldest has run already. Each further run halves what is left, 'none' included.
    assert len(tried) <= math.ceil(math.log2(count)) and len(set(tried)) == len(tried)


def test_sixteen_releases_need_five_runs() -> None:
    for first in range(1, 17):
        tried = [0]
        bisect(16, lambda index, first=first, tried=tried: tried.append(index) or index >= first)  # type: ignore[misc]
        assert len(tried) <= 5


@given(st.integers(2, 60), st.data())
def test_releases_that_cannot_be_run_are_named(count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, count))
    broken = data.draw(st.sets(st.integers(1, count - 1)))
    found = bisect(count, lambda index: None if index in broken else index >= first)
    working = [index for index in range(1, count) if index not in broken]
    assert found.first_changed == next((index for index in working if index >= first), None)
    assert found.last_before == max([0, *(index for index in working if index < first)])
    end = count if found.first_changed is None else found.first_changed
    assert set(found.skipped) == {index for index in broken if found.last_before < index < end}


def test_what_a_search_found() -> None:
    results = {
        0: release("1.0.0", 8, slow_start=3),
        1: release("1.1.0", 8, slow_start=3),
        2: release("1.2.0", 9, slow_start=4),
    }
    found = bisect(3, lambda index: bool(index == 2))
    document = bisection_document(Criterion(COMPLETION, "lower", 0.02), results, found, None)
    assert document.data["first"] == "mine@1.2.0" and document.data["before"] == "mine@1.1.0"
    text = printed(document)
    assert "mine@1.2.0 of 2026-01-01 is the first: completion worse by more than 2 %." in text
    assert "Against 1.1.0: completion 8 → 9 (+12%): slow start 1 s more." in text
    nothing = bisection_document(Criterion(COMPLETION, "lower", 0.5), results, bisect(3, lambda index: False), None)
    assert nothing.data["first"] is None and "No release from 1.0.0 to 1.2.0 is changed" in printed(nothing)


def test_a_scenario_has_one_cell_for_each_release() -> None:
    fits = cell(scenario(name="one"), server=implementation("mine"))
    require_one_cell_each([fits], "mine")
    with pytest.raises(InputError, match="one has 2 cells for each release") as raised:
        rates = ("10 Mbit/s", "20 Mbit/s")
        swept = [cell(scenario(name="one"), parameters={"path.forward.rate": rate}) for rate in rates]
        require_one_cell_each(swept, "mine")
    assert "--set path.forward.rate" in raised.value.hint
    with pytest.raises(InputError, match="names its servers"):
        named = scenario(objectives=[], flows=[{"download": "1 MB", "server": "beta"}])
        require_one_cell_each([fits.model_copy(update={"scenario": named})], "mine")
