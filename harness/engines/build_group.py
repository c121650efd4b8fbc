"""Builds make way for runs in real time: the control group of what the Docker daemon builds, in the idle class.

BuildKit runs the steps of a build in a control group of its own, beside the containers' (`docker/buildkit` below the
daemon's parent). However small its share, a compiler in it may hold a core for a few milliseconds once a queue's timer
is due (EEVDF lets whoever has run a lot wait its turn), and the bottleneck's bucket forgives no more than four. An idle
group gives way at once (`cpu.idle`, Documentation/admin-guide/cgroup-v2.rst; kernel/sched/fair.c,
check_preempt_wakeup_fair). To set it takes root; who is not has builds with fewer compilers and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

#: Where the group is: cgroup v1 and v2, with Docker's own driver for control groups and with systemd's.
GROUPS = (
    Path("/sys/fs/cgroup/cpu/docker/buildkit"),
    Path("/sys/fs/cgroup/docker/buildkit"),
    Path("/sys/fs/cgroup/system.slice/docker/buildkit"),
)


@contextmanager
def builds_make_way(groups: Sequence[Path] = GROUPS) -> Iterator[None]:
    """While it lasts, what is built takes only what nobody else wants. Without the right to say so it does nothing."""
    changed = [group / "cpu.idle" for group in groups if _set_idle(group / "cpu.idle")]
    try:
        yield
    finally:
        for file in changed:
            # A group ends with the daemon.
            with suppress(OSError):
                file.write_text("0")


def _set_idle(file: Path) -> bool:
    """Whether the group was not idle and is now."""
    try:
        if file.read_text().strip() != "0":
            return False
        file.write_text("1")
    except OSError:
        return False
    return True
