"""How the connections of transfers ended that did not come to their end: what both endpoints and the wire tell of it.

Of a client that says nothing, an idle timeout is told by the silence before its end, where the timer is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.analysis.run_view import RunView
from harness.analysis.timeseries.sender import traces_of
from harness.capture.artefacts import TransferWindow
from harness.capture.capture import RST
from harness.capture.files import open_file
from harness.capture.qlog_events import LoggedClose, closings
from harness.capture.qlog_parameters import read_settings
from harness.capture.quic.error_codes import error_name, in_order, is_known
from harness.capture.quic.frames import CloseFrame
from harness.capture.quic.invariants import Form
from harness.outcome import Ending, EndingKind
from harness.scenario.parameters import PARAMETERS, ROLES, Role, other
from harness.scenario.schema import Implementation
from harness.scenario.schema.implementation import EndingWord

#: What a manifest calls it → what it is.
_KINDS: dict[EndingWord, EndingKind] = {
    "idle_timeout": "idle_timeout", "handshake_timeout": "handshake_timeout", "ack_timeout": "ack_timeout",
    "stateless_reset": "stateless_reset", "peer_closed": "connection_closed", "closed": "connection_closed",
}  # fmt: skip
#: Bytes from a log's end in which words of the end are looked for, and bytes read at a time.
_END, _READ = 1 << 16, 1 << 20
#: How programs say that they broke: Go, Rust, and the C library's assert(3). What a log says before that is no end.
_BROKE = re.compile(r"^(?:panic: |fatal error: |goroutine \d+ \[|thread '.*' panicked at |.*: Assertion `)")
#: Of its timer: how long a client that ended by it had heard nothing, at least and at most.
_ON_TIME, _LATE = 0.99, 1.5
#: A handshake in which nothing came for so long was given up, s: by then three probes had gone out from the largest
#: initial RTT of any stack here (RFC 9002 §6.2.2: 333 ms; probes after 1, 3 and 7 s).
_GIVEN_UP = 7.0
#: The longest words of a log that are quoted.
_QUOTED = 200


def endings(view: RunView) -> tuple[Ending, ...]:
    """What is known of the ends of a run's transfers that did not come to their own.

    The client's account of each comes first. Raises OSError.
    """
    unfinished = (one for one in view.windows if not one.transfer.cut_off and _is_unfinished(one))
    return tuple(dict.fromkeys(found for window in unfinished for found in _of(view, window)))


def _is_unfinished(window: TransferWindow) -> bool:
    return window.transfer.exit_code != 0 or not window.transfer.intact


def _of(view: RunView, window: TransferWindow) -> Iterator[Ending]:
    lines = {role: _lines(view.folder / f"{role}{window.transfer.flow}.log") for role in ROLES}
    if any(_BROKE.match(line) for line in lines["client"]):
        return
    if window.over_tcp:
        yield from _segments(view, window)
    timer = idle_timer(view, window)
    for role in ROLES:
        found = list(_of_traces(view, window, role, timer))
        found += [*_frames(view, window)] if role == "client" else []
        found += [*_of_log(view, window, role, lines[role], timer)]
        if role == "client" and not found:
            found += _silence(view, window, timer)
        yield from found


# --- traces


def idle_timer(view: RunView, window: TransferWindow) -> float | None:
    """The idle timeout of a transfer's connection, s: the least that either end announced, or was asked to announce
    (RFC 9000 §10.1).
    """
    told = [
        parameters.max_idle_timeout_ms
        for role in ROLES
        for path in traces_of(view, window, role)[:1]
        for settings in [read_settings(path)]
        for parameters in (settings.local, settings.remote)
        if parameters is not None and parameters.max_idle_timeout_ms
    ]
    asked = [view.run.effective.get(f"{role}.idle_timeout") for role in ROLES]
    parameter = PARAMETERS["idle_timeout"]
    seconds = [parameter.number(value) for value in asked if value is not None]
    return min((ms / 1e3 for ms in told), default=min((one for one in seconds if one is not None), default=None))


def _of_traces(view: RunView, window: TransferWindow, role: Role, timer: float | None) -> Iterator[Ending]:
    """What an endpoint's qlog tells. Who closes in order after all was lost does not say why."""
    for path in traces_of(view, window, role):
        # An end that a timer brought about may be told to the peer by a CONNECTION_CLOSE of any code.
        for one in sorted(closings(path), key=lambda one: one.trigger is None):
            if _told_to_end(window, one.t_ns):
                continue
            if not (one.in_order and (one.own or role == "server")):
                yield _traced(view, window, role, one, timer)


def _traced(view: RunView, window: TransferWindow, role: Role, one: LoggedClose, timer: float | None) -> Ending:
    at = _seconds(window, one.t_ns) if one.t_ns is not None else None
    kind = one.trigger or _in_words(view.run.cell.implementation(role, window.transfer.flow), one)
    if kind == "idle_timeout" and not _established(view, window):
        kind = "handshake_timeout"
    return Ending(
        flow=window.transfer.flow, transfer=window.name, kind=kind, witness=role, by=role if one.own else other(role),
        at=at, timer=timer if kind == "idle_timeout" else None, error="" if one.trigger else one.error,
        words="" if one.trigger else one.words[:_QUOTED], source=f"the {role}'s qlog",
    )  # fmt: skip


def _in_words(implementation: Implementation, one: LoggedClose) -> EndingKind:
    """What a reason phrase without a code says, in the words of the implementation's own log."""
    said = (word for word, pattern in implementation.endings.items() if re.search(pattern, one.words))
    return "connection_closed" if one.error or not one.words else _KINDS[next(said, "closed")]


# --- the wire


def _frames(view: RunView, window: TransferWindow) -> Iterator[Ending]:
    """CONNECTION_CLOSE frames of 1-RTT packets at the client's side, where secrets open them."""
    found: list[tuple[int, Role, CloseFrame]] = sorted(
        (
            (int(t_ns), role, frames.close)
            for role in ROLES
            for opened in ([] if window.over_tcp else view.opened(window, role))
            for t_ns, frames in zip(opened.t_ns, opened.frames, strict=True)
            if frames.close is not None and is_known(frames.close)
        ),
        key=lambda one: one[0],
    )
    ended = False
    for t_ns, role, close in found:
        if role == "client" and in_order(close):
            # What the server answers to that ends nothing (RFC 9000 §10.2.2).
            ended = True
        if ended or _told_to_end(window, t_ns):
            continue
        yield Ending(
            flow=window.transfer.flow, transfer=window.name, kind="connection_closed", witness="client", by=role,
            at=_seconds(window, t_ns), error=error_name(close.code, by_transport=close.by_transport),
            words=close.reason.decode(errors="replace").strip(), source="the client's side capture, decrypted",
        )  # fmt: skip


def _segments(view: RunView, window: TransferWindow) -> Iterator[Ending]:
    """The first reset of a TCP connection at the client's side (RFC 9293 §3.5.2)."""
    if view.left is None:
        return
    inside = (view.left.t_ns >= window.start_ns) & (view.left.t_ns < window.end_ns)
    rows = np.flatnonzero(inside & (view.left.flow == window.transfer.flow) & (view.left.flags & RST != 0))
    for row in rows[:1]:
        yield Ending(
            flow=window.transfer.flow, transfer=window.name, kind="connection_reset", witness="client",
            by="server" if view.left.to_client[row] else "client", at=_seconds(window, int(view.left.t_ns[row])),
            source="the client's side capture",
        )  # fmt: skip


def _silence(view: RunView, window: TransferWindow, timer: float | None) -> Iterator[Ending]:
    """An idle timeout that nobody put into words: nothing came to the client for so long before its end, or before it
    began another connection.

    The timer starts again with the first packet that is sent after one came (RFC 9000 §10.1), so it runs out later.
    """
    if view.left is None or not window.transfer.exit_code or window.over_tcp or window.zero_ns is None:
        return
    sent = view.left.between(window.start_ns, window.end_ns, window.transfer.flow, to_client=False)
    if not sent.one_rtt.any():
        yield from _unanswered(view, window, window.zero_ns)
        return
    if timer is None:
        return
    again = sent.t_ns[(sent.form == Form.INITIAL) & (sent.t_ns > sent.t_ns[sent.one_rtt][0] + timer * _ON_TIME * 1e9)]
    end_ns = int(again[0]) if len(again) else window.transfer.ended_ns
    came = view.left.between(window.start_ns, end_ns, window.transfer.flow, to_client=True)
    silent = (end_ns - int(came.t_ns[-1])) / 1e9 if len(came) else 0.0
    if timer * _ON_TIME <= silent <= timer * _LATE:
        yield Ending(
            flow=window.transfer.flow, transfer=window.name, kind="idle_timeout", witness="client", by="client",
            at=_seconds(window, end_ns), timer=timer,
            source=_heard_nothing(silent),
        )  # fmt: skip


def _heard_nothing(seconds: float) -> str:
    return f"nothing came in the {seconds:.1f} s before, by the client's side capture"


def _unanswered(view: RunView, window: TransferWindow, zero_ns: int) -> Iterator[Ending]:
    """A handshake that was given up without a word, after a silence in which probes would have been answered."""
    assert view.left is not None
    end_ns = window.transfer.ended_ns
    came = view.left.between(window.start_ns, end_ns, window.transfer.flow, to_client=True)
    silent = (end_ns - (int(came.t_ns[-1]) if len(came) else zero_ns)) / 1e9
    if silent >= _GIVEN_UP:
        yield Ending(
            flow=window.transfer.flow, transfer=window.name, kind="handshake_timeout", witness="client", by="client",
            at=_seconds(window, end_ns), source=_heard_nothing(silent),
        )  # fmt: skip


# --- logs


def _lines(file: Path) -> list[str]:
    end = b""
    try:
        with open_file(file) as log:
            while part := log.read(_READ):
                end = (end + part)[-_END:]
    except OSError:
        return []
    return end.decode(errors="replace").splitlines()


def _of_log(
    view: RunView, window: TransferWindow, role: Role, lines: list[str], timer: float | None
) -> Iterator[Ending]:
    """What an endpoint's log tells, in the words that its manifest names: of the last transfer, which ended the run."""
    flow = window.transfer.flow
    if any(one.transfer.flow == flow and one.transfer.index > window.transfer.index for one in view.windows):
        return
    if role == "server" and window.transfer.index:
        # Of several connections nobody knows which one it speaks of.
        return
    patterns = view.run.cell.implementation(role, flow).endings
    # A client ends as soon as it knows; when a server said it nobody wrote down.
    exits = role == "client" and window.transfer.exit_code is not None
    at = _seconds(window, window.transfer.ended_ns) if exits else None
    for word, pattern in patterns.items():
        line = next((line for line in reversed(lines) if re.search(pattern, line)), None)
        # Who is told to end when the time is over closes the connection itself.
        if line is None or (word == "closed" and window.transfer.exit_code is None):
            continue
        match = re.search(pattern, line)
        assert match is not None
        groups = match.groupdict()
        kind = _KINDS[word]
        if kind == "idle_timeout" and not _established(view, window):
            kind = "handshake_timeout"
        yield Ending(
            flow=flow, transfer=window.name, kind=kind, witness=role,
            by=other(role) if word in ("stateless_reset", "peer_closed") else role, at=at,
            timer=timer if kind == "idle_timeout" else None, error=(groups.get("code") or "").strip(),
            words=(groups.get("words") or "").strip() or line.strip()[:_QUOTED], source=f"the {role}'s log",
        )  # fmt: skip


def _established(view: RunView, window: TransferWindow) -> bool:
    """Whether the client sent 1-RTT packets, which it does once the handshake is complete (RFC 9001 §5.7)."""
    if view.left is None or window.over_tcp:
        return True
    sent = view.left.between(window.start_ns, window.end_ns, window.transfer.flow, to_client=False)
    return bool(sent.one_rtt.any())


def _told_to_end(window: TransferWindow, t_ns: int | None) -> bool:
    """Whether something happened once the time of a transfer was over, and both ends were told to end."""
    return window.transfer.exit_code is None and t_ns is not None and t_ns >= window.transfer.ended_ns


def _seconds(window: TransferWindow, t_ns: int) -> float | None:
    """Since the client's first datagram; None for a moment that is not within the transfer, by a clock of its own."""
    if window.zero_ns is None or not window.start_ns <= t_ns <= window.end_ns:
        return None
    return (t_ns - window.zero_ns) / 1e9
