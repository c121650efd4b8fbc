"""Owners of containers, networks and unfinished runs: processes, distinguished from later ones of the same PID."""

from __future__ import annotations

import functools
import os
from pathlib import Path

#: Inode of the initial PID namespace (include/uapi/linux/nsfs.h, PROC_PID_INIT_INO).
_MACHINE = "4026531836"


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
    """The running process, as a label: PID, start time, boot ID and PID namespace."""
    return f"{os.getpid()}-{_own_start(os.getpid())}-{_boot()}{_namespace()}"


@functools.cache
def _own_start(pid: int) -> str | None:
    # Cached by PID: a fork is another process.
    return _start_time(pid)


@functools.cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")[:12]
    except OSError:
        return "0"


def _namespace() -> str:
    """'n' and the inode of the PID namespace; empty in the initial one, that is, outside of containers."""
    try:
        inode = Path("/proc/self/ns/pid").readlink().name.strip("pid:[]")
    except OSError:
        return ""
    return "" if inode == _MACHINE else f"n{inode}"


def lives(label: str) -> bool:
    """Whether the process behind a label is still there. One of another PID namespace counts as there: its PID says
    nothing here.
    """
    pid, _, suffix = label.partition("-")
    start, _, machine = suffix.partition("-")
    boot, _, namespace = machine.partition("n")
    if boot != _boot() or not pid.isdigit():
        return False
    if namespace != _namespace()[1:]:
        return True
    return _start_time(int(pid)) == start or _is_hidden(int(pid))


def _is_hidden(pid: int) -> bool:
    """Whether a process is there whose folder in /proc this user cannot see (proc(5), hidepid)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return _start_time(pid) is None
    except OSError:
        return False
    return False
