"""The MTU of a path: the largest IP packet that a link carries, apart from its interfaces' own MTU."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from harness.scenario.schema.base import Part
from harness.scenario.schema.queue import LARGEST_MTU

#: The smallest IPv4 packet that every link has to carry (RFC 791 §3.2), bytes.
SMALLEST_PATH_MTU = 68

#: An IP packet's size, header included, bytes.
PacketSize = Annotated[int, Field(strict=True, ge=SMALLEST_PATH_MTU, le=LARGEST_MTU)]


class PathMtu(Part):
    """The largest IP packet that a link carries (RFC 1191, RFC 8201)."""

    size: PacketSize
    """Bytes of the largest IP packet, header included; a UDP datagram has 28 B less of payload over IPv4, 48 over IPv6.
    Below 1228 B over IPv4, or 1248 B over IPv6, no QUIC handshake passes (RFC 9000 §14)."""
    icmp: bool = True
    """Whether the sender of a larger packet is told: 'Fragmentation Needed' (RFC 1191), 'Packet Too Big' (RFC 8201).
    Without, a larger packet vanishes (a black hole). With, a packet over IPv4 that allows it (no DF) is fragmented."""


def in_full(mtu: int | PathMtu | None) -> PathMtu | None:
    """An MTU in its long form: a size alone is one that senders are told of."""
    return PathMtu(size=mtu) if isinstance(mtu, int) else mtu
