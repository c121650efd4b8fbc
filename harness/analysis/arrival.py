"""When the first bytes of a response's body had arrived at the client without a gap, from the left capture.

Its packets are decrypted with the key log of either endpoint (`traces.connections`), their STREAM frames put in order
(`traces.streams`). HTTP/3 puts frame headers and header fields on the stream beside the body (RFC 9114 §4.1, §7.2).
In all they are what the stream has beyond the file.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.analysis.connection import Connection
from harness.analysis.missing import Unknown
from harness.analysis.run_view import RunView
from harness.capture.artefacts import Window
from harness.capture.connections import Opened
from harness.capture.qlog_events import sent_streams
from harness.capture.quic.invariants import integer
from harness.capture.streams import Bounds, StreamArrival, hidden_packets, largest_stream, stream_arrival
from harness.planning.endpoint_config import application_protocol

#: Type of HTTP/3's HEADERS frame, and bytes of its smallest frame header (RFC 9114 §7.1, §7.2.2).
_HEADERS, _FRAME_HEADER = 0x01, 2
#: A stream that differs from the file by more than this part of it, and so many bytes, is not the file's: the smallest
#: DATA frames seen have 1 kB (quiche), and a server's header fields some hundred bytes.
_SHARE, _BYTES = 0.05, 16_384


@dataclass(frozen=True)
class BodyArrival:
    """The body of one transfer's response, as packets brought it."""

    stream: StreamArrival
    before: int
    """Bytes of the stream that stand before all of the body, at least."""
    beside: int | None
    """Bytes of the stream that are not of the body, in all; None where its end was not seen."""

    def reached(self, size: int) -> Bounds:
        """When the first `size` bytes of the body were there; the bounds hold wherever HTTP/3's headers stand."""
        earliest = self.stream.reached(size + self.before).earliest_ns
        latest = None if self.beside is None else self.stream.reached(size + self.beside).latest_ns
        return Bounds(earliest, latest)


def body_arrival(view: RunView, window: Window) -> BodyArrival | Unknown:
    """The body of a transfer's response, or why its arrival is not known."""
    transfer = window.transfer
    if view.left is None:
        return Unknown("there is no capture at the client's side")
    if view.capture_drops:
        return Unknown(f"the captures missed {view.capture_drops} packets")
    if not view.secrets(transfer.flow):
        return Unknown("neither endpoint wrote down its TLS secrets")
    found = [
        _arrival(view, window, opened, identifier)
        for opened in view.opened(window, "server")
        if (identifier := largest_stream(opened)) is not None
    ]
    if not found:
        return Unknown("the TLS secrets that were written down open no packet of the capture")
    stream = max(found, key=lambda one: one.size)
    size = stream.size if stream.final_size is None else stream.final_size
    beyond = size - transfer.size
    whole = transfer.intact or stream.final_size is not None
    if whole and abs(beyond) > _SHARE * transfer.size + _BYTES:
        return Unknown(f"the largest stream in the captured packets has {size} B, the file {transfer.size} B")
    if application_protocol(view.run.cell, transfer.flow) == "hq-interop":
        return BodyArrival(stream, 0, 0)
    beside = max(beyond, 0) if whole else None
    before = headers_before(stream.head)
    return BodyArrival(stream, before if beside is None else min(before, beside), beside)


def _arrival(view: RunView, window: Window, opened: Opened, identifier: int) -> StreamArrival:
    """The stream's arrival; where parts of it were not visible, the server's qlog is asked for them."""
    arrival = stream_arrival(opened, identifier, whole=window.transfer.intact)
    trace = Connection(view, window).trace("server") if arrival.unseen else None
    if trace is None:
        return arrival
    told = sent_streams(trace, set(opened.packets.number[hidden_packets(opened)].tolist()))
    return stream_arrival(opened, identifier, whole=window.transfer.intact, told=told)


def headers_before(head: bytes) -> int:
    """Bytes of a HEADERS frame at a stream's beginning and of the header of the DATA frame behind it, at least."""
    try:
        kind, at = integer(head, 0)
        length, at = integer(head, at)
    except IndexError:
        return 2 * _FRAME_HEADER
    return at + length + _FRAME_HEADER if kind == _HEADERS else 2 * _FRAME_HEADER
