"""From options to qh3's configuration."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from typing import Any

from qh3.quic.configuration import QuicConfiguration
from qh3.quic.connection import QuicConnection, QuicConnectionError
from qh3.quic.packet import QuicProtocolVersion
from qh3.tls import CipherSuite

from endpoint.logs import Logs
from endpoint.options import Options

#: A test case beyond those that all programs share (run_endpoint.sh).
ASKED = os.environ.get("ASKED", "")
#: The largest DATAGRAM frame that a server takes: RFC 9221 §3 recommends it.
_LARGEST_FRAME = 65535
#: A version that nobody speaks (RFC 9000 §15).
_RESERVED_VERSION = 0x1A2A3A4A
#: What qh3 says where less may be sent than the smallest packet takes (RFC 9000 §8.1).
_NO_ROOM = "packet builder capacity exhausted"


def configuration(options: Options, logs: Logs) -> QuicConfiguration:
    """The configuration of one connection, or of all of a server's."""
    made = QuicConfiguration(
        is_client=options.role == "client",
        alpn_protocols=[options.protocol],
        idle_timeout=options.idle_timeout,
        probe_datagram_size=options.path_mtu_discovery,
        quic_logger=logs.qlog,
        secrets_log_file=logs.keys,
        verify_mode=ssl.CERT_NONE,
    )
    if ASKED == "chacha20":
        made.cipher_suites = [CipherSuite.CHACHA20_POLY1305_SHA256]
    elif ASKED == "versionnegotiation" and made.is_client:
        made.supported_versions = [_RESERVED_VERSION, QuicProtocolVersion.VERSION_1]
    if options.initial_rtt is not None:
        made.initial_rtt = options.initial_rtt
    if options.max_udp_payload is not None:
        made.max_datagram_size = options.max_udp_payload
    if options.connection_window is not None:
        made.max_data = options.connection_window
    if options.stream_window is not None:
        made.max_stream_data = options.stream_window
    if options.role == "server":
        # Its HTTP/3 announces datagrams in any case, and a client of qh3's ends a connection without the transport
        # parameter for them (RFC 9297 §2.1.1). A client has that by itself.
        made.max_datagram_frame_size = _LARGEST_FRAME
        made.load_cert_chain(options.certificate, options.private_key)
    return made


def keep_datagrams(quic: QuicConnection) -> None:
    """Have a connection send what it has built where its anti-amplification limit leaves a few bytes.

    qh3 raises an error then. It forgets the datagrams that it built before, which it counts as sent, and its timer.
    """
    call_core = quic._call_core

    def call(operation: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call_core(operation, *arguments)
        except QuicConnectionError as error:
            if operation.__name__ == "poll_transmit" and error.reason_phrase == _NO_ROOM:
                return None
            raise

    vars(quic)["_call_core"] = call
