"""From options to aioquic: its configuration, and what it lets nobody configure."""

from __future__ import annotations

import os
import ssl

from aioquic.h0.connection import H0Connection
from aioquic.h3.connection import H3Connection
from aioquic.quic import connection as aioquic_connection
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.congestion import base, cubic
from aioquic.quic.connection import Limit, QuicConnection
from aioquic.quic.packet import QuicFrameType, QuicProtocolVersion
from aioquic.quic.stream import QuicStream
from aioquic.tls import CipherSuite

from endpoint.logs import Logs
from endpoint.options import Options

#: The application error codes for a good end and for a request that is turned down, by protocol.
NO_ERROR = {"h3": 0x100, "hq-interop": 0}
REJECTED = 0x10B

Http = H0Connection | H3Connection

#: A test case beyond those that all programs share (run_endpoint.sh).
ASKED = os.environ.get("ASKED", "")
#: Silence after which a connection ends, seconds; aioquic's own where nothing else is asked for.
_IDLE_TIMEOUT = float(os.environ.get("IDLE_TIMEOUT", "60"))
#: The largest DATAGRAM frame that is taken, where any are: RFC 9221 §3 recommends it.
_LARGEST_FRAME = 65535
#: A version that nobody speaks (RFC 9000 §15).
_RESERVED_VERSION = 0x1A2A3A4A


def http(quic: QuicConnection, protocol: str) -> Http:
    """The application protocol on top of a connection; both kinds have the same methods and events."""
    return H3Connection(quic) if protocol == "h3" else H0Connection(quic)


def configuration(options: Options, logs: Logs) -> QuicConfiguration:
    """The configuration of one connection, or of all of a server's."""
    made = QuicConfiguration(
        is_client=options.role == "client",
        alpn_protocols=[options.protocol],
        congestion_control_algorithm=options.congestion_control,
        idle_timeout=_IDLE_TIMEOUT,
        max_datagram_size=options.max_udp_payload,
        quic_logger=logs.qlog,
        secrets_log_file=logs.keys,
        verify_mode=ssl.CERT_NONE,
    )
    if ASKED == "chacha20":
        made.cipher_suites = [CipherSuite.CHACHA20_POLY1305_SHA256]
    elif ASKED == "v2":
        made.supported_versions = [QuicProtocolVersion.VERSION_2, QuicProtocolVersion.VERSION_1]
        made.original_version = QuicProtocolVersion.VERSION_1 if made.is_client else None
    elif ASKED == "versionnegotiation" and made.is_client:
        made.supported_versions = [_RESERVED_VERSION, QuicProtocolVersion.VERSION_1]
    if options.initial_rtt is not None:
        made.initial_rtt = options.initial_rtt
    if options.connection_window is not None:
        made.max_data = options.connection_window
    if options.stream_window is not None:
        made.max_stream_data = options.stream_window
    if options.datagrams is not None:
        made.max_datagram_frame_size = _LARGEST_FRAME
    if options.role == "server":
        made.load_cert_chain(options.certificate, options.private_key)
    return made


def adapt(options: Options) -> None:
    """Change the constants and classes of aioquic that stand for what it has no setting for, in this process."""
    if options.initial_cwnd is not None:
        # The base class starts from its own, cubic from its copy, to which it falls back after idle time.
        for module in (base, cubic):
            vars(module)["K_INITIAL_WINDOW"] = options.initial_cwnd
    if options.stream_window is not None:
        vars(aioquic_connection)["QuicStream"] = _FixedStream


def fix_window(quic: QuicConnection, options: Options) -> None:
    """Fix the flow-control window of a connection that has not started."""
    if options.connection_window is not None:
        quic._local_max_data = _FixedLimit(options.connection_window)


# aioquic doubles a limit, `limit *= 2`, whenever more than half of all that it ever granted has been used, so that
# the window grows with the amount received and soon limits nothing. With a fixed window, the limit that is written
# back is one window ahead of what has arrived instead, renewed when half of it is used.


def _renewed(limit: int, received: int, window: int) -> int:
    return received + window if 2 * (limit - received) < window else limit


class _FixedLimit(Limit):
    """The connection's MAX_DATA."""

    _limit: int

    def __init__(self, window: int) -> None:
        self._window, self._limit = window, window
        super().__init__(QuicFrameType.MAX_DATA, "max_data", window)

    @property
    def value(self) -> int:
        return self._limit

    @value.setter
    def value(self, _doubled: int) -> None:
        self._limit = _renewed(self._limit, self.used, self._window)


class _FixedStream(QuicStream):
    """A stream with its MAX_STREAM_DATA."""

    _limit: int

    def __init__(self, stream_id: int | None = None, max_stream_data_local: int = 0, **others: int | bool) -> None:
        self._window: int | None = None
        super().__init__(stream_id, max_stream_data_local, **others)  # type: ignore[arg-type]
        self._window = max_stream_data_local

    @property
    def max_stream_data_local(self) -> int:
        return self._limit

    @max_stream_data_local.setter
    def max_stream_data_local(self, value: int) -> None:
        self._limit = (
            value if self._window is None else _renewed(self._limit, self.receiver.highest_offset, self._window)
        )
