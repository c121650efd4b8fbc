"""The frames of one packet, or of many at once, as far as their payloads were captured (RFC 9000 §19)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class StreamFrame(NamedTuple):
    """A STREAM frame (RFC 9000 §19.8)."""

    stream: int
    offset: int
    length: int
    fin: bool
    head: bytes
    """The first bytes of its data, as far as they were captured."""

    @property
    def end(self) -> int:
        """Offset of the byte behind its data."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class CloseFrame:
    """A CONNECTION_CLOSE frame (RFC 9000 §19.19)."""

    code: int
    by_transport: bool
    """Whether the code is QUIC's own, else the application protocol's."""
    reason: bytes
    """As far as it was captured."""


class Frames(NamedTuple):
    """The frames that could be read of one packet."""

    streams: tuple[StreamFrame, ...]
    types: tuple[int, ...]
    """Of every frame whose first byte was captured, in order; runs of PADDING once."""
    acknowledged: int | None
    """Largest packet number that it acknowledges; None without an ACK frame."""
    hidden: int
    """Bytes of payload behind what could be read, in which there may be more frames."""
    challenges: tuple[bytes, ...] = ()
    """Data of PATH_CHALLENGE frames (§19.17), 8 bytes each."""
    responses: tuple[bytes, ...] = ()
    """Data of PATH_RESPONSE frames (§19.18)."""
    close: CloseFrame | None = None
    """The first CONNECTION_CLOSE."""
    crypto: tuple[tuple[int, bytes], ...] = ()
    """Offset and data of CRYPTO frames (§19.6), the data as far as they were captured."""
    new_ids: tuple[bytes, ...] = ()
    """The IDs of NEW_CONNECTION_ID frames (§19.15), as far as they were captured."""
    credits: tuple[tuple[int | None, int], ...] = ()
    """Credit of MAX_STREAM_DATA frames (§19.10), with their stream, and of MAX_DATA frames (§19.9), with none."""
    ecn_counts: tuple[int, int, int] | None = None
    """ECT(0), ECT(1) and CE counts of the last ACK frame that has all three (§19.3.2), packets; None without one."""


class FrameError(ValueError):
    """The bytes are no frames: the packet was not decrypted, or is damaged."""


PADDING, PING = 0x00, 0x01
#: Type → the number of variable-length integers that follow it, for frames of integers only.
_INTEGERS = {
    PING: 0,
    0x04: 3,  # RESET_STREAM
    0x05: 2,  # STOP_SENDING
    0x12: 1,
    0x13: 1,  # MAX_STREAMS
    0x14: 1,  # DATA_BLOCKED
    0x15: 2,  # STREAM_DATA_BLOCKED
    0x16: 1,
    0x17: 1,  # STREAMS_BLOCKED
    0x19: 1,  # RETIRE_CONNECTION_ID
    0x1E: 0,  # HANDSHAKE_DONE
    0x1F: 0,  # IMMEDIATE_ACK (draft-ietf-quic-ack-frequency)
    0x24: 4,  # RESET_STREAM_AT (draft-ietf-quic-reliable-stream-reset)
    0xAF: 4,  # ACK_FREQUENCY (draft-ietf-quic-ack-frequency)
}
#: Type → the number of variable-length integers before a length and as many bytes.
_PREFIXED = {
    0x07: 0,  # NEW_TOKEN
    0x31: 0,  # DATAGRAM with a length (RFC 9221 §4)
}
PATH_CHALLENGE, PATH_RESPONSE = 0x1A, 0x1B
#: By the transport, and by the application.
CONNECTION_CLOSE, APPLICATION_CLOSE = 0x1C, 0x1D
#: Bytes that follow a PATH_CHALLENGE or a PATH_RESPONSE.
_PROBE = 8
MAX_DATA, MAX_STREAM_DATA = 0x10, 0x11
ACK, ACK_ECN, _CRYPTO, _NEW_CONNECTION_ID, _DATAGRAM = 0x02, 0x03, 0x06, 0x18, 0x30
#: Types of frames that do not make a packet ack-eliciting (RFC 9002 §2).
NON_ELICITING = frozenset({PADDING, ACK, ACK_ECN, CONNECTION_CLOSE, APPLICATION_CLOSE})
STREAM, STREAM_LAST = 0x08, 0x0F
#: An offset that no stream reaches (RFC 9000 §4.5).
OFFSET_LIMIT = 1 << 62
FIN, LEN, OFF = 0x01, 0x02, 0x04
#: Bytes of a stateless reset token, and the longest connection ID (RFC 9000 §19.15).
_TOKEN, _LONGEST_ID = 16, 20


class _TruncatedError(Exception):
    """The captured bytes end here."""


class _Reader:
    """A position in the captured bytes of a payload of `size` bytes."""

    __slots__ = ("data", "position", "size")

    def __init__(self, data: bytes, size: int) -> None:
        self.data, self.size, self.position = data, size, 0

    def integer(self) -> int:
        """A variable-length integer (RFC 9000 §16)."""
        data, at = self.data, self.position
        if at >= len(data):
            self._end(at + 1)
        first = data[at]
        if first < 0x40:
            self.position = at + 1
            return first
        size = 1 << (first >> 6)
        if at + size > len(data):
            self._end(at + size)
        self.position = at + size
        return int.from_bytes(data[at : at + size], "big") & ((1 << (8 * size - 2)) - 1)

    def _end(self, end: int) -> None:
        if end > self.size:
            raise FrameError(f"a frame needs {end} B of a payload of {self.size} B")
        raise _TruncatedError

    def skip(self, count: int) -> None:
        """Skip bytes, which need not have been captured."""
        self.position += count
        if self.position > self.size:
            raise FrameError(f"a frame needs {self.position} B of a payload of {self.size} B")

    def bytes(self, count: int) -> bytes:
        """Read bytes, which must have been captured."""
        data, at = self.data, self.position
        if at + count > len(data):
            self._end(at + count)
        self.position = at + count
        return data[at : at + count]


def read_frames(data: bytes, size: int) -> Frames:
    """The frames of a payload of `size` bytes (without its tag). `data` holds its first bytes.

    Raises FrameError on a type that 1-RTT packets do not have, or a frame that is longer than the packet.
    """
    reader = _Reader(data, size)
    streams: list[StreamFrame] = []
    types: list[int] = []
    probes: dict[int, list[bytes]] = {PATH_CHALLENGE: [], PATH_RESPONSE: []}
    crypto: list[tuple[int, bytes]] = []
    new_ids: list[bytes] = []
    granted: list[tuple[int | None, int]] = []
    acknowledged: int | None = None
    close: CloseFrame | None = None
    ecn_counts: tuple[int, int, int] | None = None
    readable = 0
    try:
        while reader.position < min(size, len(data)):
            kind = reader.integer()
            types.append(kind)
            if STREAM <= kind <= STREAM_LAST:
                streams.append(_stream(reader, kind))
            elif kind in (ACK, ACK_ECN):
                acknowledged = reader.integer()
                ecn_counts = _acknowledgement(reader, kind, acknowledged) or ecn_counts
            elif kind in (CONNECTION_CLOSE, APPLICATION_CLOSE):
                close = _close(reader, kind, close)
            elif kind in probes:
                probes[kind].append(reader.bytes(_PROBE))
            elif kind == _CRYPTO:
                crypto.append(_crypto(reader))
            elif kind == _NEW_CONNECTION_ID:
                new_ids.append(_new_id(reader))
            elif kind in (MAX_DATA, MAX_STREAM_DATA):
                granted.append((reader.integer() if kind == MAX_STREAM_DATA else None, reader.integer()))
            else:
                _skip_frame(reader, kind)
            readable = reader.position
    except _TruncatedError:
        pass
    challenges, responses = (tuple(values) for values in probes.values())
    return Frames(
        tuple(streams),
        tuple(types),
        acknowledged,
        size - readable,
        challenges,
        responses,
        close,
        tuple(crypto),
        tuple(new_ids),
        tuple(granted),
        ecn_counts,
    )


def _stream(reader: _Reader, kind: int) -> StreamFrame:
    stream = reader.integer()
    offset = reader.integer() if kind & OFF else 0
    length = reader.integer() if kind & LEN else reader.size - reader.position
    start = reader.position
    reader.skip(length)
    if offset + length >= OFFSET_LIMIT:
        raise FrameError(f"a stream does not reach {offset + length} B (RFC 9000 §4.5)")
    return StreamFrame(stream, offset, length, bool(kind & FIN), reader.data[start : reader.position])


def _close(reader: _Reader, kind: int, before: CloseFrame | None) -> CloseFrame:
    """Read a CONNECTION_CLOSE frame. Gives the one before, if there was one."""
    code = reader.integer()
    if kind == CONNECTION_CLOSE:
        reader.integer()
    length = reader.integer()
    start = reader.position
    reader.skip(length)
    return before or CloseFrame(code, kind == CONNECTION_CLOSE, reader.data[start : reader.position])


def _skip_frame(reader: _Reader, kind: int) -> None:
    if kind == PADDING:
        data = reader.data
        while reader.position < len(data) and data[reader.position] == PADDING:
            reader.position += 1
    elif kind in _INTEGERS:
        for _ in range(_INTEGERS[kind]):
            reader.integer()
    elif kind in _PREFIXED:
        for _ in range(_PREFIXED[kind]):
            reader.integer()
        reader.skip(reader.integer())
    elif kind == _DATAGRAM:
        reader.skip(reader.size - reader.position)
    else:
        raise FrameError(f"no frame of 1-RTT packets has type {kind:#x}")


def _crypto(reader: _Reader) -> tuple[int, bytes]:
    offset, length = reader.integer(), reader.integer()
    start = reader.position
    reader.skip(length)
    return offset, reader.data[start : reader.position]


def _new_id(reader: _Reader) -> bytes:
    for _ in range(2):
        reader.integer()
    length = reader.integer()
    if not 1 <= length <= _LONGEST_ID:
        raise FrameError(f"no connection ID has {length} B")
    start = reader.position
    reader.skip(length + _TOKEN)
    return reader.data[start : start + length]


def _acknowledgement(reader: _Reader, kind: int, largest: int) -> tuple[int, int, int] | None:
    """The rest of an ACK frame (RFC 9000 §19.3): its ECN counts, if it has some."""
    reader.integer()
    ranges = reader.integer()
    smallest = largest - reader.integer()
    for _ in range(ranges):
        smallest -= reader.integer() + 2
        smallest -= reader.integer()
        if smallest < 0:
            break
    if smallest < 0:
        raise FrameError("an ACK frame acknowledges packet numbers below 0")
    return (reader.integer(), reader.integer(), reader.integer()) if kind == ACK_ECN else None


# --- The frames of many packets at once, for packets that have the usual frames only.


Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: Bytes of the longest variable-length integer.
_LONGEST = 8
#: From a tuple of all fields. `map` calls these without a function of Python in between, in a quarter of the time.
_STREAM_FRAME_OF: Callable[[tuple[Any, ...]], StreamFrame] = partial(tuple.__new__, StreamFrame)
_FRAMES_OF: Callable[[tuple[Any, ...]], Frames] = partial(tuple.__new__, Frames)


def read_common_frames(plain: Bytes, captured: Ints, size: Ints) -> Iterator[Frames | None]:
    """The frames of each of n payloads of STREAM, ACK, MAX_DATA, MAX_STREAM_DATA, PADDING and PING frames alone.

    `plain` holds their first bytes, shape (n, w). `captured` of these were captured, and `size` is their whole length,
    both of shape (n,). None for payloads with other frames, or without frames: `read_frames` reads these.
    """
    reading = _FrameReading(plain, captured, size)
    reading.run()
    return reading.frames()


class _FrameReading:
    """Reads all payloads in step, one frame of each at a time."""

    def __init__(self, plain: Bytes, captured: Ints, size: Ints) -> None:
        self._plaintext = plain
        self._data = np.pad(plain, ((0, 0), (0, _LONGEST)))
        self._captured, self._size = captured, size
        self._position = np.zeros(len(captured), np.int64)
        """The position at which each is read next."""
        self._readable = np.zeros(len(captured), np.int64)
        """The position behind its last whole frame."""
        self._truncated = np.zeros(len(captured), np.bool_)
        """The captured bytes ended within a frame."""
        self._unknown = np.zeros(len(captured), np.bool_)
        """It has frames that are not read here."""
        self._acknowledged = np.full(len(captured), -1, np.int64)
        self._ecn_counts = np.full((len(captured), 3), -1, np.int64)
        self._types: list[tuple[Ints, Ints]] = []
        self._streams: list[tuple[Ints, ...]] = []
        self._credits: list[tuple[Ints, Ints, Ints]] = []
        """For each step: rows, and their frames' fields."""

    def run(self) -> None:
        """Read all."""
        end = np.minimum(self._captured, self._size)
        while len(rows := np.flatnonzero((self._position < end) & ~self._truncated & ~self._unknown)):
            kind = self._data[rows, self._position[rows]].astype(np.int64)
            self._position[rows] += 1
            self._types.append((rows, kind))
            handled = np.zeros(len(rows), np.bool_)
            for mask, parse in (
                ((kind >= STREAM) & (kind <= STREAM_LAST), self._stream),
                ((kind == ACK) | (kind == ACK_ECN), self._acknowledgement),
                ((kind == MAX_DATA) | (kind == MAX_STREAM_DATA), self._credit),
                (kind == PADDING, self._padding),
            ):
                if mask.any():
                    parse(rows[mask], kind[mask])
                handled |= mask
            self._unknown[rows[~handled & (kind != PING)]] = True
            complete = rows[~self._truncated[rows] & ~self._unknown[rows]]
            self._readable[complete] = self._position[complete]

    def _is_valid(self, rows: Ints) -> Flags:
        return ~self._truncated[rows] & ~self._unknown[rows]

    def _integer(self, rows: Ints) -> Ints:
        """A variable-length integer of each row (RFC 9000 §16). The value of one that is cut off is undefined."""
        at = np.minimum(self._position[rows], self._data.shape[1] - _LONGEST)
        first = self._data[rows, at].astype(np.int64)
        value: Ints = first & 0x3F
        length = 1 << (first >> 6)
        # The length of an integer that was not captured is unknown.
        length[self._position[rows] >= self._captured[rows]] = 1
        end = self._position[rows] + length
        for byte in range(1, _LONGEST):
            longer = np.flatnonzero(length > byte)
            if not len(longer):
                break
            value[longer] = value[longer] << 8 | self._data[rows[longer], at[longer] + byte]
        cut = end > self._captured[rows]
        self._truncated[rows[cut]] = True
        self._unknown[rows[end > self._size[rows]]] = True
        self._position[rows] = np.where(cut, self._position[rows], end)
        return value

    def _stream(self, rows: Ints, kind: Ints) -> None:
        stream = self._integer(rows)
        offset, length = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        for bit, values in ((OFF, offset), (LEN, length)):
            present = np.flatnonzero((kind & bit != 0) & self._is_valid(rows))
            values[present] = self._integer(rows[present])
        sound = self._is_valid(rows)
        rows, kind, stream, offset, length = (column[sound] for column in (rows, kind, stream, offset, length))
        start = self._position[rows].copy()
        length = np.where(kind & LEN, length, self._size[rows] - start)
        self._position[rows] = start + length
        self._unknown[rows[(self._position[rows] > self._size[rows]) | (offset + length >= OFFSET_LIMIT)]] = True
        self._streams.append((rows, stream, offset, length, kind & FIN, start))

    def _acknowledgement(self, rows: Ints, kind: Ints) -> None:
        """RFC 9000 §19.3."""
        largest = self._integer(rows)
        readable = self._is_valid(rows)
        self._acknowledged[rows[readable]] = largest[readable]
        delay, ranges, first = (np.zeros(len(rows), np.int64) for _ in range(3))
        for values in (delay, ranges, first):
            active = np.flatnonzero(self._is_valid(rows))
            values[active] = self._integer(rows[active])
        smallest, range_index = np.maximum(largest - first, -1), 0
        while len(active := np.flatnonzero((ranges > range_index) & self._is_valid(rows))):
            for apart in (2, 0):
                smallest[active] = np.maximum(smallest[active] - self._integer(rows[active]) - apart, -1)
                active = active[self._is_valid(rows[active])]
            self._unknown[rows[active[smallest[active] < 0]]] = True
            range_index += 1
        sound = self._is_valid(rows)
        self._unknown[rows[sound & (smallest < 0)]] = True
        with_counts = np.flatnonzero(sound & (kind == ACK_ECN))
        counts = np.zeros((len(rows), 3), np.int64)
        for codepoint in range(3):
            with_counts = with_counts[self._is_valid(rows[with_counts])]
            counts[with_counts, codepoint] = self._integer(rows[with_counts])
        with_counts = with_counts[self._is_valid(rows[with_counts])]
        self._ecn_counts[rows[with_counts]] = counts[with_counts]

    def _credit(self, rows: Ints, kind: Ints) -> None:
        stream = np.full(len(rows), -1, np.int64)
        per_stream = np.flatnonzero(kind == MAX_STREAM_DATA)
        stream[per_stream] = self._integer(rows[per_stream])
        readable = np.flatnonzero(self._is_valid(rows))
        value = self._integer(rows[readable])
        sound = self._is_valid(rows[readable])
        self._credits.append((rows[readable][sound], stream[readable][sound], value[sound]))

    def _padding(self, rows: Ints, _: Ints) -> None:
        column = np.arange(self._plaintext.shape[1])
        at, captured = self._position[rows, None], self._captured[rows, None]
        behind = (self._plaintext[rows] != PADDING) & (column >= at) & (column < captured)
        self._position[rows] = np.where(behind.any(axis=1), behind.argmax(axis=1), self._captured[rows])

    # --- results

    def frames(self) -> Iterator[Frames | None]:
        """As `read_common_frames`."""
        count = len(self._captured)
        captured, width = self._plaintext.tobytes(), self._plaintext.shape[1]
        types: list[tuple[int, ...]] = [()] * count
        for rows, kind in self._types:
            for row, frame_type in zip(rows.tolist(), kind.tolist(), strict=True):
                types[row] += (frame_type,)
        streams: list[tuple[StreamFrame, ...]] = [()] * count
        for rows, stream, offset, length, fin, start in self._streams:
            first = rows * width + start
            last = rows * width + np.minimum(start + length, self._captured[rows])
            heads = map(captured.__getitem__, map(slice, first.tolist(), last.tolist()))
            fields = (stream.tolist(), offset.tolist(), length.tolist(), (fin != 0).tolist(), heads)
            for row, frame in zip(rows.tolist(), map(_STREAM_FRAME_OF, zip(*fields, strict=True)), strict=True):
                streams[row] += (frame,)
        granted: dict[int, tuple[tuple[int | None, int], ...]] = {}
        for rows, stream_of, value in self._credits:
            for row, stream, limit in zip(rows.tolist(), stream_of.tolist(), value.tolist(), strict=True):
                granted[row] = (*granted.get(row, ()), (None if stream < 0 else stream, limit))
        columns: dict[str, list[Any]] = {name: [value] * count for name, value in Frames._field_defaults.items()}
        columns.update(
            streams=streams,
            types=types,
            acknowledged=[None if largest < 0 else largest for largest in self._acknowledged.tolist()],
            hidden=(self._size - self._readable).tolist(),
        )
        for row, credit in granted.items():
            columns["credits"][row] = credit
        for row in np.flatnonzero(self._ecn_counts[:, 0] >= 0).tolist():
            columns["ecn_counts"][row] = tuple(self._ecn_counts[row].tolist())
        packets = map(_FRAMES_OF, zip(*(columns[name] for name in Frames._fields), strict=True))
        for frames, is_unknown in zip(packets, self._unknown.tolist(), strict=True):
            yield None if is_unknown else frames
