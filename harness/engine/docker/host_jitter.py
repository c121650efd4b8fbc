"""Waits until the machine keeps time again: whatever spoils a run in real time comes and goes.

On a shared host the hypervisor takes the processor away for tens of milliseconds, for seconds or minutes at a time;
a run that starts in the midst of it is spoilt as the one before.
"""

from __future__ import annotations

import time
from collections.abc import Callable

#: The longest a thread that does nothing but look at the clock may be held up in LOOK seconds, in seconds: the least
#: lateness that makes a link invalid.
GAP = 0.005
LOOK = 1.0
#: Seconds between two looks, and at most in one go and in all.
PAUSE, LONGEST, PATIENCE = 2.0, 60.0, 300.0


def longest_gap(seconds: float = LOOK, clock: Callable[[], float] = time.perf_counter) -> float:
    """Look at the clock all the time; the longest time between two looks, seconds."""
    last = clock()
    end, longest = last + seconds, 0.0
    while last < end:
        now = clock()
        longest = max(longest, now - last)
        last = now
    return longest


class Patience:
    """How long spoilt runs may wait, in all."""

    def __init__(
        self,
        seconds: float = PATIENCE,
        gap: Callable[[], float] = longest_gap,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._left = seconds
        self._gap = gap
        self._sleep = sleep

    def await_quiet(self) -> bool:
        """Return when the machine keeps time, or when it has been waited for long enough; whether it does."""
        for _ in range(round(LONGEST / (LOOK + PAUSE))):
            if self._left < LOOK:
                return False
            self._left -= LOOK
            if self._gap() <= GAP:
                return True
            self._left -= PAUSE
            self._sleep(PAUSE)
        return False
