"""The server: files from a folder, and files that clients send into another."""

from __future__ import annotations

import asyncio
import functools
import signal
import sys
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from qh3.asyncio.server import serve
from qh3.h3.events import DataReceived, HeadersReceived
from qh3.quic.connection import QuicConnection
from qh3.quic.events import (
    ConnectionTerminated,
    HandshakeCompleted,
    ProtocolNegotiated,
    QuicEvent,
    StopSendingReceived,
)
from qh3.tls import SessionTicket

from endpoint.datagrams import Datagrams
from endpoint.http import NO_ERROR, REJECTED, Http, http
from endpoint.logs import Logs
from endpoint.options import Options
from endpoint.sending import FileSender
from endpoint.stack import configuration, keep_datagrams

#: Where the files go that clients send.
UPLOADS = Path("/uploads")


class _Server(FileSender):
    """A client's connection with the responses and the uploads on their way, by stream."""

    def __init__(self, quic: QuicConnection, stream_handler: Any = None, *, options: Options) -> None:
        super().__init__(quic, stream_handler)
        keep_datagrams(quic)
        self._options = options
        self._root = options.root.resolve()
        self._http: Http | None = None
        self._uploads: dict[int, BinaryIO] = {}
        self._sends_datagrams: asyncio.Task[None] | None = None

    def quic_event_received(self, event: QuicEvent) -> None:
        """Answer requests, and forget those that nobody waits for any more."""
        if isinstance(event, ProtocolNegotiated):
            self._http = http(self._quic, self._options.protocol)
        elif isinstance(event, HandshakeCompleted) and self._options.datagrams is not None:
            self._sends_datagrams = asyncio.create_task(self._send_datagrams(self._options.datagrams))
        elif isinstance(event, StopSendingReceived):
            self.forget_file(event.stream_id)
        elif isinstance(event, ConnectionTerminated):
            for stream in list(self._sending):
                self.forget_file(stream)
            for stream in list(self._uploads):
                self._uploads.pop(stream).close()
        if self._http is not None:
            for part in self._http.handle_event(event):
                if isinstance(part, HeadersReceived):
                    headers = {name: value.decode() for name, value in part.headers if name in (b":method", b":path")}
                    receive = self._keep if headers.get(b":method") == "POST" else self._answer
                    receive(self._http, part.stream_id, headers.get(b":path", ""))
                if isinstance(part, DataReceived | HeadersReceived) and part.stream_id in self._uploads:
                    self._receive(self._http, part)

    async def _send_datagrams(self, datagrams: Datagrams) -> None:
        await datagrams.send(self._quic.send_datagram_frame, self.transmit)
        self._quic.close(error_code=NO_ERROR[self._options.protocol])
        self.transmit()

    def _answer(self, connection: Http, stream: int, target: str) -> None:
        path = self._root.joinpath(target.partition("?")[0].lstrip("/")).resolve()
        h3 = self._options.protocol == "h3"
        if not path.is_relative_to(self._root) or not path.is_file():
            if h3:
                connection.send_headers(stream, [(b":status", b"404")], True)
            else:
                self._quic.reset_stream(stream, REJECTED)
            return
        self.send_file(connection, stream, path, {":status": "200"} if h3 else {})

    def _keep(self, connection: Http, stream: int, target: str) -> None:
        try:
            # Unbuffered, so that the file grows with every packet.
            self._uploads[stream] = (UPLOADS / PurePosixPath(target).name).open("wb", buffering=0)
        except OSError as error:
            print(f"qh3-endpoint: {target}: {error}", file=sys.stderr)
            connection.send_headers(stream, [(b":status", b"500")], True)

    def _receive(self, connection: Http, part: DataReceived | HeadersReceived) -> None:
        if isinstance(part, DataReceived):
            self._uploads[part.stream_id].write(part.data)
        if part.stream_ended:
            self._uploads.pop(part.stream_id).close()
            connection.send_headers(part.stream_id, [(b":status", b"201")], True)


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
