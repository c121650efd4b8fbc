"""1-RTT packets of one direction of a connection, decrypted as far as their heads were captured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from harness.capture.memmap import empty, taken
from harness.capture.quic.protection import MASK, SAMPLE, TAG, Aead, derive, header_masks, keystream, next_secret

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

#: Of the first byte of a short header (RFC 9000 §17.3.1).
_RESERVED, _PHASE, _LENGTH = 0x18, 0x04, 0x03
#: Bits of it that header protection covers (RFC 9001 §5.4.1).
_PROTECTED = 0x1F
#: Largest step from one packet number to a later one. No sender has that many packets under way, and a number that was
#: not decrypted with the right key is as a rule further away.
_LARGEST_STEP = 1 << 20
#: Packets that are decrypted together.
_PART = 1 << 17


@dataclass(frozen=True)
class Heads:
    """n short-header packets as captured, in order of arrival."""

    data: Bytes
    """First bytes of each, zero beyond what was captured, shape (n, w)."""
    seen: Ints
    """Bytes of it that were captured, shape (n,)."""
    size: Ints
    """Bytes of the packet, tag included, shape (n,)."""

    def __len__(self) -> int:
        return len(self.seen)

    def where(self, chosen: npt.NDArray[np.generic]) -> Heads:
        """The packets chosen by a mask or by indices."""
        return Heads(taken(self.data, chosen), self.seen[chosen], self.size[chosen])


@dataclass(frozen=True)
class Protection:
    """What it takes to open one direction of a connection."""

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
    """m of these packets, decrypted, in order of arrival; arrays have shape (m,) unless said."""

    row: Ints
    """Which of the packets given."""
    number: Ints
    """Packet number."""
    phase: Ints
    """How many key updates came before it (RFC 9001 §6)."""
    plain: Bytes
    """First bytes of its payload, shape (m, w)."""
    seen: Ints
    """Bytes of payload that are known."""
    size: Ints
    """Bytes of payload, without the tag."""

    def __len__(self) -> int:
        return len(self.row)

    def where(self, chosen: Ints) -> Packets:
        """The packets chosen by indices."""
        return Packets(**{field.name: taken(getattr(self, field.name), chosen) for field in fields(self)})


def decrypt(heads: Heads, protection: Protection) -> Packets:
    """Remove the protection of short-header packets (RFC 9001 §5.4, §5.3), over all key phases (§6).

    What does not belong is left out: packets of which the sample of header protection was not captured (the 54 bytes
    that a capture has of a datagram over IPv4 always hold it, the 34 over IPv6 do with IDs up to 13 bytes), those with
    reserved bits (RFC 9000 §17.3.1 has them 0; three of four that a wrong key opens have not), and those whose number
    is out of all relation to the numbers before. With a wrong secret the rest is what chance leaves.
    """
    at = 1 + protection.id_length
    whole = (heads.seen >= at + 4 + SAMPLE) & (heads.size >= at + 4 + TAG)
    rows = np.flatnonzero(whole)
    secret, aead, version = protection.secret, protection.aead, protection.version
    keys = derive(secret, aead, version)
    first, protected = np.zeros(len(rows), np.uint8), np.zeros((len(rows), 4), np.uint8)
    for part in _in_parts(len(rows)):
        data = heads.data[rows[part]]
        masks = header_masks(keys, data[:, at + 4 : at + 4 + SAMPLE])
        first[part] = data[:, 0] ^ (masks[:, 0] & _PROTECTED)
        protected[part] = data[:, at : at + 4] ^ masks[:, 1:MASK]
    length = (first & _LENGTH).astype(np.int64) + 1
    truncated = _truncated(protected, length)
    number = numbers(np.where(first & _RESERVED == 0, truncated, -1), length, protection.largest)
    chosen = np.flatnonzero(number >= 0)
    rows, number, length = rows[chosen], number[chosen], length[chosen]
    phase = _phases(number, (first[chosen] & _PHASE) != 0)
    secrets = [secret]
    while len(secrets) <= phase.max(initial=0):
        secrets.append(next_secret(secrets[-1], version))
    width = heads.data.shape[1] - at - 1
    plain = empty((len(rows), width), np.uint8)
    for part in _in_parts(len(rows)):
        plain[part] = _payloads(heads.data[rows[part]], at, length[part])
        for turn in np.unique(phase[part]).tolist():
            mine = part.start + np.flatnonzero(phase[part] == turn)
            plain[mine] ^= keystream(derive(secrets[turn], aead, version), number[mine], width)
    seen, total = heads.seen[rows] - at - length, heads.size[rows] - at - length - TAG
    return Packets(rows, number, phase, plain, np.minimum(seen, total), total)


def _in_parts(count: int) -> Iterator[slice]:
    """So many rows, a part at a time: what is computed of a packet takes many times as much as is kept of it."""
    for start in range(0, count, _PART):
        yield slice(start, min(start + _PART, count))


def _payloads(data: Bytes, at: int, length: Ints) -> Bytes:
    """What is behind the packet number of each head, zero beyond it. `at`: where the number starts."""
    width = data.shape[1] - at - 1
    plain = np.zeros((len(data), width), np.uint8)
    for size in range(1, 5):  # bytes of the packet number, behind which the payload starts
        some = length == size
        plain[some, : width + 1 - size] = data[some, at + size :]
    return plain


def _truncated(protected: Bytes, length: Ints) -> Ints:
    """The bytes of the packet number as a number: of the four that could be it, the first `length`."""
    value = np.ascontiguousarray(protected).view(">u4")[:, 0].astype(np.int64)
    shifted: Ints = value >> (8 * (4 - length))
    return shifted


def numbers(truncated: Ints, length: Ints, largest: int = -1) -> Ints:
    """Packet numbers in order of arrival (RFC 9000 §A.3), -1 for what is none: truncated ones (-1: none), their bytes.

    `largest`: the largest number before the first. Where that is nothing, -1, the first is taken as it stands: a sender
    without an acknowledgement writes all of it, up to four bytes.
    """
    made = np.empty(len(truncated), np.int64)
    for part in _in_parts(len(truncated)):
        guessed = _near_to_the_one_before(truncated[part], length[part], largest)
        made[part] = _one_by_one(truncated[part], length[part], largest) if guessed is None else guessed
        # All that a number depends on of those before it.
        largest = max(largest, int(made[part].max()))
    return made


def _near_to_the_one_before(truncated: Ints, length: Ints, largest: int) -> Ints | None:
    """The same of all at once, each taken for the nearest to the one before; None where that is not what it is.

    Every number follows from the largest of those before it: numbers that satisfy this are the ones.
    """
    known = np.flatnonzero(truncated >= 0)
    if not len(known):
        return np.full(len(truncated), -1, np.int64)
    short, window = truncated[known], np.int64(1) << 8 * length[known]
    # From a number to the next, by the bits that both have.
    both = np.minimum(window[1:], window[:-1])
    first = decode_number(largest, int(short[0]), 8 * int(length[known[0]]))
    guess = first + np.concatenate([[0], np.cumsum((np.diff(short) + both // 2) % both - both // 2)])
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
    decoded[known] = guess
    return decoded


def _one_by_one(truncated: Ints, length: Ints, largest: int) -> Ints:
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


def _phases(number: Ints, bit: npt.NDArray[np.bool_]) -> Ints:
    """Key updates before each packet: the key phase bit changes with each, in order of packet numbers (RFC 9001 §6)."""
    order = np.argsort(number, kind="stable")
    phase = np.zeros(len(number), np.int64)
    phase[order] = np.cumsum(np.diff(bit[order].astype(np.int8), prepend=0) != 0)
    return phase
