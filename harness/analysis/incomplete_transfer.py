"""The progress of incomplete transfers and the packets both endpoints sent: from captures, the client's file
and qlog.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from harness.analysis.run_view import RunView
from harness.analysis.timeseries.sender import traces_of
from harness.capture import qlog
from harness.capture.artefacts import TransferWindow
from harness.capture.capture import FIN, RST, SYN, Capture
from harness.capture.counters import transfer_growth
from harness.capture.files import map_content
from harness.capture.quic.invariants import Form
from harness.outcome.measured import Unfinished, Voice
from harness.scenario.parameters import ROLES, Role

#: Share of all datagrams: at most so many oversize ones are probes of the path's MTU, which may exceed it (RFC 8899
#: §4.3).
_PROBES = 0.1
#: Bytes of the headers of IPv4 and IPv6 with that of UDP.
_HEADERS = {4: 28, 6: 48}
#: Packet forms that are described by their name alone.
_FORMS = {
    Form.INITIAL: "Initial",
    Form.ZERO_RTT: "0-RTT",
    Form.HANDSHAKE: "Handshake",
    Form.RETRY: "Retry",
    Form.VERSION_NEGOTIATION: "Version Negotiation",
    Form.SHORT: "1-RTT",
    Form.NONE: "",
}
#: Frame types (RFC 9000 §19) that are informative about an ending.
_FRAMES = {
    0x01: "PING",
    0x02: "ACK",
    0x03: "ACK",
    0x04: "RESET_STREAM",
    0x05: "STOP_SENDING",
    0x06: "CRYPTO",
    0x10: "MAX_DATA",
    0x11: "MAX_STREAM_DATA",
    0x14: "DATA_BLOCKED",
    0x15: "STREAM_DATA_BLOCKED",
    0x1A: "PATH_CHALLENGE",
    0x1B: "PATH_RESPONSE",
    0x1C: "CONNECTION_CLOSE",
    0x1D: "CONNECTION_CLOSE",
    0x1E: "HANDSHAKE_DONE",
    **dict.fromkeys(range(0x08, 0x10), "STREAM"),
}
#: The size of a packet in a qlog event, in the newer and the older drafts.
_LENGTH = re.compile(rb'(?:"raw"\s*:\s*\{\s*"length"|"packet_size")\s*:\s*"?([0-9]+)')


def incomplete_transfers(view: RunView) -> tuple[Unfinished, ...]:
    """A description of each failed transfer of a run. Raises OSError."""
    windows = (window for window in view.windows if not window.transfer.cut_off and window.flow.amount is not None)
    return tuple(
        _describe(view, window) for window in windows if window.transfer.exit_code != 0 or not window.transfer.intact
    )


def _describe(view: RunView, window: TransferWindow) -> Unfinished:
    transfer = window.transfer
    zero_ns = window.start_ns if window.zero_ns is None else window.zero_ns
    mtu = 1500 if view.lab is None else view.lab.mtu
    progress = _last_progress_ns(view, window)
    if progress is not None and view.left is not None:
        # A client that buffers its file may write the rest of it when it exits.
        received = view.left.between(window.start_ns, window.end_ns, transfer.flow, to_client=True)
        progress = min(progress, int(received.t_ns[-1])) if len(received) else progress
    voices = {role: _voice(view, window, role, zero_ns, progress) for role in ROLES}
    ip = 4 if view.left is None or not len(view.left) else int(view.left.ip[0])
    max_payload = mtu - _HEADERS[ip]
    for role in () if window.over_tcp else ROLES:
        logged_sizes = _logged_sizes(view, window, role)
        oversize = [size for size in logged_sizes if size > max_payload]
        if len(oversize) > _PROBES * len(logged_sizes):
            counts = {
                "oversize": len(oversize),
                "largest": max(oversize),
                "oversize_left": _oversize_count(view, window, role, max_payload),
            }
            voices[role] = voices[role].model_copy(update=counts)
    duration = (transfer.ended_ns - zero_ns) / 1e9
    return Unfinished(
        flow=transfer.flow,
        transfer=window.name,
        size=transfer.size,
        received=transfer.received,
        lasted=duration,
        progress=None if progress is None else (progress - zero_ns) / 1e9,
        client=voices["client"],
        server=voices["server"],
        mtu=max_payload,
        dark=tuple(_blackholes(view, duration)),
    )


def _last_progress_ns(view: RunView, window: TransferWindow) -> int | None:
    """When the client last made progress: when its file last grew. None without a growing file."""
    if view.growth is not None:
        growth = transfer_growth(view.growth, window.transfer.flow, window.transfer.index)
        grew = np.flatnonzero(np.diff(growth.size, prepend=0) > 0)
        if len(grew):
            return int(growth.t_ns[grew[-1]])
    return None


def _voice(view: RunView, window: TransferWindow, role: Role, zero_ns: int, progress: int | None) -> Voice:
    near, far = (view.right, view.left) if role == "server" else (view.left, view.right)
    if near is None or far is None:
        return Voice()
    end, flow = min(window.end_ns, window.transfer.ended_ns), window.transfer.flow
    sent = near.between(window.start_ns, end, flow, to_client=role == "server")
    arrived = np.isin(sent.key, far.between(window.start_ns, window.end_ns, flow, to_client=role == "server").key)
    if not len(sent):
        return Voice()
    later = sent.t_ns > (zero_ns if progress is None else progress)
    return Voice(
        datagrams=len(sent),
        arrived=int(arrived.sum()),
        last=(int(sent.t_ns[-1]) - zero_ns) / 1e9,
        last_arrived=(int(sent.t_ns[arrived][-1]) - zero_ns) / 1e9 if arrived.any() else None,
        what=_packet_text(view, window, role, sent),
        since_progress=int(later.sum()),
        since_progress_arrived=int((later & arrived).sum()),
    )


def _packet_text(view: RunView, window: TransferWindow, role: Role, sent: Capture) -> str:
    """The last packet in words: '1-RTT of 1,200 B: STREAM'."""
    size = f"{int(sent.payload[-1]):,} B"
    if window.over_tcp:
        flags = int(sent.flags[-1])
        flag_names = [name for bit, name in ((SYN, "SYN"), (FIN, "FIN"), (RST, "RST")) if flags & bit]
        return f"a segment of {size}" + (f": {', '.join(flag_names)}" if flag_names else "")
    form = _FORMS.get(Form(int(sent.form[-1])), "")
    frames = _frame_names(view, window, role, int(sent.key[-1]))
    return f"{form} of {size}".strip() + (f": {', '.join(frames)}" if frames else "")


def _frame_names(view: RunView, window: TransferWindow, role: Role, key: int) -> list[str]:
    """The names of a packet's frames, each once, if it reached the client's side and could be decrypted."""
    for opened in view.decrypted_packets(window, role):
        rows = np.flatnonzero(opened.key == np.uint64(key))
        if len(rows):
            types = opened.frames[int(rows[-1])].types
            return list(dict.fromkeys(_FRAMES[kind] for kind in types if kind in _FRAMES))
    return []


def _logged_sizes(view: RunView, window: TransferWindow, role: Role) -> list[int]:
    """Sizes of the datagrams that an endpoint's qlog reports as sent, bytes of UDP payload; empty if it reports
    none.
    """
    traces = traces_of(view, window, role)
    if not traces:
        return []
    try:
        lines = list(qlog.find_event_lines(map_content(traces[0]), b'packet_sent"'))
    except qlog.NotAnEventError:
        return []
    return [int(size[1]) for line in lines if (size := _LENGTH.search(line)) is not None]


def _oversize_count(view: RunView, window: TransferWindow, role: Role, max_payload: int) -> int:
    """Datagrams with more than `max_payload` bytes at an endpoint's side of the path, by their first fragments."""
    near = view.right if role == "server" else view.left
    if near is None:
        return 0
    sent = near.between(window.start_ns, window.end_ns, window.transfer.flow, to_client=role == "server")
    return int((sent.payload > max_payload).sum())


def _blackholes(view: RunView, duration: float) -> Iterator[tuple[float, float]]:
    """When the path was configured to forward nothing, in a direction or both, within the transfer's time, s."""
    times = {(begin.seconds, end.seconds) for begin, end, _ in view.emulated_path.outages}
    yield from ((begin, end) for begin, end in sorted(times) if begin < duration)
