"""Ends guests that can never go on, since a process of theirs was ended from outside.

The lab kernel hands over to the process of the host behind a program by a futex, and hears of that one's end by
SIGCHLD. Where this comes while the kernel's interrupts are off, it is noted for later; but the kernel goes on to wait
for the process, and so there is no later (wait_stub_done_seccomp, arch/um/os-Linux/skas/process.c, Linux 7.2). Such a
guest sleeps, and has a dead child that it does not reap: one that lives does so at once. Its clock stands still without
any CPU time, which a guest may do for minutes on a busy machine (`Guest.run`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.engines.guest import guests
from harness.engines.owner import owner

#: Seconds between two looks: whoever is bereft at both, of the same process, is ended.
PAUSE = 5.0

Bereft = Mapping[int, frozenset[int]]
"""Guest → its dead children."""

_watching = threading.Lock()


@dataclass(frozen=True)
class _Process:
    """What proc_pid_stat(5) says of a process."""

    pid: int
    state: str
    parent: int
    group: int


def watch(pause: float = PAUSE) -> None:
    """Look after the guests of this process from now on, until it ends; asked again, nothing."""
    if _watching.acquire(blocking=False):
        threading.Thread(target=_watch, args=(pause,), name="bereft-guests", daemon=True).start()


def _watch(pause: float) -> None:
    before: Bereft = {}
    while True:
        time.sleep(pause)
        # A machine that is short of something for once is looked at again.
        with contextlib.suppress(OSError):
            before = look(before)


def look(before: Bereft, end: Callable[[int, int], None] = os.killpg) -> Bereft:
    """End the guests that were bereft before and still are; those that are now."""
    now = bereft()
    for guest, lost in now.items():
        if lost & before.get(guest, frozenset()):
            with contextlib.suppress(ProcessLookupError):
                end(guest, signal.SIGKILL)
    return now


def bereft() -> Bereft:
    """The guests of this process that have a dead child while all that belongs to them sleeps."""
    processes = _processes()
    dead = [one for one in processes if one.state == "Z" and one.parent == one.group]
    if not dead:
        return {}
    own = {guest for guest, label in guests() if label == owner()}
    awake = {one.group for one in processes if one.state not in "SZ"}
    asleep = own - awake
    return {
        guest: frozenset(one.pid for one in dead if one.parent == guest)
        for guest in asleep.intersection(one.parent for one in dead)
    }


def _processes() -> list[_Process]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            # It may end meanwhile.
            with contextlib.suppress(OSError):
                state, parent, group, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
                found.append(_Process(int(folder.name), state, int(parent), int(group)))
    return found
