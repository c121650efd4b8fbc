"""When the first bytes of a body had arrived at its receiver without a gap, from the capture at that side: of a
response at the client, of an upload at the server.

The packets are decrypted with the key log of either endpoint (`capture.connections`), and their STREAM frames are put
in order (`capture.streams`). On the stream, HTTP/3 sends frame headers and header fields as well as the body (RFC 9114
§4.1, §7.2). Their total size is the size of the stream less the size of the file.
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
from harness.capture.qlog_events import read_sent_streams
from harness.capture.quic.invariants import read_varint
from harness.capture.streams import Bounds, StreamArrival, contiguous, hidden_packets, largest_stream, stream_arrival
from harness.planning.endpoint_config import application_protocol

#: Type of HTTP/3's HEADERS frame, and bytes of its smallest frame header (RFC 9114 §7.1, §7.2.2).
_HEADERS, _FRAME_HEADER = 0x01, 2
#: A stream is not the file's if its size differs from the file's by more than this share plus this many bytes. The
#: smallest DATA frames seen have 1 kB (quiche), and a server's header fields have some hundred bytes.
_SIZE_SHARE, _SIZE_BYTES = 0.05, 16_384


@dataclass(frozen=True)
class BodyArrival:
    """The arrival of the body of one transfer's response, or request, from packets."""

    stream: StreamArrival
    bytes_before: int
    """Bytes of the stream that precede all of the body, at least."""
    overhead: int | None
    """Bytes of the stream that are not part of the body, in total; None if the stream's end was not seen."""

    def time_of(self, size: int) -> Bounds:
        """When the first `size` bytes of the body had arrived; the bounds hold wherever HTTP/3's headers are."""
        earliest = self.stream.time_of(size + self.bytes_before).earliest_ns
        latest = None if self.overhead is None else self.stream.time_of(size + self.overhead).latest_ns
        return Bounds(earliest, latest)


def body_arrival(view: RunView, window: TransferWindow) -> BodyArrival | Unavailable:
    """The arrival of the body of a transfer's response, or request, or why it is unknown."""
    transfer = window.transfer
    if view.at_receiver(window) is None:
        return Unavailable(f"there is no capture at the {window.receiver}'s side")
    if view.capture_drops:
        return Unavailable(f"the captures missed {view.capture_drops} packets")
    if not view.secrets(transfer.flow):
        return Unavailable("neither endpoint wrote down its TLS secrets")
    streams = [
        _arrival(view, window, opened, identifier)
        for opened in view.decrypted_packets(window, window.sender)
        if (identifier := largest_stream(opened)) is not None
    ]
    if not streams:
        return Unavailable("the TLS secrets that were written down open no packet of the capture")
    stream = max(streams, key=lambda arrival: arrival.size)
    size = stream.size if stream.final_size is None else stream.final_size
    excess = size - transfer.size
    is_whole = transfer.intact or stream.final_size is not None
    if is_whole and abs(excess) > _SIZE_SHARE * transfer.size + _SIZE_BYTES:
        return Unavailable(f"the largest stream in the captured packets has {size} B, the file {transfer.size} B")
    if application_protocol(view.run.cell, transfer.flow) == "hq-interop":
        return BodyArrival(stream, 0, 0)
    overhead = max(excess, 0) if is_whole else None
    head_overhead = header_bytes(stream.head)
    return BodyArrival(stream, head_overhead if overhead is None else min(head_overhead, overhead), overhead)


def _arrival(view: RunView, window: TransferWindow, opened: SentPackets, identifier: int) -> StreamArrival:
    """The stream's arrival; the sender's qlog fills in parts of it that were not visible."""
    arrival = stream_arrival(opened, identifier, whole=window.transfer.intact)
    trace = TransferConnection(view, window).trace(window.sender) if arrival.missing_bytes else None
    if trace is None:
        return arrival
    logged = read_sent_streams(trace, set(opened.packets.number[hidden_packets(opened)].tolist()))
    return stream_arrival(opened, identifier, whole=window.transfer.intact, logged=logged)


def header_bytes(head: bytes) -> int:
    """Bytes of a HEADERS frame at a stream's beginning and of the following DATA frame's header, at least."""
    try:
        kind, at = read_varint(head, 0)
        length, at = read_varint(head, at)
    except IndexError:
        return 2 * _FRAME_HEADER
    return at + length + _FRAME_HEADER if kind == _HEADERS else 2 * _FRAME_HEADER


# --- TCP's bytes as segments carry them: stream offsets of each segment, bytes received without a gap, retransmissions.


Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
#: Sequence numbers wrap around (RFC 9293 §3.4).
_SEQUENCE_SPACE = 1 << 32


@dataclass(frozen=True)
class InOrderArrival:
    """The bytes of a connection's stream that had arrived in order, in one direction."""

    t_ns: Ints
    """When segments with data arrived, shape (n,)."""
    contiguous: Ints
    """Bytes received without a gap after each segment, shape (n,)."""


def stream_offsets(numbers: Ints, initial: int) -> Ints:
    """Stream offsets of n sequence or acknowledgement numbers, shape (n,); `initial`: the SYN's sequence number.

    Neighbours are less than half the sequence space apart, because a window is (RFC 7323 §2.2).
    """
    relative = (numbers - initial - 1) % _SEQUENCE_SPACE
    steps = (np.diff(relative, prepend=0) + _SEQUENCE_SPACE // 2) % _SEQUENCE_SPACE - _SEQUENCE_SPACE // 2
    positions: Ints = np.cumsum(steps)
    return positions


def in_order_arrival(received: Capture) -> InOrderArrival | None:
    """The bytes received on one connection in one direction; None if its first segment was not captured."""
    syns = np.flatnonzero(received.flags & SYN)
    if not len(syns):
        return None
    positions = stream_offsets(received.sequence, int(received.sequence[syns[0]]))
    with_data = received.payload > 0
    begins = positions[with_data]
    return InOrderArrival(received.t_ns[with_data], contiguous(begins, begins + received.payload[with_data]))


def resent_flags(sent: Capture, client_ports: Ints) -> Flags:
    """Which of n segments carry bytes that had been sent before, shape (n,); segments of one direction, in sending
    order.

    `client_ports`: the client's port of each segment, which identifies its connection.
    """
    resent = np.zeros(len(sent), np.bool_)
    for port in np.unique(client_ports):
        rows = np.flatnonzero(client_ports == port)
        connection = sent.select(rows)
        begins = stream_offsets(connection.sequence, int(connection.sequence[0]))
        ends = np.maximum.accumulate(begins + connection.payload)
        highest = np.concatenate((begins[:1], ends[:-1]))
        resent[rows] = (connection.payload > 0) & (begins < highest)
    return resent


def peak_in_flight(sent: Capture, acknowledging: Capture) -> int:
    """The most bytes of one connection that were sent and not yet acknowledged, as seen at the sender's side."""
    if not len(sent):
        return 0
    initial = int(sent.sequence[0])
    sent_up_to = np.maximum.accumulate(stream_offsets(sent.sequence, initial) + sent.payload)
    acks = acknowledging.select(acknowledging.flags & ACK != 0)
    acknowledged = np.maximum.accumulate(np.concatenate(([0], stream_offsets(acks.acknowledgement, initial))))
    return int((sent_up_to - acknowledged[np.searchsorted(acks.t_ns, sent.t_ns, side="right")]).max())


# --- When the first bytes of a response's body had arrived over TLS and TCP, from the segments at the client's side.
#
# Nothing is decrypted. Besides the body, the server's stream has its handshake, the headers of TLS records (RFC 8446
# §5.2) and of HTTP/2 frames (RFC 9113 §4.1), and header fields. Their total size is the size of the stream less that of
# the file. Their positions are unknown. The first n bytes of the body cannot have arrived before n bytes of the stream.
# They have arrived with n bytes of the stream and the total of the rest.


@dataclass(frozen=True)
class TlsArrival:
    """The arrival of a stream that contains the body of one transfer's response."""

    stream: InOrderArrival
    overhead: int | None
    """Bytes of the stream that are not part of the body, in total; None if the stream's end was not seen."""

    def time_of(self, size: int) -> Bounds:
        """When the first `size` bytes of the body had arrived."""
        latest = None if self.overhead is None else self._time_of(size + self.overhead)
        return Bounds(self._time_of(size), latest)

    def _time_of(self, size: int) -> int | None:
        at = int(np.searchsorted(self.stream.contiguous, size))
        return int(self.stream.t_ns[at]) if at < len(self.stream.contiguous) else None


def tls_arrival(view: Artefacts, window: TransferWindow) -> TlsArrival | Unavailable:
    """The arrival of the body of a transfer's response over TLS and TCP, or why it is unknown."""
    transfer = window.transfer
    if view.left is None:
        return Unavailable("there is no capture at the client's side")
    if view.capture_drops:
        return Unavailable(f"the captures missed {view.capture_drops} packets")
    received = view.left.between(window.start_ns, window.end_ns, transfer.flow, to_client=True)
    if len(np.unique(received.destination_port)) > 1:
        return Unavailable("it took several TCP connections")
    stream = in_order_arrival(received)
    if stream is None:
        return Unavailable("the first segment of the connection was not captured")
    if not transfer.intact or not len(stream.contiguous):
        return TlsArrival(stream, None)
    overhead = int(stream.contiguous[-1]) - transfer.size
    if not 0 <= overhead <= _SIZE_SHARE * transfer.size + _SIZE_BYTES:
        return Unavailable(
            f"the connection brought {int(stream.contiguous[-1])} B without a gap, the file has {transfer.size} B"
        )
    return TlsArrival(stream, overhead)
