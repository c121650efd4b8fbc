"""1-RTT packets as a sender protects them, with the AEADs of `cryptography` as a whole: written after RFC 9001, not after
harness.capture.quic.protection, so that the two check each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from harness.capture.quic.protection import Aead, Heads

SIZES = {Aead.AES_128_GCM: 16, Aead.AES_128_CCM: 16, Aead.AES_256_GCM: 32, Aead.CHACHA20_POLY1305: 32}


def secret_size(aead: Aead) -> int:
    """Bytes of the secrets of an AEAD's cipher suite."""
    return 48 if aead is Aead.AES_256_GCM else 32


@cache
def _expand(secret: bytes, label: str, size: int) -> bytes:
    name = b"tls13 quic " + label.encode()
    info = bytes([0, size, len(name)]) + name + b"\x00"
    return HKDFExpand(hashes.SHA384() if len(secret) == 48 else hashes.SHA256(), size, info).derive(secret)


@cache
def _cipher(aead: Aead, key: bytes) -> AESGCM | AESCCM | ChaCha20Poly1305:
    if aead is Aead.CHACHA20_POLY1305:
        return ChaCha20Poly1305(key)
    return AESCCM(key) if aead is Aead.AES_128_CCM else AESGCM(key)


@dataclass(frozen=True)
class Sender:
    """One endpoint's protection, QUIC version 1."""

    secret: bytes
    aead: Aead
    connection_id: bytes = b""

    def packet(self, number: int, payload: bytes, length: int = 2, updates: int = 0) -> bytes:
        """A short-header packet with `length` bytes of its number, after so many key updates."""
        secret = self.secret
        for _ in range(updates):
            secret = _expand(secret, "ku", len(secret))
        size = SIZES[self.aead]
        key, iv, header_key = _expand(secret, "key", size), _expand(secret, "iv", 12), _expand(self.secret, "hp", size)
        first = 0x40 | (updates % 2) << 2 | length - 1
        header = bytes([first]) + self.connection_id + number.to_bytes(8, "big")[-length:]
        nonce = bytes(a ^ b for a, b in zip(iv, number.to_bytes(12, "big"), strict=True))
        body = _cipher(self.aead, key).encrypt(nonce, payload, header)
        protected = header + body
        at = 1 + len(self.connection_id)
        mask = self._header_mask(header_key, protected[at + 4 : at + 20])
        covered = bytes(a ^ b for a, b in zip(protected[at : at + length], mask[1:], strict=False))
        return bytes([first ^ mask[0] & 0x1F]) + self.connection_id + covered + protected[at + length :]

    def _header_mask(self, key: bytes, sample: bytes) -> bytes:
        if self.aead is Aead.CHACHA20_POLY1305:
            return Cipher(algorithms.ChaCha20(key, sample), mode=None).encryptor().update(bytes(5))
        return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(sample)[:5]


def heads(packets: Sequence[bytes], width: int = 54) -> Heads:
    """Packets as a capture has them."""
    data = np.array([list(packet[:width].ljust(width, b"\0")) for packet in packets], np.uint8).reshape(-1, width)
    sizes = np.array([len(packet) for packet in packets], np.int64)
    return Heads(data, np.minimum(sizes, width), sizes)


def integer(value: int) -> bytes:
    """A variable-length integer (RFC 9000 §16)."""
    for exponent in range(4):
        size = 1 << exponent
        if value < 1 << (8 * size - 2):
            return (value | exponent << (8 * size - 2)).to_bytes(size, "big")
    raise ValueError(value)


def stream_frame(stream: int, offset: int, data: bytes, fin: bool = False, length: bool = True) -> bytes:
    """A STREAM frame (RFC 9000 §19.8)."""
    kind = 0x08 | fin | length << 1 | (offset > 0) << 2
    place = integer(stream) + (integer(offset) if offset else b"")
    return bytes([kind]) + place + (integer(len(data)) if length else b"") + data
