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
#: Seconds between two looks, and at most in all.
PAUSE, LONGEST = 2.0, 60.0


def longest_gap(seconds: float = LOOK, clock: Callable[[], float] = time.perf_counter) -> float:
    """Look at the clock all the time; the longest time between two looks, seconds."""
    last = clock()
    end, longest = last + seconds, 0.0
    while last < end:
        now = clock()
        longest = max(longest, now - last)
        last = now
    return longest


def await_quiet(
    gap: Callable[[], float] = longest_gap, sleep: Callable[[float], None] = time.sleep, longest: float = LONGEST
) -> bool:
    """Return when the machine keeps time, or after about `longest` seconds; whether it does."""
    for _ in range(max(1, round(longest / (LOOK + PAUSE)))):
        if gap() <= GAP:
            return True
        sleep(PAUSE)
    return False
