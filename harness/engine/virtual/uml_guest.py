"""One lab kernel in virtual time, as a process of this machine: start, watch its clock, end, clean up."""

from __future__ import annotations

import contextlib
import math
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from harness.engine.images.cache import size_of as size_on_disk
from harness.engine.process_owner import lives, owner
from harness.engine.virtual.sandbox import PROGRAM, SANDBOXES, SharedFolder, is_enabled, sandbox_command
from harness.errors import EngineError
from harness.formatting import format_size
from harness.reading import read_regular

#: Environment variable of a guest's process: its owner.
OWNER_VARIABLE = "QUIC_LAB_OWNER"
#: The working directory of a guest's process, as the guest's kernel sees it.
GUEST_DIR = "/proc/self/cwd"
#: Path by which a guest's init finds the folder of its lab.
LAB = f"{GUEST_DIR}/lab"
#: Name of a scratch folder: this, then its owner.
SCRATCH = "quic-lab"
#: Seconds of the guest's own CPU time without any movement of its clock after which it is ended.
STALL = 60.0
#: On a busy machine a guest may take so many times as long for that, in wall time.
PATIENCE = 10
#: Seconds without any movement of its clock in which none of its processes was runnable. After them it is ended, since
#: the event that it waits for does not come. Processes that wait for a CPU are runnable, and stopped ones do not sleep.
ASLEEP = 30.0
#: From this address on, the host process of a guest's program has no memory of the program (User Mode Linux's
#: TASK_SIZE), but that of the lab kernel, and the strings that this was started with.
ABOVE_PROGRAMS = 0x7F8000000000
#: States of proc_pid_stat(5): asleep, and ended but not yet reaped.
_SLEEPING = frozenset("SZ")
#: Bytes that must stay free on the file system with the guest's memory file.
_SLACK = 16 << 20
#: Seconds between two checks of a guest's use of memory and disk.
LOOK = 1.0
#: Bytes of memory that all processes of a guest together may have beside its memory file. Lab kernels use some tens of
#: MB.
PRIVATE = 1 << 30
#: Bytes that a guest may write, unless its lab needs more.
DISK = 16 << 30
#: Message of a lab kernel that cannot open its socket for commands.
NO_CONSOLE = "Failed to initialize management console"
#: Name of the sandbox's own processes: the one that was started, and the first of its namespace.
SANDBOX = Path(PROGRAM).name
#: Bytes that are read of a kernel's report about itself at most.
_MAX_REPORT = 4096


@dataclass(frozen=True)
class GuestEnd:
    """How a guest ended."""

    said_over: bool
    """It came to the end of the lab in order."""
    clock: float
    """Seconds that its clock had run."""
    phases: dict[str, float]
    """Wall seconds per phase."""
    spun: str = ""
    """What was running while the clock stood still; empty when it did not."""
    asleep: bool = False
    """All its processes slept, for an event that does not come."""
    signal: int = 0
    """The signal that the lab kernel's process died of; 0 where it ended by itself, or was ended here."""
    entered: str = ""
    """How it entered its programs, and which kind of pages its memory had; empty where it did not come so far."""
    sandbox: str = ""
    """Its sandbox: 'on', and the layers that this host lacks; or 'off'."""
    exceeded: str = ""
    """What it used too much of, so that it was ended; empty where it did not."""
    starved: bool = False
    """This machine had hardly any memory left, so that it was ended."""


def guest_path(name: str) -> str:
    """Path by which a guest's init finds a folder of the guest. It is the same on every machine."""
    return f"{GUEST_DIR}/{name}"


def ram_folder(needed: int) -> Path:
    """Folder for a guest's memory file: TMPDIR if set, else /dev/shm. EngineError if it is unsuitable.

    The lab kernel maps its memory from a file there, with the right to execute. `needed`: bytes.
    """
    folder = _memory_folder()
    hint = "set TMPDIR to a folder on a file system that is not mounted noexec, best a tmpfs"
    try:
        status = os.statvfs(folder)
    except OSError as error:
        raise EngineError(f"{folder}: {error.strerror}", hint) from error
    if status.f_flag & os.ST_NOEXEC:
        raise EngineError(f"{folder} is mounted noexec, and the lab kernel executes from its memory file there", hint)
    free = status.f_bavail * status.f_frsize
    if free < needed + _SLACK:
        raise EngineError(
            f"{folder} has {free / 2**20:.0f} MiB free, and a lab of this size needs {needed / 2**20:.0f} MiB at least",
            "free memory, run fewer cells side by side (--jobs), or set TMPDIR to a roomier folder",
        )
    return folder


@dataclass(frozen=True)
class _Start:
    """Command and settings to start a lab kernel."""

    command: list[str]
    scratch: str
    """Working directory of the process."""
    sandbox: str
    """Text for the run's record."""
    report: IO[bytes] | None = None
    """File with the sandbox's report: how the kernel entered its programs."""

    def entered(self) -> str:
        """The kernel's report on how it entered its programs (images/lab-kernel/lab_inproc.c)."""
        if self.report is not None:
            self.report.seek(0)
            return self.report.read(_MAX_REPORT).rstrip(b"\0").decode(errors="replace").strip()
        try:
            return read_regular(Path(self.scratch) / "entered", _MAX_REPORT).decode(errors="replace").strip()
        except OSError:
            return ""


def require_memory(needed: int) -> None:
    """EngineError where this machine has less free memory than a guest needs at least. `needed`: bytes."""
    free = free_memory()
    if free < needed + _SLACK:
        raise EngineError(
            f"this machine has {free / 2**20:.0f} MiB of memory left, and a lab of this size needs "
            f"{needed / 2**20:.0f} MiB at least",
            "free memory, or run fewer cells side by side (--jobs)",
        )


def free_memory() -> float:
    """Bytes of memory that this machine has left (proc_meminfo(5), MemAvailable); infinite where it does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return math.inf


class Guest:
    """A lab kernel with its init, from start to end."""

    def __init__(
        self,
        kernel: Path,
        rootfs: Path,
        memory_mib: int,
        seed: int,
        start_ns: int,
        core: int,
        used_mib: int | None = None,
    ) -> None:
        """`rootfs`: the guest's root on this machine; `start_ns`: start of its clock, ns since the epoch.

        `used_mib`: how much of its memory it uses at least, by default all.
        """
        self._kernel = kernel
        self._rootfs = rootfs
        self._memory = memory_mib
        self._used = memory_mib if used_mib is None else used_mib
        self._seed = seed
        self._start_ns = start_ns
        self._core = core
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._process_id = 0

    def kill(self) -> None:
        """Kill it at once."""
        if self._process_id:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process_id, signal.SIGKILL)

    def command(self, init: list[str]) -> list[str]:
        """The kernel's command line.

        The kernel mixes it into its random numbers, so it has no path of this machine. Folders are in the working
        directory, so that the same seed gives the same numbers everywhere.
        """
        return [
            str(self._kernel),
            f"mem={self._memory}M",
            "seccomp=on",
            "time-travel=inf-cpu",
            f"time-travel-start={self._start_ns}",
            f"uml_dir={GUEST_DIR}/",
            "root=/dev/root",
            "rootfstype=hostfs",
            f"rootflags={GUEST_DIR}/rootfs",
            "ro",
            "con=null",
            "con0=null,fd:1",
            "quiet",
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH=/opt/lab",
            "PYTHONDONTWRITEBYTECODE=1",
            "PYTHONHASHSEED=0",
            f"init={init[0]}",
            "--",
            *init[1:],
        ]

    def run(
        self,
        init: list[str],
        lab: Path,
        console: Path,
        stall: float,
        phase: Callable[[str], None],
        *,
        folders: Mapping[str, Path] | None = None,
        settings: Mapping[str, str] | None = None,
        disk: int = DISK,
    ) -> GuestEnd:
        """Run until it ends by itself, or its clock stands still for `stall` seconds of CPU time.

        Its init finds the folder `lab` as LAB, and each of `folders` at the path of `seen`. It may write only to `lab`.
        Its output goes to `console`, without the lines of the clock. `settings`: environment variables that the kernel
        itself reads (LAB_CPU, LAB_TRACE). `disk`: it is ended once there are more bytes in `lab`. EngineError when it
        cannot be started.
        """
        places = {name: SharedFolder(folder) for name, folder in {"rootfs": self._rootfs, **(folders or {})}.items()}
        places["lab"] = SharedFolder(lab, writable=True)
        settings = dict(settings or {})
        if "LAB_TRACE" in settings:
            trace = Path(settings["LAB_TRACE"]).absolute()
            places["trace"] = SharedFolder(trace.parent, writable=True)
            settings["LAB_TRACE"] = guest_path(f"trace/{trace.name}")
        with self._confined(init, places) as start, console.open("w") as out:
            with self._started(start, settings) as process:
                end = self._watch(process, out.write, stall, phase, _UsageLimits(process.pid, lab, disk))
            return replace(end, entered=start.entered(), sandbox=start.sandbox)

    @contextlib.contextmanager
    def _confined(self, init: list[str], places: Mapping[str, SharedFolder]) -> Iterator[_Start]:
        """Prepare the kernel's start. It is sandboxed, as far as this host can, unless that is off. EngineError."""
        needed, program, kernel = self._memory << 20, self._rootfs / PROGRAM, self.command(init)
        sandbox = SANDBOXES.of(program, self._kernel, places) if is_enabled() else None
        if sandbox is not None and sandbox.own_memory:
            require_memory(self._used << 20)
            folder = _memory_folder()
        else:
            folder = ram_folder(self._used << 20)
        with tempfile.TemporaryDirectory(prefix=f"{SCRATCH}.{owner()}.", dir=folder) as scratch:
            if sandbox is not None:
                with tempfile.TemporaryFile() as report:
                    # Reserves the space for the report at the end, when the disk may be full.
                    with contextlib.suppress(OSError):
                        os.posix_fallocate(report.fileno(), 0, _MAX_REPORT)
                    words = sandbox_command(program, sandbox, kernel, places, needed, self._core, report.fileno())
                    yield _Start(words, scratch, sandbox.text, report)
                return
            if shutil.which("taskset") is None:
                raise EngineError("there is no 'taskset' command", "install util-linux")
            for name, place in places.items():
                (Path(scratch) / name).symlink_to(place.folder.resolve())
            yield _Start(["taskset", "--cpu-list", str(self._core), *kernel], scratch, "off")

    @contextlib.contextmanager
    def _started(self, start: _Start, settings: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
        # Its memory file and its report are in its working directory.
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": GUEST_DIR,
            "TMPDIR": GUEST_DIR,
            "LAB_SEED": str(self._seed),
            **settings,
            OWNER_VARIABLE: owner(),
        }
        try:
            process = subprocess.Popen(
                start.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=environment,
                start_new_session=True,
                cwd=start.scratch,
                pass_fds=[] if start.report is None else [start.report.fileno()],
                # Processes of the guest set the modes of its files, whoever runs it.
                umask=0,
            )
        except OSError as error:
            raise EngineError(f"{self._kernel}: {error.strerror}", "does this file system allow programs?") from error
        reader = threading.Thread(target=self._read, args=(process,), name="guest-console", daemon=True)
        reader.start()
        self._process_id = process.pid
        try:
            yield process
        finally:
            self.kill()
            process.wait()
            reader.join()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _watch(
        self,
        process: subprocess.Popen[str],
        keep: Callable[[str], object],
        stall: float,
        phase: Callable[[str], None],
        bounds: _UsageLimits,
    ) -> GuestEnd:
        phase_start = time.monotonic()
        clock, finished, current = 0.0, False, "create"
        stillness = _StallDetector(process.pid, stall)
        phases: dict[str, float] = {}
        phase(current)
        while True:
            if stillness.too_long():
                return GuestEnd(False, clock, phases, busy_program(process.pid) or "the lab kernel")
            if stillness.asleep():
                return GuestEnd(False, clock, phases, asleep=True)
            exceeded = bounds.exceeded()
            if exceeded or bounds.starved:
                return GuestEnd(False, clock, phases, exceeded=exceeded, starved=bounds.starved)
            try:
                line = self._lines.get(timeout=min(stall / 8, LOOK))
            except queue.Empty:
                continue
            if line is None:
                break
            if not line.startswith("@"):
                if NO_CONSOLE not in line:
                    keep(line)
                continue
            stillness.moved()
            now = time.monotonic()
            seconds, _, word = line[1:].strip().partition(" ")
            clock = float(seconds)
            if word:
                phases[current] = round(phases.get(current, 0.0) + now - phase_start, 3)
                current, phase_start, finished = word, now, word == "remove"
                phase(word)
        process.wait()
        phases[current] = round(phases.get(current, 0.0) + time.monotonic() - phase_start, 3)
        return GuestEnd(finished, clock, phases, signal=max(0, -process.returncode))


class _StallDetector:
    """Distinguishes a guest whose clock stands still from one that waits for a CPU on a busy machine.

    The lab kernel waits for the host process of a program. If somebody ended that process, it ends as well
    (images/lab-kernel/lab_inproc.c), except for unforeseen faults.
    """

    def __init__(self, guest: int, stall: float) -> None:
        self._guest = guest
        self._stall = stall
        self.moved()

    def moved(self) -> None:
        """The clock moved just now."""
        self._since = time.monotonic()
        self._used: float | None = None
        self._last: dict[int, _ProcessStat] = {}
        self._slept_since = self._since

    def too_long(self) -> bool:
        """Whether the guest has used `stall` seconds of CPU time, or `PATIENCE` times as much wall time."""
        idle_seconds = time.monotonic() - self._since
        if idle_seconds < self._stall / 4:
            # Reading the CPU time costs, and most clocks move many times a second.
            return False
        now = _group_stats(self._guest)
        if now != self._last or any(process.state not in _SLEEPING for process in now.values()):
            self._slept_since, self._last = time.monotonic(), now
        used = sum(process.user + process.system for process in now.values()) / os.sysconf("SC_CLK_TCK")
        if self._used is None:
            # So far it has used at most as much CPU time as wall time.
            self._used = used - self._stall / 4
        return used - self._used >= self._stall or idle_seconds >= PATIENCE * self._stall

    def asleep(self) -> bool:
        """Whether it has slept for too long, by the last checks of `too_long`."""
        return bool(self._last) and time.monotonic() - self._slept_since >= ASLEEP


class _UsageLimits:
    """Detects a guest that uses more than any guest needs. A process that escaped from it could use up memory and disk
    of the whole machine otherwise.
    """

    def __init__(self, group: int, folder: Path, disk: int) -> None:
        self._group = group
        self._folder = folder
        self._disk = disk
        self._looked = time.monotonic()
        self.starved = False
        """Whether this machine had hardly any memory left at the last check."""

    def exceeded(self) -> str:
        """What a guest has used too much of, as text; empty where it has not. Checked every LOOK seconds."""
        if time.monotonic() - self._looked < LOOK:
            return ""
        self._looked = time.monotonic()
        self.starved = free_memory() < _SLACK
        private = sum(_private_bytes(process) for process in _group_stats(self._group))
        if private > PRIVATE:
            return f"{format_size(private)} of memory beside its guest's"
        disk_bytes = size_on_disk(self._folder)
        return f"{format_size(disk_bytes)} of the disk" if disk_bytes > self._disk else ""


def _private_bytes(process: int) -> int:
    """A process's memory that is no file's; 0 where it has ended."""
    try:
        _, resident, shared, *_ = Path(f"/proc/{process}/statm").read_text().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def _memory_folder() -> Path:
    return Path(os.environ.get("TMPDIR") or "/dev/shm")


def remove_orphans() -> list[str]:
    """End guests whose harness process is dead, and remove their scratch folders. Returns their names.

    Most have ended by themselves: a guest whose console nobody reads ends when it prints the time.
    """
    removed = []
    for process, label in guests():
        if not lives(label):
            with contextlib.suppress(OSError):
                os.killpg(process, signal.SIGKILL)
            removed.append(f"guest {process}")
    for scratch in _memory_folder().glob(f"{SCRATCH}.*.*"):
        if not lives(scratch.name.split(".")[1]):
            shutil.rmtree(scratch, ignore_errors=True)
            removed.append(scratch.name)
    return removed


def guests() -> list[tuple[int, str]]:
    """(process, owner) of the lab kernels on this machine that a harness started."""
    running = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            process = int(folder.name)
            label = _environment(process).get(OWNER_VARIABLE)
            with contextlib.suppress(ProcessLookupError):
                if label and os.getpgid(process) == process:
                    running.append((process, label))
    return running


def _environment(process: int) -> dict[str, str]:
    try:
        raw = Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.partition(b"=") for item in raw.split(b"\0") if item)
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in pairs}


def busy_program(guest: int, seconds: float = 0.5) -> str:
    """The program inside a guest that uses the CPU, with its endpoint; empty if it cannot be found out.

    Each process of a guest has a host process with the same memory. The strings that a program was started with are at
    the top of its stack (the System V ABI's initial process stack).
    """
    before = _group_stats(guest)
    time.sleep(seconds)
    spent = {process: now.user - before.get(process, now).user for process, now in _group_stats(guest).items()}
    if not spent:
        return ""
    kernel = _kernel(guest, before)
    # With a loop of system calls the kernel is busier than the program, so the kernel is left out.
    programs = {
        process: used
        for process, used in spent.items()
        if used and process != kernel and process in before and before[process].name != SANDBOX
    }
    if not programs:
        return "the lab kernel" if spent.get(kernel) else ""
    return _program(max(programs, key=lambda process: programs[process]))


def _kernel(guest: int, processes: Mapping[int, _ProcessStat]) -> int:
    """The lab kernel's process: the first one below the sandbox's, or the guest's own process without a sandbox."""
    while guest in processes and processes[guest].name == SANDBOX:
        guest = next((process for process, now in processes.items() if now.parent == guest), 0)
    return guest


@dataclass(frozen=True)
class _ProcessStat:
    """Fields of a process from proc_pid_stat(5)."""

    name: str
    state: str
    parent: int
    user: int
    """Ticks of CPU time, and in kernel mode."""
    system: int


def _group_stats(group: int) -> dict[int, _ProcessStat]:
    """The processes of a group."""
    processes = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                name, _, remainder = (folder / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue
            fields = remainder.split()
            if int(fields[2]) == group:
                processes[int(folder.name)] = _ProcessStat(
                    name, fields[0], int(fields[1]), int(fields[11]), int(fields[12])
                )
    return processes


def _program(process: int) -> str:
    """Endpoint and program of a guest's process: 'client0: /usr/bin/python3'."""
    try:
        areas = [line.split() for line in Path(f"/proc/{process}/maps").read_text().splitlines()]
        memory = Path(f"/proc/{process}/mem").open("rb", buffering=0)  # noqa: SIM115
    except OSError:
        return ""
    with memory:
        for area in reversed(areas):
            low, high = (int(word, 16) for word in area[0].split("-"))
            if low >= ABOVE_PROGRAMS:
                continue
            try:
                memory.seek(max(low, high - 65536))
                words = memory.read(min(high - low, 65536)).rstrip(b"\0").split(b"\0")
            except (OSError, ValueError, OverflowError):
                continue
            environment = dict(word.split(b"=", 1) for word in words if word.count(b"=") and word[:1].isalpha())
            if b"HOSTNAME" in environment or b"PATH" in environment:
                name = environment.get(b"HOSTNAME", b"the lab's init").decode(errors="replace")
                return f"{name}: {words[-1].decode(errors='replace')}"
    return ""
