"""How connections end: what each witness tells, and what a run's outcome and verdict make of it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.analysis.connection_end import endings
from harness.analysis.metrics import measure
from harness.analysis.run_view import RunView
from harness.capture.qlog_events import read_closes
from harness.capture.quic.frames import CloseFrame
from harness.cli.environment import open_app
from harness.errors import UnfitError
from harness.evaluation.cell_result import CellResult, unreached_value
from harness.evaluation.verdict import judge
from harness.outcome import Ending, LinkProof, MeasuredRun, Outcome, Run, Transfer, Unfinished, Voice, proven_outcome
from harness.report.diagnosis import failure_lines
from harness.scenario.metric_names import MetricName
from harness.scenario.schema import Implementation, Scenario
from harness.store.parquet.tables import ModelTable
from tests.unit.captures import SCENARIO, T0, Link, Recipe, Traffic, carry, make_run, replace, write_run
from tests.unit.test_verdict import THREE

#: A client that failed, as an engine sees it.
CRASHED = Outcome(
    status="crashed", role="client", exit_code=1, reason="exit_1", detail="the client ended with exit code 1",
    log_tail=("quic-go-endpoint: /5MB.bin: timeout: no recent network activity",),
)  # fmt: skip
IDLE = Ending(
    flow=0, transfer="first", kind="idle_timeout", witness="client", by="client", at=63.1, timer=60.0,
    source="the client's qlog",
)  # fmt: skip


def failed(outcome: Outcome = CRASHED, exit_code: int | None = 1, **transfer: Any) -> Run:
    given = {"flow": 0, "index": 0, "size": 5_000_000, "received": 3000, "started_ns": 1, "ended_ns": 2}
    return make_run(outcome=outcome, transfers=(Transfer(**{**given, "exit_code": exit_code, **transfer}),))


def measured(*ends: Ending, valid: bool = True, **fields: Any) -> MeasuredRun:
    return MeasuredRun(version=1, link=LinkProof(valid=valid), endings=ends, **fields)


def closed(by: str, witness: str = "client", error: str = "PROTOCOL_VIOLATION", words: str = "") -> Ending:
    return Ending(
        flow=0, transfer="first", kind="connection_closed", witness=witness, by=by, error=error, words=words,
        source="the capture",
    )  # fmt: skip


def test_a_client_whose_connection_ended_did_not_crash() -> None:
    outcome = proven_outcome(failed(), measured(IDLE))
    assert (outcome.status, outcome.role, outcome.exit_code, outcome.failed_transfer) == (
        "idle_timeout",
        "client",
        1,
        True,
    )
    assert outcome.detail == (
        "the client's idle timeout of 60 s expired 63.1 s after the first datagram (the client's qlog); "
        "the client ended with exit code 1"
    )
    assert outcome.log_tail == CRASHED.log_tail


@pytest.mark.parametrize(
    ("outcome", "exit_code"),
    [
        (CRASHED.model_copy(update={"exit_code": 139}), 139),  # SIGSEGV, whatever it said before
        (CRASHED.model_copy(update={"exit_code": 0, "reason": "ended_early"}), 0),
        (CRASHED.model_copy(update={"role": "server"}), None),
        (Outcome(status="timed_out", role="client"), None),
        (Outcome(status="wrong_file", role="client", reason="different_bytes"), 0),
    ],
)
def test_what_is_no_end_of_a_connection_stays_what_it_was(outcome: Outcome, exit_code: int | None) -> None:
    assert proven_outcome(failed(outcome, exit_code), measured(IDLE)) == outcome


def test_a_crash_that_nobody_explains_is_one() -> None:
    assert proven_outcome(failed(), measured()).status == "crashed"
    # What the server alone tells the client may never have learnt.
    of_server = IDLE.model_copy(update={"witness": "server", "by": "server"})
    assert proven_outcome(failed(), measured(of_server)).status == "crashed"


def test_a_short_file_behind_exit_code_0_is_told_by_its_connection() -> None:
    short = Outcome(status="wrong_file", role="client", reason="short_file", detail="…")
    outcome = proven_outcome(failed(short, 0), measured(closed("server", words="too fast")))
    assert (outcome.status, outcome.role) == ("connection_closed", "server")
    assert outcome.detail == (
        "the server closed the connection with PROTOCOL_VIOLATION (the capture: “too fast”); "
        "the client ended with exit code 0 and 3000 of 5000000 bytes"
    )


def test_the_ground_comes_first() -> None:
    assert proven_outcome(failed(), measured(IDLE, valid=False)).status == "infrastructure"


def test_a_client_that_never_passed_the_gate_did_not_crash() -> None:
    outcome = CRASHED.model_copy(update={"log_tail": ("wait-for-sim: sim:57832 did not open within 60 s",)})
    for known in (measured(IDLE), None):
        proven = proven_outcome(failed(outcome), known)
        assert (proven.status, proven.role, proven.reason) == ("infrastructure", "sim", "gate_closed")


def test_verdicts_have_words_of_their_own() -> None:
    verdict = judge(THREE, [(failed(), measured(IDLE))])
    assert (verdict.status, verdict.reason) == ("fail", "idle_timeout_client")
    assert verdict.sentence.startswith(
        "Idle timeout (client) in 1 of 1 runs: the client's idle timeout of 60 s expired"
    )
    assert verdict.sentence.endswith("exit code 1, so completion ≤ 3 s is missed.")
    bare = judge(Scenario.model_validate(SCENARIO), [(failed(), measured(closed("server")))])
    assert (bare.status, bare.reason) == ("fail", "connection_closed_server")


def test_a_failed_transfer_is_an_observation_and_a_crash_is_none() -> None:
    done = make_run(), MeasuredRun(version=1, link=LinkProof(valid=True))
    mixed = judge(Scenario.model_validate(SCENARIO), [done, (failed(), measured(IDLE))])
    assert mixed.status == "measured" and mixed.sentence.endswith("; idle timeout (client) 1 of 2.")
    assert (
        "not counted: crashed_client"
        in judge(Scenario.model_validate(SCENARIO), [done, (failed(), measured())]).sentence
    )
    name = MetricName("completion", 0, "first")
    run = failed()
    assert unreached_value(run, name, failed=proven_outcome(run, measured(IDLE)).failed_transfer) == float("inf")
    assert unreached_value(run, name, failed=proven_outcome(run, measured()).failed_transfer) is None


def test_stored_columns_keep_ends() -> None:
    sheet = ModelTable(MeasuredRun)
    kept = measured(IDLE, unfinished=(Unfinished(flow=0, transfer="first", size=2, received=1, lasted=3),))
    assert sheet.record(sheet.row(kept)) == kept
    # A store that is older than the field has no such column.
    row = {name: value for name, value in sheet.row(kept).items() if name not in ("endings", "unfinished")}
    assert sheet.record(row).endings == () and sheet.record(row).unfinished == ()


# --- qlog

WALL = {"trace": {"common_fields": {"reference_time": T0 / 1e6}}}


def write_qlog(path: Path, *events: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\x1e" + json.dumps(record) + "\n" for record in (WALL, *events)))
    return path


def event(ms: float, name: str, **data: Any) -> dict[str, Any]:
    return {"time": ms, "name": name, "data": data}


@pytest.mark.parametrize(
    ("written", "close"),
    [
        (
            event(5, "transport:connection_closed", initiator="local", trigger="idle_timeout"),
            (True, "idle_timeout", "", "", False),
        ),
        (
            event(5, "connectivity:connection_closed", owner="remote", trigger="stateless_reset"),
            (False, "stateless_reset", "", "", False),
        ),
        (
            event(5, "quic:connection_closed", initiator="remote", connection_code=3, reason="too much"),
            (False, None, "FLOW_CONTROL_ERROR", "too much", False),
        ),
        (
            event(5, "transport:connection_closed", owner="local", application_code=0x100),
            (True, None, "application error 0x100", "", True),
        ),
        (
            event(
                5, "transport:packet_received",
                frames=[{"frame_type": "ack"}, {"frame_type": "connection_close", "error_space": "transport",
                         "error_code": 0x128, "reason": "handshake failure"}],
            ),
            (False, None, "CRYPTO_ERROR 0x128", "handshake failure", False),
        ),
        (
            event(
                5, "transport:packet_sent",
                frames=[{"frame_type": "connection_close", "error_space": "application_error", "error_code": "0x101"}],
            ),
            (True, None, "application error 0x101", "", False),
        ),
    ],
)  # fmt: skip
def test_a_qlog_tells_how_its_connection_ended(written: dict[str, Any], close: tuple[Any, ...], tmp_path: Path) -> None:
    (closed_connection,) = read_closes(
        write_qlog(tmp_path / "a.sqlog", event(1, "transport:packet_sent", frames=[]), written)
    )
    assert (
        closed_connection.local,
        closed_connection.trigger,
        closed_connection.error,
        closed_connection.reason_phrase,
        closed_connection.without_error,
    ) == close
    assert closed_connection.t_ns == T0 + 5_000_000


# --- a run's folder


def broken(folder: Path, log: str = "", manifest: dict[str, str] | None = None, code: int | None = 1) -> Run:
    """A run that broke off in the midst, as the captures model has it, with logs."""
    run = write_run(folder, Recipe(packets=200))
    (folder / "client0.log").write_text(log)
    transfer = run.transfers[0].model_copy(update={"exit_code": code, "intact": False, "received": 100_000})
    client = run.cell.client.model_copy(update={"endings": manifest or {}})
    cell = run.cell.model_copy(update={"client": client, "server": client})
    outcome = CRASHED.model_copy(update={"exit_code": code})
    return run.model_copy(update={"outcome": outcome, "transfers": (transfer,), "cell": cell})


def described_endings(folder: Path, run: Run) -> list[tuple[str, str, str | None, str]]:
    return [(ending.kind, ending.witness, ending.by, ending.source) for ending in endings(RunView(folder, run))]


IDLE_WORDS = {
    "idle_timeout": "no recent network activity",
    "peer_closed": r"(?P<code>\w+) \(remote\)(: (?P<words>.*))?",
}


def test_a_log_tells_it_in_the_words_of_the_manifest(tmp_path: Path) -> None:
    run = broken(tmp_path, "end: /f: timeout: no recent network activity\n", IDLE_WORDS)
    assert described_endings(tmp_path, run) == [("idle_timeout", "client", "client", "the client's log")]
    (ending,) = endings(RunView(tmp_path, run))
    assert ending.at is not None and ending.at > 0 and "no recent network activity" in ending.words
    measured_run = measure(tmp_path, run)
    assert measured_run.endings == (ending,) and proven_outcome(run, measured_run.model_copy(update={"link": LinkProof(valid=True)})).status == "idle_timeout"  # fmt: skip


def test_a_log_has_code_and_reason(tmp_path: Path) -> None:
    run = broken(tmp_path, "end: /f: FLOW_CONTROL_ERROR (remote): too much\n", IDLE_WORDS)
    (ending,) = endings(RunView(tmp_path, run))
    assert (ending.kind, ending.by, ending.error, ending.words) == (
        "connection_closed",
        "server",
        "FLOW_CONTROL_ERROR",
        "too much",
    )


def silent(folder: Path, seconds: float) -> list[tuple[str, str, str | None, str]]:
    """What is told of a client that ends without a word after so long a silence; both announce 30 s."""
    run = broken(folder)
    last = max(T0, run.transfers[0].ended_ns - 50_000_000)
    (transfer,) = run.transfers
    late = transfer.model_copy(update={"ended_ns": last + round(seconds * 1e9)})
    write_qlog(
        folder / "flow0/client/qlog/a.sqlog",
        event(0, "transport:parameters_set", owner="local", max_idle_timeout=30_000),
        event(0, "transport:parameters_set", owner="remote", max_idle_timeout=30_000),
    )
    return described_endings(folder, run.model_copy(update={"transfers": (late,)}))


def test_silence_for_as_long_as_the_timer_is_an_idle_timeout(tmp_path: Path) -> None:
    (ending,) = silent(tmp_path, 30.2)
    assert ending[:3] == ("idle_timeout", "client", "client") and ending[3].startswith("nothing came in the 30.")
    assert silent(tmp_path, 20) == [] == silent(tmp_path, 60)


def test_what_follows_the_end_of_the_time_is_no_end_of_its_own(tmp_path: Path) -> None:
    run = broken(tmp_path, "end: /f: H3_REQUEST_CANCELLED (local)\n", {"closed": r"(?P<code>\w+) \(local\)"}, code=None)
    over_ms = (run.transfers[0].ended_ns - T0) / 1e6
    close = {"frame_type": "connection_close", "error_space": "application", "error_code": 0x10C}
    for ms, kinds in ((over_ms + 1, []), (over_ms - 1, ["connection_closed"])):
        write_qlog(tmp_path / "flow0/client/qlog/a.sqlog", event(ms, "transport:packet_sent", frames=[close]))
        assert [ending[0] for ending in described_endings(tmp_path, run)] == kinds


def test_the_timer_is_what_was_asked_for_where_no_qlog_tells(tmp_path: Path) -> None:
    run = broken(tmp_path, "no recent network activity\n", IDLE_WORDS)
    run = run.model_copy(update={"effective": {"client.idle_timeout": "20 s", "server.idle_timeout": "5 s"}})
    (ending,) = endings(RunView(tmp_path, run))
    assert ending.timer == 5.0


@pytest.mark.parametrize(("seconds", "kinds"), [(3, []), (20, ["handshake_timeout"])])
def test_a_handshake_that_nobody_answers_was_given_up(tmp_path: Path, seconds: int, kinds: list[str]) -> None:
    run = broken(tmp_path)
    write_run(tmp_path, Recipe(packets=200, fill=_unanswered))
    (transfer,) = run.transfers
    late = transfer.model_copy(update={"ended_ns": T0 + seconds * 10**9})
    assert [ending[0] for ending in described_endings(tmp_path, run.model_copy(update={"transfers": (late,)}))] == kinds


def _unanswered(traffic: Traffic) -> Traffic:
    """The client's first packet alone, and one that comes at once."""
    first = traffic.up[:1]
    out_ns = [None, None, T0 + 100_000_000, *[None] * (len(traffic.down) - 3)]
    nothing = replace(traffic.down_carried, out_ns=out_ns)
    return replace(traffic, up=first, up_carried=carry(Link(), first), down_carried=nothing)


def test_a_timer_comes_before_the_close_that_it_sends(tmp_path: Path) -> None:
    run = broken(tmp_path)
    write_qlog(
        tmp_path / "flow0/client/qlog/a.sqlog",
        event(8, "transport:packet_sent", frames=[
            {"frame_type": "connection_close", "error_code": 2, "reason": "handshake timeout"}
        ]),
        event(9, "connectivity:connection_closed", trigger="handshake_timeout"),
    )  # fmt: skip
    assert [ending[0] for ending in described_endings(tmp_path, run)] == ["handshake_timeout", "connection_closed"]


def test_an_end_without_a_reason_tells_nothing(tmp_path: Path) -> None:
    """As quiche writes it."""
    assert read_closes(write_qlog(tmp_path / "a.sqlog", event(5, "quic:connection_closed"))) == []


def test_before_the_handshake_is_complete_an_idle_timer_is_the_handshake_s(tmp_path: Path) -> None:
    run = broken(tmp_path, "no recent network activity\n", IDLE_WORDS)
    assert [ending[0] for ending in described_endings(tmp_path, run)] == ["idle_timeout"]
    write_run(
        tmp_path,
        Recipe(
            packets=200,
            fill=lambda traffic: replace(traffic, up=traffic.up[:1], up_carried=carry(Link(), traffic.up[:1])),
        ),
    )
    assert [ending[0] for ending in described_endings(tmp_path, run)] == ["handshake_timeout"]


def test_nobody_tells_of_a_panic_as_an_end(tmp_path: Path) -> None:
    run = broken(tmp_path, "no recent network activity\npanic: nil map\n\ngoroutine 1 [running]:\n", IDLE_WORDS)
    assert described_endings(tmp_path, run) == []


def test_a_transfer_that_came_to_its_end_is_not_looked_at(tmp_path: Path) -> None:
    run = write_run(tmp_path, Recipe(packets=200))
    (tmp_path / "client0.log").write_text("no recent network activity\n")
    assert described_endings(tmp_path, run) == []


def test_a_qlog_comes_before_a_log_and_has_the_timer(tmp_path: Path) -> None:
    run = broken(tmp_path, "no recent network activity\n", IDLE_WORDS)
    write_qlog(
        tmp_path / "flow0/client/qlog/a.sqlog",
        event(0, "transport:parameters_set", owner="local", max_idle_timeout=60_000),
        event(0, "transport:parameters_set", owner="remote", max_idle_timeout=30_000),
        event(90, "transport:connection_closed", owner="local", trigger="idle_timeout"),
    )
    first, second = endings(RunView(tmp_path, run))
    assert (first.source, first.timer) == ("the client's qlog", 30.0) and first.at == pytest.approx(0.09)
    assert (second.source, second.timer) == ("the client's log", 30.0)


def test_who_closes_in_order_does_not_say_why(tmp_path: Path) -> None:
    run = broken(tmp_path, code=1)
    trace = tmp_path / "flow0/client/qlog/a.sqlog"
    write_qlog(trace, event(9, "transport:connection_closed", owner="local", application_code=0x100))
    assert described_endings(tmp_path, run) == []
    # But a server that closes in order before all has come says why.
    write_qlog(trace, event(9, "transport:connection_closed", owner="remote", application_code=0x100))
    assert described_endings(tmp_path, run) == [("connection_closed", "client", "server", "the client's qlog")]


def test_a_close_after_the_client_s_end_does_not_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client ends with words of its own; then the lab stops the server, which closes the connection."""
    words = "the endpoint encountered an internal error and cannot continue with the connection: too many gaps"
    log = f"quinn-endpoint: /1GB.bin: Connection error: Remote error: Error undefined by h3: {words}\n"
    patterns = open_app().inventory.implementation("quinn").endings
    run = broken(tmp_path, log, {str(word): pattern for word, pattern in patterns.items()})
    end_ns = run.transfers[0].ended_ns
    for after, told in ((10**6, ("client", words)), (-(10**6), ("server", ""))):
        frames = SimpleNamespace(close=CloseFrame(code=0x100, by_transport=False, reason=b""))
        packets = {"client": [], "server": [SimpleNamespace(t_ns=[end_ns + after], frames=[frames])]}
        monkeypatch.setattr(RunView, "decrypted_packets", lambda view, window, role, of=packets: of[role])
        first = endings(RunView(tmp_path, run))[0]
        assert (first.by, first.words) == told


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises((ValueError, UnfitError), match="no regular expression"):
        Implementation.model_validate({"name": "x", "image": "x", "endings": {"idle_timeout": "("}})


# --- why it came no further


def test_what_came_and_who_was_silent(tmp_path: Path) -> None:
    run = broken(tmp_path, code=None)
    late = run.transfers[0].model_copy(update={"ended_ns": run.transfers[0].ended_ns + 50_000_000_000})
    run = run.model_copy(update={"transfers": (late,), "outcome": Outcome(status="timed_out", role="client")})
    (unfinished,) = measure(tmp_path, run).unfinished
    assert unfinished.received == 100_000 and unfinished.progress is not None and 0 < unfinished.progress < 2
    assert (
        unfinished.server.datagrams == 202
        and unfinished.server.arrived <= 202
        and unfinished.server.what.startswith("1-RTT of 1,252 B")
    )
    assert unfinished.silent == ("server", "client")
    assert unfinished.short.startswith("100 kB of 3 MB came, the last at ")
    assert "neither end sent anything in the last 50" in unfinished.sentence


def voice(last: float | None, since: int = 0, came: int = 0, **fields: Any) -> Voice:
    return Voice(datagrams=9, arrived=9, last=last, since_progress=since, since_progress_arrived=came, **fields)


def test_silence_is_told_by_whose_it_is() -> None:
    base = Unfinished(flow=0, transfer="first", size=10**6, received=0, lasted=60, mtu=1252)
    server = base.model_copy(update={"server": voice(0.2), "client": voice(58.0, 7, 5)})
    assert server.short == (
        "nothing of 1 MB came; the server was silent for the last 59.8 s, while 5 of 7 datagrams of the client "
        "reached it"
    )
    mute = base.model_copy(update={"client": voice(58.0, 7, 5)})
    assert mute.short.endswith("the server sent nothing at all, while 5 of 7 datagrams of the client reached it")
    loud = base.model_copy(update={"server": voice(59.0), "client": voice(58.0)})
    assert loud.short.endswith("both ends sent until it was over")
    large = loud.model_copy(update={"server": voice(59.0, oversize=14, largest=1350)})
    assert (
        "14 datagrams of the server, of up to 1350 B, exceeded the MTU's 1252 B, and none of them left" in large.short
    )
    # The first transfer, with a time of its own, had come in full.
    repeat = loud.model_copy(update={"transfer": "repeat"})
    assert repeat.short.startswith("nothing of the second transfer's 1 MB came; ")
    came = repeat.model_copy(update={"received": 3000, "progress": 1.0})
    assert came.sentence.startswith("3 kB of the second transfer's 1 MB came, the last at 1.0 s; ")
    ending = IDLE.model_copy(update={"transfer": "repeat"})
    assert ending.sentence.startswith(
        "the client's idle timeout of 60 s expired 63.1 s after the second transfer's first datagram ("
    )


def test_a_report_tells_the_silence_and_the_ends() -> None:
    known = measured(
        IDLE,
        unfinished=(Unfinished(flow=0, transfer="first", size=5_000_000, received=3000, lasted=63, dark=((3, 63),)),),
    )
    run = failed()
    result = CellResult(run.cell, ((run, known),), judge(run.cell.scenario, [(run, known)]), (Path(),))
    (line,) = failure_lines([result])
    assert line.startswith("one→one: 3 kB of 5 MB came; the path was dark from 3 to 63 s; ")
    assert line.endswith(
        "the client's idle timeout of 60 s expired 63.1 s after the first datagram (the client's qlog)."
    )
