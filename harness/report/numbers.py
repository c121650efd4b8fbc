"""Numbers and intervals as tables and sentences have them."""

from __future__ import annotations

import math
from typing import Final

from harness.outcome import Interval

#: Mbit/s from which on a decimal says enough.
_SHOWS: Final = 0.1


def number(value: float) -> str:
    """A number with three significant digits at least; of what is infinitely bad, 'never'."""
    if math.isinf(value):
        return "never"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def rate(value: float) -> str:
    """A rate in Mbit/s with a decimal; of one that is less than that shows, its first three digits."""
    return f"{value:.1f}" if not value or value >= _SHOWS else f"{value:.3g}"


def shown_unit(unit: str) -> str:
    """A unit in a table; nothing for a number."""
    return "" if unit == "1" else unit


def text(span: Interval | None) -> str:
    """Median, and the interval of several runs where its ends show as something else."""
    if span is None:
        return "–"
    median, low, high = map(number, (span.median, span.low, span.high))
    return median if span.n == 1 or median == low == high else f"{median} [{low}, {high}]"


def percentage(span: Interval | None) -> str:
    """The median of a share."""
    return "–" if span is None else f"{span.median:.1%}"
