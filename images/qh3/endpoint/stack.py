"""From options to qh3: its configuration, and HTTP/0.9, which it has not."""

from __future__ import annotations

import os
import ssl

from qh3.h3.connection import H3Connection
from qh3.h3.events import DataReceived, H3Event, HeadersReceived
from qh3.quic.configuration import QuicConfiguration
from qh3.quic.connection import QuicConnection
from qh3.quic.events import QuicEvent, StreamDataReceived
from qh3.quic.packet import QuicProtocolVersion
from qh3.tls import CipherSuite

from endpoint.logs import Logs
from endpoint.options import Options

#: The application error codes for a good end and for a request that is turned down, by protocol.
NO_ERROR = {"h3": 0x100, "hq-interop": 0}
REJECTED = 0x10B
#: A version that nobody speaks (RFC 9000 §15).
_RESERVED_VERSION = 0x1A2A3A4A
#: A longer request is not one, bytes.
_LONGEST_REQUEST = 8192

#: A test case beyond those that all programs share (run_endpoint.sh).
ASKED = os.environ.get("ASKED", "")


class H0Connection:
    """HTTP/0.9 (ALPN hq-interop) with the methods and events of qh3's HTTP/3."""

    def __init__(self, quic: QuicConnection) -> None:
        self._quic = quic
        self._is_client = quic.configuration.is_client
        self._requests: dict[int, bytes] = {}

    def send_headers(self, stream_id: int, headers: list[tuple[bytes, bytes]], end_stream: bool = False) -> None:
        """Send a request; a response has no headers."""
        if self._is_client:
            self._quic.send_stream_data(stream_id, b"GET %s\r\n" % dict(headers)[b":path"], end_stream)

    def send_data(self, stream_id: int, data: bytes, end_stream: bool) -> None:
        """Send a part of a response."""
        self._quic.send_stream_data(stream_id, data, end_stream)

    def handle_event(self, event: QuicEvent) -> list[H3Event]:
        """A response's data as they arrive, or a request once its line is whole."""
        if not isinstance(event, StreamDataReceived) or event.stream_id % 4:
            return []
        if self._is_client:
            return [DataReceived(event.data, event.stream_id, event.end_stream)]
        request = self._requests.get(event.stream_id, b"") + event.data
        if b"\n" not in request and not event.end_stream and len(request) <= _LONGEST_REQUEST:
            self._requests[event.stream_id] = request
            return []
        if event.stream_id in self._requests and b"\n" in self._requests[event.stream_id]:
            return []
        self._requests[event.stream_id] = request
        line = request.partition(b"\n")[0].rstrip()
        path = line[4:] if line.startswith(b"GET /") else b""
        return [HeadersReceived([(b":method", b"GET"), (b":path", path)], event.stream_id, event.end_stream)]


Http = H0Connection | H3Connection


def http(quic: QuicConnection, protocol: str) -> Http:
    """The application protocol on top of a connection; both kinds have the same methods and events."""
    return H3Connection(quic) if protocol == "h3" else H0Connection(quic)


def configuration(options: Options, logs: Logs) -> QuicConfiguration:
    """The configuration of one connection, or of all of a server's."""
    made = QuicConfiguration(
        is_client=options.role == "client",
        alpn_protocols=[options.protocol],
        idle_timeout=options.idle_timeout,
        quic_logger=logs.qlog,
        secrets_log_file=logs.keys,
        verify_mode=ssl.CERT_NONE,
        verify_hostname=False,
    )
    if ASKED == "chacha20":
        made.cipher_suites = [CipherSuite.CHACHA20_POLY1305_SHA256]
    elif ASKED == "versionnegotiation" and made.is_client:
        made.supported_versions = [_RESERVED_VERSION, QuicProtocolVersion.VERSION_1]
    if options.role == "server":
        made.load_cert_chain(options.certificate, options.private_key)
        # By itself qh3's server offers HTTP/3's datagrams without QUIC's, and clients close the connection over that.
        made.max_datagram_frame_size = 65536
    discovery = options.path_mtu_discovery
    if discovery is None and options.max_udp_payload is not None:
        # A size that is set is fixed, unless discovery is asked for as well.
        discovery = False
    given = {
        "initial_rtt": options.initial_rtt,
        "max_datagram_size": options.max_udp_payload,
        "probe_datagram_size": discovery,
        "max_data": options.connection_window,
        "max_stream_data": options.stream_window,
    }
    for name, value in given.items():
        if value is not None:
            setattr(made, name, value)
    return made
