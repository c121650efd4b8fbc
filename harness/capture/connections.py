"""The connections of a capture, and their 1-RTT packets, decrypted with the secrets that fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, tee
from typing import Literal, overload

import numpy as np

from harness.capture.capture import Capture, Ints, Keys
from harness.capture.key_log import Secret, Sender
from harness.capture.memmap import take_rows
from harness.capture.quic.frames import FrameError, Frames, read_common_frames, read_frames
from harness.capture.quic.invariants import LONG_HEADERS, Form
from harness.capture.quic.protection import Aead, Heads, Packets, Protection, candidate_aeads, count_plausible, decrypt

#: What tells a connection's short headers from others: nothing, where it is the only connection, also after its client
#: went on from a new address by a new connection ID (RFC 9000 §9); the client's port or a connection ID seen before;
#: such an ID alone, where several connections have one port.
Selection = Literal["direction", "port", "id"]

#: Packets that a secret is tried on, the share that it must open, and the fewest that are enough evidence.
_TRIAL_PACKETS, _MIN_SHARE, _MIN_PACKETS = 64, 0.9, 3
#: Acknowledgements that are searched for the number of the first packet.
_ACKNOWLEDGEMENTS = 3
#: No stream reaches further than this multiple of the bytes that came: more would have to be lost than arrives.
_MAX_OFFSET_RATIO = 8
#: The most packets whose frames are kept, some 700 B each; beyond that they are reread, so many packets at a time.
_MAX_KEPT, _PART = 1 << 19, 1 << 16
#: The packet number before the first, where numbers count from 0 (RFC 9000 §12.3).
_BEFORE_FIRST = -1


@dataclass(frozen=True)
class Connection:
    """A connection as its long headers show it (RFC 8999 §5.1)."""

    port: int
    """The client's port at its beginning."""
    version: int
    """QUIC version of the last long header: the negotiated one (RFC 9368 §2.3)."""
    client_id: bytes
    """The connection ID that the client chose first: packets to the client carry one of its length."""
    server_id: bytes
    """The server's connection ID; empty where no packet of the server was captured."""

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
    """The frames that could be read of each. If there are many, each iteration rereads them: go in order, few times."""
    undecrypted: int
    """Packets in its direction that it could not open, or had no frames: another connection's, or resets."""
    coalesced_ns: Ints
    """Times of the datagrams with a 1-RTT packet behind long headers, of which nothing is captured."""


def find_connections(capture: Capture) -> list[Connection]:
    """The connections whose clients' first packets were captured, in order of time.

    `capture` holds the datagrams of one flow at one interface. The connections of one client differ in port or in
    the connection ID that it chose; after a Retry or Version Negotiation packet it is one connection still.
    """
    by_key: dict[tuple[int, bytes], Connection] = {}
    for row in np.flatnonzero(np.isin(capture.form, LONG_HEADERS)):
        head, to_client = capture.visible[row].tobytes(), bool(capture.to_client[row])
        version, destination, source = int.from_bytes(head[1:5], "big"), *_connection_ids(head)
        port = int((capture.destination_port if to_client else capture.source_port)[row])
        key = (port, destination if to_client else source)
        if not to_client and key not in by_key:
            by_key[key] = Connection(port, version, source, b"")
        elif to_client and key in by_key:
            by_key[key] = Connection(port, version, destination, source)
    return list(by_key.values())


def _connection_ids(head: bytes) -> tuple[bytes, bytes]:
    """Destination and source connection ID of a long header (RFC 8999 §5.1)."""
    at = 6 + head[5]
    return head[6:at], head[at + 1 : at + 1 + head[at]] if at < len(head) else b""


def open_connections(
    capture: Capture, connections: Sequence[Connection], sender: Sender, secrets: Sequence[Secret]
) -> tuple[SentPackets, ...]:
    """The 1-RTT packets that one endpoint sent in each connection, without connections that no secret opens.

    A secret that opened a connection is tried last on the following ones. Connections and secrets are in order of
    time, so that the first secret tried is mostly the right one.
    """
    opened: list[SentPackets] = []
    on_port = Counter(connection.port for connection in connections)
    for connection in connections:
        by: Selection = "direction" if len(connections) == 1 else "port" if on_port[connection.port] == 1 else "id"
        packets = open_packets(capture, connection, sender, secrets, by)
        if packets is not None:
            opened.append(packets)
            secrets = [*(secret for secret in secrets if secret != packets.secret), packets.secret]
    return tuple(opened)


def open_packets(
    capture: Capture, connection: Connection, sender: Sender, secrets: Sequence[Secret], by: Selection = "port"
) -> SentPackets | None:
    """The 1-RTT packets that one endpoint of a connection sent; None where no secret opens them.

    `by`: what tells the connection's packets from others.

    Tags are not checked, since they were not captured. A secret fits when it opens nine of ten of the first packets.
    A wrong secret gives reserved bits of 0 in one of four packets. In half of these the number is near those before,
    and a sixth of these hold frames of 1-RTT packets that end within the packet. So it opens one packet of fifty.

    A few stacks (ngtcp2) count from a random number, which only their first packet encodes as a whole. Where that
    packet was not captured, the number is taken from the peer's acknowledgements.
    """
    rows = _rows(capture, connection, sender, by)
    # The number of the first packet does not change what header protection says of a secret.
    candidates, again = tee(_plausible(capture, connection, sender, secrets, rows))
    sent = _open_with_secrets(capture, connection, sender, candidates, rows, _BEFORE_FIRST)
    if sent is not None:
        return sent
    peer: Sender = "client" if sender == "server" else "server"
    peer_rows = _rows(capture, connection, peer, by)
    peer_candidates = _plausible(capture, connection, peer, secrets, peer_rows)
    peer_packets = _open_with_secrets(capture, connection, peer, peer_candidates, peer_rows, _BEFORE_FIRST)
    if peer_packets is None:
        return None
    remaining = list(again)
    acknowledged = (frames.acknowledged for frames in peer_packets.frames if frames.acknowledged is not None)
    attempts = (
        _open_with_secrets(capture, connection, sender, remaining, rows, largest)
        for largest in dict.fromkeys(islice(acknowledged, _ACKNOWLEDGEMENTS))
    )
    return next((attempt for attempt in attempts if attempt is not None), None)


def _open_with_secrets(
    capture: Capture,
    connection: Connection,
    sender: Sender,
    candidates: Iterable[tuple[Secret, Aead]],
    rows: Ints,
    largest: int,
) -> SentPackets | None:
    """As `open_packets`. `largest`: the largest packet number before the first packet."""
    sample = _heads(capture, rows[:_TRIAL_PACKETS])
    for secret, aead in candidates:
        protection = Protection(secret.secret, aead, connection.version, connection.id_length(sender), largest)
        packets, _ = _select_readable(decrypt(sample, protection))
        if len(packets) < _fewest(sample):
            continue
        packets, frames = _select_readable(decrypt(_heads(capture, rows), protection))
        return SentPackets(
            connection,
            sender,
            secret,
            aead,
            capture.t_ns[rows[packets.row]],
            capture.key[rows[packets.row]],
            packets,
            frames,
            undecrypted=len(rows) - len(packets),
            coalesced_ns=_coalesced_times(capture, connection, sender),
        )
    return None


def _plausible(
    capture: Capture, connection: Connection, sender: Sender, secrets: Sequence[Secret], rows: Ints
) -> Iterator[tuple[Secret, Aead]]:
    """The secrets and AEADs under which enough of the first packets have reserved bits of 0.

    To look at the bits takes an eighth of the time that decrypting takes, and most secrets are wrong: fifty
    connections have a hundred. Where packets are damaged, the right one does not fit, and all are tried.
    """
    if len(rows) < _MIN_PACKETS:
        return
    sample = _heads(capture, rows[:_TRIAL_PACKETS])
    for secret in secrets:
        for aead in candidate_aeads(secret.secret) if secret.sender == sender else ():
            protection = Protection(secret.secret, aead, connection.version, connection.id_length(sender))
            if count_plausible(sample, protection) >= _fewest(sample):
                yield secret, aead


def _heads(capture: Capture, rows: Ints) -> Heads:
    return Heads(take_rows(capture.visible, rows), capture.captured[rows], capture.payload[rows])


def _fewest(sample: Heads) -> float:
    """Packets of a sample that the right secret opens at least."""
    return max(_MIN_PACKETS, _MIN_SHARE * len(sample))


def _select_readable(packets: Packets) -> tuple[Packets, Sequence[Frames]]:
    """The packets that hold frames, and their frames.

    A packet that does not belong to the connection, such as a stateless reset, may look like a STREAM frame by chance.
    Such a frame lies far beyond all data that was carried.
    """
    indices, parsed = [], []
    in_memory = len(packets) <= _MAX_KEPT
    limit = _MAX_OFFSET_RATIO * int(packets.size.sum())
    for index, frames in enumerate(_parse_frames(packets)):
        if frames is None:
            continue
        # Most packets have one frame or none, for which a loop takes less time than `any`.
        for frame in frames.streams:
            if frame.offset + frame.length > limit:
                break
        else:
            indices.append(index)
            if in_memory:
                parsed.append(frames)
    readable = packets.select(np.array(indices, np.int64))
    return readable, tuple(parsed) if in_memory else _RereadFrames(readable)


def _parse_frames(packets: Packets) -> Iterator[Frames | None]:
    """The frames of each packet, read in parts; None for one that has none."""
    for start in range(0, len(packets), _PART):
        rows = slice(start, start + _PART)
        plain, captured, sizes = packets.plaintext[rows], packets.captured[rows], packets.size[rows]
        batch = zip(read_common_frames(plain, captured, sizes), captured.tolist(), sizes.tolist(), strict=True)
        for index, (common, length, size) in enumerate(batch):
            try:
                yield common or read_frames(plain[index, :length].tobytes(), size)
            except FrameError:
                yield None


class _RereadFrames(Sequence[Frames]):
    """The frames of packets that are too many to keep; each has some. 10 GB are eight million packets."""

    def __init__(self, packets: Packets) -> None:
        self._packets = packets

    def __len__(self) -> int:
        return len(self._packets)

    def __iter__(self) -> Iterator[Frames]:
        for frames in _parse_frames(self._packets):
            assert frames is not None
            yield frames

    @overload
    def __getitem__(self, index: int) -> Frames: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Frames]: ...
    def __getitem__(self, index: int | slice) -> Frames | Sequence[Frames]:
        rows = np.arange(len(self))[index]
        if isinstance(index, slice):
            return _RereadFrames(self._packets.select(rows))
        return next(iter(_RereadFrames(self._packets.select(np.array([rows])))))


def _rows(capture: Capture, connection: Connection, sender: Sender, by: Selection) -> Ints:
    """Rows of the short headers that an endpoint sent.

    The client's port may change on the way (RFC 9000 §9.3), the connection ID by either's choice (§5.1.1).
    """
    to_client = sender == "server"
    selected = (capture.to_client == to_client) & (capture.form == Form.SHORT)
    if by == "direction":
        return np.flatnonzero(selected)
    port = capture.destination_port if to_client else capture.source_port
    belongs = np.full(len(port), False) if by == "id" else port == connection.port
    if connection_id := connection.client_id if to_client else connection.server_id:
        seen_ids = capture.visible[:, 1 : 1 + len(connection_id)]
        belongs |= (seen_ids == np.frombuffer(connection_id, np.uint8)).all(axis=1)
    return np.flatnonzero(selected & belongs)


def _coalesced_times(capture: Capture, connection: Connection, sender: Sender) -> Ints:
    to_client = sender == "server"
    port = capture.destination_port if to_client else capture.source_port
    is_coalesced = (capture.form != Form.SHORT) & (capture.one_rtt | capture.after_initial)
    times: Ints = capture.t_ns[is_coalesced & (port == connection.port) & (capture.to_client == to_client)]
    return times
