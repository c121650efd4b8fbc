"""The packets the simulator itself looks at or sends: the first datagram, the readiness probe."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from pathlib import Path

ETH_P_ALL = 3
IPPROTO_TCP, IPPROTO_UDP = 6, 17
#: TCP's flags SYN and ACK (RFC 9293 §3.1).
SYN, ACK = 0x02, 0x10
READY_PORT = 57832
#: "WAIT", the version of the published readiness probe; any server must answer with Version Negotiation.
PROBE_VERSION = 0x57414954


def _transport(frame: bytes) -> tuple[int, int] | None:
    """(IP protocol, offset of its header) of an Ethernet frame; None for anything but IP."""
    ethertype = frame[12:14]
    if ethertype == b"\x08\x00" and len(frame) >= 34:
        return frame[23], 14 + (frame[14] & 15) * 4
    if ethertype == b"\x86\xdd" and len(frame) >= 54:
        return frame[20], 54
    return None


def udp_destination(frame: bytes) -> int | None:
    """UDP destination port of an Ethernet frame, or None for anything else."""
    match _transport(frame):
        case (protocol, offset) if protocol == IPPROTO_UDP and len(frame) >= offset + 8:
            return int(struct.unpack_from("!H", frame, offset + 2)[0])
    return None


def begins_flow(frame: bytes, port: int) -> bool:
    """Whether a frame is a datagram to the servers' UDP port, or opens a TCP connection other than to the gate."""
    match _transport(frame):
        case (protocol, offset) if protocol == IPPROTO_TCP and len(frame) >= offset + 14:
            destination = struct.unpack_from("!H", frame, offset + 2)[0]
            return frame[offset + 13] & (SYN | ACK) == SYN and destination != READY_PORT
    return udp_destination(frame) == port


def sniffer(interface: str) -> socket.socket:
    """A socket that sees every frame of an interface, before any queue (non-blocking)."""
    sniff = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    sniff.bind((interface, 0))
    sniff.setblocking(False)
    return sniff


def listener() -> socket.socket:
    """The TCP socket whose readiness tells the endpoints that the path is up (IPv4 and IPv6)."""
    listen = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    listen.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listen.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listen.bind(("::", READY_PORT))
    listen.listen(100)
    listen.setblocking(False)
    return listen


def nudge(address: str) -> None:
    """Send one datagram to the discard port of a neighbour, so that the kernel resolves it (RFC 863)."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as discard:
        discard.setblocking(False)
        with contextlib.suppress(OSError):
            discard.sendto(b"", (address, 9))


def probe_packet() -> bytes:
    """A QUIC long-header packet of an unknown version, padded to 1207 bytes (RFC 9000 §6, §17.2.1).

    Its first byte is that of an Initial packet of version 1: s2n-quic answers no other.
    """
    destination, source = os.urandom(8), os.urandom(8)
    header = bytes([0xC0]) + struct.pack("!I", PROBE_VERSION)
    ids = bytes([len(destination)]) + destination + bytes([len(source)]) + source
    return (header + ids).ljust(1207, b"\0")


def is_version_negotiation(datagram: bytes) -> bool:
    """Whether a datagram is a Version Negotiation packet: long header, version 0 (RFC 9000 §17.2.1)."""
    return len(datagram) >= 7 and datagram[0] & 0x80 != 0 and datagram[1:5] == b"\0\0\0\0"


def write_sysctl(name: str, value: str) -> None:
    """Set a sysctl where it exists and may be written."""
    path = Path("/proc/sys") / name.replace(".", "/")
    try:
        if path.read_text().strip() != value:
            path.write_text(value)
    except OSError:
        # A sysctl that compose already set, or that this kernel lacks, is no failure; forwarding is
        # verified by the readiness probe, which must cross it.
        return
