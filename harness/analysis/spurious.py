"""Packets that their sender took for lost and that came: spurious losses (RFC 9002 §6.1, RFC 3522 §1).

A sender that is told so by its own trace is believed; one without a trace of losses shows it by what it sends again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analysis.byte_stream import offsets, sent_again
from harness.analysis.connection_traces import traces_of
from harness.analysis.held import Held
from harness.analysis.series.sender import first_event_ns
from harness.analysis.unknown import Unknown
from harness.analysis.view import RunView
from harness.artefacts.window import Window
from harness.traces import qlog
from harness.traces.connections import Opened
from harness.traces.matching import Passage

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_QLOG = "the sender's qlog and the left capture"
_COPIES = "left capture, decrypted"
_SEGMENTS = "both captures"


@dataclass(frozen=True)
class Spurious:
    """s packets that were taken for lost though they came, in the order in which they were; arrays of shape (s,)."""

    taken_ns: Ints
    """When the sender took each for lost, ns since the epoch: by its trace, else when it sent the data again."""
    left_ns: Ints
    """When each had left, ns since the epoch."""
    vantage: str


def spurious_losses(view: RunView, window: Window) -> Spurious | Unknown | None:
    """Of one transfer; None of what nobody sends again, and where the captures do not show it."""
    return view.once(_every)[window.transfer.flow, window.transfer.index]


def _every(view: RunView) -> dict[tuple[int, int], Spurious | Unknown | None]:
    return {(window.transfer.flow, window.transfer.index): _of(view, window) for window in view.windows}


def _of(view: RunView, window: Window) -> Spurious | Unknown | None:
    facts = next((one for one in view.lab.flows if one.flow == window.transfer.flow), None) if view.lab else None
    if facts is None or facts.kind == "udp":
        return None
    down = facts.sender == "server"
    passage = view.to_client if down else view.to_server
    if passage is None:
        return None
    t_ns = passage.entered.t_ns
    passage = passage.where(
        np.asarray((t_ns >= window.start_ns) & (t_ns < window.end_ns) & (passage.entered.flow == window.transfer.flow))
    )
    if window.over_tcp:
        return segments(passage, down)
    return _packets(view, window, passage) if down else None


def segments(passage: Passage, down: bool) -> Spurious:
    """Of TCP: segments sent again, all of whose bytes had left before in segments that came."""
    sent = passage.entered
    ports = sent.destination_port if down else sent.source_port
    again = sent_again(sent, ports)
    taken, left = list[int](), list[int]()
    for port in np.unique(ports[again]):
        rows = np.flatnonzero((ports == port) & (sent.payload > 0))
        begins = offsets(sent.sequence[rows], int(sent.sequence[rows[0]]))
        ends = begins + sent.payload[rows]
        came, first, copied = Held(), list[tuple[int, int]](), again[rows]
        for begin, end, t_ns, copy, arrived in zip(
            begins.tolist(), ends.tolist(), sent.t_ns[rows].tolist(), copied.tolist(),
            passage.arrived[rows].tolist(), strict=True,
        ):  # fmt: skip
            if copy and came.has(begin, end):
                taken.append(t_ns)
                left.append(first[max(bisect_right(first, (begin, 1 << 62)) - 1, 0)][1])
            elif not copy:
                first.append((begin, t_ns))
            if arrived:
                came.add(begin, end)
    return _ordered(taken, left, _SEGMENTS)


def _packets(view: RunView, window: Window, passage: Passage) -> Spurious | Unknown:
    """Of QUIC: those that its trace names, else those whose data it sent again."""
    opened = view.opened(window, "server")
    if not opened:
        return Unknown("there are no keys to read packets with")
    rows = dict(zip(passage.entered.key.tolist(), passage.entered.t_ns.tolist(), strict=True))
    trace = next(iter(traces_of(view, window, "server")), None)
    lost = [] if trace is None else qlog.read_lost(trace)
    lifetime = None if view.series is None else view.series.lifetimes.get(window.transfer.flow)
    if not lost or trace is None or lifetime is None:
        return copies(opened, rows)
    first_ns = first_event_ns(view, trace, lifetime, window)
    # A trace is of one connection; the one that came with most packets is the transfer's.
    one = max(opened, key=lambda each: len(each.t_ns))
    came = {
        number: rows[key]
        for number, key in zip(one.packets.number.tolist(), one.key.tolist(), strict=True)
        if key in rows
    }
    found = [(first_ns + round(loss.t_ms * 1e6), came[loss.number]) for loss in lost if loss.number in came]
    return _ordered([taken for taken, _ in found], [left for _, left in found], _QLOG)


def copies(opened: Sequence[Opened], left_ns: Mapping[int, int]) -> Spurious:
    """Of QUIC: frames that brought the client stream data it had. `left_ns`: when each packet had left, by its key.

    Nothing else is sent twice: a frame goes again when its packet is taken for lost, or as a probe (RFC 9002 §6.2.4).
    """
    taken, left = list[int](), list[int]()
    for one in opened:
        had, carried = dict[int, Held](), dict[tuple[int, int], int]()
        for key, frames in zip(one.key.tolist(), one.frames, strict=True):
            since = left_ns.get(key)
            for frame in frames.streams:
                new = not frame.length or had.setdefault(frame.stream, Held()).add(frame.offset, frame.end)
                if since is None:
                    continue
                if not new:
                    # The copy may have come before the first one.
                    other = carried.get((frame.stream, frame.offset), since)
                    taken.append(max(since, other))
                    left.append(min(since, other))
                carried.setdefault((frame.stream, frame.offset), since)
    return _ordered(taken, left, _COPIES)


def _ordered(taken: list[int], left: list[int], vantage: str) -> Spurious:
    order = np.argsort(np.array(taken, np.int64), kind="stable")
    return Spurious(np.array(taken, np.int64)[order], np.array(left, np.int64)[order], vantage)
