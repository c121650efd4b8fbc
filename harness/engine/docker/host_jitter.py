"""Jitter of the host: waits until the host is quiet again, and gives runs in real time priority.

On a shared host the hypervisor takes the processor away for tens of milliseconds at a time. Such a phase lasts seconds
or minutes. A run that starts within it becomes invalid like the one before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.engine.docker.daemon import SLICE

#: GAP: the longest delay, in seconds, of a thread that only reads the clock for LOOK seconds. It is the least lateness
#: that makes a link invalid.
GAP = 0.005
LOOK = 1.0
#: Seconds between two checks; the longest wait in one go; the longest wait in all.
PAUSE, LONGEST, PATIENCE = 2.0, 60.0, 300.0


def longest_gap(seconds: float = LOOK, clock: Callable[[], float] = time.perf_counter) -> float:
    """Read the clock in a busy loop. The longest time between two readings, seconds."""
    last = clock()
    end, longest = last + seconds, 0.0
    while last < end:
        now = clock()
        longest = max(longest, now - last)
        last = now
    return longest


class QuietWait:
    """The time that runs which the host disturbed may wait, in all."""

    def __init__(
        self,
        seconds: float = PATIENCE,
        gap: Callable[[], float] = longest_gap,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._seconds_left = seconds
        self._gap = gap
        self._sleep = sleep

    def await_quiet(self) -> bool:
        """Wait until the host is quiet, or the time is used up. Whether it is quiet."""
        for _ in range(round(LONGEST / (LOOK + PAUSE))):
            if self._seconds_left < LOOK:
                return False
            self._seconds_left -= LOOK
            if self._gap() <= GAP:
                return True
            self._seconds_left -= PAUSE
            self._sleep(PAUSE)
        return False


# --- Runs in real time come first: settings of Docker's control groups during a run.
#
# One busy thread outside of Docker is enough to disturb a run on an otherwise idle host. All containers share one
# control group, which weighs as much as that one thread, and the simulator and two endpoints divide its share. So the
# group of all containers gets a hundred times its weight. On two cores, beside one or two busy threads, packets of the
# medium satellite path were then 1 to 2 ms late (99th percentile; 6.5 ms are accepted), and without it 2 to 8 ms.
#
# BuildKit runs the steps of a build in a group of its own, beside the containers' (`docker/buildkit`). However small
# its share, a compiler in it may hold a core for some milliseconds when a queue's timer is due (EEVDF makes a task wait
# that has run a lot). An idle group gives way at once (`cpu.idle`, Documentation/admin-guide/cgroup-v2.rst;
# kernel/sched/fair.c, check_preempt_wakeup_fair).
#
# With systemd's driver for control groups containers would be beside the machine's services, in `system.slice`. That
# weighs as much as all users' shells together (`user.slice`). So they have a slice of their own (daemon.py), and that
# one gets the weight.
#
# The settings take root on the daemon's machine. `make setup` gives the slice its weight for good where it may. Without
# root, builds use fewer compilers, and that is all.


@dataclass(frozen=True)
class CgroupSetting:
    """One file of a control group."""

    file: Path
    default: str
    """The kernel's default."""
    during_run: str
    """The value during a run in real time."""


_CGROUP = Path("/sys/fs/cgroup")
#: Control groups v1 and v2, with Docker's own driver; with systemd's for builds, which Docker groups all the same.
SETTINGS = (
    CgroupSetting(_CGROUP / "cpu/docker/cpu.shares", "1024", "102400"),
    CgroupSetting(_CGROUP / "docker/cpu.weight", "100", "10000"),
    CgroupSetting(_CGROUP / SLICE / "cpu.weight", "100", "10000"),
    CgroupSetting(_CGROUP / "cpu/docker/buildkit/cpu.idle", "0", "1"),
    CgroupSetting(_CGROUP / "docker/buildkit/cpu.idle", "0", "1"),
    CgroupSetting(_CGROUP / "system.slice/docker/buildkit/cpu.idle", "0", "1"),
)


@contextmanager
def prioritize_runs(settings: Sequence[CgroupSetting] = SETTINGS) -> Iterator[None]:
    """Within the context, containers come before everything else, and builds after it.

    Without the permission it does nothing. It does not touch values that somebody else has set.
    """
    changed = [setting for setting in settings if _apply_setting(setting)]
    try:
        yield
    finally:
        for setting in changed:
            # A group ends with the daemon.
            with suppress(OSError):
                setting.file.write_text(setting.default)


def restore_settings(settings: Sequence[CgroupSetting] = SETTINGS) -> None:
    """Restore the usual values, where a run that was killed has left them changed."""
    for setting in settings:
        with suppress(OSError):
            if setting.file.read_text().strip() == setting.during_run:
                setting.file.write_text(setting.default)


def _apply_setting(setting: CgroupSetting) -> bool:
    """Set the value for a run. Whether it is set and ours to reset: a killed harness may have left it set."""
    try:
        if setting.file.read_text().strip() not in (setting.default, setting.during_run):
            return False
        setting.file.write_text(setting.during_run)
    except OSError:
        return False
    return True
