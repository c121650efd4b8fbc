"""What a transfer that did not come to its end had by then, and what both ends sent: from captures, file and qlog."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from harness.analysis.run_view import RunView
from harness.analysis.timeseries.sender import traces_of
from harness.capture import qlog
from harness.capture.artefacts import TransferWindow
from harness.capture.capture import FIN, RST, SYN, Capture
from harness.capture.counters import growth_of
from harness.capture.files import read_bytes
from harness.capture.quic.invariants import Form
from harness.outcome.measured import Unfinished, Voice
from harness.scenario.parameters import ROLES, Role

#: Of all datagrams: so few that are too large are probes of the path's MTU, which may be (RFC 8899 §4.3).
_PROBES = 0.1
#: Bytes of the headers of IPv4 and IPv6 with that of UDP.
_HEADERS = {4: 28, 6: 48}
#: What is called by its form alone.
_FORMS = {
    Form.INITIAL: "Initial", Form.ZERO_RTT: "0-RTT", Form.HANDSHAKE: "Handshake", Form.RETRY: "Retry",
    Form.VERSION_NEGOTIATION: "Version Negotiation", Form.SHORT: "1-RTT", Form.NONE: "",
}  # fmt: skip
#: Frames by their types (RFC 9000 §19), as far as they tell something of an end.
_FRAMES = {
    0x01: "PING", 0x02: "ACK", 0x03: "ACK", 0x04: "RESET_STREAM", 0x05: "STOP_SENDING", 0x06: "CRYPTO",
    0x10: "MAX_DATA", 0x11: "MAX_STREAM_DATA", 0x14: "DATA_BLOCKED", 0x15: "STREAM_DATA_BLOCKED",
    0x1A: "PATH_CHALLENGE", 0x1B: "PATH_RESPONSE", 0x1C: "CONNECTION_CLOSE", 0x1D: "CONNECTION_CLOSE",
    0x1E: "HANDSHAKE_DONE", **dict.fromkeys(range(0x08, 0x10), "STREAM"),
}  # fmt: skip
#: The size of a packet in an event of qlog, of the newer and the older drafts.
_LENGTH = re.compile(rb'(?:"raw"\s*:\s*\{\s*"length"|"packet_size")\s*:\s*"?([0-9]+)')


def unfinished(view: RunView) -> tuple[Unfinished, ...]:
    """Of each transfer of a run that failed what is known of it. Raises OSError."""
    found = (one for one in view.windows if not one.transfer.cut_off and one.flow.amount is not None)
    return tuple(_of(view, one) for one in found if one.transfer.exit_code != 0 or not one.transfer.intact)


def _of(view: RunView, window: TransferWindow) -> Unfinished:
    transfer = window.transfer
    zero_ns = window.start_ns if window.zero_ns is None else window.zero_ns
    mtu = 1500 if view.lab is None else view.lab.mtu
    progress = _progress(view, window)
    if progress is not None and view.left is not None:
        # A client that buffers its file may write the rest of it when it ends.
        came = view.left.between(window.start_ns, window.end_ns, transfer.flow, to_client=True)
        progress = min(progress, int(came.t_ns[-1])) if len(came) else progress
    voices = {role: _voice(view, window, role, zero_ns, progress) for role in ROLES}
    ip = 4 if view.left is None or not len(view.left) else int(view.left.ip[0])
    room = mtu - _HEADERS[ip]
    for role in () if window.over_tcp else ROLES:
        made = _made(view, window, role)
        sizes = [size for size in made if size > room]
        if len(sizes) > _PROBES * len(made):
            told = {
                "oversize": len(sizes),
                "largest": max(sizes),
                "oversize_left": _fragmented(view, window, role, room),
            }
            voices[role] = voices[role].model_copy(update=told)
    lasted = (transfer.ended_ns - zero_ns) / 1e9
    return Unfinished(
        flow=transfer.flow, transfer=window.name, size=transfer.size, received=transfer.received, lasted=lasted,
        progress=None if progress is None else (progress - zero_ns) / 1e9, client=voices["client"],
        server=voices["server"], mtu=room, dark=tuple(_dark(view, lasted)),
    )  # fmt: skip


def _progress(view: RunView, window: TransferWindow) -> int | None:
    """When the client had something new for the last time: its file grew, or, of no file, the first answer came."""
    if view.growth is not None:
        growth = growth_of(view.growth, window.transfer.flow, window.transfer.index)
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
        what=_what(view, window, role, sent),
        since_progress=int(later.sum()),
        since_progress_arrived=int((later & arrived).sum()),
    )


def _what(view: RunView, window: TransferWindow, role: Role, sent: Capture) -> str:
    """The last packet in words: '1-RTT of 1,200 B: STREAM'."""
    size = f"{int(sent.payload[-1]):,} B"
    if window.over_tcp:
        flags = int(sent.flags[-1])
        named = [name for bit, name in ((SYN, "SYN"), (FIN, "FIN"), (RST, "RST")) if flags & bit]
        return f"a segment of {size}" + (f": {', '.join(named)}" if named else "")
    form = _FORMS.get(Form(int(sent.form[-1])), "")
    frames = _frames(view, window, role, int(sent.key[-1]))
    return f"{form} of {size}".strip() + (f": {', '.join(frames)}" if frames else "")


def _frames(view: RunView, window: TransferWindow, role: Role, key: int) -> list[str]:
    """The names of a packet's frames, where secrets open it and it came to the client's side; each once."""
    for opened in view.opened(window, role):
        rows = np.flatnonzero(opened.key == np.uint64(key))
        if len(rows):
            types = opened.frames[int(rows[-1])].types
            return list(dict.fromkeys(_FRAMES[kind] for kind in types if kind in _FRAMES))
    return []


def _made(view: RunView, window: TransferWindow, role: Role) -> list[int]:
    """Sizes of the datagrams that an endpoint's qlog says it sent, bytes of UDP payload; empty where it names none."""
    found: list[int] = []
    for path in traces_of(view, window, role)[:1]:
        lines = qlog.lines_with(read_bytes(path), b'packet_sent"')
        found += [int(size[1]) for line in lines or () if (size := _LENGTH.search(line)) is not None]
    return found


def _fragmented(view: RunView, window: TransferWindow, role: Role, room: int) -> int:
    """Datagrams above a payload of `room` bytes that an endpoint's side of the path shows, by their first fragments."""
    near = view.right if role == "server" else view.left
    if near is None:
        return 0
    sent = near.between(window.start_ns, window.end_ns, window.transfer.flow, to_client=role == "server")
    return int((sent.payload > room).sum())


def _dark(view: RunView, lasted: float) -> Iterator[tuple[float, float]]:
    """When the path was asked to forward nothing (`path.blackhole`), within the transfer's time, s."""
    blackhole = view.emulated.blackhole
    for begin, end in blackhole.times if blackhole is not None else ():
        if begin.seconds < lasted:
            yield begin.seconds, end.seconds
