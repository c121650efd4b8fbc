"""Words for people, in messages as in tables."""

from __future__ import annotations

from collections.abc import Sequence


def flows_named(numbers: Sequence[int]) -> str:
    """Flows in a sentence: 'flow 1', 'flows 0, 2'."""
    return f"flow {numbers[0]}" if len(numbers) == 1 else f"flows {', '.join(map(str, numbers))}"


def counted(number: int, noun: str) -> str:
    """So many of something: '1 run', '2 runs'."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
