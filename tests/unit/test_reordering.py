"""The order in which packets come (RFC 4737), and packets that were taken for lost though they came."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.delivery import ByteRanges
from harness.analysis.metrics import measure
from harness.analysis.metrics.reordering import reordering
from harness.analysis.run_view import RunView
from harness.analysis.spurious_loss import copied_frames, segment_losses
from harness.capture import qlog
from harness.capture.artefacts import TransferWindow
from harness.capture.capture import SYN, read_capture
from harness.capture.matching import match
from harness.store.records import read_run
from tests.examples import ROOT
from tests.unit.captures import T0, pcap
from tests.unit.packet_protection import stream_frame
from tests.unit.shared_flows import Segment, segment_frame
from tests.unit.test_capture_streams import opened, part
from tests.unit.test_tcp_info import FLOWS

MS = 1_000_000


def test_a_late_packet_is_reordered_by_as_many_as_came_before_it() -> None:
    # They leave a millisecond apart; the third is late, so that the fourth, fifth and sixth come before it.
    measured = reordering(np.array([50, 51, 58, 53, 54, 55, -1, 60]) * MS)
    assert measured.reordered.tolist() == [False, False, False, False, False, True, False]
    assert measured.extent.tolist() == [0, 0, 0, 0, 0, 3, 0]
    assert measured.late_ns.tolist() == [0, 0, 0, 0, 0, 5 * MS, 0]
    assert measured.ratio == pytest.approx(1 / 7)


def test_packets_in_order_are_not_reordered_whatever_is_lost() -> None:
    measured = reordering(np.array([50, -1, -1, 53, 54]) * MS)
    assert len(measured.extent) == 3
    assert measured.ratio == measured.extent.max() == measured.late_ns.max() == 0
    assert reordering(np.array([-1, -1])).ratio == 0


@given(st.lists(st.integers(0, 30), max_size=20, unique=True))
def test_extent_and_late_time_are_those_of_the_definition(moments: list[int]) -> None:
    """RFC 4737 §4.2.2 and §4.3: i - j and t[i] - t[j], with the smallest j for which s[j] > s[i]."""
    order = sorted(range(len(moments)), key=lambda sent: moments[sent])
    measured = reordering(np.array(moments, np.int64))
    for i, sent in enumerate(order):
        first = next((j for j in range(i) if order[j] > sent), None)
        assert measured.reordered[i] == (first is not None)
        assert measured.extent[i] == (0 if first is None else i - first)
        assert measured.late_ns[i] == (0 if first is None else moments[sent] - moments[order[first]])


def _segments(folder: Path, *moves: tuple[int, int, int | None]) -> tuple[list[int], list[int]]:
    """Of segments of 1,000 B: (left, offset, came), ms; None of one that is lost. When each was taken for lost, and left."""
    opening = [(0, Segment(0, True, b"", 0, sequence=7, flags=SYN | 0x10, identification=1), 50)]
    data = [
        (left, Segment(0, True, b"", 1000, sequence=8 + offset, identification=2 + number), came)
        for number, (left, offset, came) in enumerate(moves)
    ]
    captures = []
    for side in ("right", "left"):
        seen = [
            (left if side == "right" else came, segment) for left, segment, came in opening + data if came is not None
        ] + ([(left, segment) for left, segment, came in data if came is None] if side == "right" else [])
        seen.sort(key=lambda item: item[0])
        (folder / side).write_bytes(pcap((T0 + t * MS, segment_frame(segment), segment.length) for t, segment in seen))
        captures.append(read_capture(folder / side, FLOWS))
    right, left = captures
    spurious_losses = segment_losses(match(right, left, True), True, 50 * MS)
    return ((spurious_losses.declared_ns - T0) // MS).tolist(), ((spurious_losses.sent_ns - T0) // MS).tolist()


def test_a_segment_sent_again_though_it_came_is_a_spurious_loss(tmp_path: Path) -> None:
    first, late, third = (100, 0, 150), (101, 1000, 158), (102, 2000, 152)
    again = (205, 1000, 255)
    assert _segments(tmp_path, first, late, third, again) == ([205], [101])
    # It is none where the first one was lost; where the second one came and a third is sent, the second is meant.
    lost = (101, 1000, None)
    assert _segments(tmp_path, first, lost, third, again) == ([], [])
    assert _segments(tmp_path, first, lost, third, again, (300, 1000, 350)) == ([300], [205])


#: What some packets bring: a stream, an offset and a size each.
BROUGHT = st.lists(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 8), st.integers(0, 3)), max_size=2), max_size=9)


def test_the_first_packet_of_a_byte_is_one_that_had_it() -> None:
    # When the first packet was sent is not known; the second one had the byte before only.
    packets = opened((60, part(100, 100)), (62, part(0, 100)), (80, part(100, 100)))
    assert not len(copied_frames((packets,), [np.array([-1, 10, 90]) * MS], 15 * MS).declared_ns)


@given(brought=BROUGHT, chance=st.randoms(use_true_random=False))
def test_packets_that_share_no_byte_decide_nothing(
    brought: list[list[tuple[int, int, int]]], chance: random.Random
) -> None:
    payloads = [
        b"".join(stream_frame(stream, offset, bytes(size)) for stream, offset, size in parts) or b"\x01"
        for parts in brought
    ]
    packets = opened(*((60 + number, payload) for number, payload in enumerate(payloads)))
    left = np.array([chance.choice((-1, number)) for number in range(len(brought))], np.int64) * MS
    # Frames that are not kept are all gone through.
    every = replace(packets, frames=list(packets.frames))
    few, all_of_them = (copied_frames((one,), [left], 3 * MS) for one in (packets, every))
    for name in ("declared_ns", "sent_ns", "needless"):
        assert getattr(few, name).tolist() == getattr(all_of_them, name).tolist()


def test_data_that_come_twice_were_taken_for_lost() -> None:
    # The second of three is late and sent again at 30, the third in a packet at 40 that brings something new beside.
    packets = opened(
        (60, part(0, 100)), (62, part(200, 100)), (65, part(100, 100)), (80, part(100, 100)),
        (90, part(200, 100) + part(300, 100)), (91, b"\x01"),
    )  # fmt: skip
    left = np.array([10, 12, 11, 30, 40, 41]) * MS
    spurious_losses = copied_frames((packets,), [left], 15 * MS)
    assert (spurious_losses.declared_ns // MS).tolist() == [30, 40]
    assert (spurious_losses.sent_ns // MS).tolist() == [11, 12]
    # What goes twice within a round trip is sent without need, but not because it was taken for lost.
    assert not len(copied_frames((packets,), [left], 40 * MS).declared_ns)
    assert copied_frames((packets,), [left], 40 * MS).needless.tolist() == [3]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=20), st.integers(0, 50), st.integers(1, 9))
def test_held_parts_are_a_set_of_bytes(parts: list[tuple[int, int]], start: int, size: int) -> None:
    byte_ranges, there = ByteRanges(), set[int]()
    for offset, length in parts:
        wanted = set(range(offset, offset + length))
        assert byte_ranges.add(offset, offset + length) == bool(wanted - there)
        there |= wanted
    assert byte_ranges.has(start, start + size) == (set(range(start, start + size)) <= there)


def test_lost_packets_are_read_in_every_spelling(tmp_path: Path) -> None:
    lost = [
        {"time": 5.5, "name": "recovery:packet_lost", "data": {"header": {"packet_type": "1RTT", "packet_number": 7}}},
        {"time": 6, "name": "quic:packet_lost", "data": {"header": {"packet_type": "1RTT", "packet_number": "8"}}},
        {"time": 7, "name": "recovery:packet_lost", "data": {"packet_type": "onertt", "packet_number": 9}},
        {"time": 8, "name": "recovery:packet_lost", "data": {"header": {"packet_type": "initial", "packet_number": 1}}},
        {"time": 9, "name": "recovery:packet_lost", "data": {"header": {"packet_type": "1RTT"}}},
    ]
    opening = {"time": 2, "name": "transport:packet_sent", "data": {}}
    file = tmp_path / "a.sqlog"
    file.write_text("".join(f"\x1e{json.dumps(event)}\n" for event in [opening, *lost]))
    assert [(lost_packet.t_ms, lost_packet.number) for lost_packet in qlog.read_lost(file)] == [
        (3.5, 7),
        (4, 8),
        (5, 9),
    ]
    # picoquic's are arrays, in µs.
    file.write_text(
        '{"qlog_version": "draft-00", "traces": [{"configuration": {"time_units": "us"}, "events": [\n'
        '[100, 0, "transport", "packet_sent", {}],\n'
        '[2100, 0, "recovery", "packet_lost", {"packet_type": "1RTT", "packet_number": 3, "trigger": "repeat",\n'
        '  "header": {"packet_type": "1RTT", "packet_number": 3, "packet_size": 1440}}]]}]}'
    )
    assert [(lost_packet.t_ms, lost_packet.number) for lost_packet in qlog.read_lost(file)] == [(2, 3)]


def test_a_trace_that_cannot_be_read_costs_this_metric_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(view: RunView, window: TransferWindow) -> None:
        raise OSError("the trace is damaged")

    monkeypatch.setattr("harness.analysis.spurious_loss._find_losses", damaged)
    folder = ROOT / "tests/replay/data/https"
    measured = measure(folder, read_run((folder / "run.json").read_bytes()))
    (absent,) = (absence for absence in measured.absent if absence.metric == "spurious_losses")
    assert absent.why == "OSError: the trace is damaged"
    assert measured.attributed is not None and len(measured.attributed.transfers) == 1
