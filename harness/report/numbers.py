"""Numbers and intervals as tables, sentences and JSON have them."""

from __future__ import annotations

import math
from typing import Final

from harness.outcome import Interval

#: Rates from this one on, Mbit/s, have one decimal.
_MIN_DECIMAL: Final = 0.1


def number_text(value: float) -> str:
    """A number with three significant digits at least; 'never' for infinity."""
    if math.isinf(value):
        return "never"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def rate_text(value: float) -> str:
    """A rate in Mbit/s with one decimal. A smaller one has three significant digits."""
    return f"{value:.1f}" if not value or value >= _MIN_DECIMAL else f"{value:.3g}"


def unit_text(unit: str) -> str:
    """A unit in a table; nothing for a number."""
    return "" if unit == "1" else unit


def span_text(span: Interval | None) -> str:
    """Median, and the interval of several runs where its ends are displayed differently."""
    if span is None:
        return "–"
    median, low, high = map(number_text, (span.median, span.low, span.high))
    return median if span.n == 1 or median == low == high else f"{median} [{low}, {high}]"


def interval_text(span: Interval | None) -> str:
    """Median and, with more than one value, the interval: '19.31 [19.28, 19.40]'.

    A time that was not reached is 'never'.
    """
    if span is None:
        return "–"
    median, low, high = (
        f"{value:.2f}" if math.isfinite(value) else "never" for value in (span.median, span.low, span.high)
    )
    return median if span.n == 1 else f"{median} [{low}, {high}]"


def percentage(span: Interval | None) -> str:
    """The median of a share."""
    return "–" if span is None else f"{span.median:.1%}"


def json_number(value: float) -> float | str:
    """A number for JSON, which has none for infinity: that is a word, as in the store's files."""
    return value if math.isfinite(value) else str(value).replace("inf", "Infinity")
