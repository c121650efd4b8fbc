"""The moves that a client is told to make, in the environment: MOVES=AT,HOW,ADDRESS4,ADDRESS6[;AT,HOW,…]."""

from __future__ import annotations

import asyncio
import math
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

#: How often qh3 is asked whether the handshake is confirmed, seconds.
LOOK = 0.001


@dataclass(frozen=True)
class Move:
    """One change of address, by a new socket in place of the old one."""

    at: float
    """Seconds after the client's first datagram."""
    ipv4: IPv4Address | None
    ipv6: IPv6Address | None

    def address(self, family: socket.AddressFamily) -> str:
        """The new address of a family. Raises OSError where none was given."""
        address = self.ipv6 if family == socket.AF_INET6 else self.ipv4
        if address is None:
            raise OSError(f"MOVES: no address of the connection's family at {self.at:g} s")
        return str(address)


def parse(text: str) -> tuple[Move, ...]:
    """Moves in order of time; an address of a family that nobody uses may be left empty. Raises OSError."""
    moves: list[Move] = []
    for entry in text.split(";"):
        try:
            at, how, ipv4, ipv6 = entry.split(",")
            move = Move(float(at), IPv4Address(ipv4) if ipv4 else None, IPv6Address(ipv6) if ipv6 else None)
        except ValueError as error:
            raise OSError(f"MOVES: {entry!r} is not AT,HOW,ADDRESS4,ADDRESS6: {error}") from error
        if how != "interface":
            raise OSError(f"MOVES: this program cannot move by {how!r}")
        if not math.isfinite(move.at) or move.at < 0:
            raise OSError(f"MOVES: {entry!r} does not begin with a time in seconds")
        if moves and move.at <= moves[-1].at:
            raise OSError(f"MOVES: {entry!r} is not later than the move before it")
        if move.ipv4 is None and move.ipv6 is None:
            raise OSError(f"MOVES: {entry!r} has no address")
        moves.append(move)
    return tuple(moves)


class Journey:
    """What is left of a client's moves, over all of its connections."""

    def __init__(self) -> None:
        text = os.environ.get("MOVES", "")
        self._left = list(parse(text)) if text else []
        self._last: Move | None = None
        self._zero: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether there are moves left."""
        return bool(self._left)

    def begin(self) -> None:
        """Start the clock, unless it runs: a connection's first datagram leaves."""
        if self._zero is None:
            self._zero = asyncio.get_running_loop().time()

    def address(self, family: socket.AddressFamily) -> str:
        """Where a connection begins. Moves whose time came while there was none are behind it."""
        while self._left and self._zero is not None and self._clock() >= self._left[0].at:
            self._last = self._left.pop(0)
        if self._last is None:
            return "::" if family == socket.AF_INET6 else "0.0.0.0"
        return self._last.address(family)

    async def travel(self, is_confirmed: Callable[[], bool], move: Callable[[Move], Awaitable[str]]) -> None:
        """Make the moves as their time comes, or once the handshake is confirmed (RFC 9000 §9)."""
        while self._left:
            next_move = self._left[0]
            # Whoever comes here late comes from a handshake.
            waited = self._last is None and self._clock() > next_move.at
            await asyncio.sleep(next_move.at - self._clock())
            while not is_confirmed():
                waited = True
                await asyncio.sleep(LOOK)
            self._last = self._left.pop(0)
            local = await move(next_move)
            print(
                f"qh3-endpoint: interface at {self._clock():.6f} s to {local}, told to at {next_move.at:g} s"
                + (", as soon as the handshake was confirmed" if waited else ""),
                file=sys.stderr,
            )

    def end(self) -> None:
        """Tell which moves were not made."""
        for left in self._left:
            print(f"qh3-endpoint: no interface at {left.at:g} s: the client was done before", file=sys.stderr)

    def _clock(self) -> float:
        assert self._zero is not None
        return asyncio.get_running_loop().time() - self._zero
