"""The frames of many packets at once, of those that have nothing but what most packets have."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from harness.capture.quic.frames import (
    ACK,
    ACK_ECN,
    BEYOND,
    FIN,
    LEN,
    MAX_DATA,
    MAX_STREAM_DATA,
    OFF,
    PADDING,
    PING,
    STREAM,
    STREAM_LAST,
    Frames,
    StreamFrame,
)

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: Bytes of the longest variable-length integer.
_LONGEST = 8


def read_common(plain: Bytes, seen: Ints, size: Ints) -> Iterator[Frames | None]:
    """The frames of each of n payloads of STREAM, ACK, MAX_DATA, MAX_STREAM_DATA, PADDING and PING frames alone.

    `plain` holds their first bytes, shape (n, w), of which `seen` were captured, and `size` is their whole length, both
    of shape (n,). None for payloads that have other frames, or are none: `frames.read_frames` says what they are.
    """
    reading = _Reading(plain, seen, size)
    reading.run()
    return reading.frames()


class _Reading:
    """All payloads are read in step, a frame of each at a time."""

    def __init__(self, plain: Bytes, seen: Ints, size: Ints) -> None:
        self._plain = plain
        self._data = np.pad(plain, ((0, 0), (0, _LONGEST)))
        self._seen, self._size = seen, size
        self._at = np.zeros(len(seen), np.int64)
        """Where each is read next."""
        self._readable = np.zeros(len(seen), np.int64)
        """Behind its last whole frame."""
        self._cut = np.zeros(len(seen), np.bool_)
        """What was captured ended within a frame."""
        self._other = np.zeros(len(seen), np.bool_)
        """It has what is not read here."""
        self._acknowledged = np.full(len(seen), -1, np.int64)
        self._types: list[tuple[Ints, Ints]] = []
        self._streams: list[tuple[Ints, ...]] = []
        self._granted: list[tuple[Ints, Ints, Ints]] = []
        """Each of one step: rows, and what they have."""

    def run(self) -> None:
        """Read all."""
        end = np.minimum(self._seen, self._size)
        while len(rows := np.flatnonzero((self._at < end) & ~self._cut & ~self._other)):
            kind = self._data[rows, self._at[rows]].astype(np.int64)
            self._at[rows] += 1
            self._types.append((rows, kind))
            known = np.zeros(len(rows), np.bool_)
            for mine, read in (
                ((kind >= STREAM) & (kind <= STREAM_LAST), self._stream),
                ((kind == ACK) | (kind == ACK_ECN), self._acknowledgement),
                ((kind == MAX_DATA) | (kind == MAX_STREAM_DATA), self._credit),
                (kind == PADDING, self._padding),
            ):
                if mine.any():
                    read(rows[mine], kind[mine])
                known |= mine
            self._other[rows[~known & (kind != PING)]] = True
            whole = rows[~self._cut[rows] & ~self._other[rows]]
            self._readable[whole] = self._at[whole]

    def _sound(self, rows: Ints) -> Flags:
        return ~self._cut[rows] & ~self._other[rows]

    def _integer(self, rows: Ints) -> Ints:
        """A variable-length integer of each (RFC 9000 §16); of one that is cut off, anything."""
        at = np.minimum(self._at[rows], self._data.shape[1] - _LONGEST)
        first = self._data[rows, at].astype(np.int64)
        value: Ints = first & 0x3F
        more = 1 << (first >> 6)
        # Of what was not captured nobody knows how long it is.
        more[self._at[rows] >= self._seen[rows]] = 1
        end = self._at[rows] + more
        for byte in range(1, _LONGEST):
            long = np.flatnonzero(more > byte)
            if not len(long):
                break
            value[long] = value[long] << 8 | self._data[rows[long], at[long] + byte]
        short = end > self._seen[rows]
        self._cut[rows[short]] = True
        self._other[rows[end > self._size[rows]]] = True
        self._at[rows] = np.where(short, self._at[rows], end)
        return value

    def _stream(self, rows: Ints, kind: Ints) -> None:
        stream = self._integer(rows)
        offset, length = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        for bit, values in ((OFF, offset), (LEN, length)):
            some = np.flatnonzero((kind & bit != 0) & self._sound(rows))
            values[some] = self._integer(rows[some])
        sound = self._sound(rows)
        rows, kind, stream, offset, length = (one[sound] for one in (rows, kind, stream, offset, length))
        start = self._at[rows].copy()
        length = np.where(kind & LEN, length, self._size[rows] - start)
        self._at[rows] = start + length
        self._other[rows[(self._at[rows] > self._size[rows]) | (offset + length >= BEYOND)]] = True
        self._streams.append((rows, stream, offset, length, kind & FIN, start))

    def _acknowledgement(self, rows: Ints, kind: Ints) -> None:
        """RFC 9000 §19.3."""
        largest = self._integer(rows)
        told = self._sound(rows)
        self._acknowledged[rows[told]] = largest[told]
        delay, ranges, first = (np.zeros(len(rows), np.int64) for _ in range(3))
        for values in (delay, ranges, first):
            some = np.flatnonzero(self._sound(rows))
            values[some] = self._integer(rows[some])
        smallest, done = np.maximum(largest - first, -1), 0
        while len(some := np.flatnonzero((ranges > done) & self._sound(rows))):
            for apart in (2, 0):
                smallest[some] = np.maximum(smallest[some] - self._integer(rows[some]) - apart, -1)
                some = some[self._sound(rows[some])]
            self._other[rows[some[smallest[some] < 0]]] = True
            done += 1
        sound = self._sound(rows)
        self._other[rows[sound & (smallest < 0)]] = True
        counts = np.flatnonzero(sound & (kind == ACK_ECN))
        for _ in range(3):
            counts = counts[self._sound(rows[counts])]
            self._integer(rows[counts])

    def _credit(self, rows: Ints, kind: Ints) -> None:
        stream = np.full(len(rows), -1, np.int64)
        of_one = np.flatnonzero(kind == MAX_STREAM_DATA)
        stream[of_one] = self._integer(rows[of_one])
        some = np.flatnonzero(self._sound(rows))
        value = self._integer(rows[some])
        sound = self._sound(rows[some])
        self._granted.append((rows[some][sound], stream[some][sound], value[sound]))

    def _padding(self, rows: Ints, _: Ints) -> None:
        column = np.arange(self._plain.shape[1])
        at, seen = self._at[rows, None], self._seen[rows, None]
        behind = (self._plain[rows] != PADDING) & (column >= at) & (column < seen)
        self._at[rows] = np.where(behind.any(axis=1), behind.argmax(axis=1), self._seen[rows])

    # --- what came of it

    def frames(self) -> Iterator[Frames | None]:
        """As `read_common`."""
        count = len(self._seen)
        captured, width = self._plain.tobytes(), self._plain.shape[1]
        types: list[tuple[int, ...]] = [()] * count
        for rows, kind in self._types:
            for row, one in zip(rows.tolist(), kind.tolist(), strict=True):
                types[row] += (one,)
        streams: list[tuple[StreamFrame, ...]] = [()] * count
        for found in self._streams:
            rows, _, _, length, _, start = found
            stop = np.minimum(start + length, self._seen[rows])
            for row, stream, offset, long, fin, first, end in zip(
                *(one.tolist() for one in (*found, stop)), strict=True
            ):
                head = captured[row * width + first : row * width + end]
                streams[row] += (StreamFrame(stream, offset, long, bool(fin), head),)
        granted: dict[int, tuple[tuple[int | None, int], ...]] = {}
        for rows, stream_of, value in self._granted:
            for row, stream, most in zip(rows.tolist(), stream_of.tolist(), value.tolist(), strict=True):
                granted[row] = (*granted.get(row, ()), (None if stream < 0 else stream, most))
        hidden = (self._size - self._readable).tolist()
        acknowledged = self._acknowledged.tolist()
        for row, other in enumerate(self._other.tolist()):
            if other:
                yield None
                continue
            told = acknowledged[row]
            yield Frames(
                streams[row], types[row], None if told < 0 else told, hidden[row], granted=granted.get(row, ())
            )
