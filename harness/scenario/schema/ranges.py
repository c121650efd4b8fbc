"""Values that may be ranges: a list of two, the least and the most of what is drawn for each repetition of a change."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import Discriminator, Tag

from harness.units import Duration, Percentage, Rate

T = TypeVar("T")


def written_form(value: object) -> str:
    """Which form of a value, or a range of it, a scenario has: the tag of `Rates` and its like."""
    return "a range" if isinstance(value, list | tuple) else "a value"


#: One value, or the least and the most of a range that a value is drawn from.
Rates = Annotated[
    Annotated[Rate, Tag("a value")] | Annotated[tuple[Rate, Rate], Tag("a range")], Discriminator(written_form)
]
Durations = Annotated[
    Annotated[Duration, Tag("a value")] | Annotated[tuple[Duration, Duration], Tag("a range")],
    Discriminator(written_form),
]
Shares = Annotated[
    Annotated[Percentage, Tag("a value")] | Annotated[tuple[Percentage, Percentage], Tag("a range")],
    Discriminator(written_form),
]


def fixed(value: T | tuple[T, T]) -> T:
    """A value that is no range. ValueError for a range: no value has been drawn from it yet."""
    if isinstance(value, tuple):
        raise ValueError("a range: no value was drawn from it")
    return value


def largest(value: T | tuple[T, T]) -> T:
    """A value; of a range its upper end."""
    return value[1] if isinstance(value, tuple) else value


def smallest(value: T | tuple[T, T]) -> T:
    """A value; of a range its lower end."""
    return value[0] if isinstance(value, tuple) else value
