"""The unpacked size of a Parquet file, from its own headers, before it is unpacked.

A few bytes may unpack to gigabytes: a page of zeros, a run of one value. A reader allocates the size in a page's
header, and refuses a page that has more. So the sum over all pages limits the size of the whole file. Headers are
structures of Thrift's compact protocol (thrift.apache.org); their fields are those of
parquet.thrift (apache/parquet-format).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

_MAGIC = b"PAR1"
#: Bytes of the longest footer, and of the longest header of a page: the footer of the reference's largest table has a
#: thousandth of it.
_FOOTER, _HEADER = 16 << 20, 1 << 20
#: The most nested structures and lists, values of one header, and pages of a file.
_MAX_DEPTH, _MAX_VALUES, _MAX_PAGES = 24, 4_000_000, 1_000_000

_Struct = dict[int, Any]


@dataclass(frozen=True)
class ParquetFooter:
    """The sizes that a file claims in its headers."""

    rows: int
    values: int
    """Values of all columns; a list counts as its elements."""
    unpacked: int
    """Bytes of all pages."""
    page: int
    """Bytes of the largest."""


class _Compact:
    """A reader of one structure. Raises ValueError, IndexError at the end of the bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0
        self._values_left = _MAX_VALUES

    def struct(self, depth: int = 0) -> _Struct:
        """Read a structure: number of a field → its value."""
        if depth > _MAX_DEPTH:
            raise ValueError("structures within structures")
        fields: _Struct = {}
        number = 0
        while head := self._byte():
            delta, kind = head >> 4, head & 15
            number = number + delta if delta else self._signed()
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        self._values_left -= 1
        if self._values_left < 0:
            raise ValueError("too many values")
        if kind in (1, 2, 3):
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 7:
            return self._bytes(8)
        if kind == 8:
            return self._bytes(self._number())
        if kind in (9, 10):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._number()
            return [self._item(head & 15, depth) for _ in range(self._counted(count))]
        if kind == 11:
            count = self._counted(self._number())
            kinds = self._byte() if count else 0
            return [(self._item(kinds >> 4, depth), self._item(kinds & 15, depth)) for _ in range(count)]
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError(f"a value of kind {kind}")

    def _item(self, kind: int, depth: int) -> Any:
        return self._value(kind, depth + 1)

    def _counted(self, count: int) -> int:
        # Each element takes at least a byte, even a structure without a field.
        if count > len(self._data) - self.position:
            raise ValueError("a list longer than the header")
        return count

    def _byte(self) -> int:
        self.position += 1
        return self._data[self.position - 1]

    def _bytes(self, count: int) -> bytes:
        if count > len(self._data) - self.position:
            raise ValueError("a text longer than the header")
        self.position += count
        return self._data[self.position - count : self.position]

    def _number(self) -> int:
        number = shift = 0
        while (byte := self._byte()) & 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a number that is too long")
        return number | byte << shift

    def _signed(self) -> int:
        number = self._number()
        return number >> 1 ^ -(number & 1)


def read_footer(content: BinaryIO, size: int) -> ParquetFooter:
    """The claims of an open file of `size` bytes. Raises OSError, and ValueError where it is no Parquet file."""
    try:
        return _read_footer(content, size)
    except (IndexError, KeyError, TypeError, AttributeError) as error:
        raise ValueError("its headers say nothing") from error


def _read_footer(content: BinaryIO, size: int) -> ParquetFooter:
    if size < 12:
        raise ValueError("it is too short")
    content.seek(size - 8)
    end = content.read(8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != _MAGIC or length > min(_FOOTER, size - 12):
        raise ValueError("it has no footer")
    content.seek(size - 8 - length)
    footer = _Compact(content.read(length)).struct()
    rows = values = unpacked = largest = pages = 0
    for group in footer.get(4, []):
        rows += group[3]
        for column in group[1]:
            for page_values, page_bytes in _pages(content, size, column[3]):
                values, unpacked, largest = values + page_values, unpacked + page_bytes, max(largest, page_bytes)
                pages += 1
                if pages > _MAX_PAGES:
                    raise ValueError(f"it has more than {_MAX_PAGES} pages")
    return ParquetFooter(max(rows, footer[3]), values, unpacked, largest)


def _pages(content: BinaryIO, size: int, column: _Struct) -> Iterator[tuple[int, int]]:
    """(values, unpacked bytes) of each page of a column's part."""
    offsets = [column[9], *([column[11]] if column.get(11) else [])]
    at, end = min(offsets), min(offsets) + column[7]
    if not 0 < at <= end <= size:
        raise ValueError("its pages lie outside")
    while at < end:
        content.seek(at)
        reader = _Compact(content.read(min(_HEADER, end - at)))
        header = reader.struct()
        unpacked, packed = header[2], header[3]
        if unpacked < 0 or packed < 0:
            raise ValueError("a page of less than nothing")
        # Values of a data page, of either version; a dictionary's values are counted by its bytes.
        yield max(header.get(kind, {}).get(1, 0) for kind in (5, 8)), unpacked
        at += reader.position + packed
