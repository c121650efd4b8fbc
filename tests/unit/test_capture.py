from __future__ import annotations

import gzip
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.capture.capture import Capture, read_capture
from harness.capture.matching import match
from harness.capture.quic.invariants import Form, last_visible_packet
from harness.topology.lab_file import Endpoint, FlowAddresses
from tests.unit.captures import (
    CLIENT,
    CLIENT6,
    HANDSHAKE,
    INITIAL,
    SERVER,
    SERVER6,
    T0,
    ZERO_RTT,
    Link,
    Packet,
    carry,
    frame,
    pcap,
    short,
)

FLOWS = [
    FlowAddresses(
        flow=flow,
        client=Endpoint(addresses=(CLIENT[:-1] + str(flow), CLIENT6[:-1] + str(flow))),
        server=Endpoint(addresses=(SERVER[:-1] + str(flow), SERVER6[:-1] + str(flow))),
    )
    for flow in (0, 1)
]


def write(path: Path, packets: list[Packet], ttl: int = 64, **form: object) -> Path:
    path.write_bytes(pcap(((p.t_ns, frame(p, ttl), p.length) for p in packets), **form))  # type: ignore[arg-type]
    return path


def read(path: Path, packets: list[Packet], ttl: int = 64, **form: object) -> Capture:
    return read_capture(write(path, packets, ttl, **form), FLOWS)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [True, False])
@pytest.mark.parametrize("ipv6", [True, False])
def test_columns(tmp_path: Path, order: str, nanoseconds: bool, ipv6: bool) -> None:
    packets = [
        replace(short(1, 1252, T0 + 1000, True, flow=1), ipv6=ipv6),
        replace(short(2, 30, T0 + 9000, False), ipv6=ipv6),
    ]
    capture = read(tmp_path / "a.pcap", packets, order=order, nanoseconds=nanoseconds)
    assert capture.t_ns.tolist() == [T0 + 1000, T0 + 9000]
    assert capture.to_client.tolist() == [True, False]
    assert capture.flow.tolist() == [1, 0]
    assert capture.ip.tolist() == [6 if ipv6 else 4] * 2
    assert capture.source_port.tolist() == [443, 50000]
    assert capture.destination_port.tolist() == [50000, 443]
    assert capture.length.tolist() == [p.length for p in packets]
    assert capture.payload.tolist() == [1252, 30]
    assert capture.form.tolist() == [Form.SHORT, Form.SHORT]
    assert capture.to_dataframe().height == 2 and not capture.truncated


def test_forms_of_both_versions(tmp_path: Path) -> None:
    version_2 = bytes.fromhex("6b3343cf")
    heads = [
        INITIAL, ZERO_RTT, HANDSHAKE, bytes.fromhex("f000000001"), bytes.fromhex("c000000000"),
        b"\xd0" + version_2, b"\xe0" + version_2, b"\xf0" + version_2, b"\xc0" + version_2, b"\x4000000",
    ]  # fmt: skip
    capture = read(tmp_path / "a.pcap", [Packet(T0 + i, False, head, 1200) for i, head in enumerate(heads)])
    assert [Form(int(form)) for form in capture.form] == [
        Form.INITIAL, Form.ZERO_RTT, Form.HANDSHAKE, Form.RETRY, Form.VERSION_NEGOTIATION,
        Form.INITIAL, Form.ZERO_RTT, Form.HANDSHAKE, Form.RETRY, Form.SHORT,
    ]  # fmt: skip


def test_foreign_frames_are_left_out(tmp_path: Path) -> None:
    good = frame(short(1, 100, T0, True))
    arp = bytes(12) + b"\x08\x06" + bytes(40)
    tcp = bytearray(good)
    tcp[23] = 6
    stranger = bytearray(good)
    stranger[29] = 77
    frames = [good, arp, bytes(tcp), bytes(stranger), b""]
    (tmp_path / "a.pcap").write_bytes(pcap((T0 + i, data, 100) for i, data in enumerate(frames)))
    assert len(read_capture(tmp_path / "a.pcap", FLOWS)) == 1


def test_truncated_and_compressed(tmp_path: Path) -> None:
    data = write(tmp_path / "a.pcap", [short(i, 100, T0 + i, True) for i in range(100)]).read_bytes()
    (tmp_path / "b.pcap").write_bytes(data[:-50])
    cut = read_capture(tmp_path / "b.pcap", FLOWS)
    assert len(cut) == 99 and cut.truncated
    packed = gzip.compress(data)
    (tmp_path / "c.pcap.gz").write_bytes(packed)
    assert len(read_capture(tmp_path / "c.pcap.gz", FLOWS)) == 100
    (tmp_path / "d.pcap.gz").write_bytes(packed[: len(packed) // 2])
    assert 0 < len(read_capture(tmp_path / "d.pcap.gz", FLOWS)) < 100
    (tmp_path / "e.pcap").write_bytes(data[:24])
    assert len(read_capture(tmp_path / "e.pcap", FLOWS)) == 0


@pytest.mark.parametrize("data", [b"", b"\x0a\x0d\x0d\x0a" + bytes(40), pcap([])[:20] + b"\x71\x00\x00\x00"])
def test_other_formats_are_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.pcap").write_bytes(data)
    with pytest.raises(ValueError, match=r"pcap|link type"):
        read_capture(tmp_path / "a.pcap", FLOWS)


def long_header(first: int, length: int, token: bytes | None = None) -> bytes:
    head = bytes([first]) + b"\0\0\0\1" + b"\x08" + bytes(8) + b"\x04" + bytes(4)
    if token is not None:
        head += bytes([len(token)]) + token
    return head + (0x4000 | length).to_bytes(2, "big")


def test_coalesced_packets() -> None:
    handshake = long_header(0xE0, 20)
    whole = handshake + bytes(20)
    assert last_visible_packet(whole, len(whole)) == (Form.HANDSHAKE, False)
    assert last_visible_packet(whole + b"\x41" * 9, len(whole) + 30) == (Form.HANDSHAKE, True)
    assert last_visible_packet(whole + bytes(9), len(whole) + 30) == (Form.HANDSHAKE, False)  # padding
    assert last_visible_packet(handshake, len(whole) + 30) == (Form.HANDSHAKE, True)
    initial = long_header(0xC0, 400, token=b"tok")
    assert last_visible_packet(initial, 1200) == (Form.INITIAL, True)
    assert last_visible_packet(initial, len(initial) + 400) == (Form.INITIAL, False)
    assert last_visible_packet(initial[:10], 1200) is None
    assert last_visible_packet(bytes.fromhex("c000000000"), 40) is None
    short_initial = long_header(0xC0, 10, token=b"") + bytes(10)
    assert last_visible_packet(short_initial + handshake, 1200) == (Form.HANDSHAKE, True)


def test_handshake_with_a_coalesced_one_rtt_packet(tmp_path: Path) -> None:
    head = long_header(0xE0, 20) + bytes(20) + b"\x41\x99"
    capture = read(
        tmp_path / "a.pcap", [Packet(T0, False, head, 200), Packet(T0 + 1, False, long_header(0xE0, 20), 42)]
    )
    assert capture.one_rtt.tolist() == [True, False]
    assert capture.after_initial.tolist() == [False, False]


def test_matching_survives_routing_and_finds_the_lost(tmp_path: Path) -> None:
    packets = [replace(short(i, 1252, T0 + i * 1000, i % 3 == 0), ipv6=i % 2 == 0) for i in range(400)]
    out = [replace(p, t_ns=p.t_ns + 5_000_000 + i % 7 * 9000) for i, p in enumerate(packets) if i % 10]
    ingress = read(tmp_path / "in.pcap", packets)
    egress = read(tmp_path / "out.pcap", sorted(out, key=lambda p: p.t_ns), ttl=63)
    for to_client in (True, False):
        mine = [(i, p) for i, p in enumerate(packets) if p.to_client == to_client]
        passage = match(ingress, egress, to_client)
        expected = [p.t_ns + 5_000_000 + i % 7 * 9000 if i % 10 else -1 for i, p in mine]
        assert passage.out_ns.tolist() == expected
        assert passage.missed_at_ingress == 0


def test_look_alikes(tmp_path: Path) -> None:
    def same(*times: int) -> list[Packet]:
        return [Packet(T0 + t, False, INITIAL, 1200) for t in times]

    ingress = read(tmp_path / "in.pcap", same(0, 1000, 2000))
    all_out = read(tmp_path / "all.pcap", same(300, 1300, 2300))
    assert (match(ingress, all_out, False).out_ns - T0).tolist() == [300, 1300, 2300]
    one_lost = read(tmp_path / "some.pcap", same(1300, 2300))
    assert (match(ingress, one_lost, False, 300).out_ns - T0).tolist() == [-1 - T0, 1300, 2300]
    burst = read(tmp_path / "burst.pcap", same(0, 1, 2))
    late = read(tmp_path / "late.pcap", same(301))
    assert (match(burst, late, False, 300).out_ns - T0).tolist() == [-1 - T0, 301, -1 - T0]


def test_departures_without_arrival_are_counted(tmp_path: Path) -> None:
    packets = [short(i, 100, T0 + i * 1000, True) for i in range(10)]
    passage = match(read(tmp_path / "in.pcap", packets[3:]), read(tmp_path / "out.pcap", packets), True)
    assert passage.missed_at_ingress == 3 and passage.arrived.all()
    empty = read(tmp_path / "empty.pcap", [])
    assert match(empty, empty, True).end_ns == 0


def test_keys_do_not_collide(tmp_path: Path) -> None:
    rng = random.Random(1)
    packets = [Packet(T0 + i, True, b"\x40" + i.to_bytes(4, "big") + rng.randbytes(1), 60) for i in range(20_000)]
    assert len(np.unique(read(tmp_path / "a.pcap", packets).key)) == len(packets)


def test_the_modelled_link_keeps_its_rate() -> None:
    packets = [short(i, 1208, T0 + i * 900_000, True) for i in range(1000)]  # 1250 B: 1 ms each at 10 Mbit/s
    carried = carry(Link(delay_ns=40_000_000, burst_bytes=1514, limit_bytes=50_000), packets)
    out = [t for t in carried.out_ns if t is not None]
    assert out[0] == T0 + 40_000_000
    assert abs((out[-1] - out[0]) / (len(out) - 1) - 1e6) < 300
    late = max(t - p.t_ns for t, p in zip(carried.out_ns, packets, strict=True) if t is not None)
    assert 79_000_000 < late < 80_000_000  # 40 ms, and 49,900 B that wait: 79.92 ms
