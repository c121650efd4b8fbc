"""The server's answer to the simulator's readiness probe, which is that of any QUIC server.

The probe is a packet of a version that nobody has; the answer is Version Negotiation (RFC 9000 §6, §17.2.1).
"""

from __future__ import annotations

#: A version that is reserved for this purpose (RFC 9000 §15: 0x?a?a?a?a).
OFFERED = bytes.fromhex("1a2a3a4a")


def version_negotiation(datagram: bytes) -> bytes | None:
    """The answer to a datagram, or None where it is no QUIC packet with a long header.

    Nothing else that comes to a server begins with a set bit: sequence numbers do not grow that far.
    """
    if len(datagram) < 7 or not datagram[0] & 0x80 or datagram[1:5] == b"\0\0\0\0":
        return None
    destination_end = 6 + datagram[5]
    source_end = destination_end + 1 + (datagram[destination_end] if destination_end < len(datagram) else len(datagram))
    if source_end > len(datagram):
        return None
    destination, source = datagram[5:destination_end], datagram[destination_end:source_end]
    return b"\x80\0\0\0\0" + source + destination + OFFERED
