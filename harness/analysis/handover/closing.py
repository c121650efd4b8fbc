"""Who ended the connection with an error after a move, as the wire shows it."""

from __future__ import annotations

from dataclasses import dataclass

from harness.analysis.handover.moved import Moved
from harness.parameters import ROLES, Role
from harness.traces.frames import CloseFrame

#: Codes of the transport (RFC 9000 §20.1).
_NAMES = {
    0x01: "INTERNAL_ERROR", 0x02: "CONNECTION_REFUSED", 0x03: "FLOW_CONTROL_ERROR", 0x04: "STREAM_LIMIT_ERROR",
    0x05: "STREAM_STATE_ERROR", 0x06: "FINAL_SIZE_ERROR", 0x07: "FRAME_ENCODING_ERROR",
    0x08: "TRANSPORT_PARAMETER_ERROR", 0x09: "CONNECTION_ID_LIMIT_ERROR", 0x0A: "PROTOCOL_VIOLATION",
    0x0B: "INVALID_TOKEN", 0x0C: "APPLICATION_ERROR", 0x0D: "CRYPTO_BUFFER_EXCEEDED", 0x0E: "KEY_UPDATE_ERROR",
    0x0F: "AEAD_LIMIT_REACHED", 0x10: "NO_VIABLE_PATH",
}  # fmt: skip
#: TLS's alerts (RFC 9001 §4.8), and the codes of HTTP/3 and QPACK (RFC 9114 §8.1, RFC 9204 §6) and small ones.
_ALERTS, _APPLICATION = range(0x100, 0x200), {*range(0x100, 0x111), *range(0x200, 0x203), *range(0x20)}
#: What ends a connection in order: NO_ERROR (RFC 9000 §20.1), H3_NO_ERROR (RFC 9114 §8.1), and HTTP/0.9's 0.
_IN_ORDER = {True: {0}, False: {0, 0x100}}


@dataclass(frozen=True)
class Closing:
    """An endpoint ended the connection with an error."""

    by: Role
    after_ms: float
    """From the moment the move was asked for."""
    error: str
    """INTERNAL_ERROR, application error 0x101, with the words that came with it."""


def closing(moved: Moved) -> Closing | None:
    """The first close with an error between a move and the next one, seen at the client's side; None without one."""
    found = [
        (int(t_ns), role, frames.close)
        for role in ROLES
        for opened in moved.view.opened(moved.window, role)
        for t_ns, frames in zip(opened.t_ns, opened.frames, strict=True)
        if frames.close is not None and moved.asked_ns <= t_ns and _is_error(frames.close)
    ]
    if not found:
        return None
    t_ns, role, close = min(found, key=lambda one: one[0])
    return Closing(role, (t_ns - moved.asked_ns) / 1e6, _words(close))


def _is_error(close: CloseFrame) -> bool:
    """Whether it is one. Of a datagram's first bytes alone nobody can tell that it was decrypted: a stateless reset
    (RFC 9000 §10.3) may look like a close with any code and any words.
    """
    words = close.reason.decode(errors="replace")
    known = close.code in _NAMES or close.code in _ALERTS if close.by_transport else close.code in _APPLICATION
    return known and words.isprintable() and close.code not in _IN_ORDER[close.by_transport]


def _words(close: CloseFrame) -> str:
    name = f"application error {close.code:#x}"
    if close.by_transport:
        name = _NAMES.get(close.code, f"CRYPTO_ERROR {close.code:#x}")
    reason = close.reason.decode(errors="replace").strip()
    return f"{name}: {reason}" if reason else name
