from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.capture.quic.frames import FrameError, StreamFrame, read_frames
from tests.unit.packet_protection import integer, stream_frame

INTEGERS = st.integers(0, (1 << 62) - 1)
#: ACK of 100…91 and 80…70, with ECN counts.
ACK = b"".join(map(integer, (0x03, 100, 2000, 1, 9, 9, 10, 7, 8, 9)))
OTHERS = [
    b"\x01",
    b"\x00" * 5,
    ACK,
    integer(0x06) + integer(300) + integer(4) + b"data",
    integer(0x07) + integer(3) + b"tok",
    integer(0x10) + integer(1 << 20),
    integer(0x11) + integer(4) + integer(1 << 40),
    integer(0x18) + integer(1) + integer(0) + b"\x08" + bytes(8 + 16),
    integer(0x1A) + bytes(range(8)),
    integer(0x1E),
    b"".join(map(integer, (0xAF, 1, 2, 25_000, 3))),
    integer(0x31) + integer(2) + b"hi",
]


@st.composite
def _streams(draw: st.DrawFn) -> tuple[bytes, StreamFrame]:
    stream, offset = draw(st.integers(0, 1 << 20)), draw(st.integers(0, 1 << 40))
    data, fin = draw(st.binary(max_size=30)), draw(st.booleans())
    return stream_frame(stream, offset, data, fin), StreamFrame(stream, offset, len(data), fin, data)


@given(st.lists(st.sampled_from(OTHERS), max_size=4), st.lists(_streams(), max_size=3), st.integers(0, 200))
def test_frames_are_read_as_far_as_they_were_captured(
    others: list[bytes], streams: list[tuple[bytes, StreamFrame]], captured: int
) -> None:
    parts = [*others, *(text for text, _ in streams)]
    payload = b"".join(parts)
    whole = read_frames(payload, len(payload))
    assert whole.streams == tuple(frame for _, frame in streams)
    assert whole.hidden == 0
    assert whole.acknowledged == (100 if ACK in others else None)
    cut = read_frames(payload[:captured], len(payload))
    places = [(frame.stream, frame.offset, frame.length, frame.fin) for frame in cut.streams]
    assert places == [(frame.stream, frame.offset, frame.length, frame.fin) for _, frame in streams][: len(places)]
    for frame, (_, expected) in zip(cut.streams, streams, strict=False):
        assert expected.head.startswith(frame.head)
    # What was not read is hidden, and nothing else.
    if captured >= len(payload):
        assert cut.hidden == 0
    if len(places) < len(streams):
        assert cut.hidden > 0


def test_a_frame_without_a_length_ends_with_the_packet() -> None:
    payload = integer(0x02) + b"".join(map(integer, (7, 0, 0, 7))) + stream_frame(4, 1000, bytes(900), length=False)
    frames = read_frames(payload[:30], len(payload))
    assert [(frame.offset, frame.end) for frame in frames.streams] == [(1000, 1900)]
    assert frames.hidden == 0 and frames.acknowledged == 7 and frames.types == (0x02, 0x0C)


def test_what_an_acknowledgement_hides() -> None:
    ranges = b"".join(map(integer, (0x02, 1000, 0, 30, 0, *[0, 0] * 30)))
    payload = ranges + stream_frame(0, 5, bytes(700))
    frames = read_frames(payload[:30], len(payload))
    assert frames.streams == () and frames.hidden == len(payload)


@pytest.mark.parametrize(
    "payload",
    [
        integer(0x20),  # no type of a frame
        integer(0x3F5),
        b"\x0a\x00\x20abc",  # longer than the packet
        b"".join(map(integer, (0x02, 5, 0, 0, 6))),  # acknowledges -1
        b"".join(map(integer, (0x02, 5, 0, 1, 2, 3, 0))),
        integer(0x18) + b"\x01\x00\x15" + bytes(40),  # a connection ID of 21 bytes
        b"\x0e\x00" + integer((1 << 62) - 1) + b"\x01x",  # beyond the end of all streams
        integer(0x10),  # ends in the middle
    ],
)
def test_what_is_no_frame(payload: bytes) -> None:
    with pytest.raises(FrameError):
        read_frames(payload, len(payload))


@pytest.mark.parametrize(
    ("data", "code", "by_transport", "reason"),
    [
        (b"\x1c\x01\x00\x02no", 1, True, b"no"),
        (b"\x01\x1d\x41\x01\x00", 0x101, False, b""),
        # Of two the first counts.
        (b"\x1c\x0a\x1a\x00\x1c\x01\x00\x00", 10, True, b""),
    ],
)
def test_a_close_with_its_code_and_words(data: bytes, code: int, by_transport: bool, reason: bytes) -> None:
    close = read_frames(data, len(data)).close
    assert close is not None
    assert (close.code, close.by_transport, close.reason) == (code, by_transport, reason)
