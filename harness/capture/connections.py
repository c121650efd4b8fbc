"""The connections of a capture, and their 1-RTT packets, decrypted with the secrets that fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import overload

import numpy as np

from harness.capture.capture import Capture, Ints, Keys
from harness.capture.key_log import Secret, Sender
from harness.capture.memmap import taken
from harness.capture.quic.frames import FrameError, Frames, read_common, read_frames
from harness.capture.quic.invariants import LONG_HEADERS, Form
from harness.capture.quic.protection import Aead, Heads, Packets, Protection, candidates, decrypt

#: Packets with which a secret is tried, the share that it must open, and the fewest that tell.
_TRIED, _SHARE, _LEAST = 64, 0.9, 3
#: Acknowledgements that are looked at for the number of the first packet.
_ACKNOWLEDGEMENTS = 3
#: No stream reaches further than this multiple of the bytes that came: more would have to be lost than arrives.
_BEYOND = 8
#: Packets whose frames are kept, some 700 B each; of more they are read anew, so many together.
_MANY, _PART = 1 << 19, 1 << 16
#: The packet number before the first, where numbers count from 0 (RFC 9000 §12.3).
_BEFORE_FIRST = -1


@dataclass(frozen=True)
class Connection:
    """A connection as its long headers show it (RFC 8999 §5.1)."""

    port: int
    """The client's, when it began."""
    version: int
    """QUIC version of the last long header: the negotiated one (RFC 9368 §2.3)."""
    client_id: bytes
    """The connection ID that the client chose first: packets to the client carry one of its length."""
    server_id: bytes
    """The server's; empty where no packet of the server was captured."""

    def id_length(self, sender: Sender) -> int:
        """Bytes of the connection ID in the short headers that an endpoint sends."""
        return len(self.client_id if sender == "server" else self.server_id)


@dataclass(frozen=True)
class SentPackets:
    """The 1-RTT packets that one endpoint sent, with their frames. n packets, in order of capture."""

    connection: Connection
    sender: Sender
    secret: Secret
    aead: Aead
    t_ns: Ints
    """Time of capture, shape (n,)."""
    key: Keys
    """The capture's keys, equal at both interfaces, shape (n,)."""
    packets: Packets
    """Their numbers, key phases and payloads."""
    frames: Sequence[Frames]
    """What could be read of each. Of many it is read anew each time: go through it in order, and few times."""
    closed: int
    """Packets in its direction that it could not open, or had no frames: another connection's, or resets."""
    coalesced_ns: Ints
    """Times of the datagrams with a 1-RTT packet behind long headers, of which nothing is captured."""


def connections(capture: Capture) -> list[Connection]:
    """The connections whose clients' first packets were captured, in order of time.

    `capture` holds the datagrams of one flow at one interface. The connections of one client differ in port or in
    the connection ID that it chose; after a Retry or Version Negotiation packet it is one connection still.
    """
    found: dict[tuple[int, bytes], Connection] = {}
    for row in np.flatnonzero(np.isin(capture.form, LONG_HEADERS)):
        head, to_client = capture.visible[row].tobytes(), bool(capture.to_client[row])
        version, target, source = int.from_bytes(head[1:5], "big"), *_ids(head)
        port = int((capture.destination_port if to_client else capture.source_port)[row])
        key = (port, target if to_client else source)
        if not to_client and key not in found:
            found[key] = Connection(port, version, source, b"")
        elif to_client and key in found:
            found[key] = Connection(port, version, target, source)
    return list(found.values())


def _ids(head: bytes) -> tuple[bytes, bytes]:
    """Destination and source connection ID of a long header (RFC 8999 §5.1)."""
    at = 6 + head[5]
    return head[6:at], head[at + 1 : at + 1 + head[at]] if at < len(head) else b""


def open_packets(
    capture: Capture, connection: Connection, sender: Sender, secrets: Sequence[Secret], *, alone: bool = False
) -> SentPackets | None:
    """The 1-RTT packets that one endpoint of a connection sent; None where no secret opens them.

    `alone`: whether the capture has no other connection, so that a client that goes on from a new address and by a new
    connection ID (RFC 9000 §9) is found there too.

    Tags are not checked, since they were not captured. A secret fits when it opens nine of ten of the first packets.
    What a wrong one makes of a packet has reserved bits of 0 once in four times, then a number near those before in
    half the cases, and then frames of 1-RTT packets that do not go beyond it in a sixth: it opens one packet of fifty.

    A few stacks (ngtcp2) count from a random number, which only their first packet has as a whole. Where that one was
    not captured, the peer's acknowledgements say what it was.
    """
    rows = _rows(capture, connection, sender, alone)
    opened = _open(capture, connection, sender, secrets, rows, _BEFORE_FIRST)
    if opened is not None:
        return opened
    peer: Sender = "client" if sender == "server" else "server"
    other = _open(capture, connection, peer, secrets, _rows(capture, connection, peer, alone), _BEFORE_FIRST)
    if other is None:
        return None
    acknowledged = (frames.acknowledged for frames in other.frames if frames.acknowledged is not None)
    tries = (
        _open(capture, connection, sender, secrets, rows, largest)
        for largest in dict.fromkeys(islice(acknowledged, _ACKNOWLEDGEMENTS))
    )
    return next((found for found in tries if found is not None), None)


def _open(
    capture: Capture, connection: Connection, sender: Sender, secrets: Sequence[Secret], rows: Ints, largest: int
) -> SentPackets | None:
    """The same, where the packets before the first had numbers up to `largest`."""
    heads = Heads(taken(capture.visible, rows), capture.seen[rows], capture.payload[rows])
    first = heads.where(np.arange(min(_TRIED, len(heads))))
    for secret in secrets:
        for aead in candidates(secret.secret) if secret.sender == sender else ():
            protection = Protection(secret.secret, aead, connection.version, connection.id_length(sender), largest)
            packets, _ = _readable(decrypt(first, protection))
            if len(packets) < max(_LEAST, _SHARE * len(first)):
                continue
            packets, frames = _readable(decrypt(heads, protection))
            return SentPackets(
                connection, sender, secret, aead, capture.t_ns[rows[packets.row]], capture.key[rows[packets.row]],
                packets, frames,
                closed=len(rows) - len(packets), coalesced_ns=_coalesced(capture, connection, sender),
            )  # fmt: skip
    return None


def _readable(packets: Packets) -> tuple[Packets, Sequence[Frames]]:
    """The packets that hold frames, and these.

    What is not of the connection, such as a stateless reset, may look like a STREAM frame by chance. Then it is one far
    beyond all that was carried.
    """
    kept, read = [], []
    few = len(packets) <= _MANY
    furthest = _BEYOND * int(packets.size.sum())
    for index, frames in enumerate(_read(packets)):
        if frames is None or any(frame.offset + frame.length > furthest for frame in frames.streams):
            continue
        kept.append(index)
        if few:
            read.append(frames)
    readable = packets.where(np.array(kept, np.int64))
    return readable, tuple(read) if few else _ReadAnew(readable)


def _read(packets: Packets) -> Iterator[Frames | None]:
    """The frames of each packet, read in parts; None for one that has none."""
    for start in range(0, len(packets), _PART):
        rows = slice(start, start + _PART)
        plain, known, sizes = packets.plain[rows], packets.seen[rows], packets.size[rows]
        every = zip(read_common(plain, known, sizes), known.tolist(), sizes.tolist(), strict=True)
        for index, (common, seen, size) in enumerate(every):
            try:
                yield common or read_frames(plain[index, :seen].tobytes(), size)
            except FrameError:
                yield None


class _ReadAnew(Sequence[Frames]):
    """Frames of packets that all have some, too many to be kept: 10 GB are eight million packets."""

    def __init__(self, packets: Packets) -> None:
        self._packets = packets

    def __len__(self) -> int:
        return len(self._packets)

    def __iter__(self) -> Iterator[Frames]:
        for frames in _read(self._packets):
            assert frames is not None
            yield frames

    @overload
    def __getitem__(self, index: int) -> Frames: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Frames]: ...
    def __getitem__(self, index: int | slice) -> Frames | Sequence[Frames]:
        rows = np.arange(len(self))[index]
        if isinstance(index, slice):
            return _ReadAnew(self._packets.where(rows))
        return next(iter(_ReadAnew(self._packets.where(np.array([rows])))))


def _rows(capture: Capture, connection: Connection, sender: Sender, alone: bool) -> Ints:
    """Rows of the short headers that go an endpoint's way: by the client's port, or by a connection ID seen before.

    The client's port may change on the way (RFC 9000 §9.3), the connection ID by either's choice (§5.1.1).
    """
    to_client = sender == "server"
    port = capture.destination_port if to_client else capture.source_port
    known = connection.client_id if to_client else connection.server_id
    mine = np.full(len(port), alone) | (port == connection.port)
    if known:
        mine |= (capture.visible[:, 1 : 1 + len(known)] == np.frombuffer(known, np.uint8)).all(axis=1)
    return np.flatnonzero(mine & (capture.to_client == to_client) & (capture.form == Form.SHORT))


def _coalesced(capture: Capture, connection: Connection, sender: Sender) -> Ints:
    to_client = sender == "server"
    port = capture.destination_port if to_client else capture.source_port
    behind = (capture.form != Form.SHORT) & (capture.one_rtt | capture.after_initial)
    times: Ints = capture.t_ns[behind & (port == connection.port) & (capture.to_client == to_client)]
    return times
