"""A clock for code that takes one."""

from __future__ import annotations


class FakeClock:
    """Time that passes only when a test says so, seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now
