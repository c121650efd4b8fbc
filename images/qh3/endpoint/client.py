"""The client: files over one connection or several, written as they arrive, or sent."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import SplitResult

from qh3.asyncio._transport import create_optimized_datagram_transport
from qh3.h3.events import DataReceived, H3Event, HeadersReceived
from qh3.quic.connection import QuicConnection
from qh3.quic.events import (
    ConnectionTerminated,
    DatagramFrameReceived,
    HandshakeCompleted,
    ProtocolNegotiated,
    QuicEvent,
    StreamReset,
)

from endpoint.datagrams import Received
from endpoint.http import NO_ERROR, Http, http
from endpoint.logs import Logs
from endpoint.moves import Journey, Move
from endpoint.options import Options
from endpoint.schedule import Request, follow_schedule, read_schedule
from endpoint.sending import FileSender
from endpoint.session import SessionStore
from endpoint.stack import ASKED, configuration

#: How long a client that has all its files waits for a session ticket it wants, seconds.
TICKET_PATIENCE = 3.0
#: Kernel buffer asked for, bytes: a window's worth on a long fat path, since Python may be late to read.
KERNEL_BUFFER = 16 * 2**20
#: Linux's number of the option that goes beyond the system's limit (asm-generic/socket.h).
SO_RCVBUFFORCE = 33
_MAPPED = "::ffff:"


class _Response:
    """One response on its way into its file; that to an upload has none."""

    def __init__(self, path: Path | None, request: Request | None = None) -> None:
        self.request = request
        # Unbuffered, so that the file grows with every packet.
        self.file = None if path is None else path.open("wb", buffering=0)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self, failure: str | None = None) -> None:
        if self.file is not None:
            self.file.close()
        if not self.done.done():
            self.done.set_result(None) if failure is None else self.done.set_exception(ConnectionError(failure))


class _Client(FileSender):
    """A connection with its downloads and uploads, by stream."""

    def __init__(self, quic: QuicConnection, options: Options) -> None:
        super().__init__(quic)
        self._options = options
        self._http: Http | None = None
        self._responses: dict[int, _Response] = {}
        self.received = Received()
        self.outcome = "no handshake"
        self._has_updated = False

    def transfer(self, url: SplitResult, request: Request | None = None) -> asyncio.Future[None]:
        """Ask for a file, or send it, as soon as there are keys for that: at once with early data, else after the
        handshake. `request`: that of a schedule.
        """
        self._speak_http()
        assert self._http is not None
        name, upload = PurePosixPath(url.path).name, self._options.upload
        response = _Response(None if upload else self._options.downloads / name, request)
        stream = self._quic.get_next_available_stream_id()
        self._responses[stream] = response
        headers = {
            "method": "POST" if upload else "GET",
            "scheme": url.scheme,
            "authority": url.netloc,
            "path": url.path,
        }
        headers = {f":{name}": value for name, value in headers.items()}
        if request is not None and request.priority:
            headers["priority"] = request.priority
        if upload:
            self.send_file(self._http, stream, self._options.root / name, headers)
        else:
            self._http.send_headers(stream, [(name.encode(), value.encode()) for name, value in headers.items()], True)
        return response.done

    def _speak_http(self) -> None:
        if self._http is None:
            self._http = http(self._quic, self._options.protocol)

    def ask(self, url: SplitResult, request: Request) -> asyncio.Future[None]:
        """Ask for a file now. Those that are asked for at once leave together."""
        answered = self.transfer(url, request)
        asyncio.get_running_loop().call_soon(self.transmit)
        return answered

    @property
    def is_confirmed(self) -> bool:
        """Whether the handshake is, of which there is no event."""
        return self._quic._handshake_confirmed

    async def move(self, address: str) -> str:
        """Bind to another address of this machine, leave the one before, and return the new one with its port."""
        old = self._transport
        assert old is not None
        # Which hands its transport to this protocol.
        host, port = await bind(lambda: self, address)
        old.close()
        # It takes one that is left, and something to send, for the server to see the move at once.
        self._quic.change_connection_id()
        self._quic.send_ping(0)
        self.transmit()
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def end_with(self, moving: asyncio.Task[None]) -> None:
        """Give the transfers up where a move failed."""
        failure = None if moving.cancelled() else moving.exception()
        if failure is not None:
            for stream in list(self._responses):
                self._end(stream, str(failure))

    def leave(self) -> None:
        """Close the socket."""
        if self._transport is not None:
            self._transport.close()

    def quic_event_received(self, event: QuicEvent) -> None:
        """Follow the connection's fate and its streams."""
        if isinstance(event, ProtocolNegotiated):
            # The server's own streams come before the first request of a schedule.
            self._speak_http()
        elif isinstance(event, HandshakeCompleted):
            self.outcome = f"resumed={event.session_resumed} early_data={event.early_data_accepted}".lower()
        elif isinstance(event, ConnectionTerminated):
            if event.error_code == NO_ERROR[self._options.protocol]:
                self.received.over.set()
            for stream in list(self._responses):
                self._end(stream, f"the connection ended: error {event.error_code:#x} {event.reason_phrase}")
        elif isinstance(event, DatagramFrameReceived):
            self.received.add(event.data)
        elif isinstance(event, StreamReset):
            self._end(event.stream_id, f"the stream was reset: error {event.error_code:#x}")
        if self._http is not None:
            for part in self._http.handle_event(event):
                self._response_received(part)
        if ASKED == "keyupdate" and not self._has_updated and self.is_confirmed:
            self._has_updated = True
            self._quic.request_key_update()

    def _response_received(self, part: H3Event) -> None:
        if not isinstance(part, DataReceived | HeadersReceived) or part.stream_id not in self._responses:
            return
        if isinstance(part, DataReceived):
            response = self._responses[part.stream_id]
            if response.request is not None and part.data:
                response.request.received()
            if response.file is not None:
                response.file.write(part.data)
        else:
            status = dict(part.headers).get(b":status", b"200").decode()
            if status != ("201" if self._options.upload else "200"):
                self._end(part.stream_id, f"status {status}")
        if part.stream_ended:
            self._end(part.stream_id)

    def _end(self, stream: int, failure: str | None = None) -> None:
        self.forget_file(stream)
        response = self._responses.pop(stream, None)
        if response is not None:
            response.end(failure)


def dual_stack(address: str) -> str:
    """An address of either family as an IPv6 socket has it (RFC 4291 §2.5.5.2)."""
    return address if ":" in address else _MAPPED + address


async def bind(protocol: Callable[[], asyncio.DatagramProtocol], address: str) -> tuple[str, int]:
    """Give a protocol a socket that is bound to an address of this machine. Returns that, and its port.

    As qh3's own connect() does, which takes no address: a socket of both families, with the library's transport.
    """
    # The transport closes it.
    own = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    for option in (socket.SO_RCVBUF, SO_RCVBUFFORCE):
        with contextlib.suppress(PermissionError):
            own.setsockopt(socket.SOL_SOCKET, option, KERNEL_BUFFER)
    own.bind((dual_stack(address), 0))
    host, port = own.getsockname()[:2]
    await create_optimized_datagram_transport(asyncio.get_running_loop(), protocol, own)
    return host.removeprefix(_MAPPED), port


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
    family, *_, server = (await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM))[0]
    client = _Client(quic, options)
    await bind(lambda: client, journey.address(family))

    async def move(to: Move) -> str:
        return await client.move(to.address(family))

    moving: asyncio.Task[None] | None = None
    try:
        # The protocol's own connect() would send before there are requests, which may be early data.
        quic.connect((dual_stack(server[0]), server[1], 0, 0), now=loop.time())
        schedule = read_schedule(len(urls))
        at_once = schedule is None and options.datagrams is None
        transfers = [client.transfer(url) for url in urls] if at_once else []
        journey.begin()
        client.transmit()
        if journey.is_open:
            moving = asyncio.create_task(journey.travel(lambda: client.is_confirmed, move))
            moving.add_done_callback(client.end_with)
        if schedule is not None:
            await client.wait_connected()
            await follow_schedule(schedule, lambda number: client.ask(urls[number], schedule[number]))
        if options.datagrams is not None:
            await client.wait_connected()
            # The end of the connection may be lost.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(client.received.over.wait(), options.datagrams.patience)
            client.received.write()
        for failure in await asyncio.gather(*transfers, return_exceptions=True):
            if failure is not None:
                raise failure
        if sessions is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(sessions.ticket_arrived.wait(), TICKET_PATIENCE)
    finally:
        if moving is not None:
            moving.cancel()
        # What comes later in the closing period would be answered with the same packet: nobody waits for that.
        quic.close(NO_ERROR[options.protocol])
        client.transmit()
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
    if options.connections > 1:
        # Each gets every N-th URL, and all are made at once.
        parts = (options.urls[number :: options.connections] for number in range(options.connections))
        outcomes = await asyncio.gather(
            *(_fetch(options, logs, sessions, journey, urls) for urls in parts if urls), return_exceptions=True
        )
        for outcome in outcomes:
            if outcome is not None:
                raise outcome
        return
    if options.plan == "each":
        groups = [(url,) for url in options.urls]
    elif resuming:
        groups = [options.urls[:1], options.urls[1:]]
    for urls in groups:
        await _fetch(options, logs, sessions, journey, urls)
    journey.end()
