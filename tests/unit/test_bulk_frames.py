from __future__ import annotations

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from harness.capture.quic.frames import FrameError, Frames, read_common_frames, read_frames
from tests.unit.packet_protection import integer, stream_frame
from tests.unit.test_quic_frames import OTHERS

#: What a capture has of a payload, and what a frame of data may be like.
WIDTH = 60
SMALL = st.one_of(st.integers(0, 100), st.just((1 << 62) - 1))
EXTREMES = st.sampled_from([0, 63, 64, 16383, 16384, 1 << 30, (1 << 62) - 1])


@st.composite
def _payloads(draw: st.DrawFn) -> tuple[bytes, int]:
    """A payload, and how much of it was captured: frames that most packets have, and others; or anything."""
    if draw(st.integers(0, 5)) == 0:
        payload = draw(st.binary(min_size=1, max_size=80))
    else:
        payload = b"".join(
            draw(st.lists(st.one_of(_streams(), _acks(), _credits(), st.sampled_from(OTHERS)), max_size=4))
        )
    return payload, draw(st.integers(0, min(len(payload), WIDTH)))


@st.composite
def _streams(draw: st.DrawFn) -> bytes:
    stream, offset, data = draw(EXTREMES), draw(EXTREMES), draw(st.binary(max_size=100))
    return stream_frame(stream, offset, data, draw(st.booleans()), length=draw(st.booleans()))


@st.composite
def _acks(draw: st.DrawFn) -> bytes:
    ranges = draw(st.lists(st.tuples(SMALL, SMALL), max_size=12))
    numbers = [
        draw(st.sampled_from([2, 3])),
        draw(EXTREMES),
        draw(EXTREMES),
        draw(st.one_of(st.just(len(ranges)), EXTREMES)),
    ]
    numbers += [draw(SMALL), *(bound for pair in ranges for bound in pair), *draw(st.lists(EXTREMES, max_size=3))]
    return b"".join(map(integer, numbers))


@st.composite
def _credits(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from([0x10, 0x11]))
    return b"".join(map(integer, [kind, *(draw(EXTREMES) for _ in range(kind - 0x0F))]))


def _slowly(payload: bytes, seen: int) -> Frames | None:
    try:
        return read_frames(payload[:seen], len(payload))
    except FrameError:
        return None


@given(st.lists(_payloads(), min_size=1, max_size=20))
def test_what_is_read_at_once_is_what_is_read_frame_by_frame(payloads: list[tuple[bytes, int]]) -> None:
    plain = np.zeros((len(payloads), WIDTH), np.uint8)
    for row, (payload, seen) in enumerate(payloads):
        plain[row, :seen] = np.frombuffer(payload[:seen], np.uint8)
    captured = np.array([seen for _, seen in payloads], np.int64)
    size = np.array([len(payload) for payload, _ in payloads], np.int64)
    for frames, (payload, seen) in zip(read_common_frames(plain, captured, size), payloads, strict=True):
        assert frames is None or frames == _slowly(payload, seen)
        event("read at once" if frames is not None else "left to be read frame by frame")


def test_what_most_packets_have_is_read_at_once() -> None:
    ack = b"".join(map(integer, [2, 5000, 10, 2, 30, 0, 10, 1, 7]))
    data = stream_frame(4, 1 << 20, bytes(range(200)), length=False)
    credit = b"".join(map(integer, [0x10, 1 << 24, 0x11, 4, 1 << 20]))
    payloads = [data, ack, ack + data, credit + ack + bytes(20), b"\x01", integer(0x1E) + ack, ack[:3] + b"\x01\xff"]
    plain = np.zeros((len(payloads), WIDTH), np.uint8)
    for row, payload in enumerate(payloads):
        plain[row, : len(payload)] = np.frombuffer(payload[:WIDTH], np.uint8)
    sizes = np.array([len(payload) for payload in payloads])
    *frames, other, wrong = read_common_frames(plain, np.minimum(sizes, WIDTH), sizes)
    assert frames == [read_frames(payload[:WIDTH], len(payload)) for payload in payloads[:-2]]
    assert other is None and wrong is None
