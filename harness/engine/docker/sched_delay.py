"""How long the processes of a container waited for a processor, as their kernel counts it: starvation shows there.

Each figure is a sum of nanoseconds that only grows:

* `run_delay`: of every thread, the time in which it could have run and did not (the second number of
  /proc/TID/schedstat, Documentation/scheduler/sched-stats.rst), added up over the container's threads. A thread that
  ended counts with what it had at the last look; one that came and went between two looks is missed.
* `longest`: from look to look, the wait of the thread that waited most. Threads of a container that wait for each
  other, as those that look at the same packet do, count once.
* `pressure`: the time in which at least one thread of the control group waited (PSI's "some",
  Documentation/accounting/psi.rst), which misses nobody. Only control groups v2 have it, where the kernel keeps it.
* `stopped`: the time between two looks that both found a thread stopped (SIGSTOP).
* `steal`: of the whole machine, the time that the hypervisor kept its processors from it (proc_stat(5)).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: What stands in place of a container's name for figures of the whole machine.
MACHINE = "machine"
_CGROUP = Path("/sys/fs/cgroup")
_PROC = Path("/proc")
_STEAL = 8


def cgroup_folder(pid: int) -> Path | None:
    """The control group that counts the CPU time of a process (v1: of cpuacct), or None where it cannot be seen."""
    try:
        lines = (_PROC / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "cpuacct" in controllers.split(","):
            folder, counts = _CGROUP / "cpuacct" / path.lstrip("/"), "cpuacct.usage"
        elif controllers == "":
            folder, counts = _CGROUP / path.lstrip("/"), "cpu.stat"
        else:
            continue
        if (folder / counts).exists():
            return folder
    return None


def stolen_ns() -> int | None:
    """What the hypervisor has taken of all processors since boot, ns; None where the kernel does not say."""
    try:
        fields = (_PROC / "stat").read_text().partition("\n")[0].split()
        return int(fields[_STEAL]) * 10**9 // os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


@dataclass
class _Thread:
    """What the last look found of a thread."""

    said: str
    run_delay: int
    stopped: bool = False


@dataclass
class Waiting:
    """The sums of one container, from look to look."""

    cgroup: Path
    proc: Path = _PROC
    _threads: dict[str, _Thread] = field(default_factory=dict)
    _of_ended: int = 0
    """Waits of the threads that are gone, ns."""
    _longest_ns: int = 0
    _stopped_ns: int = 0
    _last_ns: int = 0

    def look(self, now_ns: int) -> Iterator[tuple[str, int]]:
        """(kind, ns) of each sum there is; none once the container has ended."""
        present = self._present()
        if not present:
            return
        for number in self._threads.keys() - present:
            self._of_ended += self._threads.pop(number).run_delay
        found = [self._look_at(number) for number in present]
        self._longest_ns += max(grown for grown, _ in found)
        if any(stopped for _, stopped in found):
            self._stopped_ns += now_ns - self._last_ns
        self._last_ns = now_ns
        yield "run_delay", self._of_ended + sum(thread.run_delay for thread in self._threads.values())
        yield "longest", self._longest_ns
        yield "stopped", self._stopped_ns
        if (pressure := self._pressure()) is not None:
            yield "pressure", pressure

    def _present(self) -> set[str]:
        """The numbers of its threads, as this machine knows them."""
        for name in ("cgroup.threads", "tasks"):
            try:
                return set((self.cgroup / name).read_text().split())
            except OSError:
                continue
        return set()

    def _look_at(self, number: str) -> tuple[int, bool]:
        """What a thread waited since the last look, ns, and whether it was stopped from then to now."""
        try:
            said = (self.proc / number / "schedstat").read_text()
            run_delay = int(said.split()[1])
            before = self._threads.get(number)
            if before is not None and run_delay < before.run_delay:
                # Another thread has the number now.
                self._of_ended += before.run_delay
                before = None
            # Whoever ran meanwhile was not stopped, and need not be asked.
            idle = before is not None and before.said == said
            stopped = idle and (self.proc / number / "stat").read_text().rpartition(")")[2].split()[0] == "T"
        except (OSError, ValueError, IndexError):
            return 0, False
        self._threads[number] = _Thread(said, run_delay, stopped)
        if before is None:
            return run_delay, False
        return run_delay - before.run_delay, stopped and before.stopped

    def _pressure(self) -> int | None:
        try:
            text = (self.cgroup / "cpu.pressure").read_text()
        except OSError:
            return None
        line = next((line for line in text.splitlines() if line.startswith("some")), "")
        _, found, total = line.partition("total=")
        return int(total) * 1000 if found else None
