"""Samples of a running lab, from outside: growth of the clients' files, CPU time, waits for the CPU, log sizes."""

from __future__ import annotations

import csv
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from harness.errors import disk_error

# --- How long the processes of a container waited for a processor, as the kernel counts it. Starvation shows there.
#
# Each figure is a sum of nanoseconds that only grows:
#
# * `run_delay`: the time in which a thread was runnable and did not run (the second number of /proc/TID/schedstat,
#   Documentation/scheduler/sched-stats.rst), added up over the container's threads. A thread that ended counts with its
#   value of the last sample. One that began and ended between two samples is missed.
# * `longest`: the sum, over all intervals between samples, of the wait of the thread that waited most. Threads of a
#   container that wait for each other, as those that handle the same packet do, count once.
# * `pressure`: the time in which at least one thread of the control group waited (PSI's "some",
#   Documentation/accounting/psi.rst). It misses no thread. Only control groups v2 have it, where the kernel keeps it.
# * `stopped`: the time between two samples that both found a thread stopped (SIGSTOP).
# * `steal`: the time for which the hypervisor took processors from the whole machine (proc_stat(5)).


#: In place of a container's name: figures of the whole machine.
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
    """Time that the hypervisor has taken from all processors since boot, ns; None where the kernel does not say."""
    try:
        fields = (_PROC / "stat").read_text().partition("\n")[0].split()
        return int(fields[_STEAL]) * 10**9 // os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


@dataclass
class _Thread:
    """The last sample of a thread."""

    said: str
    run_delay: int
    stopped: bool = False


@dataclass
class CpuWaits:
    """The sums of one container, updated with each sample."""

    cgroup: Path
    proc: Path = _PROC
    _threads: dict[str, _Thread] = field(default_factory=dict)
    _of_ended: int = 0
    """Waits of the threads that have ended, ns."""
    _longest_ns: int = 0
    _stopped_ns: int = 0
    _last_ns: int = 0

    def look(self, now_ns: int) -> Iterator[tuple[str, int]]:
        """Take a sample. (kind, ns) of each sum; none once the container has ended."""
        present = self._present()
        if not present:
            return
        for number in self._threads.keys() - present:
            self._of_ended += self._threads.pop(number).run_delay
        deltas = [self._look_at(number) for number in present]
        self._longest_ns += max(grown for grown, _ in deltas)
        if any(stopped for _, stopped in deltas):
            self._stopped_ns += now_ns - self._last_ns
        self._last_ns = now_ns
        yield "run_delay", self._of_ended + sum(thread.run_delay for thread in self._threads.values())
        yield "longest", self._longest_ns
        yield "stopped", self._stopped_ns
        if (pressure := self._pressure()) is not None:
            yield "pressure", pressure

    def _present(self) -> set[str]:
        """The thread IDs of the container, in the host's PID namespace."""
        for name in ("cgroup.threads", "tasks"):
            try:
                return set((self.cgroup / name).read_text().split())
            except OSError:
                continue
        return set()

    def _look_at(self, number: str) -> tuple[int, bool]:
        """(wait of a thread since the last sample, ns; whether both samples found it stopped)."""
        try:
            schedstat = (self.proc / number / "schedstat").read_text()
            run_delay = int(schedstat.split()[1])
            before = self._threads.get(number)
            if before is not None and run_delay < before.run_delay:
                # Another thread has this ID now.
                self._of_ended += before.run_delay
                before = None
            # A thread that ran meanwhile was not stopped, so its state need not be read.
            idle = before is not None and before.said == schedstat
            stopped = idle and (self.proc / number / "stat").read_text().rpartition(")")[2].split()[0] == "T"
        except (OSError, ValueError, IndexError):
            return 0, False
        self._threads[number] = _Thread(schedstat, run_delay, stopped)
        if before is None:
            return run_delay, False
        return run_delay - before.run_delay, stopped and before.stopped

    def _pressure(self) -> int | None:
        try:
            text = (self.cgroup / "cpu.pressure").read_text()
        except OSError:
            return None
        line = next((line for line in text.splitlines() if line.startswith("some")), "")
        _, separator, total = line.partition("total=")
        return int(total) * 1000 if separator else None


# --- sampler


#: Period of the file sampling, seconds: half of the 20 ms that milestones are promised at.
PERIOD = 0.01
#: Period of CPU and log-size samples, seconds.
SLOW_PERIOD = 0.5
#: Period of the samples of waits, seconds, and the share of time that they may take. With many containers they become
#: rarer.
WAITS_PERIOD, WAITS_SHARE = 0.1, 0.01


def folder_size(folder: Path) -> int:
    """Bytes of all files directly in a folder. Files that vanish meanwhile do not count."""
    total = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                total += entry.stat(follow_symlinks=False).st_size if entry.is_file(follow_symlinks=False) else 0
    except FileNotFoundError:
        return total
    return total


def tree_size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(folder_size(Path(parent)) for parent, _, _ in os.walk(folder))


def cgroup_usage(pid: int) -> Path | None:
    """The file with the cumulative CPU time of a process's cgroup (v1 nanoseconds, v2 cpu.stat), or None."""
    folder = cgroup_folder(pid)
    files = () if folder is None else (folder / "cpuacct.usage", folder / "cpu.stat")
    return next((file for file in files if file.exists()), None)


def read_usage(file: Path) -> int | None:
    """CPU time in ns from one of the two kinds of file; None once the cgroup is gone."""
    try:
        text = file.read_text()
    except OSError:
        return None
    if file.name == "cpuacct.usage":
        return int(text)
    return next((int(line.split()[1]) * 1000 for line in text.splitlines() if line.startswith("usage_usec")), None)


def receive_buffer_errors(pid: int) -> int | None:
    """UdpRcvbufErrors of a process's network namespace, IPv4 and IPv6 together; None without permission."""
    total = 0
    try:
        header, values = (
            line.split()[1:]
            for line in Path(f"/proc/{pid}/net/snmp").read_text().splitlines()
            if line.startswith("Udp:")
        )
        total += int(dict(zip(header, values, strict=True))["RcvbufErrors"])
        for line in Path(f"/proc/{pid}/net/snmp6").read_text().splitlines():
            if line.startswith("Udp6RcvbufErrors"):
                total += int(line.split()[1])
    except (OSError, ValueError, KeyError):
        return None
    return total


def _usage_so_far(pid: int) -> tuple[int, int]:
    """CPU time of a process's cgroup, ns, and its namespace's receive buffer errors; 0 where unknown."""
    file = cgroup_usage(pid)
    return (None if file is None else read_usage(file)) or 0, receive_buffer_errors(pid) or 0


@dataclass
class _Download:
    """One client's download folder and the last two samples of it."""

    folder: Path
    flow: int
    transfer: int
    last: tuple[int, int] | None = None
    written: tuple[int, int] | None = None


@dataclass
class Sampler:
    """A thread that samples until it is stopped. Writes growth.csv, cpu.csv and waits.csv."""

    folder: Path
    log_limit: int
    """Bytes an endpoint may write to /logs."""
    overflowed: str | None = None
    """The endpoint whose logs exceed the limit."""
    longest_gap: float = 0.0
    """Longest time between two samples of the files, seconds."""
    _downloads: list[_Download] = field(default_factory=list)
    _containers: dict[str, int] = field(default_factory=dict)
    _before: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Container → (CPU time in ns, lost datagrams) before this run."""
    _waiting: dict[str, CpuWaits] = field(default_factory=dict)
    _logs: dict[str, Path] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _refused: OSError | None = None
    """Why no more samples were written."""

    def watch_logs(self, logs: Mapping[str, Path]) -> None:
        """Watch the size of the endpoints' log folders."""
        with self._lock:
            self._logs.update(logs)

    def watch_process(self, container: str, pid: int, *, new: bool = True) -> None:
        """Watch the CPU time of a container and its waits for the CPU. `pid`: its process.

        `new`: it was started for this run. For an older container only the time from now on counts.
        """
        with self._lock:
            if self._containers.get(container) == pid:
                return
            self._containers[container] = pid
            self._before[container] = (0, 0) if new else _usage_so_far(pid)
            folder = cgroup_folder(pid)
            if folder is not None:
                self._waiting[container] = CpuWaits(folder)

    def watch_download(self, folder: Path, flow: int, transfer: int) -> None:
        """Watch the growth of a download. It replaces a former one of the same flow."""
        with self._lock:
            self._downloads = [item for item in self._downloads if item.flow != flow]
            self._downloads.append(_Download(folder, flow, transfer))

    def unwatch_download(self, flow: int) -> None:
        """The flow's client has ended."""
        with self._lock:
            self._downloads = [item for item in self._downloads if item.flow != flow]

    def start(self) -> None:
        """Begin to sample."""
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take no more samples and close the files."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def require_written(self) -> None:
        """EngineError where the disk refused samples: the run lacks them."""
        if self._refused is not None:
            raise disk_error(self._refused, self.folder) from self._refused

    def _run(self) -> None:
        try:
            self._write()
        except OSError as error:
            self._refused = error

    def _write(self) -> None:
        with (
            (self.folder / "growth.csv").open("w", newline="") as growth,
            (self.folder / "cpu.csv").open("w", newline="") as cpu,
            (self.folder / "waits.csv").open("w", newline="") as waits,
        ):
            growth.write("t_ns,flow,transfer,bytes\n")
            cpu.write("t_ns,container,cpu_ns,rcvbuf_errors\n")
            waits.write("t_ns,container,kind,ns\n")
            slow_due = waits_due = last = time.monotonic()
            due = last
            while not self._stop.is_set():
                with self._lock:
                    for watched in self._downloads:
                        self._sample(watched, growth)
                    now = time.monotonic()
                    if now >= slow_due:
                        self._sample_slow(cpu)
                        slow_due = now + SLOW_PERIOD
                    if now >= waits_due:
                        waits_due = now + max(WAITS_PERIOD, self._sample_waits(waits) / WAITS_SHARE)
                self.longest_gap = max(self.longest_gap, now - last)
                last = now
                due = max(due + PERIOD, now)
                self._stop.wait(max(0.0, due - time.monotonic()))
            with self._lock:
                self._sample_slow(cpu)
                self._sample_waits(waits)

    @staticmethod
    def _sample(watched: _Download, growth: TextIO) -> None:
        """Write a sample if the size changed, and the sample before it, so that the two bracket the change."""
        size = folder_size(watched.folder)
        sample = (time.time_ns(), size)
        before = watched.last
        if before is None or size != before[1]:
            writer = csv.writer(growth, lineterminator="\n")
            if before is not None and before != watched.written:
                writer.writerow((before[0], watched.flow, watched.transfer, before[1]))
            writer.writerow((sample[0], watched.flow, watched.transfer, size))
            watched.written = sample
        watched.last = sample

    def _sample_slow(self, cpu: TextIO) -> None:
        for container, pid in self._containers.items():
            file = cgroup_usage(pid)
            usage = None if file is None else read_usage(file)
            if usage is not None:
                errors = receive_buffer_errors(pid)
                used_before, lost_before = self._before[container]
                lost = "" if errors is None else errors - lost_before
                cpu.write(f"{time.time_ns()},{container},{usage - used_before},{lost}\n")
        for container, folder in self._logs.items():
            if self.overflowed is None and tree_size(folder) > self.log_limit:
                self.overflowed = container

    def _sample_waits(self, waits: TextIO) -> float:
        """Write how long each container has waited so far. Returns the CPU seconds that this took."""
        # CPU time, not wall time: a sampler that has to wait itself must not sample less often.
        began = time.thread_time()
        for container, waiting in self._waiting.items():
            now_ns = time.time_ns()
            waits.writelines(f"{now_ns},{container},{kind},{ns}\n" for kind, ns in waiting.look(now_ns))
        stolen = stolen_ns()
        if stolen is not None:
            waits.write(f"{time.time_ns()},{MACHINE},steal,{stolen}\n")
        return time.thread_time() - began
