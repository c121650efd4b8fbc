from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from harness.capture.capture import SYN, TCP, UDP, Capture, read_capture
from harness.capture.counters import Events, read_events
from harness.capture.files import read_lab
from harness.capture.matching import match
from harness.capture.quic.invariants import Form
from harness.capture.tcp_info import read_iperf3, read_tcp
from harness.topology.lab_file import Endpoint, FlowAddresses
from tests.unit.captures import INITIAL, T0, Packet, pcap
from tests.unit.shared_flows import TCP_HEADER, Segment, any_frame, ends, tcp_rows, write_lab


def addresses(kind: Literal["quic", "tcp", "udp"], flow: int = 0) -> FlowAddresses:
    return FlowAddresses(
        flow=flow, kind=kind,
        client=Endpoint(addresses=tuple(ends(flow)["client"]["addresses"])),
        server=Endpoint(addresses=tuple(ends(flow)["server"]["addresses"])),
    )  # fmt: skip


FLOWS = [addresses("tcp"), addresses("udp", 1), addresses("quic", 2)]


def read(path: Path, packets: list[Packet], ttl: int = 64) -> Capture:
    path.write_bytes(pcap((T0 + i * 1000, any_frame(p, ttl), p.length) for i, p in enumerate(packets)))
    return read_capture(path, FLOWS)


@pytest.mark.parametrize("ipv6", [False, True])
@pytest.mark.parametrize("options", [b"", bytes(12), bytes(40)])
def test_columns_of_segments(tmp_path: Path, ipv6: bool, options: bytes) -> None:
    packets: list[Packet] = [
        Segment(0, False, b"", 0, ipv6=ipv6, sequence=2**32 - 1, flags=SYN, options=options),
        Segment(0, True, b"", 1448, ipv6=ipv6, sequence=7, acknowledgement=2**31, options=options),
        Packet(0, True, b"\x40abc", 500, flow=1, ipv6=ipv6),
        Packet(0, False, INITIAL, 1200, flow=2, ipv6=ipv6),
    ]
    capture = read(tmp_path / "a.pcap", packets)
    assert capture.protocol.tolist() == [TCP, TCP, UDP, UDP]
    assert capture.payload.tolist() == [0, 1448, 500, 1200]
    assert capture.length.tolist() == [packet.length for packet in packets]
    assert capture.sequence.tolist() == [2**32 - 1, 7, 0, 0]
    assert capture.acknowledgement.tolist() == [0, 2**31, 0, 0]
    assert capture.flags.tolist() == [SYN, 0x10, 0, 0]
    assert capture.source_port.tolist() == [5202, 5201, 443, 50000]
    assert [Form(int(form)) for form in capture.form] == [Form.NONE, Form.NONE, Form.NONE, Form.INITIAL]
    assert not capture.one_rtt.any() and not capture.visible[:2].any()


@pytest.mark.parametrize("ipv6", [False, True])
@pytest.mark.parametrize(
    ("options", "shift"),
    [
        (bytes.fromhex("020405b40402080a0000000000000000 01030307"), 7),  # as Linux has them
        (bytes.fromhex("0303ff00"), 14),  # RFC 7323 §2.3: more counts as 14
        (bytes.fromhex("020405b4"), -1),
        (bytes.fromhex("0003030700000000"), -1),  # behind the end of the options
        (bytes.fromhex("08000303 07000000"), -1),  # an option of no length
        (b"", -1),
    ],
)
def test_the_window_of_a_segment_and_the_scale_of_a_syn(tmp_path: Path, ipv6: bool, options: bytes, shift: int) -> None:
    packets: list[Packet] = [
        Segment(0, False, b"", 0, ipv6=ipv6, flags=SYN, options=options, window=64_240),
        Segment(0, False, b"", 0, ipv6=ipv6, options=options, window=501),
        Packet(0, True, b"\x40abc", 500, flow=1, ipv6=ipv6),
    ]
    capture = read(tmp_path / "a.pcap", packets)
    assert capture.window.tolist() == [64_240, 501, 0]
    assert capture.shift.tolist() == [shift, -1, -1]


def test_a_flow_has_the_packets_of_its_own_transport(tmp_path: Path) -> None:
    strangers = [
        Packet(0, True, b"", 100),  # a datagram beside a TCP flow: a probe of readiness
        Segment(0, True, b"", 100, flow=1),
        Segment(0, True, b"", 100, flow=2),
    ]
    assert len(read(tmp_path / "a.pcap", [*strangers, Segment(0, True, b"", 1)])) == 1


@pytest.mark.parametrize("ipv6", [False, True])
def test_segments_are_known_again_behind_the_router(tmp_path: Path, ipv6: bool) -> None:
    first = Segment(0, True, b"", 1448, ipv6=ipv6, sequence=1000, identification=1, options=b"\x08\x0a" + bytes(10))
    packets: list[Packet] = [
        first,
        replace(first, sequence=2448, identification=2),
        replace(first, size=700),
        replace(first, acknowledgement=1),
        replace(first, flags=0x11),
        # Sent again: the timestamp is another, and the identification of IPv4 is.
        replace(first, options=b"\x08\x0a" + bytes(9) + b"\x01", identification=3),
        replace(first, to_client=False),
    ]
    near, far = read(tmp_path / "near.pcap", packets), read(tmp_path / "far.pcap", packets[1:], ttl=63)
    assert len(np.unique(near.key)) == len(packets)
    assert near.key[1:].tolist() == far.key.tolist()
    passage = match(near, far, True)
    assert passage.arrived.tolist() == [False, True, True, True, True, True]


def test_a_retransmission_without_timestamps_is_told_by_its_identification(tmp_path: Path) -> None:
    segment = Segment(0, True, b"", 1448, sequence=1, identification=7)
    assert len(np.unique(read(tmp_path / "a.pcap", [segment, replace(segment, identification=8)]).key)) == 2


def test_tcp_info(tmp_path: Path) -> None:
    path = tmp_path / "tcp.csv"
    path.write_text("\n".join([*tcp_rows(), f"{T0 + 1},,,,,,,,,,,,,,,,", "17,3"]))  # the last is cut short
    frame = read_tcp(path)
    assert frame["t_ns"].is_sorted() and len(frame) == len(tcp_rows())
    assert frame["cwnd"].to_list()[:2] == [None, 10] and frame["cwnd"][-1] == 20
    assert set(frame["ca_state"].drop_nulls()) == {"open", "recovery"}
    assert frame["sacked"].null_count() == len(frame)
    path.write_text(f"{TCP_HEADER},sacked\n5,1,2,3,4,5,6,7,8,9,10,11,Loss,13,14,,,3\n")
    row = read_tcp(path).row(0, named=True)
    assert row["ca_state"] == "loss" and row["sacked"] == 3 and row["total_rto"] is None and row["lost"] == 7
    path.write_text("t_ns,cw")
    assert read_tcp(path).is_empty()


def test_what_iperf3_wrote(tmp_path: Path) -> None:
    path = tmp_path / "iperf3.json"
    path.write_text('{"intervals":[{"sum":{"bytes":1000000,"seconds":1.0}},{"sum":{"bytes":500000,"seconds":0.5}}]}')
    iperf_report = read_iperf3(path)
    assert iperf_report is not None and iperf_report.rate_mbps == pytest.approx(8)
    # As iperf 3.18 writes it where the client was told to end: the last second twice.
    seconds = [
        {"sum": {"start": start, "end": start + 1, "bytes": size, "seconds": 1.0}}
        for start, size in ((0, 10**6), (1, 5 * 10**5), (1, 5 * 10**5))
    ]
    path.write_text(json.dumps({"intervals": seconds}))
    iperf_report = read_iperf3(path)
    assert iperf_report is not None and (iperf_report.size, iperf_report.seconds) == (1_500_000, 2.0)
    for text in ('{"intervals":[]}', '{"error":"x"}', '{"interv', "[]"):
        path.write_text(text)
        assert read_iperf3(path) is None


def test_facts_of_flows(tmp_path: Path) -> None:
    write_lab(
        tmp_path, [{"kind": "tcp", "sender": "client", "start": 0.5, "stop": 2.0, "access_delay_ns": 7}, {}], mtu=1280
    )
    facts = read_lab(tmp_path / "lab.json")
    flow_addresses, other = facts.flows
    assert (
        flow_addresses.kind,
        flow_addresses.sender,
        flow_addresses.start,
        flow_addresses.stop,
        flow_addresses.access_delay_ns,
    ) == ("tcp", "client", 0.5, 2.0, 7)
    assert (other.kind, other.label, other.sender, other.start, other.stop) == ("quic", "", "server", 0.0, None)
    assert facts.mtu == 1280 and facts.links.to_client.service == "constant"


def test_changes_are_known_by_when_they_were_due(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text(
        '{"event":"change","index":0,"at":5.0,"t":105.0}\n{"event":"change","index":1,"at":60.0,"t":160.5}\n'
    )
    events = read_events(tmp_path / "events.jsonl")
    # The path's only change is the second command: the first ends a cold start.
    assert events.applied(0, 60.0) == 160_500_000_000
    assert events.applied(1, 61.0) is None
    assert Events(changes={0: 7}).applied(0, 60.0) == 7  # an event that does not say
