"""What simulators of one lab tell each other, by files in a folder they share: when all are ready, and when it begins.

A lab has one zero, the first datagram on any of its paths. Whoever sees one names the time; the others look there.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

#: Between two looks, seconds. What is found says when it happened, so that a late look makes nothing late that is due
#: later than that.
LOOK = 0.002


class Together:
    """One simulator among several."""

    def __init__(self, folder: Path, name: str, peers: list[str]) -> None:
        """`peers`: the names of all, its own among them."""
        self._folder = folder
        self._name = name
        self._peers = peers

    def ready(self) -> None:
        """Tell the others that this one is ready."""
        (self._folder / f"{self._name}.ready").touch()

    def answered(self) -> None:
        """Tell the others that the servers answered this one."""
        (self._folder / f"{self._name}.answered").touch()

    def has_answers(self, name: str) -> bool:
        """Whether the servers answered that one."""
        return (self._folder / f"{name}.answered").exists()

    def missing(self) -> list[str]:
        """Those that are not ready yet."""
        return [name for name in self._peers if not (self._folder / f"{name}.ready").exists()]

    def begin(self) -> float:
        """Here is a first datagram. When the lab began, seconds since the epoch: now, unless another was first."""
        own = self._folder / f"{self._name}.began"
        own.write_text(f"{time.time_ns()}")
        with contextlib.suppress(FileExistsError):
            # Whole, and once for all.
            os.link(own, self._folder / "began")
        found = self.began()
        assert found is not None
        return found

    def began(self) -> float | None:
        """When the lab began, seconds since the epoch; None before it does."""
        try:
            return int((self._folder / "began").read_text()) / 1e9
        except FileNotFoundError:
            return None
