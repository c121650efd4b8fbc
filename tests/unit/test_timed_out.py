"""Runs that timed out count, everywhere: in the interval, the sentence, every table and the JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from harness.evaluation.cell_result import CellResult, unreached_value
from harness.evaluation.verdict import judge
from harness.outcome import LinkProof, MeasuredRun, Outcome, Run, Transfer
from harness.report.compare import side_of
from harness.report.grid import grid_blocks
from harness.report.markdown import render_blocks
from harness.report.results import results_blocks, results_document
from harness.scenario.metric_names import MetricName
from tests.examples import cell, scenario
from tests.measurements import measurement
from tests.rendering import printed

TEN_MB = 10_000_000
TESTED_CELL = cell(scenario(objectives=[{"metric": "completion", "at_most": "5 s"}], milestones=["2 MB"]))


def ended(number: int, seconds: float | None, received: int = TEN_MB) -> tuple[Run, MeasuredRun]:
    """A run that took so many seconds; None for one whose time was over."""
    outcome = Outcome(status="completed")
    figures = [measurement("milestone_2MB", 1.0 + number / 10, "s")] if received >= 2_000_000 else []
    if seconds is None:
        outcome = Outcome(status="timed_out", role="client", detail="the transfer did not end within 120 s")
    else:
        figures += [measurement("completion", seconds, "s"), measurement("goodput", 80 / seconds, "Mbit/s")]
    transfer = Transfer(flow=0, index=0, size=TEN_MB, received=received, started_ns=0, ended_ns=1)
    run = Run(cell=TESTED_CELL, repetition=number, outcome=outcome, started_at="", transfers=(transfer,))
    return run, MeasuredRun(version=1, measurements=tuple(figures), link=LinkProof(valid=True))


def result(*runs: tuple[Run, MeasuredRun]) -> CellResult:
    folders = tuple(Path(str(number)) for number in range(len(runs)))
    return CellResult(TESTED_CELL, runs, judge(TESTED_CELL.scenario, runs), folders)


SIX = result(
    *(ended(number, 4.0 + number / 100) for number in range(4)), ended(4, None, 5_000_000), ended(5, None, 500_000)
)


def test_a_cell_of_six_has_a_median_of_six() -> None:
    span = SIX.interval("completion", 0, "first")
    assert span is not None
    assert (span.n, span.low, span.high) == (6, 4.0, math.inf)
    assert span.median == pytest.approx(4.025)
    goodput = SIX.interval("goodput", 0, "first")
    assert goodput is not None and (goodput.n, goodput.low) == (6, 0.0)
    # One of them had the milestone before its time was over.
    milestone = SIX.interval("milestone_2MB", 0, "first")
    assert milestone is not None and (milestone.n, milestone.high) == (6, math.inf)
    assert len(SIX.failed_values(MetricName("milestone_2MB", 0, "first"))) == 1


def test_the_verdict_says_so() -> None:
    assert (SIX.verdict.status, SIX.verdict.reason) == ("inconclusive", "interval_straddles")
    assert "n = 6" in SIX.verdict.sentence and "not reached" in SIX.verdict.sentence
    assert SIX.verdict.sentence.endswith("more repetitions can tell; timed out 2 of 6.")


def test_the_tables_say_four_of_six_and_why() -> None:
    text = printed(results_document([SIX]))
    assert "4/6" in text and "[1.00, never]" in text
    assert "4 of 6 completed: 2 timed out (the transfer did not end within 120 s)" in text
    page = render_blocks(results_blocks([SIX]))
    assert "| 4/6 |" in page and "2 timed out (the transfer did not end within 120 s)." in page
    # Where most of them did not come to it there is no figure, but a reason.
    assert "4.03" in render_blocks(grid_blocks([SIX]))
    late = result(ended(0, 4.0), ended(1, None), ended(2, None, 100))
    assert "4.0" not in render_blocks(grid_blocks([late])) and "inf" not in render_blocks(grid_blocks([late]))


def test_a_grid_has_the_time_of_a_transfer_whose_repeat_failed() -> None:
    run, measured = ended(0, 29.7)
    outcome = Outcome(status="idle_timeout", role="client", detail="the second transfer came to nothing")
    second = run.transfers[0].model_copy(update={"index": 1, "received": 0, "exit_code": 1})
    run = run.model_copy(update={"outcome": outcome, "transfers": (*run.transfers, second)})
    assert "| 29.70 (then idle timeout client) |" in render_blocks(grid_blocks([result((run, measured))]))


def test_json_has_numbers_or_infinity() -> None:
    content = json.loads(json.dumps(dict(results_document([SIX]).data), allow_nan=False))["cells"][0]
    assert content["outcomes"] == {"completed": 4, "timed_out": 2}
    completion = content["measurements"]["completion"]
    assert (len(completion["values"]), completion["timed_out"], completion["high"]) == (4, 2, "Infinity")
    assert content["shortfall"].startswith("4 of 6 completed")


def test_comparisons_rest_on_the_same_values() -> None:
    side = side_of(SIX, "completion")
    assert side is not None and side.interval == SIX.interval("completion", 0, "first")


@pytest.mark.parametrize(
    ("name", "received", "value"),
    [
        (MetricName("completion", 0, "first"), 500, math.inf),
        (MetricName("goodput", 0, "first"), 500, 0.0),
        (MetricName("milestone_2MB", 0, "first"), 500, math.inf),
        (MetricName("first_byte", 0, "first"), 0, math.inf),
        # It came, and when is not known.
        (MetricName("milestone_2MB", 0, "first"), 2_000_000, None),
        (MetricName("first_byte", 0, "first"), 500, None),
        # No transfer comes to these, or there is no such transfer.
        (MetricName("queue_delay_p95_to_client", 0, "first"), 0, None),
        (MetricName("milestone_99MB", 0, "first"), 0, None),
        (MetricName("completion", 0, "repeat"), 0, None),
        (MetricName("completion", 7, "first"), 0, None),
        (MetricName("throughput", 0, None, 1), 0, None),
    ],
)
def test_what_a_transfer_did_not_come_to(name: MetricName, received: int, value: float | None) -> None:
    assert unreached_value(ended(0, None, received)[0], name, failed=True) == value
    assert unreached_value(ended(0, 4.0, received)[0], name, failed=False) is None
