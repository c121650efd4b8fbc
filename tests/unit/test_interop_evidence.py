"""From a run's folder to what its checks find: whole frames of both captures, both IP versions, key logs."""

from __future__ import annotations

import ipaddress
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from harness.analysis.interop import run_checks
from harness.capture.artefacts import Artefacts
from harness.capture.datagrams import read_datagrams
from harness.capture.quic.dissector import split_packets
from harness.capture.quic.invariants import Form
from harness.outcome import Transfer
from tests.unit import wire_packets
from tests.unit.captures import Link, asked_link, make_run, pcap
from tests.unit.wire_packets import Conversation, Role, Trace, shake_hands

T0 = 1_795_000_000_000_000_000
SIMULATOR = ("193.167.100.2", 40_000)


def _frame(source: tuple[str, int], destination: tuple[str, int], payload: bytes, ecn: int = 2) -> bytes:
    ends = [ipaddress.ip_address(end[0]) for end in (source, destination)]
    addresses = b"".join(end.packed for end in ends)
    udp = struct.pack(">HHHH", source[1], destination[1], len(payload) + 8, 0) + payload
    if ends[0].version == 6:
        return bytes(12) + b"\x86\xdd" + struct.pack(">IHBB", 6 << 28 | ecn << 20, len(udp), 17, 64) + addresses + udp
    header = struct.pack(">BBHHHBBH", 0x45, ecn, len(udp) + 20, 0, 0x4000, 64, 17, 0)
    return bytes(12) + b"\x08\x00" + header + addresses + udp


def _folder(
    folder: Path,
    trace: Trace,
    conversation: Conversation,
    ends: tuple[str, str],
    checks: dict[str, Any],
    cut: int = 1600,
) -> Artefacts:
    """A run in which the trace was sent; a probe of the simulator's own comes first at the server's side."""
    address: dict[Role, str] = {"client": ends[0], "server": ends[1]}
    sides: dict[str, list[tuple[int, bytes, int]]] = {"left": [], "right": []}
    if ":" not in ends[0]:
        sides["right"].append((T0, _frame(SIMULATOR, (ends[1], 443), b"\xc0WAIT" + bytes(1200)), 1247))
    for sender, datagram in trace.datagrams:
        source, destination = (datagram.source[1], datagram.destination[1])
        other: Role = "server" if sender == "client" else "client"
        frame = _frame((address[sender], source), (address[other], destination), datagram.payload, datagram.ecn)
        for side, near in (("left", "client"), ("right", "server")):
            later = 0 if sender == near else 15_000_000
            sides[side].append((T0 + 20 * datagram.t_ns + later, frame[:cut], len(frame)))
    (folder / "sim").mkdir(parents=True)
    for side, packets in sides.items():
        (folder / "sim" / f"trace_node_{side}.pcap").write_bytes(pcap(sorted(packets)))
    links = {name: asked_link(name, Link()) for name in ("to_client", "to_server")}
    flow = {"flow": 0, "client": {"addresses": [ends[0]]}, "server": {"addresses": [ends[1]]}}
    (folder / "lab.json").write_text(json.dumps({"schema": 1, "flows": [flow], "links": links}))
    keys = folder / "flow0" / "server" / "keys.log"
    keys.parent.mkdir(parents=True)
    lines = [f"{label} {random.hex()} {secret.hex()}" for (random, label), secret in conversation.secrets.items()]
    keys.write_text("\n".join(["# a comment", "damaged 00 zz", *lines]) + "\n")
    transfer = Transfer(flow=0, index=0, size=10, received=10, intact=True, started_ns=T0, ended_ns=T0 + 1)
    scenario = {"testcase": "transfer", "checks": checks, "objectives": []}
    return Artefacts(folder, make_run(scenario=scenario, transfers=(transfer,)))


CHECKS = {"handshakes": 1, "version": 1, "ecn": True, "server_crypto": 700, "files": True}
V4, V6 = ("193.167.0.100", "193.167.100.100"), ("fd00:cafe:cafe:0::100", "fd00:cafe:cafe:100::100")


@pytest.mark.parametrize("ends", [V4, V6])
def test_checks_are_made_on_both_captures(tmp_path: Path, ends: tuple[str, str]) -> None:
    trace, conversation = Trace(), Conversation()
    shake_hands(trace, conversation)
    checks = run_checks(_folder(tmp_path, trace, conversation, ends, {**CHECKS, "ip": 4 if ends is V4 else 6}))
    assert {check.check: check.status for check in checks} == dict.fromkeys([*CHECKS, "ip"], "passed"), checks


def test_a_failure_names_packet_and_time_at_its_senders_side(tmp_path: Path) -> None:
    trace, conversation = Trace(), Conversation()
    trace.send(
        "client",
        conversation.long("client", "initial", wire_packets.crypto(wire_packets.client_hello(conversation.random))),
        size=1200,
    )
    trace.send("server", conversation.retry(b"proof"))
    shake_hands(trace, conversation, token=b"proof")
    (check,) = run_checks(_folder(tmp_path, trace, conversation, V4, {"retry": "never"}))
    # Behind the simulator's probe and the client's first datagram, 20 ms after that one was sent.
    assert (check.status, check.sender, check.packet, check.t) == ("failed", "server", 3, 0.02)


def test_what_nobody_wrote_down_is_unknown_and_what_needs_no_secrets_is_told(tmp_path: Path) -> None:
    trace, conversation = Trace(), Conversation(logs_secrets=False)
    shake_hands(trace, conversation)
    checks = {check.check: check for check in run_checks(_folder(tmp_path, trace, conversation, V4, CHECKS))}
    assert checks["server_crypto"].status == "unknown"
    assert "wrote its secrets down" in checks["server_crypto"].sentence
    assert checks["handshakes"].status == checks["version"].status == "passed"


def test_without_captures_nothing_is_told(tmp_path: Path) -> None:
    trace, conversation = Trace(), Conversation()
    shake_hands(trace, conversation)
    artefacts = _folder(tmp_path, trace, conversation, V4, CHECKS)
    (tmp_path / "sim" / "trace_node_left.pcap").unlink()
    assert {check.status for check in run_checks(artefacts)} == {"unknown"}


def test_datagrams_are_read_as_they_were_captured(tmp_path: Path) -> None:
    file = tmp_path / "some.pcap"
    frames = [
        _frame(("10.0.0.1", 1), ("10.0.0.2", 443), b"abc", ecn=3),
        bytes(12) + b"\x08\x06" + bytes(40),
        _frame(("fd00::1", 2), ("fd00::2", 443), b"x" * 500, ecn=1)[:96],
    ]
    file.write_bytes(pcap((T0 + place, frame, len(frame)) for place, frame in enumerate(frames)))
    first, second = read_datagrams(file)
    assert (first.number, first.source, first.destination, first.ip, first.ecn) == (
        1, ("10.0.0.1", 1), ("10.0.0.2", 443), 4, 3,
    )  # fmt: skip
    assert first.payload == b"abc"
    assert (second.number, second.ip, second.ecn, second.size, len(second.payload)) == (3, 6, 1, 500, 34)
    assert second.t_ns == T0 + 2


def test_a_packet_without_the_quic_bit_is_one_and_zeros_are_padding() -> None:
    initial = bytes([0xC0]) + b"\0\0\0\1" + bytes([1, 7, 1, 9, 0, 4]) + b"\x01abc"
    greased = bytes([0x20]) + b"\x45" * 20
    assert [header.form for header in split_packets(greased)] == [Form.SHORT]
    assert [header.form for header in split_packets(initial + greased)] == [Form.INITIAL, Form.SHORT]
    assert [header.form for header in split_packets(initial + bytes(30))] == [Form.INITIAL]
