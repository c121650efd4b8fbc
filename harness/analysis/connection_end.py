"""How connections ended whose transfers did not complete: evidence from both endpoints and from the wire.

For a client that reports nothing, the silence before its end identifies an idle timeout, if the timer is known.
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
from harness.capture.qlog_events import LoggedClose, read_closes
from harness.capture.qlog_parameters import read_settings
from harness.capture.quic.error_codes import error_name, is_clean_close, is_plausible_close
from harness.capture.quic.frames import CloseFrame
from harness.capture.quic.invariants import Form
from harness.outcome import Ending, EndingKind
from harness.scenario.parameters import PARAMETERS, ROLES, Role, peer_role
from harness.scenario.schema import Implementation
from harness.scenario.schema.implementation import EndingWord

#: The manifest's word → the kind of ending.
_KINDS: dict[EndingWord, EndingKind] = {
    "idle_timeout": "idle_timeout",
    "handshake_timeout": "handshake_timeout",
    "ack_timeout": "ack_timeout",
    "stateless_reset": "stateless_reset",
    "peer_closed": "connection_closed",
    "closed": "connection_closed",
}
#: Bytes at a log's end that are searched for messages, and bytes read at a time.
_TAIL, _CHUNK = 1 << 16, 1 << 20
#: Crash messages of programs: Go, Rust, and the C library's assert(3). Messages before them do not describe an ending.
_CRASH = re.compile(r"^(?:panic: |fatal error: |goroutine \d+ \[|thread '.*' panicked at |.*: Assertion `)")
#: For how long a client that ended by its idle timer had received nothing, as shares of the timer: least and most.
_ON_TIME, _LATE = 0.99, 1.5
#: A handshake without any packet from the peer for this long was abandoned, s. By then three probes had been sent with
#: the largest initial RTT of any stack here (RFC 9002 §6.2.2: 333 ms; probes after 1, 3 and 7 s).
_HANDSHAKE_SILENCE = 7.0
#: The longest quotation from a log, characters.
_LONGEST_QUOTE = 200


def endings(view: RunView) -> tuple[Ending, ...]:
    """The known endings of a run's transfers that did not complete.

    The client's account of each comes first. Raises OSError.
    """
    unfinished = (window for window in view.windows if not window.transfer.cut_off and _is_unfinished(window))
    return tuple(dict.fromkeys(ending for window in unfinished for ending in _transfer_endings(view, window)))


def _is_unfinished(window: TransferWindow) -> bool:
    return window.transfer.exit_code != 0 or not window.transfer.intact


def _transfer_endings(view: RunView, window: TransferWindow) -> Iterator[Ending]:
    lines = {role: _log_tail(view.folder / f"{role}{window.transfer.flow}.log") for role in ROLES}
    if any(_CRASH.match(line) for line in lines["client"]):
        return
    if window.over_tcp:
        yield from _reset_endings(view, window)
    timer = idle_timer(view, window)
    for role in ROLES:
        accounts = list(_trace_endings(view, window, role, timer))
        accounts += [*_close_endings(view, window)] if role == "client" else []
        accounts += [*_log_endings(view, window, role, lines[role], timer)]
        if role == "client" and not accounts:
            accounts += _idle_endings(view, window, timer)
        yield from accounts


# --- traces


def idle_timer(view: RunView, window: TransferWindow) -> float | None:
    """The idle timeout of a transfer's connection, s: the smallest value that either endpoint advertised or was
    configured to advertise (RFC 9000 §10.1).
    """
    logged_ms = [
        parameters.max_idle_timeout_ms
        for role in ROLES
        for path in traces_of(view, window, role)[:1]
        for settings in [read_settings(path)]
        for parameters in (settings.local, settings.remote)
        if parameters is not None and parameters.max_idle_timeout_ms
    ]
    requested = [view.run.effective.get(f"{role}.idle_timeout") for role in ROLES]
    parameter = PARAMETERS["idle_timeout"]
    seconds = [parameter.number(value) for value in requested if value is not None]
    return min(
        (ms / 1e3 for ms in logged_ms),
        default=min((timeout for timeout in seconds if timeout is not None), default=None),
    )


def _trace_endings(view: RunView, window: TransferWindow, role: Role, timer: float | None) -> Iterator[Ending]:
    """The endings in an endpoint's qlog. A regular close after the connection was lost does not say why."""
    for path in traces_of(view, window, role):
        # An endpoint may report a timeout to its peer with a CONNECTION_CLOSE of any code.
        for close in sorted(read_closes(path), key=lambda close: close.trigger is None):
            if _is_after_limit(window, close.t_ns):
                continue
            if not (close.without_error and (close.local or role == "server")):
                yield _trace_ending(view, window, role, close, timer)


def _trace_ending(view: RunView, window: TransferWindow, role: Role, close: LoggedClose, timer: float | None) -> Ending:
    at = _seconds(window, close.t_ns) if close.t_ns is not None else None
    kind = close.trigger or _kind_by_words(view.run.cell.implementation(role, window.transfer.flow), close)
    if kind == "idle_timeout" and not _is_established(view, window):
        kind = "handshake_timeout"
    return Ending(
        flow=window.transfer.flow,
        transfer=window.name,
        kind=kind,
        witness=role,
        by=role if close.local else peer_role(role),
        at=at,
        timer=timer if kind == "idle_timeout" else None,
        error="" if close.trigger else close.error,
        words="" if close.trigger else close.reason_phrase[:_LONGEST_QUOTE],
        source=f"the {role}'s qlog",
    )


def _kind_by_words(implementation: Implementation, close: LoggedClose) -> EndingKind:
    """The kind of a close that has a reason phrase but no code, by the messages of the implementation's own log."""
    words = (word for word, pattern in implementation.endings.items() if re.search(pattern, close.reason_phrase))
    return "connection_closed" if close.error or not close.reason_phrase else _KINDS[next(words, "closed")]


# --- the wire


def _close_endings(view: RunView, window: TransferWindow) -> Iterator[Ending]:
    """CONNECTION_CLOSE frames of 1-RTT packets at the client's side that could be decrypted."""
    closes: list[tuple[int, Role, CloseFrame]] = sorted(
        (
            (int(t_ns), role, frames.close)
            for role in ROLES
            for opened in ([] if window.over_tcp else view.decrypted_packets(window, role))
            for t_ns, frames in zip(opened.t_ns, opened.frames, strict=True)
            if frames.close is not None and is_plausible_close(frames.close)
        ),
        key=lambda entry: entry[0],
    )
    ended = False
    for t_ns, role, close in closes:
        if role == "client" and is_clean_close(close):
            # The server's response to it does not end anything (RFC 9000 §10.2.2).
            ended = True
        # Once the client has ended, the lab stops the server, which then closes the connection, too.
        if ended or t_ns >= window.transfer.ended_ns:
            continue
        yield Ending(
            flow=window.transfer.flow,
            transfer=window.name,
            kind="connection_closed",
            witness="client",
            by=role,
            at=_seconds(window, t_ns),
            error=error_name(close.code, by_transport=close.by_transport),
            words=close.reason.decode(errors="replace").strip(),
            source="the client's side capture, decrypted",
        )


def _reset_endings(view: RunView, window: TransferWindow) -> Iterator[Ending]:
    """The first reset of a TCP connection at the client's side (RFC 9293 §3.5.2)."""
    if view.left is None:
        return
    inside = (view.left.t_ns >= window.start_ns) & (view.left.t_ns < window.end_ns)
    rows = np.flatnonzero(inside & (view.left.flow == window.transfer.flow) & (view.left.flags & RST != 0))
    for row in rows[:1]:
        yield Ending(
            flow=window.transfer.flow,
            transfer=window.name,
            kind="connection_reset",
            witness="client",
            by="server" if view.left.to_client[row] else "client",
            at=_seconds(window, int(view.left.t_ns[row])),
            source="the client's side capture",
        )


def _idle_endings(view: RunView, window: TransferWindow, timer: float | None) -> Iterator[Ending]:
    """An idle timeout that no endpoint reported: the client received nothing for that long before it ended, or before
    it opened another connection.

    The timer restarts with the first packet that is sent after a packet was received (RFC 9000 §10.1), so it expires
    later.
    """
    if view.left is None or not window.transfer.exit_code or window.over_tcp or window.zero_ns is None:
        return
    sent = view.left.between(window.start_ns, window.end_ns, window.transfer.flow, to_client=False)
    if not sent.one_rtt.any():
        yield from _handshake_endings(view, window, window.zero_ns)
        return
    if timer is None:
        return
    later_initials = sent.t_ns[
        (sent.form == Form.INITIAL) & (sent.t_ns > sent.t_ns[sent.one_rtt][0] + timer * _ON_TIME * 1e9)
    ]
    end_ns = int(later_initials[0]) if len(later_initials) else window.transfer.ended_ns
    received = view.left.between(window.start_ns, end_ns, window.transfer.flow, to_client=True)
    silence_s = (end_ns - int(received.t_ns[-1])) / 1e9 if len(received) else 0.0
    if timer * _ON_TIME <= silence_s <= timer * _LATE:
        yield Ending(
            flow=window.transfer.flow,
            transfer=window.name,
            kind="idle_timeout",
            witness="client",
            by="client",
            at=_seconds(window, end_ns),
            timer=timer,
            source=_silence_text(silence_s),
        )


def _silence_text(seconds: float) -> str:
    return f"nothing came in the {seconds:.1f} s before, by the client's side capture"


def _handshake_endings(view: RunView, window: TransferWindow, zero_ns: int) -> Iterator[Ending]:
    """A handshake that was abandoned without a message, after a silence in which probes would have been answered."""
    assert view.left is not None
    end_ns = window.transfer.ended_ns
    received = view.left.between(window.start_ns, end_ns, window.transfer.flow, to_client=True)
    silence_s = (end_ns - (int(received.t_ns[-1]) if len(received) else zero_ns)) / 1e9
    if silence_s >= _HANDSHAKE_SILENCE:
        yield Ending(
            flow=window.transfer.flow,
            transfer=window.name,
            kind="handshake_timeout",
            witness="client",
            by="client",
            at=_seconds(window, end_ns),
            source=_silence_text(silence_s),
        )


# --- logs


def _log_tail(file: Path) -> list[str]:
    tail = b""
    try:
        with open_file(file) as log:
            while chunk := log.read(_CHUNK):
                tail = (tail + chunk)[-_TAIL:]
    except OSError:
        return []
    return tail.decode(errors="replace").splitlines()


def _log_endings(
    view: RunView, window: TransferWindow, role: Role, lines: list[str], timer: float | None
) -> Iterator[Ending]:
    """The endings in an endpoint's log, by the manifest's patterns; only for the last transfer, which ended the run."""
    flow = window.transfer.flow
    if any(later.transfer.flow == flow and later.transfer.index > window.transfer.index for later in view.windows):
        return
    if role == "server" and window.transfer.index:
        # With several connections, the log does not say which one it means.
        return
    patterns = view.run.cell.implementation(role, flow).endings
    # A client exits as soon as it knows; a server's message has no time.
    exits = role == "client" and window.transfer.exit_code is not None
    at = _seconds(window, window.transfer.ended_ns) if exits else None
    for word, pattern in patterns.items():
        line = next((line for line in reversed(lines) if re.search(pattern, line)), None)
        # An endpoint that is stopped when the time is over closes the connection itself.
        if line is None or (word == "closed" and window.transfer.exit_code is None):
            continue
        match = re.search(pattern, line)
        assert match is not None
        groups = match.groupdict()
        kind = _KINDS[word]
        if kind == "idle_timeout" and not _is_established(view, window):
            kind = "handshake_timeout"
        yield Ending(
            flow=flow,
            transfer=window.name,
            kind=kind,
            witness=role,
            by=peer_role(role) if word in ("stateless_reset", "peer_closed") else role,
            at=at,
            timer=timer if kind == "idle_timeout" else None,
            error=(groups.get("code") or "").strip(),
            words=(groups.get("words") or "").strip() or line.strip()[:_LONGEST_QUOTE],
            source=f"the {role}'s log",
        )


def _is_established(view: RunView, window: TransferWindow) -> bool:
    """Whether the client sent 1-RTT packets, which it does once the handshake is complete (RFC 9001 §5.7)."""
    if view.left is None or window.over_tcp:
        return True
    sent = view.left.between(window.start_ns, window.end_ns, window.transfer.flow, to_client=False)
    return bool(sent.one_rtt.any())


def _is_after_limit(window: TransferWindow, t_ns: int | None) -> bool:
    """Whether an event came after a transfer's time limit, when both endpoints had been stopped."""
    return window.transfer.exit_code is None and t_ns is not None and t_ns >= window.transfer.ended_ns


def _seconds(window: TransferWindow, t_ns: int) -> float | None:
    """Seconds since the client's first datagram; None for a time outside the transfer, from a clock of its own."""
    if window.zero_ns is None or not window.start_ns <= t_ns <= window.end_ns:
        return None
    return (t_ns - window.zero_ns) / 1e9
