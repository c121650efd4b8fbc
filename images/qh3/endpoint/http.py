"""The application protocols: HTTP/3 of qh3's, and HTTP/0.9 (ALPN hq-interop), which it lacks, with the same methods."""

from __future__ import annotations

from qh3.h3.connection import H3Connection
from qh3.h3.events import DataReceived, H3Event, Headers, HeadersReceived
from qh3.quic.connection import QuicConnection, stream_is_client_initiated, stream_is_unidirectional
from qh3.quic.events import QuicEvent, StreamDataReceived

#: The application error codes for a good end and for a request that is turned down, by protocol.
NO_ERROR = {"h3": 0x100, "hq-interop": 0}
REJECTED = 0x10B


class HqConnection:
    """HTTP/0.9 on a bidirectional stream: a line `GET /path`, and the bare bytes back."""

    def __init__(self, quic: QuicConnection) -> None:
        self._quic = quic
        self._is_client = quic.configuration.is_client
        #: Lines that have come in part, by stream.
        self._lines: dict[int, bytes] = {}

    def send_headers(self, stream_id: int, headers: Headers, end_stream: bool = False) -> None:
        """Send a request line; a response has none."""
        fields = dict(headers)
        line = b"%s %s\r\n" % (fields[b":method"], fields[b":path"]) if self._is_client else b""
        self._quic.send_stream_data(stream_id, line, end_stream)

    def send_data(self, stream_id: int, data: bytes, end_stream: bool) -> None:
        """Send a part of a body."""
        self._quic.send_stream_data(stream_id, data, end_stream)

    def handle_event(self, event: QuicEvent) -> list[H3Event]:
        """What a QUIC event means: a server's requests, a client's data."""
        if not isinstance(event, StreamDataReceived) or stream_is_unidirectional(event.stream_id):
            return []
        if self._is_client:
            return [DataReceived(data=event.data, stream_id=event.stream_id, stream_ended=event.end_stream)]
        if not stream_is_client_initiated(event.stream_id):
            return []
        line = self._lines.pop(event.stream_id, b"") + event.data
        # Some clients end the line with the stream.
        if not event.end_stream and not line.endswith(b"\n"):
            self._lines[event.stream_id] = line
            return []
        method, _, path = line.rstrip().partition(b" ")
        headers = [(b":method", method), (b":path", path)]
        return [HeadersReceived(headers=headers, stream_id=event.stream_id, stream_ended=event.end_stream)]


Http = HqConnection | H3Connection


def http(quic: QuicConnection, protocol: str) -> Http:
    """The application protocol on top of a connection."""
    return H3Connection(quic) if protocol == "h3" else HqConnection(quic)
