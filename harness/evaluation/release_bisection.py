"""The search for the first release that behaves otherwise than an older one, with as few runs as possible. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Bisection:
    """Where a search ended, by positions from the oldest release on."""

    last_before: int
    """The newest release that is known to behave as the oldest does."""
    first_changed: int | None
    """The oldest that is known to behave otherwise; None where none does."""
    skipped: tuple[int, ...] = ()
    """Releases between the two that could not be tested: the change may be any of theirs."""


def bisect(count: int, is_changed: Callable[[int], bool | None]) -> Bisection:
    """Find the first of `count` releases that is changed, if those behind it are, too. The first, 0, is not.

    `is_changed` runs a release; None where that was not possible. As in git-bisect(1), one next to it then takes its
    place. The newest is not run first: that none is changed is one more outcome, so 16 releases need 4 runs beside the
    oldest one's.
    """
    low, high, skipped = 0, count, set[int]()
    while open_positions := [index for index in range(low + 1, high) if index not in skipped]:
        middle = (low + high) // 2
        index = min(open_positions, key=lambda position: abs(position - middle))
        changed = is_changed(index)
        if changed is None:
            skipped.add(index)
        elif changed:
            high = index
        else:
            low = index
    between = tuple(sorted(index for index in skipped if low < index < high))
    return Bisection(low, high if high < count else None, between)
