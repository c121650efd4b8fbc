"""The virtual engine: a lab inside one lab kernel whose clock jumps over idle time (time-travel=inf-cpu).

It uses the same images, path program and simulator as the compose engine. Each endpoint is a set of namespaces on its
image's root file system. CPU costs no virtual time, and nothing on the host can disturb the result.
"""

from __future__ import annotations

import contextlib
import functools
import json
import queue
import re
import shutil
import signal
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.engine import EngineResult, Progress, exit_rules
from harness.engine.certificates import VIRTUAL_START, virtual_certificates
from harness.engine.docker_cli import tail
from harness.engine.external_failures import kill_failure, memory_failure, memory_kills, starvation, wait_failure
from harness.engine.images.cache import Cache
from harness.engine.images.rootfs_export import LockedRoots, RootFileSystems, RootFs
from harness.engine.kernel import OWN, LabKernel
from harness.engine.run_dir import cpu_of, file_digest, kernel_of, prepare_folder, random_bytes, read_events
from harness.engine.served_files import locked_served_files
from harness.engine.virtual.guest_config import guest_memory_mib, roots_of, used_memory_mib, world_document
from harness.engine.virtual.uml_guest import DISK, LAB, STALL, Guest, GuestEnd, remove_orphans
from harness.errors import EngineError
from harness.outcome import EngineName, Outcome, Transfer
from harness.topology import Lab

#: Beginning of a kernel's panic message.
PANIC = "Kernel panic - not syncing"
#: Attempts at a run whose root file systems turn out to be damaged, and are exported again.
ATTEMPTS = 2
#: Panic message where processes have used up the guest's memory (mm/oom_kill.c; its init sets panic_on_oom).
OUT_OF_MEMORY = "Out of memory"
#: Panic message where a host process was lost that runs programs of the guest (images/lab-kernel/lab_inproc.c).
LOST = re.compile(r"lost the process of the host behind (?P<host>[^:]*): (?P<program>.*): (?P<how>.*)")
#: In the report on how programs were entered: nothing keeps them from writing into the kernel's memory.
UNPROTECTED = "the kernel's memory is unprotected"
#: Signal in that message if the process made a host system call that the lab kernel never makes.
FORBIDDEN = signal.strsignal(signal.SIGSYS)
#: A disk with less free space than this is full, bytes.
FULL = 1 << 20
#: Warning for a run whose endpoints saw the host's processor.
HOST_CPU = "cpu: the host's: on another machine this run need not be the same"
_MADE_AGAIN = (
    "without protection keys of the processor a program can overwrite that kernel, so the run was made again with "
    "programs in other processes"
)
_INIT = ["/usr/bin/python3", "-S", "-m", "simulator.world"]


class VirtualEngine:
    """Runs labs in virtual time, each on one core."""

    name: EngineName = "virtual"

    def __init__(
        self,
        cache: Cache,
        cores: Sequence[int],
        log_limit: int = 2 << 30,
        stall: float = STALL,
        trace: Path | None = None,
        kernel: LabKernel = OWN,
    ) -> None:
        """`cores`: those that labs may run on, one lab per core; `stall`: see `Guest.run`; `trace`: file for system
        calls; `kernel`: the lab kernel, by default the simulator's own.
        """
        self._cache = cache
        self._images = RootFileSystems(cache)
        self._log_limit = log_limit
        self._stall = stall
        self._trace = trace
        self._kernel = kernel
        self._cores: queue.SimpleQueue[int] = queue.SimpleQueue()
        for core in cores:
            self._cores.put(core)
        self._running: set[Guest] = set()
        self._cancelled = False
        self._preparing = threading.Lock()

    def cancel(self) -> None:
        """End the guests that other threads are running."""
        self._cancelled = True
        for guest in list(self._running):
            guest.kill()

    def close(self) -> None:
        """Nothing to do: each run has a guest of its own."""

    def remove_orphans(self) -> list[str]:
        """End guests of dead harness processes, and remove their unfinished exports."""
        return [*remove_orphans(), *self._cache.remove_orphans()]

    def run(self, lab: Lab, folder: Path, progress: Progress) -> EngineResult:
        """Run a lab; see `harness.engine.Engine.run`."""
        warnings: list[str] = []
        note, damages, kernel = "", 0, self._kernel
        while damages < ATTEMPTS:
            with contextlib.ExitStack() as stack:
                exported = self._prepared(lab, folder, stack)
                warnings += [sentence + note for sentence in exported.repaired]
                result = self._tried(lab, folder, progress, exported.roots, kernel)
            if result is None:
                damages += 1
                note = ", and the run made again"
            elif may_have_been_overwritten(result):
                kernel = replace(kernel, entry="host")
                warnings.append(f"{result.outcome.detail}: {_MADE_AGAIN}")
            else:
                return replace(result, warnings=(*result.warnings, *warnings))
            _empty_folder(folder)
        raise EngineError(f"an image was damaged again once it was exported anew: {warnings[-1]}", "is the disk sound?")

    def _prepared(self, lab: Lab, folder: Path, stack: contextlib.ExitStack) -> LockedRoots:
        """Prepare a lab's files and root file systems, and lock them. EngineError."""
        # Files that are made once and kept are made by one run at a time.
        with self._preparing:
            stack.enter_context(locked_served_files(lab, self._cache))
            prepare_folder(lab, folder, self._cache.folder)
            virtual_certificates(self._cache.folder, lab.certificates)
            return stack.enter_context(self._images.use([lab.sim_image, *(host.image for host in lab.hosts)]))

    def _tried(
        self, lab: Lab, folder: Path, progress: Progress, roots: dict[str, RootFs], kernel: LabKernel
    ) -> EngineResult | None:
        """The result of a lab; None where damaged files may be the reason of it. A completed run is not suspected."""
        try:
            result = self._run(lab, folder, progress, roots, kernel)
        except EngineError:
            if self._cancelled or not self._images.damaged(roots.values()):
                raise
            return None
        suspected = result.outcome.status != "completed"
        return None if suspected and self._images.damaged(roots.values()) else result

    def _run(
        self, lab: Lab, folder: Path, progress: Progress, roots: dict[str, RootFs], lab_kernel: LabKernel
    ) -> EngineResult:
        sim = roots[lab.sim_image]
        images = {host.name: roots[host.image] for host in lab.hosts} | {proxy.name: sim for proxy in lab.proxies}
        kernel = lab_kernel.file or Path(sim.rootfs) / "opt/lab/linux"
        world = world_document(lab, images, exit_rules.log_limit(lab, self._log_limit))
        (folder / "plan" / "world.json").write_text(json.dumps(world))
        folders = {
            "www": self._cache.www,
            "certs": virtual_certificates(self._cache.folder, lab.certificates),
            **roots_of(images),
        }
        settings = {**lab_kernel.settings, **({"LAB_CPU": "host"} if lab.host_cpu else {})}
        if self._trace is not None:
            settings["LAB_TRACE"] = str(self._trace)
        clock = int(VIRTUAL_START.timestamp()) * 10**9
        core, kills = self._cores.get(), memory_kills()
        memory = guest_memory_mib(lab, images)
        used = used_memory_mib(lab, memory)
        guest = Guest(kernel, Path(sim.rootfs), memory, lab.seed, clock, core, used_mib=used)
        try:
            self._running.add(guest)
            if self._cancelled:
                raise EngineError("the run was cancelled")
            end = guest.run(
                [*_INIT, LAB],
                folder,
                folder / "sim" / "console.log",
                self._stall,
                progress,
                folders=folders,
                settings=settings,
                disk=disk_of(lab, self._log_limit),
            )
        finally:
            self._running.discard(guest)
            self._cores.put(core)
        if self._cancelled:
            raise EngineError("the run was cancelled")
        require_disk(folder)
        return self._result(lab, folder, end, {"sim": sim, **images}, kernel_digest(kernel), memory_kills() - kills)

    def _result(
        self, lab: Lab, folder: Path, end: GuestEnd, images: dict[str, RootFs], kernel: str, kills: int
    ) -> EngineResult:
        events = read_events(folder, "endpoints.jsonl")
        transfers = transfers_of(lab, events)
        checks = [exit_rules.check_transfer(item, lab.flows[item.flow], folder, self._cache.www) for item in transfers]
        outcome, blamed = self._outcome(lab, folder, end, events, kills)
        final = exit_rules.conclude(outcome, checks)
        if final.status == "wrong_file":
            blamed = next(f"client{item.transfer.flow}" for item in checks if item.outcome is not None)
        if final.status != "completed":
            words = tail(folder / f"{blamed}.log") if blamed else console_tail(folder)
            final = exit_rules.with_log_tail(final, words)
        simulator = read_events(folder)
        cpu = cpu_of(simulator)
        return EngineResult(
            outcome=final,
            transfers=tuple(item.transfer for item in checks),
            phases=end.phases,
            sim_kernel=kernel_of(simulator),
            image_ids={name: image.id for name, image in images.items()},
            warnings=(HOST_CPU,) if cpu == "host" else (),
            virtual=end.clock,
            cpu=cpu,
            lab_kernel=kernel,
            entered=end.entered,
            sandbox=end.sandbox,
            random=random_bytes(folder),
        )

    def _outcome(
        self, lab: Lab, folder: Path, end: GuestEnd, events: list[dict[str, Any]], kills: int
    ) -> tuple[Outcome, str]:
        """(outcome, host whose log says more, or "" for the lab kernel).

        `kills`: number of processes that this machine's kernel killed for lack of memory during the run.
        """
        if end.spun:
            detail = f"the clock stood still for {self._stall:g} s of CPU time: {end.spun} was running all the while"
            return Outcome(status="infrastructure", role="sim", reason="clock_stood_still", detail=detail), ""
        if end.asleep:
            return exit_rules.external_outcome(
                "sim", wait_failure(f"the lab kernel, {end.clock:.1f} s into the lab,")
            ), ""
        if end.exceeded:
            detail = (
                f"the lab kernel was ended {end.clock:.1f} s into the lab: it had taken {end.exceeded}, which no lab "
                "needs (docs/untrusted.md)"
            )
            return Outcome(status="infrastructure", role="sim", reason="exceeded", detail=detail), ""
        if end.starved:
            return exit_rules.external_outcome(
                "sim", starvation(f"the lab kernel, {end.clock:.1f} s into the lab,")
            ), ""
        if end.signal == signal.SIGKILL:
            victim = f"the lab kernel, {end.clock:.1f} s into the lab,"
            failure = memory_failure(victim, kills) if kills else kill_failure(victim, "SIGKILL")
            return exit_rules.external_outcome("sim", failure), ""
        if not end.said_over:
            panic = next((line for line in console_tail(folder) if PANIC in line), "")
            lost = LOST.search(panic)
            if lost is not None and lost["how"] == FORBIDDEN:
                return self._escaped(lab, lost["host"], lost["program"])
            message = panic.partition(PANIC)[2].strip(" -:") or _silent_end_message(end)
            if message.startswith(OUT_OF_MEMORY):
                message += "; the endpoints used more than a lab has: --engine compose gives them this machine's"
            detail = f"the lab kernel ended {end.clock:.1f} s into the lab: {message}"
            return Outcome(status="infrastructure", role="sim", reason="kernel_ended", detail=detail), ""
        return outcome_of(
            lab,
            events,
            [event for simulator in lab.simulators for event in read_events(folder, simulator=simulator.name)],
        )

    def _escaped(self, lab: Lab, name: str, program: str) -> tuple[Outcome, str]:
        """The outcome where a program of the guest made a host system call."""
        detail = (
            f"{program} in {name or 'the simulator'} called this machine's kernel past the lab's, which no program "
            "does by mistake: it was ended, and the run with it (docs/untrusted.md)"
        )
        host = next((host for host in lab.hosts if host.name == name), None)
        if host is None:
            return Outcome(status="infrastructure", role="sim", reason="left_guest", detail=detail), ""
        return Outcome(status="crashed", role=host.role, reason="left_guest", detail=detail), host.name


def disk_of(lab: Lab, log_limit: int) -> int:
    """Bytes that a lab may write: logs and downloads of each endpoint, and captures of all that is sent."""
    sent = sum(flow.size * (1 if flow.repeat_after is None else 2) for flow in lab.flows)
    return DISK + len(lab.hosts) * exit_rules.log_limit(lab, log_limit) + 4 * sent


def may_have_been_overwritten(result: EngineResult) -> bool:
    """Whether a lab kernel ended whose memory its programs could write, for a reason that such a write may explain."""
    unexplained = result.outcome.reason == "kernel_ended" and OUT_OF_MEMORY not in result.outcome.detail
    return unexplained and UNPROTECTED in result.entered


def _silent_end_message(end: GuestEnd) -> str:
    """Message for a lab kernel that ended without one, and whose file is undamaged."""
    signalled = f" ({signal.Signals(end.signal).name})" if end.signal else ""
    return f"without a word{signalled}: 'dmesg' may tell more; --engine compose does without it"


@functools.cache
def kernel_digest(kernel: Path) -> str:
    """SHA-256 of a lab kernel's file. It is read once, since exported images do not change."""
    return file_digest(kernel)


def console_tail(folder: Path) -> tuple[str, ...]:
    """The last lines of a guest's console; for a panic its first lines, which say why."""
    lines = tail(folder / "sim" / "console.log", 80)
    first = next((number for number, line in enumerate(lines) if PANIC in line), None)
    return lines[-12:] if first is None else lines[first : first + 12]


def _empty_folder(folder: Path) -> None:
    """Empty a run's folder. Raises EngineError."""
    try:
        for place in folder.iterdir():
            # A link is removed, not its target.
            shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()
    except OSError as error:
        raise EngineError(f"{error.filename}: {error.strerror}", "check the folder's permissions") from error


def require_disk(folder: Path) -> None:
    """EngineError when the disk is full: then the guest's files may be incomplete."""
    if shutil.disk_usage(folder).free < FULL:
        raise EngineError(f"the disk is full: {folder}", "free space (results/, 'docker system df') and run again")


def transfers_of(lab: Lab, events: list[dict[str, Any]]) -> list[Transfer]:
    """The transfers of a lab, from the conductor's diary. One that was running at the end is not among them."""
    transfers = []
    started: dict[str, dict[str, Any]] = {}
    for event in events:
        if not event["host"].startswith("client"):
            continue
        if event["event"] == "started":
            started[event["host"]] = event
        elif event["event"] in ("ended", "timed_out", "stopped"):
            begin = started.pop(event["host"])
            flow = lab.flows[lab.host(event["host"]).flow]
            transfers.append(
                Transfer(
                    flow=flow.flow,
                    index=event["index"],
                    size=flow.size,
                    started_ns=begin["t_ns"],
                    ended_ns=event["t_ns"],
                    exit_code=event.get("exit_code"),
                    cut_off=event["event"] == "stopped",
                    received=event.get("received", 0),
                )
            )
    return transfers


def outcome_of(lab: Lab, events: list[dict[str, Any]], simulator: list[dict[str, Any]]) -> tuple[Outcome, str]:
    """(outcome, blamed host) of a lab that came to its end, from the two diaries."""
    for event in events:
        if event["event"] == "proxy_ended":
            return exit_rules.proxy_outcome(event["message"]), event["host"]
        host = lab.host(event["host"])
        outcome = None
        if event["event"] == "ended":
            outcome = exit_rules.exit_outcome(host, lab.flows[host.flow], event["exit_code"])
        elif event["event"] == "timed_out":
            outcome = exit_rules.timeout_outcome(host, lab.time_limit(lab.flows[host.flow]), event["stage"])
        elif event["event"] == "overflowed":
            outcome = exit_rules.log_overflow_outcome(host)
        elif event["event"] == "unable":
            outcome = Outcome(status="infrastructure", role=host.role, reason="unable", detail=event["message"])
        if outcome is not None:
            return outcome, host.name
    failed = next((event for event in simulator if event["event"] == "failed"), None)
    if failed is not None:
        outcome = exit_rules.simulator_outcome(failed["reason"], failed["message"])
        return outcome, next(
            host.name for host in lab.hosts if host.role == outcome.role
        ) if outcome.role == "server" else ""
    return Outcome(status="completed"), ""


__all__ = ["VirtualEngine", "outcome_of", "transfers_of"]
