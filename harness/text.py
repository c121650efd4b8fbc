"""Words for people, in messages as in tables."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """So many of something: '1 run', '2 runs'."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
