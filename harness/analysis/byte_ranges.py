"""Which parts of a stream are there."""

from __future__ import annotations

from bisect import bisect_left


class Held:
    """The parts of a stream that are there: [start, end) each, apart from each other and in order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> bool:
        """Whether some of a part was not there before."""
        first = bisect_left(self._ends, start)
        last = first
        while last < len(self._starts) and self._starts[last] <= end:
            last += 1
        if last - first == 1 and self._starts[first] <= start and end <= self._ends[first]:
            return False
        if last > first:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last], self._ends[first:last] = [start], [end]
        return True

    def has(self, start: int, end: int) -> bool:
        """Whether all of a part is there."""
        at = bisect_left(self._ends, end)
        return at < len(self._starts) and self._starts[at] <= start
