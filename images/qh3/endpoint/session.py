"""What a client keeps of a connection for the next one: the TLS session."""

from __future__ import annotations

import asyncio
import pickle
import sys
from dataclasses import replace
from pathlib import Path

from qh3.quic.configuration import QuicConfiguration
from qh3.tls import SessionTicket


class SessionStore:
    """The client's newest ticket, on disk if it has a folder. The ticket carries what early data needs."""

    def __init__(self, folder: Path | None) -> None:
        self._path = folder / "session.pickle" if folder is not None else None
        self._ticket: SessionTicket | None = None
        self.ticket_arrived = asyncio.Event()
        if self._path is not None and self._path.exists():
            try:
                self._ticket = pickle.loads(self._path.read_bytes())
            except (OSError, ValueError, TypeError, AttributeError, EOFError, pickle.UnpicklingError) as error:
                # A session that cannot be used costs a full handshake, nothing more.
                print(f"qh3-endpoint: the stored session is of no use: {error}", file=sys.stderr)

    def use(self, configuration: QuicConfiguration, *, early_data: bool) -> None:
        """Give a new connection the ticket, which decides whether it sends early data."""
        ticket = self._ticket
        if ticket is not None and not early_data:
            ticket = replace(ticket, max_early_data_size=None)
        configuration.session_ticket = ticket
        self.ticket_arrived.clear()

    def keep(self, ticket: SessionTicket) -> None:
        """Keep the newest ticket."""
        self._ticket = ticket
        self.ticket_arrived.set()
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_bytes(pickle.dumps(ticket))
