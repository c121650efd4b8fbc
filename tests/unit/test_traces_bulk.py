from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.traces.bulk import data_alone
from harness.traces.frames import FrameError, Frames, read_frames
from tests.unit.protected import integer, stream_frame
from tests.unit.test_traces_frames import OTHERS

#: What a capture has of a payload, and what a frame of data may be like.
WIDTH = 60
EXTREMES = st.sampled_from([0, 63, 64, 16383, 16384, 1 << 30, (1 << 62) - 1])


@st.composite
def _payloads(draw: st.DrawFn) -> tuple[bytes, int]:
    """A payload, and how much of it was captured: data, as a rule, with or without something behind; or anything."""
    if draw(st.integers(0, 5)) == 0:
        payload = draw(st.binary(min_size=1, max_size=80))
    else:
        stream, offset = draw(EXTREMES), draw(EXTREMES)
        data = draw(st.binary(max_size=100))
        payload = stream_frame(stream, offset, data, draw(st.booleans()), length=draw(st.booleans()))
        payload += draw(st.sampled_from([b"", b"", b"", *OTHERS]))
    return payload, draw(st.integers(0, min(len(payload), WIDTH)))


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
    for found, (payload, seen) in zip(data_alone(plain, captured, size), payloads, strict=True):
        assert found is None or found == _slowly(payload, seen)


def test_a_packet_full_of_data_is_read_at_once() -> None:
    payload = stream_frame(4, 1 << 20, bytes(range(200)), length=False)
    behind = stream_frame(4, 1 << 20, b"less") + integer(0x01)
    plain = np.zeros((2, WIDTH), np.uint8)
    for row, data in enumerate((payload[:WIDTH], behind)):
        plain[row, : len(data)] = np.frombuffer(data, np.uint8)
    sizes = np.array([len(payload), len(behind)])
    full, several = data_alone(plain, np.minimum(sizes, WIDTH), sizes)
    assert full == read_frames(payload[:WIDTH], len(payload))
    assert full is not None and full.hidden == 0 and full.streams[0].end == (1 << 20) + 200
    assert several is None
