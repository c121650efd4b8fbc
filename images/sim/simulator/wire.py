"""The packets the simulator itself looks at or sends: those that open connections, the readiness probe."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

ETH_P_ALL = 3
IPPROTO_TCP, IPPROTO_UDP = 6, 17
#: TCP's flags SYN and ACK (RFC 9293 §3.1).
SYN, ACK = 0x02, 0x10
READY_PORT = 57832
#: <linux/sockios.h>, and what sets each offload (<linux/ethtool.h>): ETHTOOL_SGRO and so on.
SIOCETHTOOL = 0x8946
_OFFLOADS = {"gro": 0x2C, "gso": 0x24, "tso": 0x1F, "tx": 0x17}
#: In the first byte of a QUIC packet: it has a long header, as all have with which a client begins (RFC 9000 §17.2).
LONG_HEADER = 0x80
#: <asm-generic/socket.h>; Python's socket module lacks it.
SO_ATTACH_FILTER = 26
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


def opening(frame: bytes, port: int) -> tuple[str, bytes] | None:
    """(source address, what tells the connection from others) of a frame that belongs to a client's handshake.

    That is a QUIC packet with a long header to the servers' UDP port, told by its Destination Connection ID (RFC 9000
    §17.2), or a SYN as in `begins_flow`. None for any other frame, and for one that is cut short.
    """
    if not begins_flow(frame, port):
        return None
    match _transport(frame):
        case (protocol, offset):
            family, source = (socket.AF_INET, frame[26:30]) if frame[12] == 8 else (socket.AF_INET6, frame[22:38])
            ports, payload = frame[offset : offset + 4], frame[offset + 8 :]
            if protocol == IPPROTO_TCP:
                identity = frame[offset + 4 : offset + 8]
            elif len(payload) > 5 and payload[0] & LONG_HEADER:
                identity = payload[6 : 6 + payload[5]]
            else:
                return None
            return socket.inet_ntop(family, source), source + ports + identity
    return None


class _Instruction(ctypes.Structure):
    """struct sock_filter of <linux/filter.h>."""

    _fields_ = (("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32))


class _Program(ctypes.Structure):
    """struct sock_fprog of <linux/filter.h>."""

    _fields_ = (("len", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction)))


#: Classic BPF (<linux/bpf_common.h>): load a byte or half a word, from a place or one that counts from X; X as the
#: length of an IPv4 header; compare; mask; accept or drop.
_LDB, _LDH, _LDB_X, _LDH_X, _LDX_IHL = 0x30, 0x28, 0x50, 0x48, 0xB1
_JEQ, _JSET, _AND, _RET = 0x15, 0x45, 0x54, 0x06


def opening_filter(port: int) -> list[tuple[int, int, int, int]]:
    """A program for the kernel that lets through what `opening` knows: (code, jump if true, jump if false, k) each.

    Of a bulk transfer's packets hardly any begins a connection, and to look at each of them here would cost the
    simulator the time that its queues need.
    """

    def transport(byte: int, half: int, at: int) -> list[tuple[int, int, int, int]]:
        """After the IP protocol was loaded: its header is `at`, which in IPv4 counts from X. The last two are ends."""
        return [
            (_JEQ, 4, 0, IPPROTO_UDP),
            (_JEQ, 0, 9, IPPROTO_TCP),
            (byte, 0, 0, at + 13), (_AND, 0, 0, SYN | ACK), (_JEQ, 4, 6, SYN),
            (half, 0, 0, at + 2), (_JEQ, 0, 4, port), (byte, 0, 0, at + 8), (_JSET, 3, 2, LONG_HEADER),
            (half, 0, 0, at + 2), (_JEQ, 0, 1, READY_PORT),
            (_RET, 0, 0, 0), (_RET, 0, 0, 0xFFFF),
        ]  # fmt: skip

    ipv4 = [(_LDX_IHL, 0, 0, 14), (_LDB, 0, 0, 23), *transport(_LDB_X, _LDH_X, 14)]
    ipv6 = [(_LDB, 0, 0, 20), *transport(_LDB, _LDH, 54)]
    kind = [(_LDH, 0, 0, 12), (_JEQ, 2, 0, 0x0800), (_JEQ, 1 + len(ipv4), 0, 0x86DD), (_RET, 0, 0, 0)]
    return [*kind, *ipv4, *ipv6]


def let_through(sniff: socket.socket, program: list[tuple[int, int, int, int]]) -> None:
    """Have the kernel keep all else from a socket. What it has received by then is still there. Raises OSError."""
    instructions = (_Instruction * len(program))(*(_Instruction(*one) for one in program))
    made = _Program(len(program), instructions)
    sniff.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, bytes(made))


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


def switch_off(device: str, *offloads: str) -> None:
    """Switch off what a device does for its senders and receivers, by ethtool's names, where it has it and lets us.

    By ioctl, as ethtool(8) does without netlink (<linux/ethtool.h>): its process takes longer to start.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for name in offloads:
            value = ctypes.create_string_buffer(struct.pack("II", _OFFLOADS[name], 0), 8)
            request = struct.pack("16sP16x", device.encode(), ctypes.addressof(value))
            with contextlib.suppress(OSError):
                fcntl.ioctl(any_socket, SIOCETHTOOL, request)


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
