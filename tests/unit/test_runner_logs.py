"""Log directories of the published interop runner, laid out from conversations made here."""

from __future__ import annotations

import ipaddress
import json
import struct
import tarfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from harness.analysis.interop.runner_logs import JudgedRun, find_runs, judge_run
from harness.capture.datagrams import Datagram, read_datagrams
from harness.capture.files import CAPTURES
from harness.capture.pcapng import iterate_frames, read_key_logs
from harness.cli.entry import main
from harness.cli.signals import FAILED, USAGE
from harness.errors import InputError
from harness.evaluation.cell_result import CellResult
from harness.outcome import LinkProof, MeasuredRun, Outcome, Transfer, Verdict
from harness.report.interop import result_json
from harness.report.interop_logs import write_logs
from harness.topology.addresses import FIRST_SIMULATOR, address, flow_address, is_simulator
from tests.examples import ROOT, catalogue, cell, implementation
from tests.unit import wire_packets
from tests.unit.captures import make_run, pcap
from tests.unit.wire_packets import Conversation, Trace, challenge, response, shake_hands

_NAT = ("193.167.0.150", 10_000)
_ENDED = "client  | done\nclient exited with code 0\nserver exited with code 137\n"


def _block(kind: int, body: bytes, order: str = "<") -> bytes:
    padded = body + bytes(-len(body) % 4)
    length = struct.pack(order + "I", 12 + len(padded))
    return struct.pack(order + "I", kind) + length + padded + length


def _pcapng(frames: Iterable[tuple[int, bytes]], key_log: str = "", order: str = "<", resolution: int = 9) -> bytes:
    """A capture as dumpcap writes it, with the block that editcap --inject-secrets adds."""
    unit = 2 ** (resolution & 0x7F) if resolution & 0x80 else 10**resolution
    option = struct.pack(order + "HHB3xHH", 9, 1, resolution, 0, 0)
    data = _block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)
    data += _block(1, struct.pack(order + "HHI", 1, 0, 0) + option, order)
    if key_log:
        data += _block(10, struct.pack(order + "II", 0x544C534B, len(key_log)) + key_log.encode(), order)
    for t_ns, frame in frames:
        time = t_ns * unit // 10**9
        head = struct.pack(order + "IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(frame), len(frame))
        data += _block(6, head + frame, order)
    return data


def _frame(datagram: Datagram) -> bytes:
    (source, source_port), (destination, destination_port) = datagram.source, datagram.destination
    udp = struct.pack("!HHHH", source_port, destination_port, 8 + len(datagram.payload), 0) + datagram.payload
    addresses = ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
    head = struct.pack("!BBHHHBBH", 0x45, datagram.ecn, 20 + len(udp), 0, 0, 64, 17, 0)
    return bytes(12) + b"\x08\x00" + head + addresses + udp


def _key_log(*conversations: Conversation) -> str:
    return "\n".join(
        f"{label} {random.hex()} {secret.hex()}"
        for conversation in conversations
        for (random, label), secret in conversation.secrets.items()
    )


def _lay_out(
    folder: Path, trace: Trace, key_log: str, *, output: str = _ENDED, injected: bool = True, name: str = "b_a"
) -> Path:
    """A run of the server b and the client a. `injected`: the secrets are in the captures, else in the client's log."""
    (folder / name / "retry" / "sim").mkdir(parents=True)
    run = folder / name / "retry"
    (run / "output.txt").write_text(output)
    arrived = [item for place, item in enumerate(trace.datagrams) if place not in trace.lost]
    for side, near in (("left", "client"), ("right", "server")):
        seen = [item for item in trace.datagrams if item[0] == near] + [item for item in arrived if item[0] != near]
        frames = [(datagram.t_ns, _frame(datagram)) for _, datagram in sorted(seen, key=lambda item: item[1].t_ns)]
        (run / "sim" / f"trace_node_{side}.pcap").write_bytes(_pcapng(frames, key_log if injected else ""))
    if not injected:
        (run / "client").mkdir()
        (run / "client" / "keys.log").write_text(key_log)
    return run


def _retried(back: bytes = b"token") -> tuple[Trace, Conversation]:
    trace, conversation = Trace(), Conversation()
    hello = wire_packets.crypto(wire_packets.client_hello(conversation.random))
    trace.send("client", conversation.long("client", "initial", hello), size=1200)
    trace.send("server", conversation.retry(b"token"))
    shake_hands(trace, conversation, token=back)
    return trace, conversation


def _judge(folder: Path, case: str = "retry") -> JudgedRun:
    (run,) = find_runs(folder)
    return judge_run(run, catalogue().find_scenarios([f"interop/{case}"])[0])


@pytest.mark.parametrize("injected", [True, False])
def test_a_run_of_the_runner_is_judged_by_our_checks(tmp_path: Path, injected: bool) -> None:
    trace, conversation = _retried()
    _lay_out(tmp_path, trace, _key_log(conversation), injected=injected)
    judged = _judge(tmp_path)
    assert (judged.run.client, judged.run.server, judged.run.case) == ("a", "b", "retry")
    assert {check.check: check.status for check in judged.checks} == {
        "handshakes": "passed",
        "retry": "passed",
        "version": "passed",
    }
    assert judged.word == "succeeded" and "the files were not compared" in judged.sentence
    assert judged.exit_codes == {"client": 0, "server": 137}


def test_its_failure_names_the_packet_and_the_exit_code(tmp_path: Path) -> None:
    trace, conversation = _retried(back=b"other")
    _lay_out(tmp_path, trace, _key_log(conversation), output="client exited with code 1\n")
    judged = _judge(tmp_path / "b_a")
    assert judged.word == "failed"
    assert judged.sentence.startswith("retry: an Initial packet with a token that no Retry had (packet ")
    assert judged.sentence.endswith("; the client ended with exit code 1")


@pytest.mark.parametrize(
    ("output", "word", "sentence"),
    [
        ("client exited with code 127\n", "unsupported", "the client does not support the case"),
        ("server-1 exited with code 127\n", "unsupported", "the server does not support the case"),
        ("client exited with code 1\n", "failed", "the client ended with exit code 1"),
        ("Timeout\n", "inconclusive", "how the client ended is not known"),
    ],
)
def test_what_compose_printed_counts_too(tmp_path: Path, output: str, word: str, sentence: str) -> None:
    trace, conversation = _retried()
    _lay_out(tmp_path, trace, _key_log(conversation), output=output)
    judged = _judge(tmp_path)
    assert judged.word == word and sentence in judged.sentence


def test_a_rebinding_to_another_address_is_of_the_same_client(tmp_path: Path) -> None:
    trace, conversation = Trace(), Conversation()
    shake_hands(trace, conversation)
    trace.send("client", conversation.short("client", wire_packets.PING), client=_NAT)
    trace.send("server", conversation.short("server", challenge(b"12345678")), client=_NAT)
    trace.send("client", conversation.short("client", response(b"12345678")), client=_NAT)
    run = _lay_out(tmp_path, trace, _key_log(conversation))
    run.rename(run.with_name("rebind-addr"))
    judged = _judge(tmp_path, "rebind-addr")
    assert {check.check: check.status for check in judged.checks}["rebound"] == "passed"


def test_repetitions_of_measurements_are_runs_and_other_folders_are_none(tmp_path: Path) -> None:
    trace, conversation = _retried()
    run = _lay_out(tmp_path, trace, _key_log(conversation))
    (tmp_path / "b_a" / "goodput").mkdir()
    run.rename(tmp_path / "b_a" / "goodput" / "2")
    other = _lay_out(tmp_path, trace, "", name="nobody")
    assert [(runner_run.case, runner_run.repetition) for runner_run in find_runs(tmp_path)] == [("goodput", "2")]
    with pytest.raises(InputError, match="holds no run of the interop runner"):
        find_runs(other)


def test_the_command_prints_the_reason_and_ends_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, conversation = _retried(back=b"other")
    run = _lay_out(tmp_path, trace, _key_log(conversation), injected=False)
    for words in ([], ["--json"]):
        monkeypatch.setattr("sys.argv", ["harness", "interop", "judge", str(tmp_path), *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == FAILED
        printed = capsys.readouterr().out
        if words:
            (run_entry,) = json.loads(printed)["runs"]
            assert (run_entry["result"], run_entry["folder"]) == ("failed", str(run))
        else:
            assert f"tls.keylog_file:{run}/client/keys.log" in printed.replace("\n", "")


# --- The runner's log directory, made of our own runs.


#: What the simulator asks a server before the client starts: a packet of a version that nobody has.
_PROBE = Datagram(
    1, 0, ("193.167.100.2", 40000), ("193.167.100.100", 443), 4, 0, b"\xc0WAIT" + bytes(1195), 1200
)  # fmt: skip


def _stored_run(folder: Path, trace: Trace, key_log: str, case: str = "retry", exit_code: int = 1) -> CellResult:
    """A run of the client a and the server b as the store has it: captures in one archive, secrets, logs."""
    (folder / "sim").mkdir(parents=True)
    (folder / "flow0" / "client" / "qlog").mkdir(parents=True)
    laid_out = _lay_out(folder.parent / f"{folder.name}-captures", trace, "")
    with (
        zstandard.open(folder / "sim" / "captures.tar.zst", "wb") as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        for file in sorted((laid_out / "sim").iterdir()):
            frames = [(0, _frame(_PROBE)), *iterate_frames(file.read_bytes())]
            file.write_bytes(pcap((t_ns, frame, len(frame)) for t_ns, frame in frames))
            archive.add(file, file.name)
    (folder / "flow0" / "client" / "keys.log").write_text(key_log)
    (folder / "flow0" / "client" / "qlog" / "a.sqlog.zst").write_bytes(zstandard.compress(b"{}"))
    (folder / "client0.log").write_text("server exited with code 127\ndone\n")
    asked = catalogue().find_scenarios([f"interop/{case}"])[0]
    played = cell(asked, implementation("a"), implementation("b"))
    transfer = Transfer(flow=0, index=0, size=1, started_ns=0, ended_ns=1, exit_code=exit_code)
    status = "crashed" if exit_code else "completed"
    outcome = Outcome(status=status, role="client" if exit_code else None, exit_code=exit_code or None)
    run = make_run().model_copy(update={"cell": played, "outcome": outcome, "transfers": (transfer,)})
    verdict = Verdict(status="fail", reason="retry", sentence="It did not.")
    return CellResult(played, ((run, MeasuredRun(version=1, link=LinkProof(valid=True))),), verdict, (folder,))


def test_the_links_of_a_result_lead_to_logs_that_are_judged_as_the_runners_are(tmp_path: Path) -> None:
    trace, conversation = _retried(back=b"other")
    result = _stored_run(tmp_path / "0", trace, _key_log(conversation))
    assert write_logs([result], tmp_path / "logs") == []
    assert result_json([result], {}, "logs")["log_dir"] == "logs"
    # As the site names it: LOGS/SERVER_CLIENT/TEST.
    (run,) = find_runs(tmp_path / "logs")
    assert run.folder == tmp_path / "logs" / "b_a" / "retry"
    assert (run.folder / "client" / "qlog" / "a.sqlog").read_bytes() == b"{}"
    # The simulator's probe is in the stored captures, and not in these.
    for name in CAPTURES.values():
        stored, written = (
            read_datagrams(place / "sim" / name) for place in (tmp_path / "0-captures/b_a/retry", run.folder)
        )
        assert stored[0].source == _PROBE.source
        assert [replace(each, number=each.number + 1) for each in written] == stored[1:]
    judged = _judge(tmp_path / "logs")
    assert judged.sentence.startswith("retry: an Initial packet with a token that no Retry had (packet ")
    # An endpoint's own words are not taken for compose's.
    assert judged.exit_codes == {"client": 1}
    with pytest.raises(InputError, match="is not empty"):
        write_logs([result], tmp_path / "logs")


def test_a_simulator_is_known_by_its_address_in_every_network() -> None:
    every = [text for side in ("left", "right") for slot in (0, 3) for text in address(side, slot, FIRST_SIMULATOR)]
    assert len(set(every)) == 8 and all(map(is_simulator, every))
    others = [text for side in ("left", "right") for flow in (0, 2, 102) for text in flow_address(side, 0, flow)]
    assert not any(map(is_simulator, others))


def test_runs_of_a_measurement_have_numbers_and_unkept_ones_their_end_alone(tmp_path: Path) -> None:
    trace, conversation = _retried()
    measured = _stored_run(tmp_path / "0", trace, _key_log(conversation), "goodput", exit_code=0)
    twice = replace(measured, runs=measured.runs * 2, folders=(tmp_path / "0", tmp_path / "gone"))
    assert write_logs([twice], tmp_path / "logs") == [measured.runs[0][0].name]
    assert [(run.case, run.repetition) for run in find_runs(tmp_path / "logs")] == [("goodput", "1")]
    output = (tmp_path / "logs" / "b_a" / "goodput" / "2" / "output.txt").read_text()
    assert output.endswith("client exited with code 0\n")


def test_a_result_without_logs_names_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["harness", "report", "interop", "interop/retry", "--clients", "quinn", "--servers", "quinn"]
    command += ["--store", str(ROOT / "results" / "reference")]

    def ended_with(*words: str) -> object:
        monkeypatch.setattr("sys.argv", [*command, *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code

    assert ended_with("--result-json") == 0
    assert json.loads(capsys.readouterr().out)["log_dir"] == ""
    assert ended_with("--result-json", "--logs", str(tmp_path / "night")) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["log_dir"] == "night"
    assert "1 run without captures" in printed.err
    assert (tmp_path / "night" / "quinn_quinn" / "retry" / "output.txt").exists()
    assert ended_with("--logs", str(tmp_path / "other")) == USAGE


# --- The format of dumpcap's captures.


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("resolution", "step"), [(6, 1000), (9, 1), (0x80 | 10, 976_563)])
def test_frames_and_secrets_of_pcapng(order: str, resolution: int, step: int) -> None:
    frames = [(1_790_000_000_123_456_000 + place, bytes([place]) * (60 + place)) for place in range(3)]
    data = _pcapng(frames, "CLIENT_RANDOM 00 11", order, resolution)
    read = list(iterate_frames(data))
    assert [frame for _, frame in read] == [frame for _, frame in frames]
    assert all(abs(t_ns - expected) <= step for (t_ns, _), (expected, _) in zip(read, frames, strict=True))
    assert read_key_logs(data) == "CLIENT_RANDOM 00 11"
    assert len(list(iterate_frames(data[:-5]))) == 2  # a file that ends inside a block


def test_a_capture_of_another_link_or_of_nothing_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "left.pcap"
    header = _block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    file.write_bytes(header + _block(1, struct.pack("<HHI", 113, 0, 0)))
    with pytest.raises(ValueError, match="link type is 113"):
        read_datagrams(file)
    file.write_bytes(header + _block(6, struct.pack("<IIIII", 0, 0, 0, 4, 4) + b"abcd"))
    with pytest.raises(ValueError, match="interface 0, which the file does not describe"):
        read_datagrams(file)
    with pytest.raises(ValueError, match="not a pcapng file"):
        list(iterate_frames(b"nothing here"))
