"""The packets of a datagram, and what of them is not encrypted (RFC 9000 §17, §12.2; RFC 9369 §3.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.capture.quic.invariants import VERSION_2, Form, integer

LONG, _FIXED = 0x80, 0x40
_TYPES_1 = (Form.INITIAL, Form.ZERO_RTT, Form.HANDSHAKE, Form.RETRY)
_TYPES_2 = (Form.RETRY, Form.INITIAL, Form.ZERO_RTT, Form.HANDSHAKE)
#: Bytes of a Retry packet's integrity tag (RFC 9001 §5.8).
_INTEGRITY = 16


@dataclass(frozen=True, slots=True)
class Header:
    """One packet of a datagram, with what can be read of it without keys."""

    form: Form
    data: bytes
    """The whole packet."""
    number_at: int
    """Where its packet number starts; of a short header 1: its connection ID has no length there."""
    version: int = 0
    destination_id: bytes = b""
    source_id: bytes = b""
    token: bytes = b""
    """Of an Initial, or of a Retry."""


def split(payload: bytes) -> Iterator[Header]:
    """The packets of a datagram; what is no packet ends it."""
    position = 0
    while position < len(payload):
        found = _packet(payload[position:])
        if found is None:
            return
        yield found
        position += len(found.data)


def _packet(data: bytes) -> Header | None:
    if not data[0] & LONG:
        # A sender may leave the QUIC bit out (RFC 9287); zeros behind the last packet are padding.
        return Header(Form.SHORT, data, 1) if data[0] & _FIXED or data.strip(b"\0") else None
    try:
        version = int.from_bytes(data[1:5], "big")
        at = 6 + data[5]
        destination, source = data[6:at], data[at + 1 : at + 1 + data[at]]
        at += 1 + data[at]
        if version == 0:
            return Header(Form.VERSION_NEGOTIATION, data, at, 0, destination, source)
        form = (_TYPES_2 if version == VERSION_2 else _TYPES_1)[(data[0] >> 4) & 3]
        if form is Form.RETRY:
            token = data[at : len(data) - _INTEGRITY]
            return Header(form, data, at, version, destination, source, token)
        token = b""
        if form is Form.INITIAL:
            size, at = integer(data, at)
            token, at = data[at : at + size], at + size
        length, at = integer(data, at)
    except IndexError:
        return None
    return Header(form, data[: at + length], at, version, destination, source, token)
