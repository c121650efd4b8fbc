"""A capture in a few hundred bytes: enough to say later at which packet another run parted from it.

Captures are too large to keep for every run. A digest of one says whether another is the same, and not where they
part. A trail is a chain of digests over the records (each depends on all before it) of which a byte is kept per
packet at first, where most differences show, and then one per `STRIDE` packets. Where two trails part, the packets do:
with two chances in 256 that a byte agrees by luck, and the place is found one step late.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from harness.capture import pcap

#: Packets of which each has its byte, and packets per byte after these.
DENSE, STRIDE = 256, 256


@dataclass(frozen=True)
class Parting:
    """Where a capture parts from another, of which only the trail is there."""

    first: int
    """Number of the first packet that may be the first other one, from 1."""
    last: int
    """Number of the last one that may be it."""


def trail(records: pcap.Records) -> str:
    """The trail of a capture's records, as hexadecimal digits: two a byte, the number of packets before them."""
    return trail_of([records])


def trail_of(parts: Iterable[pcap.Records]) -> str:
    """The same of a capture that comes in parts."""
    chain, kept, count = hashlib.blake2b(digest_size=16), bytearray(), 0
    fields, heads = np.zeros((0, 3), np.int64), np.zeros((0, pcap.HEAD), np.uint8)

    def add(size: int) -> None:
        nonlocal fields, heads, count
        chain.update(fields[:size].tobytes())
        chain.update(heads[:size].tobytes())
        kept.extend(chain.digest()[:1])
        fields, heads, count = fields[size:], heads[size:], count + size

    for part in parts:
        fields = np.concatenate([fields, np.stack([part.t_ns, part.captured, part.length], axis=1)])
        heads = np.concatenate([heads, part.heads])
        while len(fields) >= (step := 1 if count < DENSE else STRIDE):
            add(step)
    if len(fields):
        add(len(fields))
    return f"{count}:{kept.hex()}"


def parting(one: str, other: str) -> Parting | None:
    """Where two trails part; None where they do not. Raises ValueError where one of them is none."""
    (count, kept), (other_count, other_kept) = _read(one), _read(other)
    if (count, kept) == (other_count, other_kept):
        return None
    for number, (step, other_step) in enumerate(zip(_steps(count), _steps(other_count), strict=False)):
        if step != other_step:
            # The shorter one ends within a step of the longer: nothing can be told from it.
            return Parting(step[0] + 1, min(count, other_count) + 1)
        if kept[number] != other_kept[number]:
            return Parting(step[0] + 1, step[1])
    shared = min(count, other_count)
    return Parting(shared + 1, shared + 1)


def _steps(count: int) -> list[tuple[int, int]]:
    """The packets each byte of a trail adds: from, to."""
    dense = [(number, number + 1) for number in range(min(count, DENSE))]
    return dense + [(start, min(start + STRIDE, count)) for start in range(DENSE, count, STRIDE)]


def _read(text: str) -> tuple[int, bytes]:
    count, colon, digits = text.partition(":")
    if not colon:
        raise ValueError(f"'{text[:20]}' is no trail")
    kept = int(count), bytes.fromhex(digits)
    if len(kept[1]) != len(_steps(kept[0])):
        raise ValueError(f"a trail of {kept[0]} packets has {len(kept[1])} bytes")
    return kept
