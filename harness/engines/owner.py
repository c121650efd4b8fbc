"""Who owns a container, a network or a half-written run: a process, told apart from a later one of its number."""

from __future__ import annotations

import os
from pathlib import Path


def _start_time(pid: int) -> str | None:
    """Start time of a process in clock ticks since boot (proc_pid_stat(5), field 22); None if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    # A zombie has ended; it only waits to be reaped.
    return None if fields[0] == "Z" else fields[19]


def owner() -> str:
    """The running process, as a label: pid, its start time, and the boot it lives in."""
    return f"{os.getpid()}-{_start_time(os.getpid())}-{_boot()}"


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")[:12]
    except OSError:
        return "unknown"


def lives(label: str) -> bool:
    """Whether the process behind a label is still there."""
    pid, _, rest = label.partition("-")
    start, _, boot = rest.partition("-")
    return boot == _boot() and pid.isdigit() and _start_time(int(pid)) == start
