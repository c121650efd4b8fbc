"""When the first bytes of a response's body had arrived at the client without a gap, from the left capture.

Its packets are decrypted with the key log of either endpoint (`capture.connections`), their STREAM frames put in order
(`capture.streams`). HTTP/3 puts frame headers and header fields on the stream beside the body (RFC 9114 §4.1, §7.2).
In all they are what the stream has beyond the file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.analysis.connection import TransferConnection
from harness.analysis.run_view import RunView, Unavailable
from harness.capture.artefacts import Artefacts, TransferWindow
from harness.capture.capture import ACK, SYN, Capture
from harness.capture.connections import SentPackets
from harness.capture.qlog_events import sent_streams
from harness.capture.quic.invariants import integer
from harness.capture.streams import Bounds, StreamArrival, contiguous, hidden_packets, largest_stream, stream_arrival
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


def body_arrival(view: RunView, window: TransferWindow) -> BodyArrival | Unavailable:
    """The body of a transfer's response, or why its arrival is not known."""
    transfer = window.transfer
    if view.left is None:
        return Unavailable("there is no capture at the client's side")
    if view.capture_drops:
        return Unavailable(f"the captures missed {view.capture_drops} packets")
    if not view.secrets(transfer.flow):
        return Unavailable("neither endpoint wrote down its TLS secrets")
    found = [
        _arrival(view, window, opened, identifier)
        for opened in view.opened(window, "server")
        if (identifier := largest_stream(opened)) is not None
    ]
    if not found:
        return Unavailable("the TLS secrets that were written down open no packet of the capture")
    stream = max(found, key=lambda one: one.size)
    size = stream.size if stream.final_size is None else stream.final_size
    beyond = size - transfer.size
    whole = transfer.intact or stream.final_size is not None
    if whole and abs(beyond) > _SHARE * transfer.size + _BYTES:
        return Unavailable(f"the largest stream in the captured packets has {size} B, the file {transfer.size} B")
    if application_protocol(view.run.cell, transfer.flow) == "hq-interop":
        return BodyArrival(stream, 0, 0)
    beside = max(beyond, 0) if whole else None
    before = headers_before(stream.head)
    return BodyArrival(stream, before if beside is None else min(before, beside), beside)


def _arrival(view: RunView, window: TransferWindow, opened: SentPackets, identifier: int) -> StreamArrival:
    """The stream's arrival; where parts of it were not visible, the server's qlog is asked for them."""
    arrival = stream_arrival(opened, identifier, whole=window.transfer.intact)
    trace = TransferConnection(view, window).trace("server") if arrival.unseen else None
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


# --- TCP's bytes as segments carry them: what of the stream each holds, what had come without a gap, what went again.


Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
#: Sequence numbers go round (RFC 9293 §3.4).
_ROUND = 1 << 32


@dataclass(frozen=True)
class InOrder:
    """What had come of a connection's stream, in one direction."""

    t_ns: Ints
    """When segments with data came, shape (n,)."""
    come: Ints
    """Bytes without a gap after each, shape (n,)."""


def offsets(numbers: Ints, initial: int) -> Ints:
    """Where in the stream n sequence or acknowledgement numbers stand, shape (n,); `initial`: the SYN's number.

    Neighbours are less than half a round apart, since a window is (RFC 7323 §2.2).
    """
    relative = (numbers - initial - 1) % _ROUND
    steps = (np.diff(relative, prepend=0) + _ROUND // 2) % _ROUND - _ROUND // 2
    found: Ints = np.cumsum(steps)
    return found


def in_order(received: Capture) -> InOrder | None:
    """What came of one connection in one direction; None where its first segment was not captured."""
    opening = np.flatnonzero(received.flags & SYN)
    if not len(opening):
        return None
    offset = offsets(received.sequence, int(received.sequence[opening[0]]))
    with_data = received.payload > 0
    begins = offset[with_data]
    return InOrder(received.t_ns[with_data], contiguous(begins, begins + received.payload[with_data]))


def sent_again(sent: Capture, client_ports: Ints) -> Flags:
    """Which of n segments hold bytes that went before, shape (n,); of segments in one direction, as they left.

    `client_ports`: the client's port of each, by which connections are told apart.
    """
    again = np.zeros(len(sent), np.bool_)
    for port in np.unique(client_ports):
        rows = np.flatnonzero(client_ports == port)
        one = sent.where(rows)
        begins = offsets(one.sequence, int(one.sequence[0]))
        ends = np.maximum.accumulate(begins + one.payload)
        before = np.concatenate((begins[:1], ends[:-1]))
        again[rows] = (one.payload > 0) & (begins < before)
    return again


def in_flight(sent: Capture, acknowledging: Capture) -> int:
    """Most bytes of one connection that had left and were not acknowledged yet, as its sender's side saw both."""
    if not len(sent):
        return 0
    initial = int(sent.sequence[0])
    out = np.maximum.accumulate(offsets(sent.sequence, initial) + sent.payload)
    acks = acknowledging.where(acknowledging.flags & ACK != 0)
    known = np.maximum.accumulate(np.concatenate(([0], offsets(acks.acknowledgement, initial))))
    return int((out - known[np.searchsorted(acks.t_ns, sent.t_ns, side="right")]).max())


# --- When the first bytes of a response's body had arrived over TLS and TCP, from the segments at the client's side.
#
# Nothing is decrypted. Beside the body the server's stream has its handshake, the headers of TLS records (RFC 8446
# §5.2) and of HTTP/2 frames (RFC 9113 §4.1), and header fields; in all they are what the stream has beyond the file.
# Wherever they stand, the first n bytes of the body cannot be there before n bytes of the stream, and are there with as
# many more.


@dataclass(frozen=True)
class TlsArrival:
    """A stream that holds the body of one transfer's response."""

    stream: InOrder
    beside: int | None
    """Bytes of the stream that are not of the body, in all; None where its end was not seen."""

    def reached(self, size: int) -> Bounds:
        """When the first `size` bytes of the body were there."""
        latest = None if self.beside is None else self._when(size + self.beside)
        return Bounds(self._when(size), latest)

    def _when(self, size: int) -> int | None:
        at = int(np.searchsorted(self.stream.come, size))
        return int(self.stream.t_ns[at]) if at < len(self.stream.come) else None


def tls_arrival(view: Artefacts, window: TransferWindow) -> TlsArrival | Unavailable:
    """The body of a transfer's response over TLS and TCP, or why its arrival is not known."""
    transfer = window.transfer
    if view.left is None:
        return Unavailable("there is no capture at the client's side")
    if view.capture_drops:
        return Unavailable(f"the captures missed {view.capture_drops} packets")
    received = view.left.between(window.start_ns, window.end_ns, transfer.flow, to_client=True)
    if len(np.unique(received.destination_port)) > 1:
        return Unavailable("it took several TCP connections")
    stream = in_order(received)
    if stream is None:
        return Unavailable("the first segment of the connection was not captured")
    if not transfer.intact or not len(stream.come):
        return TlsArrival(stream, None)
    beside = int(stream.come[-1]) - transfer.size
    if not 0 <= beside <= _SHARE * transfer.size + _BYTES:
        return Unavailable(
            f"the connection brought {int(stream.come[-1])} B without a gap, the file has {transfer.size} B"
        )
    return TlsArrival(stream, beside)
