"""Who ended the connection with an error after a move, as the wire shows it."""

from __future__ import annotations

from dataclasses import dataclass

from harness.analysis.handover.wire import Moved
from harness.capture.quic.error_codes import error_name, in_order, is_known
from harness.capture.quic.frames import CloseFrame
from harness.scenario.parameters import ROLES, Role


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
    return is_known(close) and not in_order(close)


def _words(close: CloseFrame) -> str:
    name = error_name(close.code, by_transport=close.by_transport)
    reason = close.reason.decode(errors="replace").strip()
    return f"{name}: {reason}" if reason else name
