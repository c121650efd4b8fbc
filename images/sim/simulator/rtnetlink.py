"""What ip(8) does for one namespace, without its process: addresses, interfaces and neighbours by rtnetlink(7).

In a lab kernel a process takes several milliseconds to start, and a lab may have eighty endpoints.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import struct
from collections.abc import Iterable

from simulator.shell import CommandError

#: <linux/netlink.h>, <linux/rtnetlink.h>
NLMSG_ERROR = 2
NLM_F_REQUEST, NLM_F_ACK, NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE = 0x1, 0x4, 0x100, 0x200, 0x400
RTM_NEWLINK, RTM_NEWADDR, RTM_NEWNEIGH = 16, 20, 28
#: <linux/if.h>, <linux/if_link.h>, <linux/if_addr.h>, <linux/neighbour.h>
IFF_UP = 1
IFLA_MTU = 4
IFA_ADDRESS, IFA_LOCAL, IFA_F_NODAD = 1, 2, 0x02
NDA_DST, NDA_LLADDR, NUD_PERMANENT = 1, 2, 0x80
#: struct nlmsghdr, ifinfomsg, ifaddrmsg, ndmsg
_HEADER = struct.Struct("=IHHII")
_LINK, _ADDRESS, _NEIGHBOUR = struct.Struct("=BxHiII"), struct.Struct("=BBBBI"), struct.Struct("=BxxxiHBB")


def settle(commands: Iterable[list[str]]) -> None:
    """Carry out commands of ip(8) in this process's network namespace, in order. CommandError when one fails.

    Those that set up an interface are known here, and no others:

        ip link set dev DEVICE [mtu BYTES] up
        ip address add ADDRESS/LENGTH dev DEVICE [nodad]
        ip neigh replace ADDRESS lladdr MAC dev DEVICE nud permanent
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.bind((0, 0))
        for command in commands:
            try:
                kernel.send(_request(command))
                _require(kernel.recv(4096))
            except OSError as error:
                raise CommandError(f"{' '.join(command)}: {error.strerror or error}") from error


def _require(data: bytes) -> None:
    """OSError where an acknowledgement says that something failed (netlink(7))."""
    _, kind, _, _, _ = _HEADER.unpack_from(data)
    code = -struct.unpack_from("=i", data, _HEADER.size)[0] if kind == NLMSG_ERROR else errno.EPROTO
    if code:
        raise OSError(code, os.strerror(code))


def _request(command: list[str]) -> bytes:
    """The message that asks the kernel for what a command says. ValueError for a command that is not known here."""
    match command:
        case ["ip", "link", "set", "dev", device, *mtu, "up"]:
            body = _LINK.pack(socket.AF_UNSPEC, 0, socket.if_nametoindex(device), IFF_UP, IFF_UP)
            match mtu:
                case ["mtu", size]:
                    return _message(RTM_NEWLINK, 0, body, (IFLA_MTU, struct.pack("=I", int(size))))
                case []:
                    return _message(RTM_NEWLINK, 0, body)
        case ["ip", "address", "add", text, "dev", device, *nodad] if nodad in ([], ["nodad"]):
            interface = ipaddress.ip_interface(text)
            flags = IFA_F_NODAD if nodad else 0
            body = _ADDRESS.pack(
                _family(interface), interface.network.prefixlen, flags, 0, socket.if_nametoindex(device)
            )  # fmt: skip
            packed = interface.ip.packed
            return _message(
                RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, body, (IFA_LOCAL, packed), (IFA_ADDRESS, packed)
            )  # fmt: skip
        case ["ip", "neigh", "replace", text, "lladdr", mac, "dev", device, "nud", "permanent"]:
            address = ipaddress.ip_address(text)
            body = _NEIGHBOUR.pack(_family(address), socket.if_nametoindex(device), NUD_PERMANENT, 0, 0)
            link = bytes.fromhex(mac.replace(":", ""))
            return _message(
                RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, body, (NDA_DST, address.packed), (NDA_LLADDR, link)
            )  # fmt: skip
    raise ValueError(f"no command that is carried out here: {' '.join(command)}")


def _family(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> int:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6


def _message(kind: int, flags: int, body: bytes, *attributes: tuple[int, bytes]) -> bytes:
    """A request with its attributes (rtnetlink(3)), each at a multiple of four bytes."""
    parts = [body]
    for number, value in attributes:
        parts.append(struct.pack("=HH", 4 + len(value), number) + value + bytes(-len(value) % 4))
    payload = b"".join(parts)
    return _HEADER.pack(_HEADER.size + len(payload), kind, NLM_F_REQUEST | NLM_F_ACK | flags, 0, 0) + payload
