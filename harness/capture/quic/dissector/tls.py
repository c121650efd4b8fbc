"""What TLS says in CRYPTO frames, as far as QUIC's checks ask (RFC 8446 §4, RFC 9000 §18)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.capture.quic.invariants import integer

CLIENT_HELLO, SERVER_HELLO, ENCRYPTED_EXTENSIONS, CERTIFICATE = 1, 2, 8, 11
#: Extensions: pre_shared_key, early_data (RFC 8446 §4.2), quic_transport_parameters (RFC 9001 §8.2).
_PSK, _EARLY_DATA, _PARAMETERS = 41, 42, 57
#: Transport parameters (RFC 9000 §18.2).
MAX_STREAMS_BIDI, PREFERRED_ADDRESS = 0x08, 0x0D


@dataclass
class CryptoStream:
    """The CRYPTO frames of one sender and packet number space, put in order."""

    _pieces: dict[int, bytes] = field(default_factory=dict)
    _whole: bytearray = field(default_factory=bytearray)
    end: int = 0
    """Offset behind the farthest byte."""

    def add(self, offset: int, data: bytes) -> None:
        """Take what one frame brings."""
        self.end = max(self.end, offset + len(data))
        if len(data) > len(self._pieces.get(offset, b"")):
            self._pieces[offset] = data
        while (near := next((at for at in sorted(self._pieces) if at <= len(self._whole)), None)) is not None:
            piece = self._pieces.pop(near)
            self._whole += piece[max(0, len(self._whole) - near) :]

    def messages(self) -> Iterator[tuple[int, bytes]]:
        """(type, body) of each handshake message that is whole."""
        at = 0
        while at + 4 <= len(self._whole):
            size = int.from_bytes(self._whole[at + 1 : at + 4], "big")
            if at + 4 + size > len(self._whole):
                return
            yield self._whole[at], bytes(self._whole[at + 4 : at + 4 + size])
            at += 4 + size

    def client_random(self) -> bytes | None:
        """Of a ClientHello that need not be whole."""
        found = bytes(self._whole[6:38])
        return found if len(found) == 32 and self._whole[0] == CLIENT_HELLO else None


@dataclass(frozen=True)
class Hello:
    """A ClientHello, or a ServerHello with its only suite."""

    suites: tuple[int, ...]
    psk: bool
    """It offers a session to be resumed, or accepts it."""


def client_hello(body: bytes) -> Hello:
    """Raises IndexError where it is cut short."""
    at = 34 + 1 + body[34]
    size = int.from_bytes(body[at : at + 2], "big")
    suites = tuple(int.from_bytes(body[i : i + 2], "big") for i in range(at + 2, at + 2 + size, 2))
    at += 2 + size
    at += 1 + body[at]
    return Hello(suites, _PSK in dict(_extensions(body[at:])))


def server_hello(body: bytes) -> Hello:
    """Raises IndexError where it is cut short."""
    at = 34 + 1 + body[34]
    return Hello((int.from_bytes(body[at : at + 2], "big"),), _PSK in dict(_extensions(body[at + 3 :])))


def accepts_early_data(body: bytes) -> bool:
    """Whether EncryptedExtensions do (RFC 8446 §4.2.10)."""
    return _EARLY_DATA in dict(_extensions(body))


def transport_parameters(body: bytes) -> dict[int, bytes]:
    """Those of EncryptedExtensions, by their identifiers; empty where they cannot be read."""
    data = dict(_extensions(body)).get(_PARAMETERS, b"")
    found: dict[int, bytes] = {}
    at = 0
    try:
        while at < len(data):
            name, at = integer(data, at)
            size, at = integer(data, at)
            found[name] = data[at : at + size]
            at += size
    except IndexError:
        return {}
    return found


def preferred_id(value: bytes) -> bytes:
    """The connection ID of a preferred_address (RFC 9000 §18.2): after two addresses with ports."""
    at = 4 + 2 + 16 + 2
    return value[at + 1 : at + 1 + value[at]] if len(value) > at else b""


def _extensions(data: bytes) -> Iterator[tuple[int, bytes]]:
    end = 2 + int.from_bytes(data[:2], "big")
    at = 2
    while at + 4 <= end:
        size = int.from_bytes(data[at + 2 : at + 4], "big")
        yield int.from_bytes(data[at : at + 2], "big"), data[at + 4 : at + 4 + size]
        at += 4 + size
