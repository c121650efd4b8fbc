"""Datagrams that a server sends at equal times, as media does (RFC 9221), and which of them came."""

from __future__ import annotations

import asyncio
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

#: Where a client writes which came, and when.
LOG = Path("/logs/datagrams.csv")
#: How long a server with nothing left to send leaves the last on their way before it closes the connection, seconds.
FAREWELL = 1.0
#: How much longer than the server sends a client waits for the end of the connection, seconds.
PATIENCE = 5.0
#: A sequence number, and when it was sent, ns since the epoch.
_HEAD = struct.Struct("!QQ")


@dataclass(frozen=True)
class Datagrams:
    """What is sent, and when."""

    every: float
    """Seconds between two groups."""
    packets: int
    """In each group."""
    size: int
    """Bytes of each."""
    count: int
    """Groups."""

    async def send(self, send: Callable[[bytes], None], transmit: Callable[[], None]) -> None:
        """Send them all, each group at its time, and return once they are on their way."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for turn in range(self.count):
            await asyncio.sleep(max(0.0, begun + turn * self.every - loop.time()))
            for packet in range(self.packets):
                send(_HEAD.pack(turn * self.packets + packet, time.time_ns()).ljust(self.size, b"\0"))
            transmit()
        await asyncio.sleep(FAREWELL)

    @property
    def patience(self) -> float:
        """The longest that a client waits, seconds from its handshake."""
        return self.count * self.every + FAREWELL + PATIENCE


def read_datagrams() -> Datagrams | None:
    """Those of the environment, DATAGRAMS=EVERY,PACKETS,SIZE,COUNT; None without any. Raises OSError."""
    text = os.environ.get("DATAGRAMS")
    if not text:
        return None
    try:
        every, packets, size, count = text.split(",")
        made = Datagrams(float(every), int(packets), int(size), int(count))
    except ValueError as error:
        raise OSError(f"DATAGRAMS: {text!r} is not EVERY,PACKETS,SIZE,COUNT") from error
    if not (made.every > 0 and made.packets > 0 and made.size >= _HEAD.size and made.count > 0):
        raise OSError(f"DATAGRAMS: {text!r} is not EVERY,PACKETS,SIZE,COUNT")
    return made


@dataclass
class Received:
    """Those that came."""

    rows: list[str] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """The connection ended."""

    def add(self, data: bytes) -> None:
        """Another one."""
        if len(data) >= _HEAD.size:
            sequence, sent = _HEAD.unpack_from(data)
            self.rows.append(f"{sequence},{sent},{time.time_ns()}\n")

    def write(self) -> None:
        """Write them down. Raises OSError where there is none."""
        LOG.write_text("sequence,sent_ns,received_ns\n" + "".join(self.rows))
        if not self.rows:
            raise OSError("no datagram came")
