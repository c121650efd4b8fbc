"""What came to the client around a move: how much, after what silence, and what it had already."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.byte_ranges import Held
from harness.analysis.connection import FULL
from harness.analysis.handover.wire import Moved
from harness.analysis.missing import Unknown
from harness.capture.capture import Ints
from harness.capture.quic.frames import StreamFrame

#: How long after a move what is sent again counts as sent again because of it, ns.
AFTER_NS = 2_000_000_000


def delivered(moved: Moved, span_ns: int) -> int | Unknown:
    """Bytes of UDP payload that came to the client in so much time from the move on, by whatever path."""
    passage, end = moved.to_client, moved.data_end_ns
    assert passage is not None and end is not None, "moves with nothing to measure are left out"
    until = moved.asked_ns + span_ns
    if moved.window.transfer.intact and end < until:
        return Unknown(f"the transfer ended {(end - moved.asked_ns) / 1e6:.0f} ms after it")
    inside = passage.arrived & (passage.out_ns >= moved.asked_ns) & (passage.out_ns < until)
    return int(passage.entered.payload[inside].sum())


def gap_ns(moved: Moved) -> int | Unknown:
    """From the last data for the old address to the first for the new one at the client; 0 where they overlap."""
    passage = moved.to_client
    assert passage is not None, "moves with nothing to measure are left out"
    data = passage.arrived & (passage.entered.payload >= FULL) & (passage.entered.t_ns < moved.until_ns)
    new = moved.to_new(passage)
    old, later = passage.out_ns[data & ~new], passage.out_ns[data & new]
    if not len(old) or not len(later):
        return Unknown("no data came to the new address" if len(old) else "no data came before it")
    return max(0, int(later.min()) - int(old.max()))


def spurious(moved: Moved) -> int | Unknown:
    """Packets that brought the client nothing but stream data it had, in the two seconds after the move.

    Only what was sent again although it had come, or was still to come, does that.
    """
    found = moved.view.opened(moved.window, "server")
    if not found:
        return Unknown("there are no keys to read packets with")
    return sum(_repeated(opened.t_ns, [frames.streams for frames in opened.frames], moved.asked_ns) for opened in found)


def _repeated(t_ns: Ints, told: Sequence[Sequence[StreamFrame]], since_ns: int) -> int:
    had: dict[int, Held] = {}
    count = 0
    for when, streams in zip(t_ns.tolist(), told, strict=True):
        news = [had.setdefault(frame.stream, Held()).add(frame.offset, frame.end) for frame in streams if frame.length]
        if news and not any(news) and since_ns <= when < since_ns + AFTER_NS:
            count += 1
    return count
