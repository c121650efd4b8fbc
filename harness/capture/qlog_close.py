"""How a qlog trace says that its connection ended.

Events connection_closed, and CONNECTION_CLOSE frames of packet_sent and packet_received, of
draft-ietf-quic-qlog-quic-events (§4.3, §5.5, appendix A.8.20) in its spellings from 0.1 on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.capture import qlog
from harness.capture.files import read_bytes
from harness.capture.quic.error_codes import error_name

Trigger = Literal["idle_timeout", "handshake_timeout", "stateless_reset"]
#: How traces name a trigger → ours.
_TRIGGERS: dict[str, Trigger] = {
    "idle_timeout": "idle_timeout", "handshake_timeout": "handshake_timeout", "stateless_reset": "stateless_reset",
}  # fmt: skip
#: Codes of applications that end a connection in order: H3_NO_ERROR (RFC 9114 §8.1), and HTTP/0.9's 0.
_IN_ORDER = ("0", "256", "no_error", "h3_no_error", "0x0", "0x100")


@dataclass(frozen=True)
class Closing:
    """One end of a connection that a trace tells of."""

    t_ns: int | None
    """Since the epoch; None where the trace has no such times."""
    own: bool
    """Whether it was this endpoint's doing: its timer, its CONNECTION_CLOSE. Else its peer's."""
    trigger: Trigger | None
    """None of a CONNECTION_CLOSE."""
    error: str
    """The name of the code; empty where there is none."""
    words: str
    """The reason phrase."""
    in_order: bool
    """Whether the code says that nothing is wrong."""


def closings(path: Path) -> list[Closing]:
    """What a trace tells, in its order. Raises OSError."""
    data = read_bytes(path)
    start, unit = qlog.clock(data)
    return [
        found
        for event in qlog.events(data, b"connection_close")
        for found in _of(event, qlog.epoch_ns(event.time, start, unit))
    ]


def _of(event: qlog.Event, t_ns: int | None) -> Iterator[Closing]:
    data = event.data
    if event.name.endswith("connection_closed"):
        whose = str(data.get("initiator") or data.get("owner") or "local").lower()
        trigger = _TRIGGERS.get(str(data.get("trigger")).lower())
        # A timer is one's own, and a stateless reset the peer's, whatever the event calls its initiator.
        own = trigger != "stateless_reset" if trigger is not None else whose != "remote"
        transport = _first(data, "connection_code", "connection_error", "error_code")
        application = _first(data, "application_code", "application_error")
        code = transport if transport is not None else application
        if trigger is None and code is None and not data.get("reason"):
            # quiche's: that it is over, not why.
            return
        yield Closing(
            t_ns, own, trigger, _name(code, by_transport=transport is not None), str(data.get("reason") or "").strip(),
            _is_in_order(code),
        )  # fmt: skip
    elif event.name.endswith(("packet_sent", "packet_received")):
        frames = data.get("frames")
        for frame in frames if isinstance(frames, list) else []:
            if not isinstance(frame, dict) or frame.get("frame_type") != "connection_close":
                continue
            space = str(frame.get("error_space", "transport")).lower()
            code = _first(frame, "raw_error_code", "error_code_value", "error_code", "error")
            yield Closing(
                t_ns, event.name.endswith("packet_sent"), None, _name(code, by_transport=not space.startswith("app")),
                str(_first(frame, "reason", "reason_phrase") or "").strip(), _is_in_order(code),
            )  # fmt: skip


def _first(data: dict[str, Any], *names: str) -> Any:
    return next((data[name] for name in names if data.get(name) is not None), None)


def _name(code: Any, *, by_transport: bool) -> str:
    if code is None:
        return ""
    try:
        return error_name(int(str(code), 0), by_transport=by_transport)
    except ValueError:
        return str(code)


def _is_in_order(code: Any) -> bool:
    return code is not None and str(code).lower() in _IN_ORDER
