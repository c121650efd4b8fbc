"""A QUIC file client and server over aioquic for hq-interop (HTTP/0.9), told by the environment what to do."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

from aioquic.asyncio import QuicConnectionProtocol, connect, serve  # type: ignore[import-not-found]
from aioquic.quic.configuration import QuicConfiguration  # type: ignore[import-not-found]
from aioquic.quic.events import ConnectionTerminated, QuicEvent, StreamReset  # type: ignore[import-not-found]
from aioquic.quic.logger import QuicFileLogger  # type: ignore[import-not-found]

CERTIFICATES, DOWNLOADS, WWW = Path("/certs"), Path("/downloads"), Path("/www")
#: Credit for the peer, bytes: more than any path under test can hold.
WINDOW = 64 * 2**20


def configuration(*, is_client: bool) -> QuicConfiguration:
    """What both roles have in common, with the logs that the environment asks for."""
    made = QuicConfiguration(
        is_client=is_client, alpn_protocols=["hq-interop"], max_data=WINDOW, max_stream_data=WINDOW
    )
    if folder := os.environ.get("QLOGDIR"):
        made.quic_logger = QuicFileLogger(folder)
    if file := os.environ.get("SSLKEYLOGFILE"):
        made.secrets_log_file = Path(file).open("a")  # noqa: SIM115
    return made


class Client(QuicConnectionProtocol):  # type: ignore[misc]
    """Remembers what ended a stream or the connection early; a reader sees no more than an end of file."""

    failure: QuicEvent | None = None

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, (ConnectionTerminated, StreamReset)):
            self.failure = self.failure or event
        if isinstance(event, StreamReset):
            self.close()
        super().quic_event_received(event)


async def fetch(client: Client, path: str) -> None:
    reader, writer = await client.create_stream()
    writer.write(f"GET {path}\r\n".encode())
    writer.write_eof()
    with (DOWNLOADS / Path(path).name).open("wb") as file:
        while data := await reader.read(65536):
            file.write(data)
            file.flush()
    if client.failure is not None:
        raise ConnectionError(f"{path}: {client.failure}")


async def run_client(urls: list[str]) -> None:
    server = urlsplit(urls[0])
    settings = configuration(is_client=True)
    settings.load_verify_locations(str(CERTIFICATES / "ca.pem"))
    async with connect(server.hostname, server.port, configuration=settings, create_protocol=Client) as client:
        await asyncio.gather(*(fetch(client, urlsplit(url).path) for url in urls))


async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    request = (await reader.read()).decode()
    try:
        writer.write((WWW / request.removeprefix("GET ").strip().lstrip("/")).read_bytes())
    except OSError as error:
        print(f"endpoint: {request!r}: {error}", file=sys.stderr)
    writer.write_eof()


async def run_server() -> None:
    settings = configuration(is_client=False)
    settings.load_cert_chain(CERTIFICATES / "cert.pem", CERTIFICATES / "priv.key")
    running: set[asyncio.Task[None]] = set()

    def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(respond(reader, writer))
        running.add(task)
        task.add_done_callback(running.discard)

    await serve("::", 443, configuration=settings, stream_handler=answer)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(run_client(os.environ["REQUESTS"].split()) if os.environ["ROLE"] == "client" else run_server())
