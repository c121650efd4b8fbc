"""What checks make of a run, and runs of a cell; and what is wrong with checks that somebody writes."""

from __future__ import annotations

from typing import Any

import pytest

from harness.analysis.interop import declared_checks, failure_text, mistakes, run_result, verdict_of
from harness.evaluation.verdict import judge
from harness.outcome import InteropCheck, LinkProof, MeasuredRun, Outcome, Run
from tests.examples import scenario
from tests.unit.captures import make_run

GOOD = InteropCheck(check="handshakes", asked=1, status="passed", sentence="1 handshake, asked 1")
WRONG = InteropCheck(
    check="amplification", asked=3, status="failed", sentence="4800 B sent, and 1200 B had come", sender="server",
    packet=6, t=0.0305,
)  # fmt: skip
UNSEEN = InteropCheck(
    check="key_update", asked=True, status="unknown", sentence="neither endpoint wrote its secrets down"
)


def _checked_run(*checks: InteropCheck, valid: bool = True, **outcome: Any) -> tuple[Run, MeasuredRun]:
    run = make_run(outcome=Outcome(**{"status": "completed", **outcome}))
    return run, MeasuredRun(version=1, checks=checks, link=LinkProof(valid=valid, problems=() if valid else ("bent",)))


@pytest.mark.parametrize(
    ("checked_run", "word", "sentence"),
    [
        (_checked_run(GOOD), "succeeded", "all 1 checks hold"),
        (_checked_run(GOOD, WRONG), "failed", "(packet 6 of the right capture, at 0.030500 s)"),
        (_checked_run(GOOD, UNSEEN), "inconclusive", "key_update cannot be checked"),
        (_checked_run(WRONG, UNSEEN), "failed", "amplification"),
        (
            _checked_run(WRONG, status="crashed", role="client", detail="ended with 1"),
            "failed",
            "ended with 1; amplification",
        ),
        (_checked_run(GOOD, status="timed_out", detail="late"), "failed", "late"),
        (_checked_run(GOOD, status="wrong_file", role="client", detail="short"), "failed", "short"),
        (_checked_run(GOOD, status="unsupported", role="server", detail="no"), "unsupported", "no"),
        (_checked_run(GOOD, status="infrastructure", detail="ground"), "inconclusive", "ground"),
        (_checked_run(WRONG, valid=False), "inconclusive", "bent"),
    ],
)
def test_what_came_of_a_run(checked_run: tuple[Run, MeasuredRun], word: str, sentence: str) -> None:
    result = run_result(*checked_run)
    assert result.word == word
    assert sentence in result.sentence


def test_a_run_whose_link_is_not_proven_proves_nothing_about_anybody() -> None:
    assert verdict_of([_checked_run(GOOD, valid=False)]).status == "inconclusive"
    assert verdict_of([_checked_run(WRONG, valid=False), _checked_run(GOOD)]).status == "pass"
    assert "1 of 2 runs decide nothing" in verdict_of([_checked_run(GOOD, valid=False), _checked_run(GOOD)]).sentence


def test_runs_that_differ_decide_nothing() -> None:
    verdict = verdict_of([_checked_run(GOOD), _checked_run(WRONG), _checked_run(GOOD)])
    assert (verdict.status, verdict.reason) == ("inconclusive", "flaky")
    assert "1 of 3 runs" in verdict.sentence


def test_a_scenario_with_checks_is_judged_by_them() -> None:
    tested_scenario = scenario(testcase="transfer", checks={"handshakes": 1}, objectives=[])
    assert judge(tested_scenario, [_checked_run(GOOD)]).status == "pass"
    verdict = judge(tested_scenario, [_checked_run(WRONG)], ["runs/1"])
    assert (verdict.status, verdict.reason, verdict.evidence) == ("fail", "amplification", ("runs/1",))
    assert failure_text(WRONG) in verdict.sentence.replace("Amplification", "amplification")


def test_checks_that_nobody_knows_and_values_that_they_do_not_take() -> None:
    def mistakes_in(**checks: Any) -> str:
        tested_scenario = scenario(testcase="transfer", checks=checks, objectives=[])
        return "; ".join(f"{mistake.text} ({mistake.hint})" for mistake in mistakes(tested_scenario))

    assert not mistakes_in(handshakes=1, version=1, retry="never", files=True)
    assert "'handshakes'" in mistakes_in(handshake=1)
    assert "takes a count, not true" in mistakes_in(handshakes=True)
    assert "takes true, not false" in mistakes_in(files=False)
    assert "takes '1' or '2', not 3" in mistakes_in(version=3)
    assert "takes 'used' or 'never', not true (write retry: used)" in mistakes_in(retry=True)


def test_every_check_says_what_it_demands_and_where_that_is_written() -> None:
    for check in declared_checks().values():
        assert check.title.endswith(".")
        assert "RFC" in check.source or "contract" in check.source
