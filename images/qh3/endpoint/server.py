"""The server: files from a folder, read as the connection takes them."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
from dataclasses import dataclass
from typing import Any, BinaryIO

from qh3.asyncio.protocol import QuicConnectionProtocol
from qh3.asyncio.server import serve
from qh3.h3.events import HeadersReceived
from qh3.quic.connection import QuicConnection
from qh3.quic.events import ConnectionTerminated, ProtocolNegotiated, QuicEvent, StopSendingReceived
from qh3.tls import SessionTicket

from endpoint.logs import Logs
from endpoint.options import Options
from endpoint.stack import REJECTED, Http, configuration, http

#: Bytes read from a file at once, and bytes of a stream that wait to be sent before more is read.
CHUNK, RESERVE = 2**16, 2**18


@dataclass
class _Response:
    http: Http
    file: BinaryIO
    left: int


class _Server(QuicConnectionProtocol):
    """A client's connection with the responses on their way, by stream."""

    def __init__(self, quic: QuicConnection, stream_handler: Any = None, *, options: Options) -> None:
        super().__init__(quic, stream_handler)
        self._options = options
        self._root = options.root.resolve()
        self._http: Http | None = None
        self._responses: dict[int, _Response] = {}

    def quic_event_received(self, event: QuicEvent) -> None:
        """Answer requests, and forget those that nobody waits for any more."""
        if isinstance(event, ProtocolNegotiated):
            self._http = http(self._quic, self._options.protocol)
        elif isinstance(event, StopSendingReceived):
            self._forget(event.stream_id)
        elif isinstance(event, ConnectionTerminated):
            for stream in list(self._responses):
                self._forget(stream)
        if self._http is not None:
            for part in self._http.handle_event(event):
                if isinstance(part, HeadersReceived):
                    self._answer(self._http, part.stream_id, dict(part.headers).get(b":path", b"").decode())

    def transmit(self) -> None:
        """Send what may be sent, and read on in the files as their streams run out of data."""
        self._read_on()
        super().transmit()
        while any(self._quic.get_send_buffer_size(stream) == 0 for stream in self._responses):
            self._read_on()
            super().transmit()

    def _answer(self, connection: Http, stream: int, target: str) -> None:
        path = self._root.joinpath(target.partition("?")[0].lstrip("/")).resolve()
        h3 = self._options.protocol == "h3"
        if not path.is_relative_to(self._root) or not path.is_file():
            if h3:
                connection.send_headers(stream, [(b":status", b"404")], True)
            else:
                self._quic.reset_stream(stream, REJECTED)
            return
        file = path.open("rb")
        size = os.fstat(file.fileno()).st_size
        if h3:
            connection.send_headers(stream, [(b":status", b"200"), (b"content-length", str(size).encode())])
        self._responses[stream] = _Response(connection, file, size)

    def _read_on(self) -> None:
        for stream, response in list(self._responses.items()):
            while stream in self._responses and self._quic.get_send_buffer_size(stream) < RESERVE:
                data = response.file.read(CHUNK)
                response.left -= len(data)
                ended = response.left <= 0 or not data
                response.http.send_data(stream, data, ended)
                if ended:
                    self._forget(stream)

    def _forget(self, stream: int) -> None:
        response = self._responses.pop(stream, None)
        if response is not None:
            response.file.close()


async def run_server(options: Options, logs: Logs) -> None:
    """Serve until told to stop. Raises OSError."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    tickets: dict[bytes, SessionTicket] = {}
    server = await serve(
        "::",
        options.port,
        configuration=configuration(options, logs),
        create_protocol=functools.partial(_Server, options=options),
        # A ticket is good for one connection, so that early data cannot be replayed.
        session_ticket_fetcher=lambda identity: tickets.pop(identity, None),
        session_ticket_handler=lambda ticket: tickets.update({ticket.ticket: ticket}),
        retry=options.retry,
    )
    await stop.wait()
    server.close()
