"""The interop runner's test cases in a check: with whom each is tried, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.check import contract
from harness.check.contract import (
    TestcaseTrial,
    check_refusal,
    finding_without_peer,
    judge_testcase,
    scenario_of,
    trials,
)
from harness.evaluation.cell_result import CellResult
from harness.outcome import Cell, Outcome, Run, Verdict, VerdictStatus
from harness.outcome.conformance import Answer
from harness.scenario.parameters import Role
from harness.scenario.schema import TESTCASES, Implementation
from tests.examples import catalogue, cell, implementation

NO_V2 = {"testcases": ["v2"], "why": "it has version 1 alone"}


def _implementation(name: str = "mine", **overrides: Any) -> Implementation:
    return implementation(name, parameters={}, **overrides)


def _trials(
    mine: Implementation, *references: Implementation, others: Sequence[Implementation] = ()
) -> dict[tuple[str, str], tuple[list[str], str]]:
    """(role, test case) → names of the peers, and why it is not played."""

    def make_cell(role: Role, peer: Implementation, scenario: str) -> Cell:
        tested_scenario = catalogue().find_scenarios([scenario])[0]
        return cell(tested_scenario, *((mine, peer) if role == "client" else (peer, mine)))

    by_testcase: dict[tuple[str, str], tuple[list[str], str]] = {}
    for testcase_trial in trials(mine, references, others, make_cell):
        peers = [
            (item.server if testcase_trial.role == "client" else item.client).name for item in testcase_trial.cells
        ]
        assert testcase_trial.lacks_peer == (not peers and not testcase_trial.refusal)
        by_testcase[testcase_trial.role, testcase_trial.testcase] = (peers, testcase_trial.refusal)
    return by_testcase


def test_every_test_case_is_tried_against_the_references_that_take_it() -> None:
    references = [_implementation("quic-go", refuses=[NO_V2]), _implementation("ngtcp2", protocols=["h3"])]
    by_testcase = _trials(
        _implementation(refuses=[{"testcases": ["ecn"], "roles": ["server"], "why": "no marks"}]), *references
    )
    assert {testcase for _, testcase in by_testcase} == set(TESTCASES)
    assert by_testcase["client", "http3"] == (["quic-go", "ngtcp2"], "")
    assert by_testcase["client", "ecn"] == (["quic-go"], "")
    assert by_testcase["server", "ecn"] == ([], "no marks")
    # Where no reference takes it, it is tried against itself.
    assert by_testcase["client", "v2"] == (["mine"], "")
    # What only one role is told its peer need not know.
    assert by_testcase["client", "keyupdate"] == (["quic-go"], "")
    assert ("server", "keyupdate") not in by_testcase
    assert ("client", "connectionmigration") not in by_testcase


def test_where_neither_a_reference_nor_itself_can_be_the_other_end_another_one_is_asked() -> None:
    mine, reference = _implementation(roles=["client"]), _implementation("quic-go", refuses=[NO_V2])
    assert _trials(mine, reference)["client", "v2"] == ([], "")
    implementations = [reference, _implementation("aioquic"), _implementation("quinn")]
    assert _trials(mine, reference, others=implementations)["client", "v2"] == (["aioquic"], "")


def test_a_preferred_address_is_tried_with_a_client_that_goes_there() -> None:
    references, implementations = (
        [_implementation("quic-go")],
        [_implementation("aioquic"), _implementation("picoquic")],
    )
    by_testcase = _trials(_implementation(), *references, others=implementations)
    assert by_testcase["server", "connectionmigration"] == (["picoquic"], "")
    assert _trials(_implementation(), *references)["server", "connectionmigration"] == ([], "")


def test_what_is_taken_and_cannot_be_tried_is_said() -> None:
    finding = finding_without_peer(
        TestcaseTrial("client", "v2", (), lacks_peer=True), cell(None, _implementation(), _implementation("quic-go"))
    )
    assert (finding.answer, finding.seen) == ("not tried", "no implementation here can be the other end")


def test_each_test_case_has_its_scenario() -> None:
    for testcase in TESTCASES:
        (scenario,) = catalogue().find_scenarios([scenario_of(testcase)])
        assert scenario.testcase == testcase


def _result(status: VerdictStatus, reason: str, **mine: Any) -> CellResult:
    scenario = catalogue().find_scenarios(["interop/retry"])[0]
    tested_cell = cell(scenario, _implementation(**mine), _implementation("quic-go"))
    return CellResult(tested_cell, (), Verdict(status=status, reason=reason, sentence="So it is."), (Path(),))


@pytest.mark.parametrize(
    ("result", "answer", "evidence"),
    [
        (_result("pass", "checks_hold"), "holds", "works: "),
        (_result("fail", "retry"), "does not hold", "fails: "),
        (_result("inconclusive", "not_checked"), "not offered", "cannot be told: "),
        (_result("unsupported", "unsupported_server"), "not tried", "the other end refuses it: "),
        (_result("unsupported", "unsupported_client"), "not offered", "refused(127): "),
        (
            _result("unsupported", "unsupported_client", image=None, build="."),
            "does not hold",
            "refused(127), and the manifest does not say so: ",
        ),
    ],
)
def test_a_test_case_works_fails_or_is_refused(result: CellResult, answer: Answer, evidence: str) -> None:
    finding = judge_testcase(TestcaseTrial("client", "retry", (result.cell,)), result)
    assert (finding.question, finding.answer, finding.against) == ("TESTCASE retry", answer, "quic-go")
    assert finding.seen == f"{evidence}So it is."


@pytest.mark.parametrize(
    ("role", "code", "answer", "evidence"),
    [
        ("client", 127, "not offered", "refused(127): it has version 1 alone"),
        ("client", 1, "does not hold", "not refused: it ended"),
        ("server", 127, "does not hold", "not refused: it ended"),
        (None, 0, "does not hold", "not refused: it ended"),
    ],
)
def test_what_a_manifest_refuses_has_to_end_with_127(
    monkeypatch: pytest.MonkeyPatch, role: Role | None, code: int, answer: Answer, evidence: str
) -> None:
    asked: list[str] = []

    def answer_testcase(cell: Cell, role: Role, testcase: str, engine: object) -> Outcome:
        asked.append(testcase)
        return outcome

    outcome = Outcome(status="unsupported", role=role, exit_code=code, detail="it ended")
    monkeypatch.setattr(contract, "run_with_testcase", answer_testcase)
    tested_cell = cell(None, _implementation(), _implementation("quic-go"))
    finding = check_refusal(TestcaseTrial("client", "v2", (), "it has version 1 alone"), tested_cell, None)  # type: ignore[arg-type]
    assert (finding.answer, finding.seen, asked) == (answer, evidence, ["v2"])


def _crashed(tested_cell: Cell, role: Role = "server") -> Run:
    outcome = Outcome(status="crashed", role=role, exit_code=0, detail=f"the {role} ended with exit code 0")
    return Run(cell=tested_cell, repetition=0, outcome=outcome, started_at="2026-01-01T00:00:00Z")


def test_a_crash_shows_the_last_line_and_the_path_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "server0.log").write_text("it starts\nno key of this kind: EC\n\n  \n")
    tested_cell = cell(catalogue().find_scenarios(["interop/retry"])[0], _implementation("quic-go"), _implementation())
    run = _crashed(tested_cell)
    last_line = f"the log of server0 ends with “no key of this kind: EC” ({tmp_path / 'server0.log'})"
    detail = contract.judge_transfer(run, "server", "h3", tmp_path).seen
    assert detail == f"crashed: the server ended with exit code 0; {last_line}"
    verdict = Verdict(status="fail", reason="crashed_server", sentence="The server ended.")
    result = CellResult(tested_cell, ((run, None),), verdict, (tmp_path,))
    finding = judge_testcase(TestcaseTrial("server", "retry", (tested_cell,)), result)
    assert finding.seen == f"fails: The server ended; {last_line}"
    # The endpoint under check is not always the one that is blamed. Its log tells as much.
    client = contract.judge_transfer(run, "client", "h3", tmp_path).seen
    assert client.endswith(f"{last_line}; the log of client0 is empty ({tmp_path / 'client0.log'})")


@pytest.mark.parametrize(("failure", "answers"), [("", ["holds", "holds"]), ("it fails", ["holds", "not tried"])])
def test_a_missing_file_is_asked_for_where_one_that_is_there_comes(
    monkeypatch: pytest.MonkeyPatch, failure: str, answers: list[Answer]
) -> None:
    class Result:
        outcome = Outcome(status="crashed", role="client", exit_code=127, detail="it ended", log_tail=("no such word",))

    monkeypatch.setattr(contract, "_run_lab", lambda lab, engine: Result())
    tested_cell = cell(None, _implementation(), _implementation("quic-go"))
    findings = contract.check_refusals(tested_cell, "client", None, failure=failure)  # type: ignore[arg-type]
    assert [finding.answer for finding in findings] == answers
    assert not failure or findings[-1].seen == failure
    # What holds needs no cause. What does not has one.
    Result.outcome = Result.outcome.model_copy(update={"exit_code": 0})
    findings += contract.check_refusals(cell(None, _implementation(), _implementation("quic-go")), "client", None)  # type: ignore[arg-type]
    assert (findings[0].seen, findings[2].seen) == ("it ended", "it ended: “no such word”")


@pytest.mark.parametrize(
    ("browser", "style_ms", "answer"),
    [
        # The document's first byte came after 40 ms, its last after 60 ms.
        (False, 61, "holds"),
        (False, 50, "does not hold"),
        (True, 50, "holds"),
        (True, 30, "does not hold"),
    ],
)
def test_a_browser_may_ask_for_what_the_first_bytes_of_a_document_name(
    browser: bool, style_ms: int, answer: Answer, tmp_path: Path
) -> None:
    """Others know from the schedule what comes after which object, and wait for all of it."""
    page = catalogue().find_scenarios(["check/document"])[0]
    client = _implementation(roles=["client"], protocols=["h3"], schedules=["h3"], browser=browser)
    run = Run(cell=cell(page, client), repetition=0, outcome=Outcome(status="completed"), started_at="")
    times = [(0, 40, 60), (style_ms, 90, 100), *[(61, 90, 200)] * 3]
    rows = [f"{number},{','.join(str(time * 10**6) for time in row)}" for number, row in enumerate(times)]
    log = tmp_path / "flow0/client/requests.csv"
    log.parent.mkdir(parents=True)
    log.write_text("\n".join(["request,asked_ns,first_byte_ns,complete_ns", *rows, ""]))
    assert contract.judge_schedule(run, "h3", tmp_path).answer == answer
