"""Packet protection of QUIC for many packets at once (RFC 9001 §5 and §6, RFC 9369 §3.3).

Authentication tags are not checked: captures keep the heads of packets only. All AEADs of QUIC encrypt with a
stream of bytes that depends on key and packet number alone, so that a head can be read without the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from harness.capture.quic.invariants import VERSION_2

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

#: Bytes of a sample for header protection, of what it gives, and of the authentication tag (RFC 9001 §5.4.1, §5.3).
SAMPLE, MASK, TAG = 16, 5, 16
_BLOCK = 16
_IV = 12


class Aead(Enum):
    """The AEADs of TLS 1.3 that QUIC uses (RFC 9001 §5.3), by the size of their key, bytes."""

    AES_128_GCM = "AES-128-GCM"
    AES_256_GCM = "AES-256-GCM"
    CHACHA20_POLY1305 = "ChaCha20-Poly1305"
    AES_128_CCM = "AES-128-CCM"


_KEY_SIZE = {Aead.AES_128_GCM: 16, Aead.AES_256_GCM: 32, Aead.CHACHA20_POLY1305: 32, Aead.AES_128_CCM: 16}


def candidates(secret: bytes) -> tuple[Aead, ...]:
    """The AEADs whose cipher suite has secrets of this size (RFC 8446 §B.4), the likelier first."""
    if len(secret) == hashes.SHA384.digest_size:
        return (Aead.AES_256_GCM,)
    return Aead.AES_128_GCM, Aead.CHACHA20_POLY1305, Aead.AES_128_CCM


@dataclass(frozen=True)
class Keys:
    """What protects the packets of one direction, in one key phase."""

    aead: Aead
    key: bytes
    iv: bytes
    header: bytes
    """Key of header protection, the same in all key phases (RFC 9001 §6.1)."""


def expand_label(secret: bytes, label: str, size: int) -> bytes:
    """HKDF-Expand-Label without context (RFC 8446 §7.1), with the hash that gives secrets of this size."""
    name = b"tls13 " + label.encode()
    info = size.to_bytes(2, "big") + bytes([len(name)]) + name + b"\0"
    algorithm = hashes.SHA384() if len(secret) == hashes.SHA384.digest_size else hashes.SHA256()
    return HKDFExpand(algorithm, size, info).derive(secret)


def _label(version: int, word: str) -> str:
    return f"quicv2 {word}" if version == VERSION_2 else f"quic {word}"


def derive(secret: bytes, aead: Aead, version: int) -> Keys:
    """The keys of a secret (RFC 9001 §5.1, RFC 9369 §3.3.2)."""
    size = _KEY_SIZE[aead]
    return Keys(
        aead,
        key=expand_label(secret, _label(version, "key"), size),
        iv=expand_label(secret, _label(version, "iv"), _IV),
        header=expand_label(secret, _label(version, "hp"), size),
    )


def next_secret(secret: bytes, version: int) -> bytes:
    """The secret of the next key phase (RFC 9001 §6.1)."""
    return expand_label(secret, _label(version, "ku"), len(secret))


def header_masks(keys: Keys, samples: Bytes) -> Bytes:
    """Masks of header protection (RFC 9001 §5.4.3, §5.4.4): samples of shape (n, 16) → (n, 5)."""
    if keys.aead is Aead.CHACHA20_POLY1305:
        # A sample is the counter, little-endian, and the nonce, in the order in which the library takes them.
        return _chacha20(keys.header, samples, MASK)
    return _aes(keys.header, samples)[:, :MASK]


def keystream(keys: Keys, numbers: Ints, size: int) -> Bytes:
    """What the first `size` bytes of the payload of each packet are XORed with: packet numbers (n,) → (n, size).

    Block i of GCM encrypts nonce and counter i + 2 (NIST SP 800-38D §7.1), that of CCM a byte of flags, nonce and
    counter i + 1 (RFC 3610 §2.3 with L = 3), that of ChaCha20 counter i + 1 (RFC 8439 §2.8).
    """
    nonces = np.zeros((len(numbers), _IV), np.uint8)
    nonces[:, 4:] = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
    nonces ^= np.frombuffer(keys.iv, np.uint8)
    if keys.aead is Aead.CHACHA20_POLY1305:
        counters = np.zeros((len(numbers), 4), np.uint8)
        counters[:, 0] = 1
        return _chacha20(keys.key, np.hstack([counters, nonces]), size)
    count = -(-size // _BLOCK)
    blocks = np.zeros((len(numbers), count, _BLOCK), np.uint8)
    if keys.aead is Aead.AES_128_CCM:
        blocks[:, :, 0] = 2
        blocks[:, :, 1:13] = nonces[:, None, :]
        blocks[:, :, 15] = np.arange(count) + 1
    else:
        blocks[:, :, :12] = nonces[:, None, :]
        blocks[:, :, 15] = np.arange(count) + 2
    stream = _aes(keys.key, blocks.reshape(-1, _BLOCK))
    return stream.reshape(len(numbers), count * _BLOCK)[:, :size]


def _aes(key: bytes, blocks: Bytes) -> Bytes:
    """AES of single blocks: (n, 16) → (n, 16), in one call."""
    encrypt = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return np.frombuffer(encrypt.update(np.ascontiguousarray(blocks).tobytes()), np.uint8).reshape(-1, _BLOCK)


def _chacha20(key: bytes, starts: Bytes, size: int) -> Bytes:
    """ChaCha20's stream from each start (counter and nonce, shape (n, 16)) on: (n, size)."""
    nothing, whole = bytes(size), np.ascontiguousarray(starts).tobytes()
    parts = [
        Cipher(algorithms.ChaCha20(key, whole[at : at + _BLOCK]), mode=None).encryptor().update(nothing)
        for at in range(0, len(whole), _BLOCK)
    ]
    return np.frombuffer(b"".join(parts), np.uint8).reshape(len(starts), size)
