"""Which STREAM frames a sender's qlog says it put into some of its packets.

Of packet_sent events of draft-ietf-quic-qlog-quic-events (§5.5 and appendix A.8), in its spellings from 0.1 on.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from harness.capture import qlog
from harness.capture.files import read_bytes
from harness.capture.quic.frames import StreamFrame

_NUMBER = re.compile(rb'"packet_number"\s*:\s*"?([0-9]+)')
_SENT, _ONE_RTT = "packet_sent", "1rtt"


def sent_streams(trace: Path, packets: Collection[int]) -> dict[int, tuple[StreamFrame, ...]]:
    """The STREAM frames of 1-RTT packets with these numbers; packets that the trace does not tell are not there.

    Raises OSError.
    """
    data = read_bytes(trace)
    told: dict[int, tuple[StreamFrame, ...]] = {}
    for found in _NUMBER.finditer(data):
        number = int(found[1])
        if number not in packets or number in told:
            continue
        event, _ = qlog.event_at(data, found.start())
        if event is not None and event.name.endswith(_SENT) and _packet_type(event.data) == _ONE_RTT:
            told[number] = tuple(_streams(event.data.get("frames")))
    return told


def _packet_type(data: dict[str, Any]) -> str:
    header = data.get("header")
    inside = header.get("packet_type") if isinstance(header, dict) else None
    return str(inside or data.get("packet_type")).lower().replace("-", "").replace("_", "")


def _streams(frames: Any) -> list[StreamFrame]:
    """STREAM frames with a place in their stream; an empty list where the event lists no frames. picoquic says "id"."""
    read = []
    for frame in frames if isinstance(frames, list) else []:
        if not isinstance(frame, dict) or frame.get("frame_type") != "stream":
            continue
        raw = frame.get("raw")
        length = frame.get("length", raw.get("payload_length", raw.get("length")) if isinstance(raw, dict) else None)
        try:
            place = int(frame.get("stream_id", frame.get("id"))), int(frame["offset"]), int(length)  # type: ignore[arg-type]
        except (KeyError, TypeError, ValueError):
            continue
        read.append(StreamFrame(*place, fin=bool(frame.get("fin")), head=b""))
    return read
