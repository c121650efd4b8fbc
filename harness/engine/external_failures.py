"""What befell the processes of a lab from outside: signals, pauses and want of memory, told apart from their own ends.

An exit code does not tell. 137 is what Docker says of a container whose first process was killed (128 + SIGKILL), and
what a shell says of itself whose child was. So these witnesses are heard:

* the daemon, of whatever was done through it: a `kill`, `oom` or `pause` that the harness did not ask for;
* the kernel, of how a container's first process ended (PIDFD_GET_INFO, Linux 6.15, include/uapi/linux/pidfd.h): the
  first process of a PID namespace does not get a SIGKILL from within it (pid_namespaces(7)), so that one which died of
  it was killed from outside;
* the kernel, in the same way, of how what holds the container ended (containerd's shim): without it Docker says 255;
* the kernel's count of processes it killed for want of memory (`oom_kill` in /proc/vmstat).

A process below the first one that somebody kills by its number looks like one that killed itself, and so does a first
process on older kernels. Programs do not end by a SIGKILL of their own; those who free memory send it (earlyoom,
systemd-oomd), and people. So the ground is blamed, and the run made again; the sentence says what to think where it
happens each time.
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
#: What Docker says of a first process, and a shell of itself, that SIGKILL ended.
_KILLED = 128 + signal.SIGKILL
#: struct pidfd_info as of its first version: mask, cgroupid, eleven numbers of processes and users, exit_code.
_INFO = struct.Struct("=QQ11Ii")
_GET_INFO = 3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11
_INFO_EXIT = 1 << 3
#: Seconds in which the first process of this machine asks after those that nobody else does (1.4 s were seen).
_REAPED = 3.0
_ITSELF = "by somebody on this machine, or by itself if it happens each time"


@dataclass(frozen=True)
class ExternalFailure:
    """What befell a process, and what to do about it."""

    reason: Reason
    detail: str


def memory_kills() -> int:
    """How many processes of this machine were killed for want of memory since boot; 0 where the kernel does not say."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return 0


def for_want_of_memory(victim: str, kills: int) -> ExternalFailure:
    """What is to be said of somebody who was killed while the kernel killed so many processes."""
    counted = "a process" if kills == 1 else f"{kills} processes"
    return ExternalFailure(
        "out_of_memory",
        f"{victim} was killed while this machine's kernel killed {counted} for want of memory: free memory "
        "('free -m', 'dmesg'), or run fewer cells side by side (--jobs), and give the same command again",
    )


def by_somebody(victim: str, cause: str) -> ExternalFailure:
    """What is to be said of somebody whom somebody else ended."""
    return ExternalFailure(
        "killed", f"{victim} was ended from outside ({cause}), not by this harness: give the same command again"
    )


def bereft(victim: str) -> ExternalFailure:
    """What is to be said of somebody who waits for ever for a process that somebody else ended or stopped."""
    return ExternalFailure(
        "killed", f"{victim} waited for a process that was ended from outside: give the same command again"
    )


def died_of(pidfd: int) -> int | None:
    """The signal a process died of, 0 for none; None while it lives, or where the kernel does not tell."""
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
class Outside:
    """What befell the containers of one lab, as it is heard of."""

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
    """Service → pidfd of what holds its container."""

    def __post_init__(self) -> None:
        self._kills_before = self.memory_kills()

    def watch(self, service: str, pid: int) -> None:
        """Hold on to the first process of a container, so that its end can be asked for when it is gone."""
        watched_pid, pidfd = self._first.get(service, (0, -1))
        if watched_pid == pid:
            return
        if watched_pid:
            os.close(pidfd)
            del self._first[service]
        # What is on another machine, or has ended meanwhile, cannot be held.
        with contextlib.suppress(OSError):
            self._first[service] = pid, os.pidfd_open(pid)

    def watch_shim(self, service: str, container: str) -> None:
        """Hold on to what holds a container, given by its ID."""
        if (old := self._shims.pop(service, None)) is not None:
            os.close(old)
        pid = shim_of(container)
        with contextlib.suppress(OSError):
            if pid is not None:
                self._shims[service] = os.pidfd_open(pid)

    def tell(self, *services: str) -> None:
        """The harness itself ends these."""
        self._told.update(services)

    def hear(self, service: str, event: str, attributes: Mapping[str, Any], container: str = "") -> None:
        """The daemon tells an event of a container, whose ID is given."""
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
        """What befell a service's container, by its ID or name; None where nothing did that is known of."""
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
                return for_want_of_memory(service, max(1, kills))
        if service in self._signals:
            return by_somebody(service, f"Docker was asked for {', '.join(self._signals[service])}")
        if lost_shim or was_killed:
            return by_somebody(service, "a signal to its containerd-shim" if lost_shim else "SIGKILL")
        if self._codes[service] == _KILLED:
            return ExternalFailure("killed", f"{service} ended because a process of it was killed (SIGKILL): {_ITSELF}")
        return None

    def _lost_its_shim(self, service: str) -> bool:
        """Whether what holds a container died of a signal. The kernel tells once somebody has asked how it ended."""
        shim = self._shims.get(service)
        if shim is None or not select.select([shim], [], [], 0)[0]:
            return False
        deadline = time.monotonic() + _REAPED
        while (death_signal := died_of(shim)) is None and time.monotonic() < deadline:
            time.sleep(_REAPED / 100)
        return bool(death_signal)

    def _was_killed(self, service: str) -> bool:
        return service in self._first and died_of(self._first[service][1]) == signal.SIGKILL

    def close(self) -> None:
        """Let go of the processes."""
        for pidfd in (*self._shims.values(), *(pidfd for _, pidfd in self._first.values())):
            os.close(pidfd)
        self._shims.clear()
        self._first.clear()


def shim_of(container: str, processes: Path = Path("/proc")) -> int | None:
    """The process that holds a container, by the container's ID; None where none of this machine does."""
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
    """Whether the daemon says that a container was killed at its own limit of memory."""
    return docker("inspect", "--format", "{{.State.OOMKilled}}", container, check=False).stdout.strip() == "true"
