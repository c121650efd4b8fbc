from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.capture.connections import Connection, SentPackets
from harness.capture.key_log import Secret
from harness.capture.quic.frames import StreamFrame, read_frames
from harness.capture.quic.protection import Aead, Packets
from harness.capture.streams import Bounds, contiguous, find_gaps, largest_stream, stream_arrival, stream_arrivals
from tests.unit.packet_protection import stream_frame

PARTS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=40)


@given(PARTS)
def test_contiguous_bytes(parts: list[tuple[int, int]]) -> None:
    """Against a set of bytes."""
    there: set[int] = set()
    expected = []
    for offset, length in parts:
        there.update(range(offset, offset + length))
        expected.append(next(byte for byte in range(100) if byte not in there))
    assert contiguous([a for a, _ in parts], [a + n for a, n in parts]).tolist() == expected


@given(PARTS)
def test_gaps(parts: list[tuple[int, int]]) -> None:
    there = {byte for offset, length in parts for byte in range(offset, offset + length)}
    end = max((offset + length for offset, length in parts), default=0)
    offsets = np.array([a for a, _ in parts], np.int64)
    gaps = find_gaps(offsets, np.array([a + n for a, n in parts], np.int64))
    assert {byte for start, stop in gaps.tolist() for byte in range(start, stop)} == set(range(end)) - there
    assert all(start < stop for start, stop in gaps.tolist())


def opened(*packets: tuple[int, bytes], captured: int = 40, coalesced: Sequence[int] = ()) -> SentPackets:
    """Packets of (time, payload), numbered from 0 on, of which so many bytes were captured."""
    count = len(packets)
    numbers = np.arange(count)
    none = np.zeros((count, 0), np.uint8)
    sizes = np.array([len(payload) for _, payload in packets], np.int64)
    return SentPackets(
        Connection(50_000, 1, b"client", b"server"), "server", Secret(bytes(32), "server", bytes(32)), Aead.AES_128_GCM,
        np.array([t for t, _ in packets], np.int64), np.arange(count, dtype=np.uint64),
        Packets(numbers, numbers, np.zeros(count, np.int64), none, np.minimum(sizes, captured), sizes),
        tuple(read_frames(payload[:captured], len(payload)) for _, payload in packets),
        undecrypted=0, coalesced_ns=np.array(coalesced, np.int64),
    )  # fmt: skip


def part(offset: int, size: int, fin: bool = False) -> bytes:
    return stream_frame(0, offset, bytes(size), fin)


def test_a_lost_packet_holds_up_what_follows() -> None:
    arrival = stream_arrival(
        opened((10, part(0, 100)), (20, part(200, 100)), (30, part(300, 50, True)), (90, part(100, 100))), 0, whole=True
    )
    assert (arrival.final_size, arrival.size, arrival.missing_bytes) == (350, 350, 0)
    assert [arrival.time_of(n) for n in (1, 100, 101, 350)] == [
        Bounds(10, 10), Bounds(10, 10), Bounds(90, 90), Bounds(90, 90),
    ]  # fmt: skip
    assert arrival.time_of(351) == Bounds(None, None)


#: Bytes 100…199 are behind another frame, of which the header fills what was captured.
HIDING = part(0, 100) + part(100, 100)


def test_what_was_cut_off_came_by_the_last_packet_that_may_have_held_it() -> None:
    packets = opened((10, HIDING), (20, part(200, 100)), (50, part(0, 100) + b"\x01" * 5), (60, part(300, 10, True)))
    arrival = stream_arrival(packets, 0, whole=True)
    assert arrival.missing_bytes == 100
    assert arrival.time_of(100) == Bounds(10, 10)
    assert arrival.time_of(300) == Bounds(20, 50)
    assert arrival.time_of(310) == Bounds(60, 60)
    # A transfer that did not end may have got it or not.
    assert stream_arrival(packets, 0, whole=False).time_of(300) == Bounds(20, None)


def test_nothing_that_was_cut_off_explains_a_gap() -> None:
    arrival = stream_arrival(opened((10, part(0, 100)), (20, part(200, 100, True))), 0, whole=True)
    assert arrival.time_of(300) == Bounds(20, None)
    behind = stream_arrival(opened((10, part(100, 100)), (20, part(200, 9, True)), coalesced=[5]), 0, whole=True)
    assert behind.time_of(150) == Bounds(10, 10)


def test_the_sender_tells_what_was_cut_off() -> None:
    packets = opened((10, HIDING), (20, part(200, 100)), (50, part(0, 100) + b"\x01" * 5))
    first, second = StreamFrame(0, 0, 100, False, b""), StreamFrame(0, 100, 100, False, b"")
    arrival = stream_arrival(packets, 0, whole=True, logged={0: (first, second), 2: (first,)})
    assert arrival.missing_bytes == 0 and arrival.time_of(300) == Bounds(20, 20)
    # What contradicts what was captured is another packet's.
    other = StreamFrame(0, 7, 100, False, b"")
    denied = stream_arrival(packets, 0, whole=True, logged={0: (other, second), 2: (first,)})
    assert denied.missing_bytes == 100 and denied.time_of(300) == Bounds(20, 20)


def test_the_stream_of_the_answer() -> None:
    control, answer = stream_frame(3, 0, bytes(30)), stream_frame(4, 0, bytes(20))
    assert largest_stream(opened((1, control), (2, answer), (3, stream_frame(0, 0, b"x")))) == 4
    assert largest_stream(opened((1, control))) is None


def test_each_answer_has_its_own_arrival() -> None:
    packets = opened(
        (10, stream_frame(0, 0, bytes(100), True)), (20, stream_frame(4, 0, bytes(50), False)),
        (30, stream_frame(3, 0, bytes(9), True)), (40, stream_frame(4, 50, bytes(50), True)),
    )  # fmt: skip
    arrivals = stream_arrivals(packets, whole=True)
    # Stream 3 is the server's own.
    assert {stream: arrival.completion for stream, arrival in arrivals.items()} == {
        0: Bounds(10, 10),
        4: Bounds(40, 40),
    }
    for stream, arrival in arrivals.items():
        assert arrival.time_of(100) == stream_arrival(packets, stream, whole=True).time_of(100)


def test_a_stream_whose_end_was_not_visible_may_have_ended_with_the_last_hidden_packet() -> None:
    packets = opened((10, part(0, 100)), coalesced=[30])
    assert stream_arrivals(packets, whole=True)[0].completion == Bounds(10, 30)
    assert stream_arrivals(packets, whole=False)[0].completion == Bounds(10, None)
    # What ends in sight did not wait for it.
    ended = opened((10, part(0, 100, True)), coalesced=[30])
    assert stream_arrivals(ended, whole=True)[0].completion == Bounds(10, 10)
