"""Captures in the format of dumpcap (draft-ietf-opsawg-pcapng): frames, and the TLS secrets that editcap put in."""

from __future__ import annotations

import struct
from collections.abc import Iterator

#: The type of the first block, a section header, which is the same in either byte order.
MAGIC = b"\x0a\x0d\x0d\x0a"
_INTERFACE, _PACKET, _SECRETS = 1, 6, 10
#: The secrets' type of a TLS key log ('TLSK').
_TLS_KEY_LOG = 0x544C534B
#: Of the section header's byte-order mark in its own order.
_BYTE_ORDER = 0x1A2B3C4D
#: Option with the resolution of an interface's times; without it they are microseconds.
_RESOLUTION, _MICROSECONDS = 9, 6
_ETHERNET = 1
#: A block's type and length before its body, and its length again behind it.
_HEAD, _TAIL = 8, 4


def iterate_frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Time of capture (ns) and captured bytes of each frame, in file order.

    Raises ValueError for what is no pcapng, and for an interface that is no Ethernet. A damaged end ends it.
    """
    units: list[tuple[int, int]] = []
    for order, kind, body in _blocks(data):
        if kind == int.from_bytes(MAGIC, "little"):
            units = []
        elif kind == _INTERFACE:
            link = struct.unpack_from(order + "H", body)[0]
            if link != _ETHERNET:
                raise ValueError(f"the capture's link type is {link}, not Ethernet (1)")
            units.append(_unit(order, body))
        elif kind == _PACKET:
            interface, high, low, captured = struct.unpack_from(order + "IIII", body)
            if interface >= len(units):
                raise ValueError(f"a frame is of the interface {interface}, which the file does not describe")
            numerator, denominator = units[interface]
            yield ((high << 32) | low) * numerator // denominator, body[20 : 20 + captured]


def read_key_logs(data: bytes) -> str:
    """The lines of all key logs in a capture, in the format of draft-ietf-tls-keylogfile."""
    logs = []
    for order, kind, body in _blocks(data):
        if kind == _SECRETS:
            secrets, length = struct.unpack_from(order + "II", body)
            if secrets == _TLS_KEY_LOG:
                logs.append(body[8 : 8 + length].decode("ascii", "replace"))
    return "\n".join(logs)


def _blocks(data: bytes) -> Iterator[tuple[str, int, bytes]]:
    """Byte order, type and body of each whole block."""
    if data[:4] != MAGIC:
        raise ValueError(f"not a pcapng file: it starts with {data[:4].hex()}")
    order, position = "<", 0
    while position + _HEAD + _TAIL <= len(data):
        if data[position : position + 4] == MAGIC:
            mark = data[position + _HEAD : position + _HEAD + 4]
            order = "<" if int.from_bytes(mark, "little") == _BYTE_ORDER else ">"
        kind, length = struct.unpack_from(order + "II", data, position)
        if length < _HEAD + _TAIL or position + length > len(data):
            return
        yield order, kind, data[position + _HEAD : position + length - _TAIL]
        position += length


def _unit(order: str, body: bytes) -> tuple[int, int]:
    """Nanoseconds of one step of an interface's times, as a fraction."""
    position, resolution = 8, _MICROSECONDS
    while position + 4 <= len(body):
        code, length = struct.unpack_from(order + "HH", body, position)
        if code == _RESOLUTION and length == 1:
            resolution = body[position + 4]
        if code == 0:
            break
        position += 4 + -(-length // 4) * 4
    base, exponent = (2, resolution & 0x7F) if resolution & 0x80 else (10, resolution)
    return 10**9, base**exponent
