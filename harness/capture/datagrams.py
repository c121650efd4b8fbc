"""Whole UDP datagrams of a capture, one by one; arrays of heads are for `harness.capture.capture`."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from harness.capture.files import read_bytes
from harness.capture.pcap import iterate_records

_ETHERNET, _UDP = 14, 17
_IPV4, _IPV6 = 0x0800, 0x86DD
#: Bytes of the headers of IPv6 and of UDP, and of IPv4 without options.
_HEADER_6, _HEADER_UDP, _HEADER_4 = 40, 8, 20

Address = tuple[str, int]
"""IP address and UDP port."""


@dataclass(frozen=True, slots=True)
class Datagram:
    """One UDP datagram of a capture."""

    number: int
    """Number of its frame in the capture, from 1, as dissectors count."""
    t_ns: int
    source: Address
    destination: Address
    ip: int
    """IP version."""
    ecn: int
    """Codepoint (RFC 3168 §5)."""
    payload: bytes
    """As far as it was captured."""
    size: int
    """Bytes of payload."""


def read_datagrams(path: Path) -> list[Datagram]:
    """The UDP datagrams of a capture, compressed or not, in its order. Raises OSError, ValueError as `pcap.parse`."""
    return parse_datagrams(read_bytes(path))


def parse_datagrams(data: bytes) -> list[Datagram]:
    """The UDP datagrams of a capture's content, in its order. Raises ValueError as `pcap.parse`."""
    return list(_datagrams(data))


def _datagrams(data: bytes) -> Iterator[Datagram]:
    for number, (t_ns, frame) in enumerate(iterate_records(data), 1):
        kind = int.from_bytes(frame[12:14], "big")
        if kind == _IPV4 and len(frame) >= _ETHERNET + _HEADER_4 and frame[_ETHERNET + 9] == _UDP:
            at, ip = _ETHERNET + 4 * (frame[_ETHERNET] & 0x0F), 4
            ends, traffic_class = frame[_ETHERNET + 12 : _ETHERNET + 20], frame[_ETHERNET + 1]
        elif kind == _IPV6 and len(frame) >= _ETHERNET + _HEADER_6 and frame[_ETHERNET + 6] == _UDP:
            at, ip = _ETHERNET + _HEADER_6, 6
            ends = frame[_ETHERNET + 8 : _ETHERNET + 40]
            traffic_class = (int.from_bytes(frame[_ETHERNET : _ETHERNET + 2], "big") >> 4) & 0xFF
        else:
            continue
        if len(frame) < at + _HEADER_UDP:
            continue
        source, destination, length = struct.unpack_from("!HHH", frame, at)
        half = len(ends) // 2
        yield Datagram(
            number,
            t_ns,
            (_address(ends[:half]), source),
            (_address(ends[half:]), destination),
            ip,
            traffic_class & 3,
            frame[at + _HEADER_UDP : at + length],
            length - _HEADER_UDP,
        )


@lru_cache(256)
def _address(packed: bytes) -> str:
    return str(ipaddress.ip_address(packed))
