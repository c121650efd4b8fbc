"""Packet protection of QUIC for many packets at once (RFC 9001 §5 and §6, RFC 9369 §3.3).

Authentication tags are not checked: captures keep the heads of packets only. All AEADs of QUIC encrypt with a
keystream that depends only on key and packet number, so that a head can be read without the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import Enum
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from harness.capture.memmap import allocate, take_rows
from harness.capture.quic.invariants import VERSION_2

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

#: Bytes of a sample for header protection, of its mask, and of the authentication tag (RFC 9001 §5.4.1, §5.3).
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


def candidate_aeads(secret: bytes) -> tuple[Aead, ...]:
    """The AEADs whose cipher suite has secrets of this size (RFC 8446 §B.4), the likelier first."""
    if len(secret) == hashes.SHA384.digest_size:
        return (Aead.AES_256_GCM,)
    return Aead.AES_128_GCM, Aead.CHACHA20_POLY1305, Aead.AES_128_CCM


@dataclass(frozen=True)
class Keys:
    """The keys of one direction's packets, in one key phase."""

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


@lru_cache(maxsize=1024)
def derive_keys(secret: bytes, aead: Aead, version: int) -> Keys:
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
    """The bytes that the first `size` payload bytes of each packet are XORed with: packet numbers (n,) → (n, size).

    Block i of GCM encrypts nonce and counter i + 2 (NIST SP 800-38D §7.1). That of CCM encrypts a byte of flags, nonce
    and counter i + 1 (RFC 3610 §2.3 with L = 3), that of ChaCha20 counter i + 1 (RFC 8439 §2.8).
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
    zeros, counters = bytes(size), np.ascontiguousarray(starts).tobytes()
    parts = [
        Cipher(algorithms.ChaCha20(key, counters[at : at + _BLOCK]), mode=None).encryptor().update(zeros)
        for at in range(0, len(counters), _BLOCK)
    ]
    return np.frombuffer(b"".join(parts), np.uint8).reshape(len(starts), size)


# --- 1-RTT packets of one direction of a connection, decrypted as far as their heads were captured.


#: Of the first byte of a short header (RFC 9000 §17.3.1).
_RESERVED, _PHASE, _LENGTH = 0x18, 0x04, 0x03
#: Bits of it that header protection covers (RFC 9001 §5.4.1).
_PROTECTED = 0x1F
#: Largest step from one packet number to a later one. No sender has that many packets in flight, and a number that was
#: decrypted with a wrong key is usually further away.
_LARGEST_STEP = 1 << 20
#: Packets that are decrypted together.
_PART = 1 << 17


@dataclass(frozen=True)
class Heads:
    """n short-header packets as captured, in order of arrival."""

    data: Bytes
    """First bytes of each, zero beyond what was captured, shape (n, w)."""
    captured: Ints
    """Bytes of it that were captured, shape (n,)."""
    size: Ints
    """Bytes of the packet, tag included, shape (n,)."""

    def __len__(self) -> int:
        return len(self.captured)

    def select(self, chosen: npt.NDArray[np.generic]) -> Heads:
        """The packets chosen by a mask or by indices."""
        return Heads(take_rows(self.data, chosen), self.captured[chosen], self.size[chosen])


@dataclass(frozen=True)
class Protection:
    """The secrets and parameters that open one direction of a connection."""

    secret: bytes
    """Its first application traffic secret."""
    aead: Aead
    version: int
    """QUIC version."""
    id_length: int
    """Bytes of the connection ID in its short headers."""
    largest: int = -1
    """The largest packet number before the first packet."""


@dataclass(frozen=True)
class Packets:
    """m decrypted packets, in order of arrival; arrays have shape (m,) unless said."""

    row: Ints
    """Which of the packets given."""
    number: Ints
    """Packet number."""
    phase: Ints
    """How many key updates came before it (RFC 9001 §6)."""
    plaintext: Bytes
    """First bytes of its payload, shape (m, w)."""
    captured: Ints
    """Bytes of payload that are known."""
    size: Ints
    """Bytes of payload, without the tag."""

    def __len__(self) -> int:
        return len(self.row)

    def select(self, chosen: Ints) -> Packets:
        """The packets chosen by indices."""
        return Packets(**{field.name: take_rows(getattr(self, field.name), chosen) for field in fields(self)})


def decrypt(heads: Heads, protection: Protection) -> Packets:
    """Remove the protection of short-header packets (RFC 9001 §5.4, §5.3), over all key phases (§6).

    Three kinds of packets are left out. The first are those whose sample of header protection was not captured. The 54
    bytes that a capture has of a datagram over IPv4 always hold it, the 34 over IPv6 do with IDs up to 13 bytes. The
    second have reserved bits set: RFC 9000 §17.3.1 has them 0, and three of four that a wrong key opens have not. The
    third have a number far from the numbers before. With a wrong secret the packets that remain do so by chance.
    """
    at = 1 + protection.id_length
    secret, aead, version = protection.secret, protection.aead, protection.version
    rows, first, protected = _unmask(heads, protection)
    length = (first & _LENGTH).astype(np.int64) + 1
    truncated = _truncated_numbers(protected, length)
    number = decode_numbers(np.where(first & _RESERVED == 0, truncated, -1), length, protection.largest)
    decoded = np.flatnonzero(number >= 0)
    rows, number, length = rows[decoded], number[decoded], length[decoded]
    phase = _key_phases(number, (first[decoded] & _PHASE) != 0)
    secrets = [secret]
    while len(secrets) <= phase.max(initial=0):
        secrets.append(next_secret(secrets[-1], version))
    width = heads.data.shape[1] - at - 1
    plain = allocate((len(rows), width), np.uint8)
    for part in _iterate_parts(len(rows)):
        plain[part] = _payloads(heads.data[rows[part]], at, length[part])
        for phase_index in np.unique(phase[part]).tolist():
            members = part.start + np.flatnonzero(phase[part] == phase_index)
            plain[members] ^= keystream(derive_keys(secrets[phase_index], aead, version), number[members], width)
    captured, total = heads.captured[rows] - at - length, heads.size[rows] - at - length - TAG
    return Packets(rows, number, phase, plain, np.minimum(captured, total), total)


def count_plausible(heads: Heads, protection: Protection) -> int:
    """How many packets have reserved bits of 0 under a secret's key of header protection: `decrypt` gives no more."""
    _, first, _ = _unmask(heads, protection)
    return int(np.count_nonzero(first & _RESERVED == 0))


def _unmask(heads: Heads, protection: Protection) -> tuple[Ints, Bytes, Bytes]:
    """Without header protection, of m packets whose sample was captured: their rows, shape (m,), first bytes (m,), and
    the four bytes that may belong to the number (m, 4).
    """
    at = 1 + protection.id_length
    is_complete = (heads.captured >= at + 4 + SAMPLE) & (heads.size >= at + 4 + TAG)
    rows = np.flatnonzero(is_complete)
    keys = derive_keys(protection.secret, protection.aead, protection.version)
    first, protected = np.zeros(len(rows), np.uint8), np.zeros((len(rows), 4), np.uint8)
    for part in _iterate_parts(len(rows)):
        data = heads.data[rows[part]]
        masks = header_masks(keys, data[:, at + 4 : at + 4 + SAMPLE])
        first[part] = data[:, 0] ^ (masks[:, 0] & _PROTECTED)
        protected[part] = data[:, at : at + 4] ^ masks[:, 1:MASK]
    return rows, first, protected


def _iterate_parts(count: int) -> Iterator[slice]:
    """Slices of `count` rows: to compute a packet takes many times the memory of its result."""
    for start in range(0, count, _PART):
        yield slice(start, min(start + _PART, count))


def _payloads(data: Bytes, at: int, length: Ints) -> Bytes:
    """The bytes behind the packet number of each head, zero beyond them. `at`: where the number starts."""
    width = data.shape[1] - at - 1
    plain = np.zeros((len(data), width), np.uint8)
    for size in range(1, 5):  # bytes of the packet number, behind which the payload starts
        mask = length == size
        plain[mask, : width + 1 - size] = data[mask, at + size :]
    return plain


def _truncated_numbers(protected: Bytes, length: Ints) -> Ints:
    """The packet number's bytes as a number: the first `length` of the four that may belong to it."""
    value = np.ascontiguousarray(protected).view(">u4")[:, 0].astype(np.int64)
    shifted: Ints = value >> (8 * (4 - length))
    return shifted


def decode_numbers(truncated: Ints, length: Ints, largest: int = -1) -> Ints:
    """Packet numbers in order of arrival (RFC 9000 §A.3), -1 for none.

    `truncated`: the encoded numbers, -1 for none; `length`: their bytes. `largest`: the largest number before the
    first. Where it is -1 (none), the first is taken as it stands: a sender without an acknowledgement writes all of it,
    up to four bytes.
    """
    decoded = np.empty(len(truncated), np.int64)
    for part in _iterate_parts(len(truncated)):
        estimate = _decode_by_steps(truncated[part], length[part], largest)
        decoded[part] = _decode_in_order(truncated[part], length[part], largest) if estimate is None else estimate
        # A number depends on the ones before it through their largest only.
        largest = max(largest, int(decoded[part].max()))
    return decoded


def _decode_by_steps(truncated: Ints, length: Ints, largest: int) -> Ints | None:
    """As `numbers`, for all at once, each taken for the nearest to the one before; None where that is not correct.

    Every number follows from the largest of those before it: numbers that satisfy this are the right ones.
    """
    present = np.flatnonzero(truncated >= 0)
    if not len(present):
        return np.full(len(truncated), -1, np.int64)
    short, window = truncated[present], np.int64(1) << 8 * length[present]
    # The steps between neighbours, by the bits that both have.
    common = np.minimum(window[1:], window[:-1])
    first = decode_number(largest, int(short[0]), 8 * int(length[present[0]]))
    guess = first + np.concatenate([[0], np.cumsum((np.diff(short) + common // 2) % common - common // 2)])
    before = np.maximum.accumulate(np.concatenate([[largest], guess[:-1]]))
    if guess.min() < 0 or (np.abs(guess - before)[before >= 0] > _LARGEST_STEP).any():
        return None
    expected, half = before + 1, window // 2
    candidate = (expected & ~(window - 1)) | short
    up = (candidate <= expected - half) & (candidate < (1 << 62) - window)
    down = ~up & (candidate > expected + half) & (candidate >= window)
    if not np.array_equal(np.where(up, candidate + window, np.where(down, candidate - window, candidate)), guess):
        return None
    decoded = np.full(len(truncated), -1, np.int64)
    decoded[present] = guess
    return decoded


def _decode_in_order(truncated: Ints, length: Ints, largest: int) -> Ints:
    decoded = []
    for short, size in zip(truncated.tolist(), length.tolist(), strict=True):
        if short < 0:
            decoded.append(-1)
            continue
        number = decode_number(largest, short, 8 * size)
        if largest >= 0 and abs(number - largest) > _LARGEST_STEP:
            decoded.append(-1)
            continue
        largest = max(largest, number)
        decoded.append(number)
    return np.array(decoded, np.int64)


def decode_number(largest: int, truncated: int, bits: int) -> int:
    """The packet number with these lowest bits that is closest to the one expected (RFC 9000 §A.3)."""
    expected, window = largest + 1, 1 << bits
    candidate = (expected & ~(window - 1)) | truncated
    if candidate <= expected - window // 2 and candidate < (1 << 62) - window:
        return candidate + window
    if candidate > expected + window // 2 and candidate >= window:
        return candidate - window
    return candidate


def _key_phases(number: Ints, bit: npt.NDArray[np.bool_]) -> Ints:
    """Key updates before each packet: the key phase bit changes with each, in order of packet numbers (RFC 9001 §6)."""
    order = np.argsort(number, kind="stable")
    phase = np.zeros(len(number), np.int64)
    phase[order] = np.cumsum(np.diff(bit[order].astype(np.int8), prepend=0) != 0)
    return phase
