"""Waiting for what somebody else brings about."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    """Return once something holds; fail when it does not in time."""
    deadline, pause = time.monotonic() + seconds, 0.001
    while not condition():
        assert time.monotonic() < deadline, f"did not happen within {seconds:g} s"
        time.sleep(pause)
        # What is near is noticed soon, and what is far costs little.
        pause = min(2 * pause, 0.02)
