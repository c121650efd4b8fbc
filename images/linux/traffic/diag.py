"""TCP connections of this network namespace and the kernel's figures of them, by NETLINK_SOCK_DIAG (sock_diag(7)).

What `ss -ti` shows, without a process of its own for every look. Layouts: linux/netlink.h, linux/inet_diag.h,
linux/tcp.h. Numbers are the host's order except ports and addresses.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
INET_DIAG_INFO, INET_DIAG_CONG = 2, 4
#: net/tcp_states.h.
ESTABLISHED, LISTEN = 1, 10
_HEADER = struct.Struct("=IHHII")
#: inet_diag_req_v2 up to its socket: family, protocol, extensions, padding, states.
_REQUEST = struct.Struct("=BBBxI")
#: inet_diag_sockid: ports, addresses, interface, cookie.
_SOCKET = struct.Struct("!HH16s16s4s8s")
#: inet_diag_msg before and after its socket: family, state, timer, retransmissions; expires, queues, user, inode.
_BEFORE, _AFTER = struct.Struct("=BBBB"), struct.Struct("=IIIII")
_ATTRIBUTE = struct.Struct("=HH")
_EXTENSIONS = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1)

#: Fields of struct tcp_info (linux/tcp.h): offset and format. Times are us but for total_rto_time, ms; cwnd and
#: unacked are segments, delivery_rate bytes/s, snd_wnd the window that the peer advertised, bytes. snd_wnd came with
#: Linux 5.4, total_rto and total_rto_time with 6.7.
_FIELDS = {
    "cwnd": (80, "I"),
    "mss": (16, "I"),
    "srtt_us": (68, "I"),
    "rttvar_us": (72, "I"),
    "min_rtt_us": (148, "I"),
    "unacked": (24, "I"),
    "sacked": (28, "I"),
    "lost": (32, "I"),
    "retrans": (36, "I"),
    "bytes_acked": (120, "Q"),
    "bytes_sent": (200, "Q"),
    "bytes_retrans": (208, "Q"),
    "total_retrans": (100, "I"),
    "ca_state": (1, "B"),
    "delivery_rate": (160, "Q"),
    "notsent_bytes": (144, "I"),
    "total_rto": (240, "H"),
    "total_rto_time_ms": (244, "I"),
    "snd_wnd": (228, "I"),
}
COLUMNS = tuple(_FIELDS)
#: tcpi_bytes_received, at the end that receives.
_RECEIVED_AT, _RECEIVED = 128, struct.Struct("=Q")
_UNPACK = {name: (offset, struct.Struct("=" + form)) for name, (offset, form) in _FIELDS.items()}
#: What a figure is before there is a first sample of it (tcp_min_rtt, tcp_get_info in net/ipv4/tcp.c).
_NONE_YET = {"min_rtt_us": 0xFFFFFFFF, "srtt_us": 0}


def tcp_info(raw: bytes) -> dict[str, int | None]:
    """The figures of COLUMNS in a struct tcp_info; None where this kernel's is shorter, or there is none yet."""
    figures: dict[str, int | None] = {}
    for name, (offset, form) in _UNPACK.items():
        value = form.unpack_from(raw, offset)[0] if len(raw) >= offset + form.size else None
        figures[name] = None if value == _NONE_YET.get(name) else value
    return figures


def bytes_received(raw: bytes) -> int:
    """Bytes that have arrived in order, by a struct tcp_info; 0 where it is empty."""
    return int(_RECEIVED.unpack_from(raw, _RECEIVED_AT)[0]) if len(raw) >= _RECEIVED_AT + _RECEIVED.size else 0


@dataclass(frozen=True)
class Connection:
    """One socket as the kernel describes it."""

    family: int
    state: int
    identity: bytes
    """inet_diag_sockid, by which it is found again; its cookie is like no other's."""
    info: bytes
    """struct tcp_info; empty where it has none any more."""
    algorithm: str
    """Its congestion control; empty as above."""
    unread: int
    """Bytes that have arrived in order and wait for the application (idiag_rqueue)."""

    @property
    def ports(self) -> tuple[int, int]:
        """Own and the peer's."""
        own, peer, *_ = _SOCKET.unpack(self.identity)
        return own, peer


def request(family: int, states: int, identity: bytes, *, dump: bool) -> bytes:
    """A netlink message that asks for one socket, or with `dump` for all of the family in the states (a bit each)."""
    flags = NLM_F_REQUEST | (NLM_F_DUMP if dump else 0)
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, _EXTENSIONS, states) + identity
    return _HEADER.pack(_HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, flags, 0, 0) + body


def messages(datagram: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, body) of the netlink messages of a datagram."""
    while len(datagram) >= _HEADER.size:
        length, kind, *_ = _HEADER.unpack_from(datagram)
        if length < _HEADER.size:
            raise ValueError(f"a netlink message of {length} bytes")
        yield kind, datagram[_HEADER.size : length]
        datagram = datagram[(length + 3) & ~3 :]


def connection(body: bytes) -> Connection:
    """The socket of an inet_diag_msg and its attributes."""
    family, state, _, _ = _BEFORE.unpack_from(body)
    _, unread, _, _, _ = _AFTER.unpack_from(body, _BEFORE.size + _SOCKET.size)
    identity = body[_BEFORE.size : _BEFORE.size + _SOCKET.size]
    attributes = {}
    rest = body[_BEFORE.size + _SOCKET.size + _AFTER.size :]
    while len(rest) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(rest)
        if length < _ATTRIBUTE.size:
            raise ValueError(f"a netlink attribute of {length} bytes")
        attributes[kind] = rest[_ATTRIBUTE.size : length]
        rest = rest[(length + 3) & ~3 :]
    algorithm = attributes.get(INET_DIAG_CONG, b"").rstrip(b"\0").decode()
    return Connection(family, state, identity, attributes.get(INET_DIAG_INFO, b""), algorithm, unread)


class Diag:
    """A netlink socket to the kernel's socket tables."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG)
        self._socket.bind((0, 0))

    def close(self) -> None:
        """Close the netlink socket."""
        self._socket.close()

    def find(self, family: int, state: int, own_port: int = 0, peer_port: int = 0) -> Connection | None:
        """The first TCP socket of a family in a state with these ports (0: any); None where there is none."""
        identity = _SOCKET.pack(own_port, peer_port, b"", b"", b"", b"")
        found = self._ask(request(family, 1 << state, identity, dump=True), dump=True)
        # The kernel leaves the ports of listening sockets to its bytecode (inet_diag_dump_icsk).
        return next((item for item in found if _fits(item, state, own_port, peer_port)), None)

    def look(self, known: Connection) -> Connection | None:
        """The same socket now; None once it is gone."""
        found = self._ask(request(known.family, 0xFFFFFFFF, known.identity, dump=False), dump=False)
        return found[0] if found and found[0].info else None

    def _ask(self, message: bytes, *, dump: bool) -> list[Connection]:
        self._socket.send(message)
        found: list[Connection] = []
        while True:
            for kind, body in messages(self._socket.recv(1 << 18)):
                if kind == SOCK_DIAG_BY_FAMILY:
                    found.append(connection(body))
                elif kind == NLMSG_ERROR:
                    _check(-struct.unpack_from("=i", body)[0])
                    return found
                elif kind == NLMSG_DONE:
                    return found
            if not dump:
                return found


def _fits(item: Connection, state: int, own_port: int, peer_port: int) -> bool:
    own, peer = item.ports
    return item.state == state and own_port in (0, own) and peer_port in (0, peer)


def _check(error: int) -> None:
    """ENOENT of a socket that has gone is an answer; anything else is not."""
    if error and error != 2:
        raise OSError(error, f"sock_diag: {os.strerror(error)}")
