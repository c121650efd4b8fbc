"""Flow control's credit over time: QUIC's of decrypted packets (RFC 9000 §4.1), TCP's of every segment's header."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import numpy as np

from harness.analysis.byte_stream import offsets
from harness.analysis.connection import Connection
from harness.analysis.run_view import RunView
from harness.analysis.time_breakdown.intervals import Ints
from harness.analysis.time_breakdown.transfer import RECEIVE_WINDOW, Credit
from harness.capture.artefacts import Window as OneTransfer
from harness.capture.capture import ACK, NO_SHIFT, SYN
from harness.capture.connections import Opened
from harness.capture.matching import Passage
from harness.capture.streams import largest_stream

#: A sender that goes on so soon after the first credit of a connection had waited for it, ns.
_AT_ONCE = 5_000_000


def credits_of(
    view: RunView, window: OneTransfer, up: Passage, at_sender: Callable[[Ints], Ints], zero_ns: int
) -> tuple[Credit, ...] | None:
    """Of the answer's stream, and of its connection; None where its packets cannot be decrypted.

    `up`: the client's packets through the link; `at_sender`: from moments at the sender to the conversation's clock.
    """
    answers = [(one, stream) for one in view.opened(window, "server") if (stream := largest_stream(one)) is not None]
    if not answers:
        return None
    opened, stream = max(answers, key=lambda one: len(one[0].t_ns))
    client = [one for one in view.opened(window, "client") if one.connection.client_id == opened.connection.client_id]
    if not client:
        return None
    given = [
        (int(one.t_ns[index]), int(one.key[index]), whose, limit)
        for one in client
        for index, frames in enumerate(one.frames)
        for whose, limit in frames.granted
    ]
    # Of the many packets that grant nothing it is not asked when they came.
    granting = np.isin(up.entered.key, np.array([key for _, key, _, _ in given], np.uint64))
    came = up.out_ns[granting] + _access(up)[granting]
    entered = zip(up.entered.t_ns[granting].tolist(), up.entered.key[granting].tolist(), strict=True)
    heard = dict(zip(entered, came.tolist(), strict=True))
    grants: dict[int | None, list[tuple[int, int]]] = {stream: [], None: []}
    for sent_ns, key, whose, limit in given:
        moment = heard.get((sent_ns, key), -1)
        if whose in grants and moment >= 0:
            grants[whose].append((moment, limit))
    told = _initial(view, window)
    used = _used(opened, stream)
    made = []
    for whose, name in ((stream, "stream"), (None, "connection")):
        t_ns = np.array([moment for moment, _ in grants[whose]], np.int64)
        order = np.argsort(t_ns, kind="stable")
        credit = Credit(
            name, at_sender(t_ns[order]), np.array([limit for _, limit in grants[whose]], np.int64)[order],
            opened.t_ns - zero_ns, used[whose],
        )  # fmt: skip
        made.append(_with_initial(credit, told[name]))
    return tuple(made)


def receive_window(down: Passage, up: Passage, at_sender: Callable[[Ints], Ints]) -> Credit | None:
    """TCP's: each segment of the client says up to which byte it takes more (RFC 9293 §3.8.6, RFC 7323 §2).

    `down`, `up`: the packets of one connection through the link. None where its opening was not captured. Shapes:
    g segments of the client that came, u segments of the server.
    """
    sent, told = down.entered, up.entered
    opened, asked = np.flatnonzero(sent.flags & SYN), np.flatnonzero(told.flags & SYN)
    if not len(opened) or not len(asked):
        return None
    initial = int(sent.sequence[opened[0]])
    shifts = sent.shift[opened[0]], told.shift[asked[0]]
    # Either end scales only where both said so, and no SYN's own window is scaled (RFC 7323 §2.2).
    shift = 0 if NO_SHIFT in shifts else int(shifts[1])
    rows = np.flatnonzero(up.arrived & (told.flags & ACK != 0) & (told.flags & SYN == 0))
    heard = up.out_ns[rows] + _access(up)[rows]
    limit = offsets(told.acknowledgement[rows], initial) + (told.window[rows].astype(np.int64) << shift)
    order = np.argsort(heard, kind="stable")
    data = np.flatnonzero(sent.payload > 0)
    used = offsets(sent.sequence[data], initial) + sent.payload[data]
    return Credit(RECEIVE_WINDOW, at_sender(heard[order]), limit[order], at_sender(sent.t_ns[data]), used)


def _access(up: Passage) -> Ints:
    return up.access_ns if up.access_ns is not None else np.zeros(len(up.out_ns), np.int64)


def _used(opened: Opened, stream: int) -> dict[int | None, Ints]:
    """Bytes that each packet shows to be used of one stream's credit, and of the connection's (None), shape (n,)."""
    furthest: dict[int, int] = {}
    ofstream, whole = array("q"), array("q")
    total = 0
    for frames in opened.frames:
        for frame in frames.streams:
            before = furthest.get(frame.stream, 0)
            if frame.end > before:
                furthest[frame.stream] = frame.end
                total += frame.end - before
        ofstream.append(furthest.get(stream, 0))
        whole.append(total)
    return {stream: np.array(ofstream, np.int64), None: np.array(whole, np.int64)}


def _initial(view: RunView, window: OneTransfer) -> dict[str, int | None]:
    """The first limits, as the transport parameters in either end's trace have them (RFC 9000 §18.2)."""
    connection = Connection(view, window)
    client, server = connection.settings("client"), connection.settings("server")
    for said in (client.local if client is not None else None, server.remote if server is not None else None):
        if said is not None and said.initial_max_data is not None:
            stream = said.initial_max_stream_data_bidi_local
            return {"connection": int(said.initial_max_data), "stream": None if stream is None else int(stream)}
    return {"connection": None, "stream": None}


def _with_initial(credit: Credit, initial: int | None) -> Credit:
    """With the first limit. Where nobody tells it, what had been used when the sender went on as soon as the first
    credit came, after it had stood still.
    """
    if initial is None and len(credit.granted_ns):
        moment = int(credit.granted_ns[0])
        at = int(np.searchsorted(credit.used_ns, moment))
        stood = 0 < at < len(credit.used) and moment - int(credit.used_ns[at - 1]) > _AT_ONCE
        if stood and int(credit.used_ns[at]) - moment <= _AT_ONCE:
            initial = int(credit.used[at - 1])
    if initial is None:
        return credit
    return Credit(
        credit.name, np.concatenate([[-1], credit.granted_ns]).astype(np.int64),
        np.concatenate([[initial], credit.limit]).astype(np.int64), credit.used_ns, credit.used,
    )  # fmt: skip
