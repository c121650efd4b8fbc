"""Events of qlog traces: how connections ended, STREAM frames sent, phases of Careful Resume.

Events connection_closed, and CONNECTION_CLOSE frames of packet_sent and packet_received, of
draft-ietf-quic-qlog-quic-events (§4.3, §5.5, appendix A.8.20) in its spellings from 0.1 on.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.capture import qlog
from harness.capture.files import map_content
from harness.capture.qlog import counts_from_previous, events, first_time, time_unit
from harness.capture.quic.error_codes import error_name
from harness.capture.quic.frames import StreamFrame

Trigger = Literal["idle_timeout", "handshake_timeout", "stateless_reset"]
#: How traces name a trigger → ours.
_TRIGGERS: dict[str, Trigger] = {
    "idle_timeout": "idle_timeout",
    "handshake_timeout": "handshake_timeout",
    "stateless_reset": "stateless_reset",
}
#: Application codes that end a connection without an error: H3_NO_ERROR (RFC 9114 §8.1), and HTTP/0.9's 0.
_CLEAN_CODES = ("0", "256", "no_error", "h3_no_error", "0x0", "0x100")


@dataclass(frozen=True)
class LoggedClose:
    """The end of a connection, as a trace reports it."""

    t_ns: int | None
    """Since the epoch; None where the trace has no such times."""
    local: bool
    """Whether this endpoint ended it, by its timer or its CONNECTION_CLOSE; else its peer did."""
    trigger: Trigger | None
    """None for a CONNECTION_CLOSE."""
    error: str
    """The name of the code; empty where there is none."""
    reason_phrase: str
    """The reason phrase."""
    without_error: bool
    """Whether the code means no error."""


def read_closes(path: Path) -> list[LoggedClose]:
    """The connection ends that a trace reports, in its order. Raises OSError."""
    data = map_content(path)
    start, unit = qlog.trace_clock(data)
    return [
        close
        for event in qlog.events(data, b"connection_close")
        for close in _parse_closes(event, qlog.epoch_ns(event.time, start, unit))
    ]


def _parse_closes(event: qlog.Event, t_ns: int | None) -> Iterator[LoggedClose]:
    data = event.data
    if event.name.endswith("connection_closed"):
        initiator = str(data.get("initiator") or data.get("owner") or "local").lower()
        trigger = _TRIGGERS.get(str(data.get("trigger")).lower())
        # A timer is local and a stateless reset is the peer's, whatever initiator the event names.
        own = trigger != "stateless_reset" if trigger is not None else initiator != "remote"
        transport = _first_value(data, "connection_code", "connection_error", "error_code")
        application = _first_value(data, "application_code", "application_error")
        code = transport if transport is not None else application
        if trigger is None and code is None and not data.get("reason"):
            # quiche logs that the connection is over, not why.
            return
        yield LoggedClose(
            t_ns,
            own,
            trigger,
            _close_error_name(code, by_transport=transport is not None),
            str(data.get("reason") or "").strip(),
            _is_clean_code(code),
        )
    elif event.name.endswith(("packet_sent", "packet_received")):
        frames = data.get("frames")
        for frame in frames if isinstance(frames, list) else []:
            if not isinstance(frame, dict) or frame.get("frame_type") != "connection_close":
                continue
            space = str(frame.get("error_space", "transport")).lower()
            code = _first_value(frame, "raw_error_code", "error_code_value", "error_code", "error")
            yield LoggedClose(
                t_ns,
                event.name.endswith("packet_sent"),
                None,
                _close_error_name(code, by_transport=not space.startswith("app")),
                str(_first_value(frame, "reason", "reason_phrase") or "").strip(),
                _is_clean_code(code),
            )


def _first_value(data: dict[str, Any], *names: str) -> Any:
    return next((data[name] for name in names if data.get(name) is not None), None)


def _close_error_name(code: Any, *, by_transport: bool) -> str:
    if code is None:
        return ""
    try:
        return error_name(int(str(code), 0), by_transport=by_transport)
    except ValueError:
        return str(code)


def _is_clean_code(code: Any) -> bool:
    return code is not None and str(code).lower() in _CLEAN_CODES


# --- The STREAM frames that a sender's qlog lists for some of its packets.
#
# From packet_sent events of draft-ietf-quic-qlog-quic-events (§5.5 and appendix A.8), in its spellings from 0.1 on.


_NUMBER = re.compile(rb'"packet_number"\s*:\s*"?([0-9]+)')
_SENT, _ONE_RTT = "packet_sent", "1rtt"


def read_sent_streams(trace: Path, packets: Collection[int]) -> dict[int, tuple[StreamFrame, ...]]:
    """The STREAM frames of the 1-RTT packets with these numbers. Packets that the trace does not list are absent.

    Raises OSError.
    """
    data = map_content(trace)
    frames: dict[int, tuple[StreamFrame, ...]] = {}
    for match in _NUMBER.finditer(data):
        number = int(match[1])
        if number not in packets or number in frames:
            continue
        event, _ = qlog.event_at(data, match.start())
        if event is not None and event.name.endswith(_SENT) and _packet_type(event.data) == _ONE_RTT:
            frames[number] = tuple(_parse_streams(event.data.get("frames")))
    return frames


def _packet_type(data: dict[str, Any]) -> str:
    header = data.get("header")
    packet_type = header.get("packet_type") if isinstance(header, dict) else None
    return str(packet_type or data.get("packet_type")).lower().replace("-", "").replace("_", "")


def _parse_streams(frames: Any) -> list[StreamFrame]:
    """The STREAM frames with stream ID and offset; empty where the event lists no frames. picoquic writes "id"."""
    streams = []
    for frame in frames if isinstance(frames, list) else []:
        if not isinstance(frame, dict) or frame.get("frame_type") != "stream":
            continue
        raw = frame.get("raw")
        length = frame.get("length", raw.get("payload_length", raw.get("length")) if isinstance(raw, dict) else None)
        try:
            extent = int(frame.get("stream_id", frame.get("id"))), int(frame["offset"]), int(length)  # type: ignore[arg-type]
        except (KeyError, TypeError, ValueError):
            continue
        streams.append(StreamFrame(*extent, fin=bool(frame.get("fin")), head=b""))
    return streams


# --- The phases of Careful Resume in a qlog (RFC 9959; draft-ietf-tsvwg-careful-resume-qlog-02).


_PHASES = b'careful_resume_phase_updated"'


@dataclass(frozen=True)
class PhaseChange:
    """A sender's change from one phase to the next."""

    at_ms: float
    """Since the trace's first event."""
    phase: str
    """The phase that began, as the draft calls it."""
    trigger: str
    """The reason, as the draft calls it; empty where none is given."""
    pipe: int | None
    """PipeSize at that time, bytes."""


def read_phases(path: Path) -> list[PhaseChange]:
    """The phase changes of a trace, in order; empty where it has none, or its times are differences. Raises OSError."""
    data = map_content(path)
    if counts_from_previous(data):
        return []
    unit, first = time_unit(data), first_time(data) or 0.0
    changes = []
    for event in events(data, _PHASES):
        state = event.data.get("state_data")
        pipe = state.get("pipesize") if isinstance(state, dict) else None
        changes.append(
            PhaseChange(
                at_ms=(event.time - first) * unit,
                phase=str(event.data.get("new", "")),
                trigger=str(event.data.get("trigger", "")),
                pipe=pipe if isinstance(pipe, int) else None,
            )
        )
    return changes
