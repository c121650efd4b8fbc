"""Waits until the machine keeps time again: whatever spoils a run in real time comes and goes.

On a shared host the hypervisor takes the processor away for tens of milliseconds, for seconds or minutes at a time;
a run that starts in the midst of it is spoilt as the one before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

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


# --- Runs in real time come first: what Docker's control groups are told while one goes on.
#
# However idle the machine looks, one busy thread outside is enough to spoil a run: Docker's containers share the
# processor time of a single control group, which counts as much as that one thread, and the simulator and two endpoints
# divide it among them. So the group of all containers gets a hundred times its weight. On two cores, beside one or two
# busy threads, packets of the medium satellite path were then 1 to 2 ms late (99th percentile; 6.5 are let pass), and
# without it 2 to 8.
#
# BuildKit runs the steps of a build in a group of its own, beside the containers' (`docker/buildkit`). However small
# its share, a compiler in it may hold a core for some milliseconds once a queue's timer is due (EEVDF lets whoever has
# run a lot wait its turn). An idle group gives way at once (`cpu.idle`, Documentation/admin-guide/cgroup-v2.rst;
# kernel/sched/fair.c, check_preempt_wakeup_fair).
#
# To say either takes root on the daemon's machine; who is not has builds with fewer compilers and nothing else. With
# systemd's driver for control groups each container is a group beside the machine's services, and its `cpu_shares` in
# the Compose file say the same.


@dataclass(frozen=True)
class CgroupSetting:
    """One file of a control group."""

    file: Path
    usual: str
    """What the kernel begins a group with."""
    meanwhile: str
    """What it says while a run in real time goes on."""


_CGROUP = Path("/sys/fs/cgroup")
#: Control groups v1 and v2, with Docker's own driver; with systemd's for builds, which Docker groups all the same.
SETTINGS = (
    CgroupSetting(_CGROUP / "cpu/docker/cpu.shares", "1024", "102400"),
    CgroupSetting(_CGROUP / "docker/cpu.weight", "100", "10000"),
    CgroupSetting(_CGROUP / "cpu/docker/buildkit/cpu.idle", "0", "1"),
    CgroupSetting(_CGROUP / "docker/buildkit/cpu.idle", "0", "1"),
    CgroupSetting(_CGROUP / "system.slice/docker/buildkit/cpu.idle", "0", "1"),
)


@contextmanager
def runs_come_first(settings: Sequence[CgroupSetting] = SETTINGS) -> Iterator[None]:
    """While it lasts, containers come before everything else, and builds after it.

    Without the right to say so it does nothing. What somebody else has set is left alone.
    """
    changed = [setting for setting in settings if _change(setting)]
    try:
        yield
    finally:
        for setting in changed:
            # A group ends with the daemon.
            with suppress(OSError):
                setting.file.write_text(setting.usual)


def as_usual(settings: Sequence[CgroupSetting] = SETTINGS) -> None:
    """Take back what a run that did not come to its end has left changed."""
    for setting in settings:
        with suppress(OSError):
            if setting.file.read_text().strip() == setting.meanwhile:
                setting.file.write_text(setting.usual)


def _change(setting: CgroupSetting) -> bool:
    """Whether a file says what it should, and is ours to reset: a harness that was killed has left it so."""
    try:
        if setting.file.read_text().strip() not in (setting.usual, setting.meanwhile):
            return False
        setting.file.write_text(setting.meanwhile)
    except OSError:
        return False
    return True
