"""External failures of a lab's processes: signals, pauses and lack of memory, as opposed to their own ends.

The exit code is not enough. Docker reports 137 (128 + SIGKILL) for a container whose first process was killed. A shell
also ends with 137 if its child was killed. So there are these sources:

* the daemon reports what was done through it: a `kill`, `oom` or `pause` that the harness did not request;
* the kernel reports how a container's first process ended (PIDFD_GET_INFO, Linux 6.15, include/uapi/linux/pidfd.h). The
  first process of a PID namespace cannot get a SIGKILL from within it (pid_namespaces(7)). So if it died of SIGKILL, it
  was killed from outside;
* in the same way the kernel reports how the container's shim ended (containerd-shim). Without it Docker reports 255;
* the kernel counts the processes that it killed for lack of memory (`oom_kill` in /proc/vmstat).

If somebody kills a process below the first one by its number, that looks as if it had killed itself. On older kernels
this is so for a first process, too. But programs do not send SIGKILL to themselves. Tools that free memory do
(earlyoom, systemd-oomd), and people. So the infrastructure is blamed, and the run is made again. The sentence says what
to think if it happens each time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness.engine.docker_cli import docker

Reason = Literal["killed", "out_of_memory", "paused"]
#: Exit code that Docker reports for a first process that died of SIGKILL, and that a shell has for its child.
_KILLED = 128 + signal.SIGKILL
#: First version of struct pidfd_info: mask, cgroupid, eleven IDs of processes and users, exit_code.
_INFO = struct.Struct("=QQ11Ii")
_GET_INFO = 3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11
_INFO_EXIT = 1 << 3
#: Seconds within which the init process of this machine reaps orphans (1.4 s were seen).
_REAP_SECONDS = 3.0
_UNKNOWN_KILLER = "by somebody on this machine, or by itself if it happens each time"


@dataclass(frozen=True)
class ExternalFailure:
    """An external failure of a process, and what to do about it."""

    reason: Reason
    detail: str


def memory_kills() -> int:
    """Processes of this machine that were killed for lack of memory since boot; 0 where the kernel does not say."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return 0


def memory_failure(victim: str, kills: int) -> ExternalFailure:
    """The failure of a process that was killed while the kernel killed `kills` processes for lack of memory."""
    counted = "a process" if kills == 1 else f"{kills} processes"
    return ExternalFailure(
        "out_of_memory",
        f"{victim} was killed while this machine's kernel killed {counted} for want of memory: free memory "
        "('free -m', 'dmesg'), or run fewer cells side by side (--jobs), and give the same command again",
    )


def starvation(victim: str) -> ExternalFailure:
    """The failure of a guest that was ended here before this machine had no memory left."""
    return ExternalFailure(
        "out_of_memory",
        f"{victim} was ended because this machine has hardly any memory left: free memory ('free -m'), or run fewer "
        "cells side by side (--jobs), and give the same command again",
    )


def kill_failure(victim: str, cause: str) -> ExternalFailure:
    """The failure of a process that somebody else ended. `cause`: by what."""
    return ExternalFailure(
        "killed", f"{victim} was ended from outside ({cause}), not by this harness: give the same command again"
    )


def wait_failure(victim: str) -> ExternalFailure:
    """The failure of a process that waits for ever for another one, which somebody else ended or stopped."""
    return ExternalFailure(
        "killed", f"{victim} waited for a process that was ended from outside: give the same command again"
    )


def exit_signal(pidfd: int) -> int | None:
    """The signal that ended a process, 0 for none; None while it lives, or where the kernel does not say."""
    buffer = bytearray(_INFO.pack(_INFO_EXIT, *[0] * 13))
    try:
        fcntl.ioctl(pidfd, _GET_INFO, buffer)
    except OSError:
        return None
    mask, *_, status = _INFO.unpack(buffer)
    if not mask & _INFO_EXIT:
        return None
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


@dataclass
class ExternalEvents:
    """External failures of the containers of one lab, from their events."""

    memory_kills: Callable[[], int] = memory_kills
    _kills_before: int = field(init=False)
    _told: set[str] = field(init=False, default_factory=set)
    """Services that the harness itself told to end."""
    _signals: dict[str, list[str]] = field(init=False, default_factory=dict)
    _paused: set[str] = field(init=False, default_factory=set)
    _without_memory: set[str] = field(init=False, default_factory=set)
    _codes: dict[str, int] = field(init=False, default_factory=dict)
    """Exit codes of those that ended."""
    _first: dict[str, tuple[int, int]] = field(init=False, default_factory=dict)
    """Service → (pid, pidfd) of its container's first process."""
    _shims: dict[str, int] = field(init=False, default_factory=dict)
    """Service → pidfd of its container's shim."""

    def __post_init__(self) -> None:
        self._kills_before = self.memory_kills()

    def watch(self, service: str, pid: int) -> None:
        """Open a pidfd of a container's first process, so that its end can be read when it is gone."""
        watched_pid, pidfd = self._first.get(service, (0, -1))
        if watched_pid == pid:
            return
        if watched_pid:
            os.close(pidfd)
            del self._first[service]
        # A process on another machine, or one that has ended, has no pidfd here.
        with contextlib.suppress(OSError):
            self._first[service] = pid, os.pidfd_open(pid)

    def watch_shim(self, service: str, container: str) -> None:
        """Open a pidfd of a container's shim. `container`: its ID."""
        if (old := self._shims.pop(service, None)) is not None:
            os.close(old)
        pid = shim_of(container)
        with contextlib.suppress(OSError):
            if pid is not None:
                self._shims[service] = os.pidfd_open(pid)

    def tell(self, *services: str) -> None:
        """Note that the harness itself ends these services."""
        self._told.update(services)

    def hear(self, service: str, event: str, attributes: Mapping[str, Any], container: str = "") -> None:
        """Note an event of the daemon. `container`: the container's ID."""
        match event:
            case "kill":
                self._signals.setdefault(service, []).append(_name(str(attributes.get("signal", ""))))
            case "oom":
                self._without_memory.add(service)
            case "pause":
                self._paused.add(service)
            case "die":
                self._codes[service] = int(attributes["exitCode"])
            case "start":
                self._codes.pop(service, None)
                self.watch_shim(service, container)

    def befell(self, service: str, container: str) -> ExternalFailure | None:
        """The external failure of a service; None where none is known. `container`: its container's ID or name."""
        if service in self._told:
            return None
        if service in self._paused:
            detail = f"{service} was paused from outside ('docker pause'): give the same command again"
            return ExternalFailure("paused", detail)
        if service not in self._codes:
            return None
        lost_shim = self._codes[service] != 0 and self._lost_its_shim(service)
        was_killed = self._was_killed(service)
        if lost_shim or was_killed or self._codes[service] == _KILLED:
            kills = self.memory_kills() - self._kills_before
            if kills > 0 or service in self._without_memory or _without_memory(container):
                return memory_failure(service, max(1, kills))
        if service in self._signals:
            return kill_failure(service, f"Docker was asked for {', '.join(self._signals[service])}")
        if lost_shim or was_killed:
            return kill_failure(service, "a signal to its containerd-shim" if lost_shim else "SIGKILL")
        if self._codes[service] == _KILLED:
            return ExternalFailure(
                "killed", f"{service} ended because a process of it was killed (SIGKILL): {_UNKNOWN_KILLER}"
            )
        return None

    def _lost_its_shim(self, service: str) -> bool:
        """Whether the shim of a container died of a signal. The kernel says so once the process is reaped."""
        shim = self._shims.get(service)
        if shim is None or not select.select([shim], [], [], 0)[0]:
            return False
        deadline = time.monotonic() + _REAP_SECONDS
        while (death_signal := exit_signal(shim)) is None and time.monotonic() < deadline:
            time.sleep(_REAP_SECONDS / 100)
        return bool(death_signal)

    def _was_killed(self, service: str) -> bool:
        return service in self._first and exit_signal(self._first[service][1]) == signal.SIGKILL

    def close(self) -> None:
        """Close the pidfds."""
        for pidfd in (*self._shims.values(), *(pidfd for _, pidfd in self._first.values())):
            os.close(pidfd)
        self._shims.clear()
        self._first.clear()


def shim_of(container: str, processes: Path = Path("/proc")) -> int | None:
    """Process ID of a container's shim; None where it is not on this machine. `container`: the container's ID."""
    for place in processes.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            program, *words = (place / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if container and container in words and Path(program).name.startswith("containerd-shim"):
                return int(place.name)
    return None


def _name(number: str) -> str:
    try:
        return signal.Signals(int(number)).name
    except ValueError:
        return f"signal {number}".strip()


def _without_memory(container: str) -> bool:
    """Whether the daemon says that a container was killed at its own memory limit."""
    return docker("inspect", "--format", "{{.State.OOMKilled}}", container, check=False).stdout.strip() == "true"
