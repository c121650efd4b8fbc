"""The fields of a QUIC datagram that an observer can read without keys (RFC 8999; RFC 9000 §17; RFC 9369 §3.2)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt


class Form(IntEnum):
    """The first packet of a datagram."""

    SHORT = 0
    """1-RTT packet (or a stateless reset, which looks alike)."""
    INITIAL = 1
    ZERO_RTT = 2
    HANDSHAKE = 3
    RETRY = 4
    VERSION_NEGOTIATION = 5
    NONE = 255
    """Not of QUIC: a segment of TCP, or a datagram of a flow without a connection."""


#: Forms with both connection IDs and a packet number.
LONG_HEADERS: Final = (Form.INITIAL, Form.ZERO_RTT, Form.HANDSHAKE)
VERSION_2: Final = 0x6B3343CF
_TYPES_1 = (Form.INITIAL, Form.ZERO_RTT, Form.HANDSHAKE, Form.RETRY)
_TYPES_2 = (Form.RETRY, Form.INITIAL, Form.ZERO_RTT, Form.HANDSHAKE)


def packet_forms(heads: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """`Form` of each datagram from the first bytes of its payload, shape (n, ≥5) → (n,)."""
    first = heads[:, 0]
    version = np.ascontiguousarray(heads[:, 1:5]).view(">u4")[:, 0]
    kind = (first >> 4) & 3
    form = np.where(version == VERSION_2, np.array(_TYPES_2)[kind], np.array(_TYPES_1)[kind])
    form = np.where(version == 0, Form.VERSION_NEGOTIATION, form)
    return np.where(first & 0x80 == 0, Form.SHORT, form).astype(np.uint8)


def last_visible_packet(head: bytes, payload: int) -> tuple[Form, bool] | None:
    """The last packet of a datagram whose header is visible, and whether bytes follow it (RFC 9000 §12.2).

    `head` holds the first bytes of a UDP payload of `payload` bytes that starts with a long header. None when
    the length of the first packet is not visible. A packet that follows a Handshake packet is a 1-RTT packet;
    one that follows the Initial of a client's first flight is a 0-RTT packet.
    """
    start, last = 0, None
    while start < len(head) and head[start] & 0x80:
        end = _packet_end(head, start)
        if end is None:
            break
        last = (Form(int(packet_forms(np.frombuffer(head[start : start + 5], np.uint8)[None, :])[0])), end < payload)
        start = end
    if last is not None and start < min(len(head), payload) and head[start] == 0:
        return last[0], False  # zeros after the last packet are padding, not a packet (the fixed bit is absent)
    return last


def _packet_end(head: bytes, start: int) -> int | None:
    """Offset after the long-header packet at `start`; None where the Length field is not visible."""
    try:
        version = int.from_bytes(head[start + 1 : start + 5], "big")
        types = _TYPES_2 if version == VERSION_2 else _TYPES_1
        form = types[(head[start] >> 4) & 3]
        position = start + 5
        for _ in range(2):  # destination and source connection ID
            position += 1 + head[position]
        if version == 0 or form is Form.RETRY:
            return None  # these have no Length: they fill the datagram
        if form is Form.INITIAL:
            token, position = read_varint(head, position)
            position += token
        length, position = read_varint(head, position)
    except IndexError:
        return None
    return position + length


def read_varint(head: bytes, position: int) -> tuple[int, int]:
    """A variable-length integer (RFC 9000 §16) and the offset after it. Raises IndexError past the end."""
    size = 1 << (head[position] >> 6)
    if position + size > len(head):
        raise IndexError
    value = int.from_bytes(head[position : position + size], "big") & ((1 << (8 * size - 2)) - 1)
    return value, position + size
