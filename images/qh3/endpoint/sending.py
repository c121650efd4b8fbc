"""Files on their way out, read as the connection takes them: a server's responses, a client's uploads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from qh3.asyncio.protocol import QuicConnectionProtocol
from qh3.quic.connection import QuicConnection

from endpoint.http import Http
from endpoint.logs import log_recovery

#: Bytes read from a file at once, and bytes of a stream that wait to be sent before more is read.
CHUNK, RESERVE = 2**16, 2**18


@dataclass
class _Sending:
    http: Http
    file: BinaryIO
    left: int


class FileSender(QuicConnectionProtocol):
    """A connection with the files that it sends, by stream."""

    def __init__(self, quic: QuicConnection, stream_handler: Any = None) -> None:
        super().__init__(quic, stream_handler)
        self._sending: dict[int, _Sending] = {}

    def send_file(self, http: Http, stream: int, path: Path, headers: dict[str, str]) -> None:
        """Send a file, before it headers where there are any, its length among them. Raises OSError."""
        file = path.open("rb")
        size = os.fstat(file.fileno()).st_size
        if headers:
            headers = headers | {"content-length": str(size)}
            http.send_headers(stream, [(name.encode(), value.encode()) for name, value in headers.items()])
        self._sending[stream] = _Sending(http, file, size)

    def transmit(self) -> None:
        """Send what may be sent, and read on in the files as their streams run out of data."""
        self._read_on()
        super().transmit()
        while any(self._waiting(stream) == 0 for stream in self._sending):
            self._read_on()
            super().transmit()
        log_recovery(self._quic)

    def forget_file(self, stream: int) -> None:
        """Send no more of a file."""
        sending = self._sending.pop(stream, None)
        if sending is not None:
            sending.file.close()

    def _read_on(self) -> None:
        for stream, sending in list(self._sending.items()):
            while stream in self._sending and self._waiting(stream) < RESERVE:
                data = sending.file.read(CHUNK)
                sending.left -= len(data)
                ended = sending.left <= 0 or not data
                sending.http.send_data(stream, data, ended)
                if ended:
                    self.forget_file(stream)

    def _waiting(self, stream: int) -> int:
        """Bytes written to a stream and never sent yet. A connection that ends takes no more."""
        return RESERVE if self._quic._close_event is not None else self._quic.get_send_buffer_size(stream)
