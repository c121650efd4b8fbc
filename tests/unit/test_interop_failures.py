"""A failure in reports: the check with its packet, the endpoints' last words, and whose it looks to be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from harness.analysis.interop.matrix import Failure, InteropMatrix, TestcaseResult, relabel_unsupported
from harness.analysis.interop.registry import CASES, declared_checks
from harness.analysis.interop.responsibility import Blame, blames, find_blame
from harness.analysis.interop.verdict import verdict_of
from harness.capture.artefacts import LINES, WIDTH, last_log_lines
from harness.evaluation.cell_result import CellResult
from harness.outcome import InteropCheck, LinkProof, MeasuredRun, Outcome, Run, Verdict
from harness.report.interop import frame_command, interop_document, matrix_of
from harness.report.markdown import render_markdown
from harness.stats.intervals import share_interval
from tests.examples import catalogue, cell, implementation
from tests.rendering import printed
from tests.unit.captures import make_run
from tools.reference.interop_page import SUCCESSES, interop_page

WRONG = InteropCheck(
    check="amplification", asked=3, status="failed", sentence="4800 B sent, and 1200 B had come", sender="server",
    packet=6, t=0.0305,
)  # fmt: skip
LOG_LINES = {"client0": ("| bad <b>", "```"), "server0": ("too much",)}


def _run(**outcome: object) -> Run:
    return make_run(outcome=Outcome.model_validate({"status": "completed", **outcome}))


def _logs(folder: Path, **logs: bytes) -> None:
    for name, content in logs.items():
        (folder / f"{name}.log").write_bytes(content)


def test_the_last_lines_of_both_endpoints_are_read_also_from_what_is_packed(tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(9)]
    _logs(tmp_path, client0="\n".join([*lines, "", "  "]).encode())
    (tmp_path / "server0.log.zst").write_bytes(zstandard.compress(b"first\nlast\n"))
    assert last_log_lines(tmp_path, _run()) == {"client0": tuple(lines[-LINES:]), "server0": ("first", "last")}


def test_what_an_endpoint_prints_is_bounded_and_escaped(tmp_path: Path) -> None:
    _logs(tmp_path, client0=b"x" * 500 + b"\n", server0=b"\x1b[31mred\x07\xff\n" + b"y" * 200_000)
    log_lines = last_log_lines(tmp_path, _run())
    assert log_lines["client0"] == ("x" * (WIDTH - 1) + "…",)
    assert all(len(line) <= WIDTH for lines in log_lines.values() for line in lines)
    _logs(tmp_path, server0=b"\x1b[31mred\x07\xff\n")
    assert last_log_lines(tmp_path, _run())["server0"] == ("\\x1b[31mred\\x07\N{REPLACEMENT CHARACTER}",)


def test_without_logs_it_is_what_the_record_has(tmp_path: Path) -> None:
    assert last_log_lines(tmp_path, _run()) == {}
    broken = _run(status="crashed", role="server", log_tail=("a\x00b",))
    assert last_log_lines(tmp_path / "gone", broken) == {"server0": ("a\\x00b",)}


def _result(folder: Path, *checks: InteropCheck) -> CellResult:
    asked = catalogue().find_scenarios(["interop/amplificationlimit"])[0]
    tested_cell = cell(asked, implementation("alpha", parameters={}), implementation("quic-go", parameters={}))
    run = make_run().model_copy(update={"cell": tested_cell})
    verdict = Verdict(status="fail", reason="amplification", sentence="Amplification: 4800 B.")
    return CellResult(
        tested_cell, ((run, MeasuredRun(version=1, checks=checks, link=LinkProof(valid=True))),), verdict, (folder,)
    )


def test_a_cell_that_failed_tells_its_check_its_packet_and_what_was_said(tmp_path: Path) -> None:
    _logs(tmp_path, server0=b"too much\n")
    (entry,) = interop_document(matrix_of([_result(tmp_path, WRONG)])).data["entries"]
    check = entry["failure"]["check"]
    assert (check["check"], check["sender"], check["packet"], check["t"]) == ("amplification", "server", 6, 0.0305)
    assert entry["failure"]["words"] == {"server0": ["too much"]}
    assert entry["finding"]["whose"] == "implementation"
    (entry,) = interop_document(matrix_of([_result(tmp_path)])).data["entries"]
    assert "failure" not in entry


def _matrix(**entries: TestcaseResult) -> InteropMatrix:
    """Entries of amplificationlimit by their server."""
    results = {
        ((client, server), "amplificationlimit"): entry for server, entry in entries.items() for client in ("a", "b")
    }
    return InteropMatrix(("a", "b"), tuple(entries), results)


FAILED = TestcaseResult(
    "failed", "amplification", "Amplification: 4800 B | <b>.", failure=Failure("k/0", WRONG, LOG_LINES)
)


def test_findings_of_implementations_of_endpoints_and_of_nobody_yet_stand_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = Blame("server", "ours", "amplification", "endpoint", "We ask for it.", says="4800 B")
    monkeypatch.setattr("harness.analysis.interop.responsibility.blames", lambda: (*blames(), ours))
    markdown = render_markdown(interop_document(_matrix(**{"quic-go": FAILED, "ours": FAILED, "other": FAILED})))
    parts = markdown.split("\n**")
    assert [part.partition("**")[0] for part in parts[1:]] == [
        "What looks like a bug of an implementation, or something that it does not have",
        "What looks to be our endpoints' doing",
        "What nobody has looked into",
    ]
    assert "| quic-go as a server | `amplification` |" in parts[1]
    assert "A a → quic-go, A b → quic-go" in parts[1]
    assert "We ask for it." in parts[2]
    assert "| A | a → other | failed | Amplification: 4800 B \\| &lt;b>. |" in parts[3]


def test_a_long_client_hello_leaves_the_amplification_limit_unasked() -> None:
    unasked = TestcaseResult("inconclusive", "amplification", "Amplification was not exercised: at most 0.04 times.")
    over = replace(unasked, word="failed", sentence="Amplification: 4800 B.")
    pair = ("quic-go", "picoquic")
    assert (finding := find_blame(pair, "amplificationlimit", unasked)) and finding.whose == "case"
    assert find_blame(pair, "amplificationlimit", over) is None
    entries = {(pair, "amplificationlimit"): unasked}
    markdown = render_markdown(interop_document(InteropMatrix(("quic-go",), ("picoquic",), entries)))
    assert "**What the test case cannot ask of a pair** (1)." in markdown and "two datagrams" in markdown


def test_last_words_stand_below_and_end_no_block() -> None:
    markdown = render_markdown(interop_document(_matrix(other=FAILED)))
    assert "A a → other, run k/0:\n\n```\nclient0| | bad <b>\nclient0| ```\nserver0| too much\n```" in markdown
    assert "A a → other, run k/0:\n  client0| | bad <b>\n" in printed(interop_document(_matrix(other=FAILED)), 150)
    quiet = replace(FAILED, failure=Failure("k/0", WRONG))
    assert "said last" not in render_markdown(interop_document(_matrix(other=quiet)))


def test_a_failure_is_explained_with_the_command_that_shows_its_packet(tmp_path: Path) -> None:
    record = replace(FAILED.failure or Failure("k/0"), folder=tmp_path, progress="12 kB of 1 MB came.")
    explained = replace(FAILED, failure=record)
    text = printed(interop_document(_matrix(other=explained)), 300)
    assert "what   Amplification: 4800 B | <b>. 12 kB of 1 MB came.\n" in text
    assert "whose  nobody has looked into it\n" in text and f"run    {tmp_path}\n" in text
    assert "wireshark" not in text  # no capture was kept
    keys = tmp_path / "flow0" / "client" / "keys.log"
    for file in (tmp_path / "sim" / "captures.tar.zst", keys):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
    assert frame_command(record) == (
        f"tar --zstd -xOf {tmp_path}/sim/captures.tar.zst trace_node_right.pcap > /tmp/trace_node_right.pcap && "
        f"wireshark -o tls.keylog_file:{keys} -g 6 /tmp/trace_node_right.pcap"
    )
    (tmp_path / "sim" / "trace_node_right.pcap").write_bytes(b"")
    assert frame_command(record).endswith(f"-g 6 {tmp_path}/sim/trace_node_right.pcap")
    assert "wireshark" in printed(interop_document(_matrix(other=explained)), 300)


def test_what_fails_with_everybody_is_one_row_and_one_voice() -> None:
    other = replace(FAILED, sentence="Another.", failure=Failure("l/0", WRONG, LOG_LINES))
    unsupported = {("b", "other"): other, ("c", "other"): FAILED, ("a", "other"): FAILED}
    entries = {(pair, "amplificationlimit"): entry for pair, entry in unsupported.items()}
    entries |= {((client, "good"), "amplificationlimit"): TestcaseResult("succeeded") for client in "abc"}
    markdown = render_markdown(
        interop_document(relabel_unsupported(InteropMatrix(("a", "b", "c"), ("other", "good"), entries)))
    )
    head, _, table = markdown.partition("**What an implementation fails with every peer, which counts as unsupported**")
    assert "nobody has looked into" not in head.lower()
    assert "(3; nobody has looked into it)" in table
    why = "Amplification: 4800 B \\| &lt;b>. Another."
    assert f"| A | other as a server | a, b, c | {why} |" in table
    assert table.count("A a → other, run k/0:") == 1
    assert "b → other, run" not in table


@pytest.mark.parametrize(
    "blame", blames(), ids=lambda blame: f"{blame.implementation}-{blame.reason or blame.cases[0]}"
)
def test_every_finding_names_what_there_is(blame: Blame) -> None:
    known = catalogue().implementations()
    assert blame.role in known[blame.implementation][0].roles
    broken = blame.reason.partition("_")[0] in ("crashed", "timed", "wrong", "log")
    assert broken or (blame.reason in declared_checks() if blame.reason else blame.cases)
    assert set(blame.cases) <= set(CASES)
    assert set(blame.peers) <= set(known)
    assert blame.why.endswith(".")


def test_a_finding_is_of_its_role_its_check_and_its_cases() -> None:
    rebound = TestcaseResult("failed", "rebound", "It did not.")
    assert find_blame(("picoquic", "quinn"), "rebind-addr", rebound) is not None
    assert find_blame(("picoquic", "quinn"), "rebind-port", rebound) is None
    assert find_blame(("quinn", "picoquic"), "rebind-addr", rebound) is None
    assert find_blame(("picoquic", "quinn"), "rebind-addr", replace(rebound, reason="version")) is None
    stands = TestcaseResult("failed", "timed_out_client", "It did not end.")
    assert find_blame(("quinn", "quiche"), "rebind-port", stands) is not None
    assert find_blame(("quinn", "quiche"), "rebind-port", replace(stands, reason="rebound")) is not None
    assert find_blame(("quinn", "quiche"), "transfer", stands) is None
    refused = TestcaseResult("unsupported", "unsupported_server", "It refuses.")
    assert find_blame(("quinn", "quiche"), "rebind-port", refused) is None
    assert (
        find_blame(("quinn", "quiche"), "rebind-port", replace(refused, failing_party=("server", "quiche"))) is not None
    )


def test_a_finding_may_be_of_some_peers_alone() -> None:
    broken = TestcaseResult("failed", "connection_closed_client", "The client ended with exit code 1.")
    split = find_blame(("quiche", "msquic"), "handshakeloss", broken)
    assert split is not None and split.role == "server" and "first half of a ClientHello" in split.why
    assert find_blame(("tquic", "msquic"), "handshakeloss", broken) is None


def test_moves_that_nobody_saw_are_one_row() -> None:
    unseen = InteropCheck(check="migrated", asked=True, status="failed", sentence="the client used a single path")
    stayed = TestcaseResult(
        "failed", "migrated", "Migrated: the client used a single path.", None, Failure("k/0", unseen)
    )
    wrong = unseen.model_copy(update={"packet": 7, "sender": "client", "t": 0.5})
    seen = replace(stayed, failure=Failure("l/0", wrong))
    entries = {((client, "other"), "connectionmigration"): stayed for client in ("a", "b")}
    entries |= {
        (("c", "other"), "connectionmigration"): seen,
        (("d", "other"), "connectionmigration"): TestcaseResult("succeeded"),
    }
    text = render_markdown(interop_document(InteropMatrix(tuple("abcd"), ("other",), entries)))
    assert "**Moves that nobody saw: a single path was used** (2)." in text
    assert "| CM | CM a → other, CM b → other | the client used a single path |" in text
    # A move that was seen has a packet, and a row of its own.
    assert "**What nobody has looked into** (1)." in text and "| CM | c → other | failed |" in text


def test_implementations_with_the_same_finding_share_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    both = tuple(Blame("server", name, "amplification", "implementation", "Too much.") for name in ("y", "x"))
    monkeypatch.setattr("harness.analysis.interop.responsibility.blames", lambda: both)
    text = render_markdown(interop_document(_matrix(x=FAILED, y=FAILED)))
    assert "| x, y as a server | `amplification` | Too much. | A a → x, A a → y, A b → x, A b → y |" in text


def _repeated(folder: Path, *exit_codes: int) -> CellResult:
    """A cell of handshakeloss whose runs end so, each with a seed of its own."""
    asked = catalogue().find_scenarios(["interop/handshakeloss"])[0]
    played = cell(asked, implementation("alpha"), implementation("beta"))
    runs = tuple(
        (
            make_run().model_copy(update={"cell": played, "repetition": number, "outcome": _outcome(code)}),
            MeasuredRun(version=1, link=LinkProof(valid=True)),
        )
        for number, code in enumerate(exit_codes)
    )
    return CellResult(played, runs, verdict_of(runs), (folder,) * len(runs))


def _outcome(code: int) -> Outcome:
    if code == 0:
        return Outcome(status="completed")
    return Outcome(status="crashed", role="client", exit_code=code, detail=f"the client ended with exit code {code}")


def test_where_chance_decides_a_page_has_the_rate_and_its_interval(tmp_path: Path) -> None:
    document = interop_document(matrix_of([_repeated(tmp_path, *([0] * 17), 1, 1, 1)]))
    assert document.data["rates"] == [
        {"client": "alpha", "server": "beta", "case": "handshakeloss", "succeeded": 17, "runs": 20,
         "interval": [0.6396, 0.9476]}
    ]  # fmt: skip
    text = render_markdown(document)
    assert "**How often L1 (handshakeloss) succeeds**: 17 of 20 runs succeeded; 0 of 1 pair always did." in text
    assert "| alpha | 17/20 (63–95 %) |" in text
    # What chance decides is no riddle, and no single run has a rate.
    assert "nobody has looked into" not in text.lower()
    assert "How often" not in render_markdown(interop_document(matrix_of([_repeated(tmp_path, 1)])))
    scenarios = [catalogue().scenario(file) for file in catalogue().scenario_files()]
    page = interop_page(scenarios, [], [_repeated(tmp_path, 1, *([0] * 18), 1)])
    assert "1 inconclusive (0 of them not exercised, 1 by chance: some seeds succeed)." in page
    assert "![In how many of its cells" not in page
    page = interop_page(scenarios, [], [_repeated(tmp_path, 0)], [SUCCESSES.file])
    assert page.index(SUCCESSES.file) < page.index("## How it is done")
    drawn = SUCCESSES.draw([_repeated(tmp_path, 0)])
    assert drawn is not None and SUCCESSES.draw([]) is None
    marks = [row for rows in drawn["datasets"].values() for row in rows if "case" in row]
    assert {(row["row"], row["case"], row["value"]) for row in marks} == {
        ("alpha", "as a client", 1.0), ("beta", "as a server", 1.0),
    }  # fmt: skip
    always = render_markdown(interop_document(matrix_of([_repeated(tmp_path, 1, 1)])))
    assert "| alpha | 0/2 (0–66 %) |" in always and "nobody has looked into" in always.lower()


@pytest.mark.parametrize(("successes", "trials", "low", "high"), [(15, 148, 0.0624, 0.1605), (81, 263, 0.2553, 0.3662)])
def test_the_interval_of_a_rate_is_the_published_one(successes: int, trials: int, low: float, high: float) -> None:
    """R. G. Newcombe, Two-sided confidence intervals for the single proportion, Stat. Med. 17 (1998), table I."""
    assert share_interval(successes, trials) == pytest.approx((low, high), abs=5e-5)
