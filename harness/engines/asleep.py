"""Ends guests that sleep for good, since a process of theirs was ended from outside.

The lab kernel hands over to the process of the host behind a program by a futex, and hears of that one's end by
SIGCHLD. There are moments at which it does not: before it has noted the number of a process that has just begun
(start_userspace), and while its interrupts are off (wait_stub_done_seccomp; both in arch/um/os-Linux/skas/process.c,
Linux 7.2). Then it waits for a process that is no more. Its clock stands still without any CPU time, which that of a
guest may do for minutes on a busy machine (`Guest.run`); but a guest that waits for its turn is ready to run, and one
that waits for a disk, or was stopped, is not asleep either.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.engines.guest import guests
from harness.engines.owner import owner

#: Seconds between two looks.
PAUSE = 5.0
#: Seconds for which a guest may be found asleep, at every look, before it is ended.
LONGEST = 30.0
#: States of proc_pid_stat(5): asleep, and ended but not yet reaped.
_ASLEEP = frozenset("SZ")

Used = frozenset[tuple[int, int]]
"""Of a group's processes: each one's number, and the ticks of CPU time it has had."""

_watching = threading.Lock()


def watch() -> None:
    """Look after the guests of this process from now on, until it ends; asked again, nothing."""
    if _watching.acquire(blocking=False):
        threading.Thread(target=_watch, name="sleeping-guests", daemon=True).start()


def _watch() -> None:
    looks = Looks()
    while True:
        time.sleep(PAUSE)
        # A machine that is short of something for once is looked at again.
        with contextlib.suppress(OSError):
            looks.look(sleepers(), time.monotonic())


@dataclass
class Looks:
    """What was seen of guests that sleep."""

    end: Callable[[int, int], None] = os.killpg
    _since: dict[int, tuple[float, Used]] = field(default_factory=dict)
    """Guest → when it was first found as it is now."""

    def look(self, asleep: Mapping[int, Used], now: float) -> None:
        """End the guests that have been like this for long enough. `now`: seconds, by any clock that goes on."""
        before, self._since = self._since, {}
        for guest, used in asleep.items():
            since, then = before.get(guest, (now, used))
            self._since[guest] = (since, used) if used == then else (now, used)
            if now - self._since[guest][0] >= LONGEST:
                with contextlib.suppress(ProcessLookupError):
                    self.end(guest, signal.SIGKILL)


def sleepers() -> dict[int, Used]:
    """The guests of this process all of whose processes sleep."""
    groups: dict[int, list[tuple[int, str, int]]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            # It may end meanwhile.
            with contextlib.suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                one = (int(folder.name), fields[0], int(fields[11]) + int(fields[12]))
                groups.setdefault(int(fields[2]), []).append(one)
    own = [guest for guest, label in guests() if label == owner()]
    return {
        guest: frozenset((pid, ticks) for pid, _, ticks in groups[guest])
        for guest in own
        if guest in groups and all(state in _ASLEEP for _, state, _ in groups[guest])
    }
