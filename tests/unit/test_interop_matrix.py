"""The interop matrix: who fails with everybody, where two disagree, and the runner's own document out and in."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.interop.matrix import InteropMatrix, TestcaseResult, disagreements, relabel_unsupported
from harness.analysis.interop.registry import CASES, case_of
from harness.analysis.interop.runner_json import problems, to_document, to_matrix
from harness.analysis.interop.verdict import ResultWord
from harness.cli import main
from harness.cli.signals import USAGE
from harness.errors import InputError
from harness.report import interop
from harness.report.markdown import render_markdown
from tests.examples import catalogue


def _matrix(words: dict[tuple[str, str, str], ResultWord], **overrides: Any) -> InteropMatrix:
    entries = {
        ((client, server), case): TestcaseResult(word, "why", "It did not.")
        for (client, server, case), word in words.items()
    }
    clients, servers = (tuple(sorted({key[index] for key in words})) for index in (0, 1))
    return InteropMatrix(clients, servers, entries, **overrides)


SQUARE = _matrix(
    {
        ("a", "a", "retry"): "failed", ("a", "b", "retry"): "failed",
        ("b", "a", "retry"): "succeeded", ("b", "b", "retry"): "failed",
        ("a", "a", "v2"): "succeeded", ("b", "b", "v2"): "inconclusive",
    },
    measured={(("a", "a"), "goodput"): "9559 (± 12) kbps"},
)  # fmt: skip


def _document(matrix: InteropMatrix = SQUARE) -> dict[str, Any]:
    return to_document(matrix, {"retry": "The server sends a Retry"}, {"a": "https://a"}, 1.0, 2.5, "results")


def test_what_fails_with_everybody_is_unsupported_and_said_to_have_failed() -> None:
    entries = relabel_unsupported(SQUARE).entries
    # a as a client never succeeds, nor b as a server.
    for pair in (("a", "a"), ("a", "b"), ("b", "b")):
        assert (entries[pair, "retry"].word, entries[pair, "retry"].relabelled) == ("unsupported", True)
    assert entries[("b", "a"), "retry"].word == "succeeded"
    # One pair alone is not everybody.
    assert entries[("a", "a"), "v2"].word == "succeeded"


def test_with_one_client_nobody_can_tell_whose_fault_it_is() -> None:
    row = _matrix({("a", "a", "retry"): "failed", ("a", "b", "retry"): "failed"})
    assert relabel_unsupported(row) is row


def test_disagreements_are_of_what_both_could_tell() -> None:
    theirs = _matrix(
        {("a", "a", "retry"): "succeeded", ("a", "b", "retry"): "unsupported", ("b", "a", "retry"): "succeeded",
         ("a", "a", "v2"): "failed", ("b", "b", "v2"): "succeeded"}
    )  # fmt: skip
    disputed = disagreements(SQUARE, theirs)
    assert [(disagreement.pair, disagreement.case, disagreement.ours.word) for disagreement in disputed] == [
        (("a", "a"), "retry", "failed"),
        (("a", "a"), "v2", "succeeded"),
    ]
    # The runner's site relabels nothing: what is relabelled here failed there, too.
    relabelled = disagreements(relabel_unsupported(SQUARE), theirs)
    assert [disagreement.pair for disagreement in relabelled] == [("a", "a"), ("a", "a")]
    published = _matrix({("a-qns", "a", "retry"): "failed"})
    assert [disagreement.case for disagreement in disagreements(published, theirs)] == ["retry"]


def test_an_aggregated_document_may_have_nothing_of_an_implementation() -> None:
    """The runner's aggregate.py writes an empty list for a pair without a result, and may lack an address."""
    document = json.loads(json.dumps(_document()))
    document["urls"].pop("b")
    document["results"] = [[] if index else listed for index, listed in enumerate(document["results"])]
    document["measurements"] = [[] for _ in document["measurements"]]
    assert {pair for pair, _ in to_matrix(document, "result.json").entries} == {("a", "a")}


def test_what_is_written_is_as_the_runner_writes_it_and_is_read_back() -> None:
    document = json.loads(json.dumps(_document()))
    assert not list(problems(document))
    back = to_matrix(document, "result.json")
    decided = {key: entry.word for key, entry in SQUARE.entries.items() if entry.word != "inconclusive"}
    assert {key: entry.word for key, entry in back.entries.items()} == decided
    assert back.measured == SQUARE.measured
    # Client by client, and within a client server by server.
    assert [[entry["abbr"] for entry in listed] for listed in document["results"]] == [
        ["S", "V2"],
        ["S"],
        ["S"],
        ["S", "V2"],
    ]
    assert document["results"][3][1]["result"] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: document.pop("quic_version"), "quic_version is missing"),
        (lambda document: document.update(clients="a"), "clients is no list"),
        (lambda document: document["results"].pop(), "results has 3 entries, and there are 4 pairs"),
        (lambda document: document["results"].__setitem__(0, {}), r"results[0] is no list"),
        (lambda document: document["results"][0].append({"abbr": "S"}), "without abbr, name and result"),
        (lambda document: document["results"][0][0].update(abbr="X"), "'X' is none of tests"),
        (lambda document: document["results"][0][0].update(result="passed"), "has the result 'passed'"),
        (lambda document: document["measurements"][0][0].update(details=5), "has no details"),
        (lambda document: document["tests"].update(H={}), "tests.H has no name and desc"),
        (lambda document: document["results"][0][0].update(abbr=["S"]), "a list is none of tests"),
        (lambda document: document["results"][0][0].update(result=["failed"]), "has the result a list"),
        (lambda document: document["results"][0].append(document["results"][0][0]), "results[0] has S twice"),
        (
            lambda document: document["results"][0][0].update(name="transfer"),
            "S is 'transfer', and in tests it is 'retry'",
        ),
        (
            lambda document: document["tests"].update(Q={"name": "retry", "desc": ""}),
            "tests.S and tests.Q are both 'retry'",
        ),
        (lambda document: document["tests"].update(Q={"name": 5, "desc": ""}), "tests.Q has no name and desc"),
        (lambda document: document.update(clients=["a", "a"]), "clients has 'a' twice"),
        (lambda document: document.update(start_time=float("inf")), "start_time is no time"),
        (lambda document: document.update(end_time=True), "end_time is no time"),
    ],
)
def test_a_document_of_another_kind_is_refused(change: Any, message: str) -> None:
    document = copy.deepcopy(_document())
    change(document)
    assert any(message in problem for problem in problems(document))
    with pytest.raises(InputError, match="of the interop runner"):
        to_matrix(document, "result.json")


def test_a_letter_is_what_its_document_says_it_is() -> None:
    document = copy.deepcopy(_document())
    # Who wrote it calls a Retry V2, and version 2 S.
    document["tests"]["S"], document["tests"]["V2"] = document["tests"]["V2"], document["tests"]["S"]
    for listed in document["results"]:
        for entry in listed:
            entry["name"] = document["tests"][entry["abbr"]]["name"]
    back = to_matrix(document, "result.json")
    assert back.entries[("a", "a"), "v2"].word == "failed"
    assert back.entries[("a", "a"), "retry"].word == "succeeded"
    assert (("b", "a"), "retry") not in back.entries
    # A test that nobody knows here is left out.
    document["tests"]["S"]["name"] = "pigeons"
    for listed in document["results"]:
        for entry in listed:
            entry["name"] = document["tests"][entry["abbr"]]["name"]
    assert {case for _, case in to_matrix(document, "result.json").entries} == {"retry"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[" * 100_000, "brackets within brackets"),
        (b'{"start_time": NaN}', "NaN, which is no number in JSON"),
        (b'{"tests": {"S": {}, "S": {}}}', "'S' is given twice in one object"),
        (b'{"urls": {"a": "\\ud800"}}', "surrogates not allowed"),
        (b"\xff", "codec can't decode"),
        (b"{", "Expecting property name"),
    ],
)
def test_a_file_that_is_no_json_of_this_world_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: bytes, why: str
) -> None:
    (tmp_path / "result.json").write_bytes(text)
    monkeypatch.setattr("sys.argv", ["harness", "report", "interop", "--from", str(tmp_path / "result.json")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == USAGE
    message = capsys.readouterr().err
    assert f"{tmp_path / 'result.json'} is no JSON: " in message and why in message


def test_a_pipe_is_no_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "result.json")
    monkeypatch.setattr("sys.argv", ["harness", "report", "interop", "--from", str(tmp_path / "result.json")])
    with pytest.raises(SystemExit):
        main()
    assert "result.json: not a regular file" in capsys.readouterr().err


def test_the_grid_has_every_word_and_the_reason_of_each_failure() -> None:
    text = render_markdown(interop.interop_document(relabel_unsupported(SQUARE), SQUARE))
    assert "| a | ✓ V2<br>⊘ S | ⊘ S |" in text
    assert "| b | ✓ S | ⊘ S<br>? V2 |" in text
    assert "3 unsupported (3 of them fail with every peer)" in text
    assert "| S | a as a client | a | It did not. |" in text
    assert "| S | b as a server | a, b | It did not. |" in text
    assert "| V2 | b → b | inconclusive | It did not. |" in text
    assert interop.interop_document(SQUARE).data["counts"] == {
        "succeeded": 2,
        "failed": 3,
        "unsupported": 0,
        "inconclusive": 1,
    }


def test_every_case_has_a_scenario_with_checks_and_its_words() -> None:
    scenarios = {scenario.name: scenario for scenario in map(catalogue().scenario, catalogue().scenario_files())}
    for case in CASES:
        tested_scenario = scenarios[f"interop/{case}"]
        assert case_of(tested_scenario.name) == case
        assert tested_scenario.checks
        assert tested_scenario.testcase is not None
        assert tested_scenario.title.endswith(f"({CASES[case]})")
        assert case in tested_scenario.references[0]
    assert case_of("interop/medium-10mb") is None


def test_a_file_that_is_no_document_says_so(tmp_path: Path) -> None:
    assert list(problems([])) == ["it is no object"]
