"""The client: files over one connection or several, written as they arrive."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import SplitResult

from qh3.asyncio._transport import create_optimized_datagram_transport
from qh3.asyncio.protocol import QuicConnectionProtocol
from qh3.h3.events import DataReceived, H3Event, HeadersReceived
from qh3.quic.connection import QuicConnection
from qh3.quic.events import ConnectionTerminated, HandshakeCompleted, QuicEvent, StreamReset

from endpoint.logs import Logs
from endpoint.moves import Journey, Move
from endpoint.options import Options
from endpoint.session import SessionStore
from endpoint.stack import ASKED, NO_ERROR, Http, configuration, http

#: How long a client that has all its files waits for a session ticket it wants, seconds.
TICKET_PATIENCE = 3.0
#: Kernel buffer asked for, bytes: a window's worth on a long fat path, since Python may be late to read.
KERNEL_BUFFER = 16 * 2**20
#: Linux's number of the option that goes beyond the system's limit (asm-generic/socket.h).
SO_RCVBUFFORCE = 33


class _Download:
    """One response on its way into its file."""

    def __init__(self, path: Path) -> None:
        # Unbuffered, so that the file grows with every packet.
        self.file = path.open("wb", buffering=0)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self, failure: str | None = None) -> None:
        self.file.close()
        if not self.done.done():
            self.done.set_result(None) if failure is None else self.done.set_exception(ConnectionError(failure))


class _Client(QuicConnectionProtocol):
    """A connection with its downloads, by stream."""

    def __init__(self, quic: QuicConnection, options: Options) -> None:
        super().__init__(quic)
        self._options = options
        self._http: Http | None = None
        self._downloads: dict[int, _Download] = {}
        self.outcome = "no handshake"
        self._has_updated = False

    def get(self, url: SplitResult) -> asyncio.Future[None]:
        """Ask for a file as soon as there are keys for that: at once with early data, else after the handshake."""
        if self._http is None:
            self._http = http(self._quic, self._options.protocol)
        download = _Download(self._options.downloads / PurePosixPath(url.path).name)
        stream = self._quic.get_next_available_stream_id()
        self._downloads[stream] = download
        headers = {":method": "GET", ":scheme": url.scheme, ":authority": url.netloc, ":path": url.path}
        self._http.send_headers(stream, [(name.encode(), value.encode()) for name, value in headers.items()], True)
        return download.done

    @property
    def is_confirmed(self) -> bool:
        """Whether the handshake is, of which there is no event."""
        return self._quic._handshake_confirmed

    async def move(self, address: str) -> str:
        """Bind to another address of this machine, leave the one before, and return the new one with its port."""
        old = self._transport
        assert old is not None
        # Which hands its transport to this protocol.
        new, _ = await _bind(lambda: self, address)
        old.close()
        # It takes one that is left, and something to send, for the server to see the move at once.
        self._quic.change_connection_id()
        self._quic.send_ping(0)
        self.transmit()
        host, port = new.get_extra_info("sockname")[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def end_with(self, moving: asyncio.Task[None]) -> None:
        """Give the downloads up where a move failed."""
        failure = None if moving.cancelled() else moving.exception()
        if failure is not None:
            for stream in list(self._downloads):
                self._end(stream, str(failure))

    def leave(self) -> None:
        """Close the socket."""
        if self._transport is not None:
            self._transport.close()

    def quic_event_received(self, event: QuicEvent) -> None:
        """Follow the connection's fate and its streams."""
        if isinstance(event, HandshakeCompleted):
            self.outcome = f"resumed={event.session_resumed} early_data={event.early_data_accepted}".lower()
        elif isinstance(event, ConnectionTerminated):
            for stream in list(self._downloads):
                self._end(stream, f"the connection ended: error {event.error_code:#x} {event.reason_phrase}")
        elif isinstance(event, StreamReset):
            self._end(event.stream_id, f"the stream was reset: error {event.error_code:#x}")
        if self._http is not None:
            for part in self._http.handle_event(event):
                self._response_received(part)
        if ASKED == "keyupdate" and not self._has_updated and self.is_confirmed:
            self._has_updated = True
            self._quic.request_key_update()

    def _response_received(self, part: H3Event) -> None:
        if not isinstance(part, DataReceived | HeadersReceived) or part.stream_id not in self._downloads:
            return
        if isinstance(part, DataReceived):
            self._downloads[part.stream_id].file.write(part.data)
        else:
            status = dict(part.headers).get(b":status", b"200").decode()
            if status != "200":
                self._end(part.stream_id, f"status {status}")
        if part.stream_ended:
            self._end(part.stream_id)

    def _end(self, stream: int, failure: str | None = None) -> None:
        download = self._downloads.pop(stream, None)
        if download is not None:
            download.end(failure)


async def _bind(protocol: Callable[[], _Client], address: str) -> tuple[Any, _Client]:
    """A socket of its own for a protocol, as qh3's `connect` has it: with segmentation and coalescing by the kernel."""
    bound = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    for option in (socket.SO_RCVBUF, SO_RCVBUFFORCE):
        with contextlib.suppress(PermissionError):
            bound.setsockopt(socket.SOL_SOCKET, option, KERNEL_BUFFER)
    bound.bind((address, 0))
    return await create_optimized_datagram_transport(asyncio.get_running_loop(), protocol, bound)


async def _fetch(
    options: Options, logs: Logs, sessions: SessionStore | None, journey: Journey, urls: Sequence[SplitResult]
) -> None:
    """Get files over one connection."""
    host, port = urls[0].hostname, urls[0].port or 443
    settings = configuration(options, logs)
    settings.server_name = host
    if sessions is not None:
        sessions.use(settings, early_data=options.zero_rtt)
    quic = QuicConnection(
        configuration=settings,
        session_ticket_handler=sessions.keep if sessions is not None else None,
    )
    loop = asyncio.get_running_loop()
    family, *_, address = (await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM))[0]
    _, client = await _bind(lambda: _Client(quic, options), journey.address(family))

    async def move(to: Move) -> str:
        return await client.move(to.address(family))

    moving: asyncio.Task[None] | None = None
    try:
        quic.connect(address, now=loop.time())
        downloads = [client.get(url) for url in urls]
        journey.begin()
        client.transmit()
        if journey.is_open:
            moving = asyncio.create_task(journey.travel(lambda: client.is_confirmed, move))
            moving.add_done_callback(client.end_with)
        for failure in await asyncio.gather(*downloads, return_exceptions=True):
            if failure is not None:
                raise failure
        if sessions is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(sessions.ticket_arrived.wait(), TICKET_PATIENCE)
    finally:
        if moving is not None:
            moving.cancel()
        quic.close(NO_ERROR[options.protocol])
        client.transmit()
        # There is nothing to wait for: what the peer still says changes nothing.
        client.leave()
        print(f"qh3-endpoint: {client.outcome}", file=sys.stderr)


async def run_client(options: Options, logs: Logs) -> None:
    """Get all files, over as many connections as the plan says. Raises OSError."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    resuming = options.plan in ("resume", "early-data")
    if resuming and len(options.urls) < 2:
        raise OSError("this test needs two URLs")
    sessions = SessionStore(options.session_dir) if resuming or options.session_dir else None
    journey = Journey()
    groups = [options.urls]
    if options.plan == "each":
        groups = [(url,) for url in options.urls]
    elif resuming:
        groups = [options.urls[:1], options.urls[1:]]
    for urls in groups:
        await _fetch(options, logs, sessions, journey, urls)
    journey.end()
