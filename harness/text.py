"""Words for people, in messages as in tables."""

from __future__ import annotations

from collections.abc import Sequence


def flows_named(numbers: Sequence[int]) -> str:
    """Flows in a sentence: 'flow 1', 'flows 0, 2'."""
    return f"flow {numbers[0]}" if len(numbers) == 1 else f"flows {', '.join(map(str, numbers))}"


def counted(number: int, noun: str) -> str:
    """So many of something: '1 run', '2 runs'."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def size_of(size: float) -> str:
    """An amount of data for people, in units of 1000: '312 kB', '4.5 MB', '12 GB'."""
    for unit, least in (("GB", 1e9), ("MB", 1e6)):
        if size >= least:
            return f"{size / least:.{1 if size < 10 * least else 0}f} {unit}"
    return f"{size / 1e3:.0f} kB"
