"""Where two runs part, on made-up traces and captures."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.capture.artefacts import capture_digests
from harness.capture.divergence import compare_runs, first_differing_packet
from harness.capture.syscalls import RECORD, Records, call_name, first_differing_call, read_calls
from harness.errors import ResultError
from harness.outcome import Outcome, RandomBytes, Run
from harness.report.reruns import divergence_document, divergence_lines
from harness.repro.divergence import compare_stored
from harness.store.results import RUN
from harness.store.run_comparison import differing_digests
from tests.examples import cell

CLIENT, SERVER = "193.167.0.100", "193.167.100.100"


def trace(*changes: Mapping[str, Any], calls: int = 20) -> Records:
    """Calls of two processes by turns, but for what is changed: {"at": index, field: value}."""
    records = np.zeros(calls, RECORD)
    records["time"] = np.arange(calls) * 1000 + 5_000_000_000
    records["number"] = 47
    records["result"] = 1200
    records["pid"] = np.where(np.arange(calls) % 2, 31, 30)
    records["process"] = np.where(np.arange(calls) % 2, b"quiche-client", b"quiche-server")
    records["host"] = np.where(np.arange(calls) % 2, b"client0", b"server0")
    for change in changes:
        for name, value in change.items():
            if name != "at":
                records[change["at"]][name] = value
    return records


def test_equal_traces_do_not_part() -> None:
    assert first_differing_call(trace(), trace()) is None
    assert first_differing_call(trace(calls=0), trace(calls=0)) is None


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"result": -11}, ("result",)),
        ({"arguments": 1}, ("arguments",)),
        ({"random": 1, "result": 32}, ("random bytes", "result")),
        ({"looks": 3}, ("clock reads",)),
        ({"time": 1}, ("time",)),
        ({"number": -2}, ("order",)),
        ({"pid": 30, "result": 1}, ("order",)),
    ],
)
def test_what_differs_in_a_call_is_named(change: dict[str, Any], differs: tuple[str, ...]) -> None:
    divergence = first_differing_call(trace(), trace({"at": 13, **change}))
    assert divergence is not None
    assert divergence.differs == differs
    first_call, second_call = divergence.calls
    assert first_call is not None
    assert second_call is not None
    assert (first_call.number, first_call.time_ns, first_call.host, first_call.process, first_call.name) == (
        14, 5_000_013_000, "client0", "quiche-client", "recvmsg",
    )  # fmt: skip
    assert [call.number for call in divergence.around] == [8, 9, 10, 11, 12, 13]
    assert [call.number for call in divergence.before] == [2, 4, 6, 8, 10, 12]


def test_a_trace_that_ends_early_parts_there() -> None:
    for traces in ((trace(), trace(calls=15)), (trace(calls=15), trace())):
        divergence = first_differing_call(*traces)
        assert divergence is not None
        assert [call and call.number for call in divergence.calls].count(16) == 1
        assert None in divergence.calls


@given(where=st.lists(st.integers(0, 19), min_size=1, max_size=4))
def test_the_first_of_several_is_found(where: list[int]) -> None:
    divergence = first_differing_call(trace(), trace(*({"at": index, "result": 7} for index in where)))
    assert divergence is not None
    assert divergence.calls[0] is not None
    assert divergence.calls[0].number == min(where) + 1


def test_a_trace_is_read_from_its_file_as_far_as_it_goes(tmp_path: Path) -> None:
    file = tmp_path / "calls"
    record = struct.pack(
        "<QqQQIiII16s16s", 7, -11, 1, 2, 42, 318, 3, 0, b"curl".ljust(16, b"\0"), b"client0".ljust(16, b"\0")
    )
    file.write_bytes(record + record + record[:20])
    records = read_calls(file)
    assert len(records) == 2
    ends = first_differing_call(records, records[:1])
    assert ends is not None
    call = ends.calls[0]
    assert call is not None
    assert (call.host, call.process, call.pid, call.name, call.result_text, call.looks) == (
        "client0", "curl", 42, "getrandom", "EAGAIN", 3,
    )  # fmt: skip


def test_names_of_calls() -> None:
    known = {0: "read", 228: "clock_gettime", 318: "getrandom", 334: "rseq", 424: "pidfd_send_signal", 435: "clone3"}
    assert {number: call_name(number) for number in known} == known
    assert call_name(-1) == "CPUID"
    assert call_name(-2) == "RDTSC"
    assert call_name(-3) == "page fault"
    assert call_name(400) == "call 400"


def frame(to_client: bool, payload: bytes, size: int = 1200) -> tuple[bytes, int]:
    """(head of an Ethernet frame with a UDP datagram, its length on the wire)."""
    addresses = [bytes(int(part) for part in address.split(".")) for address in (CLIENT, SERVER)]
    source, destination = reversed(addresses) if to_client else addresses
    ip = struct.pack(">BBHHHBBH", 0x45, 0, size + 28, 0, 0, 64, 17, 0) + source + destination
    head = bytes(12) + b"\x08\x00" + ip + struct.pack(">HHHH", 443, 443, size + 8, 0) + payload
    return head.ljust(96, b"\0")[:96], size + 42


def capture(file: Path, frames: list[tuple[int, tuple[bytes, int]]]) -> Path:
    """A pcap of (ns, frame)."""
    file.parent.mkdir(parents=True, exist_ok=True)
    content = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 96, 1)
    for time, (head, length) in frames:
        content += struct.pack("<IIII", time // 10**9, time % 10**9, len(head), length) + head
    file.write_bytes(content)
    return file


INITIAL, SHORT = bytes.fromhex("c000000001"), bytes.fromhex("40")
FRAMES = [(1_000_000_000 + 1000 * number, frame(number % 2 == 1, SHORT)) for number in range(10)]
NAMES, QUIC = {CLIENT: "client0", SERVER: "server0"}, frozenset({"client0", "server0"})


@pytest.mark.parametrize(
    ("other_frame", "differs", "kind"),
    [
        ((1_000_007_001, FRAMES[7][1]), ("time",), "QUIC 1-RTT"),
        ((FRAMES[7][0], frame(True, SHORT, 1201)), ("length", "content"), "QUIC 1-RTT"),
        ((FRAMES[7][0], frame(True, INITIAL)), ("content",), "QUIC Initial"),
    ],
)
def test_the_first_other_packet_is_named(
    tmp_path: Path, other_frame: tuple[int, tuple[bytes, int]], differs: tuple[str, ...], kind: str
) -> None:
    files = capture(tmp_path / "a", FRAMES), capture(tmp_path / "b", [*FRAMES[:7], other_frame, *FRAMES[8:]])
    divergence = first_differing_packet("left", files, 1_000_000_000 - 500, NAMES, QUIC)
    assert divergence is not None
    assert (divergence.number, divergence.counts, divergence.differs) == (8, (10, 10), differs)
    packet, changed = divergence.packets
    assert packet is not None
    assert changed is not None
    assert (packet.t_ns, packet.source, packet.destination, packet.length) == (7500, "server0", "client0", 1242)
    assert changed.kind == kind


def test_equal_captures_do_not_part_and_short_ones_do(tmp_path: Path) -> None:
    whole, short = capture(tmp_path / "a", FRAMES), capture(tmp_path / "b", FRAMES[:4])
    assert first_differing_packet("left", (whole, whole), None, NAMES, QUIC) is None
    divergence = first_differing_packet("left", (whole, short), None, NAMES, QUIC)
    assert divergence is not None
    assert (divergence.number, divergence.differs, divergence.packets[1]) == (5, (), None)
    assert divergence.packets[0] is not None
    assert divergence.packets[0].t_ns == 4000
    assert first_differing_packet("left", (short, whole), None, NAMES, QUIC) is not None


def store(folder: Path, frames: list[tuple[int, tuple[bytes, int]]], **more: Any) -> Run:
    """A run with captures, in its folder."""
    for side in ("left", "right"):
        capture(folder / "sim" / f"trace_node_{side}.pcap", frames)
    content: dict[str, Any] = {
        "cell": cell(), "repetition": 0, "outcome": Outcome(status="completed"), "started_at": "2026-01-01T00:00:00Z",
        "captures": capture_digests(folder), "random": {"client0": RandomBytes(bytes=32, digest="ab" * 32)},
    }  # fmt: skip
    run = Run(**(content | more))
    (folder / RUN).write_text(run.model_dump_json(by_alias=True))
    return run


def test_stored_runs_that_are_equal(tmp_path: Path) -> None:
    store(tmp_path / "a", FRAMES, cpu="lab", lab_kernel="1")
    store(tmp_path / "b", FRAMES, cpu="host", lab_kernel="1", warnings=("something",))
    divergence = compare_stored(tmp_path / "a", tmp_path / "b")
    assert divergence.identical
    assert divergence.facts == (("cpu", "lab", "host"),)
    assert "identical" in "\n".join(divergence_lines(divergence))
    json.dumps(dict(divergence_document(divergence).data), allow_nan=False)


def test_stored_runs_that_part(tmp_path: Path) -> None:
    drawn = {"client0": RandomBytes(bytes=64, digest="cd" * 32)}
    first = store(tmp_path / "a", FRAMES)
    second = store(tmp_path / "b", [*FRAMES[:3], *FRAMES[4:]], random=drawn)
    calls = first_differing_call(trace(), trace({"at": 3, "result": -11}))
    divergence = compare_runs(first, second, (tmp_path / "a", tmp_path / "b"), None, calls)
    assert not divergence.identical
    assert [item.side for item in divergence.packets] == ["left", "right"]
    assert [item.endpoint for item in divergence.random] == ["client0"]
    text = "\n".join(divergence_lines(divergence))
    assert "left capture: packet 4 of 10 and 9 differs: time and content" in text
    assert "random bytes of client0: 32 (abababab) in the first run, 64 (cdcdcdcd) in the second" in text
    assert "recvmsg = EAGAIN" in text
    assert json.loads(json.dumps(dict(divergence_document(divergence).data)))["calls"]["differs"] == ["result"]


def test_captures_that_are_gone_are_told_apart_by_their_digests(tmp_path: Path) -> None:
    store(tmp_path / "a", FRAMES)
    store(tmp_path / "b", FRAMES[:5])
    for side in ("left", "right"):
        (tmp_path / "b" / "sim" / f"trace_node_{side}.pcap").unlink()
    divergence = compare_stored(tmp_path / "a", tmp_path / "b")
    assert (divergence.unseen, divergence.identical) == (("left", "right"), False)
    store(tmp_path / "c", FRAMES, captures={})
    with pytest.raises(ResultError, match="neither a left capture"):
        compare_stored(tmp_path / "c", tmp_path / "b")


def test_folders_that_are_no_runs(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=RUN):
        compare_stored(tmp_path, tmp_path)


def test_a_benchmark_names_what_differing_digests() -> None:
    content: dict[str, Any] = {
        "cell": cell(), "repetition": 0, "outcome": Outcome(status="completed"), "started_at": "",
        "captures": {"left": "1", "right": "2"}, "random": {"client0": RandomBytes(bytes=32, digest="ab")},
    }  # fmt: skip
    run = Run(**content)
    assert differing_digests(run, run) == ()
    assert differing_digests(run, Run(**(content | {"captures": {"left": "1", "right": "3"}}))) == ("right capture",)
    assert differing_digests(run, Run(**(content | {"random": {}}))) == ("random bytes of client0",)
