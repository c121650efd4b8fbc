"""The compose engine: a lab as containers on this machine, in real time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from harness.engine import EngineResult, Progress, confinement, exit_rules
from harness.engine.docker.containers import Project
from harness.engine.docker.daemon import Daemon, describe_daemon
from harness.engine.docker.networks import LabNetworks, kind_of
from harness.engine.docker.sampler import Sampler
from harness.engine.docker.supervisor import Conductor
from harness.engine.docker_cli import remove_orphans, tail
from harness.engine.images.cache import Cache
from harness.engine.run_dir import kernel_of, prepare_folder, read_events, unrepeatable
from harness.engine.served_files import locked_served_files
from harness.outcome import EngineName, Outcome
from harness.topology import Lab
from harness.units import Size

#: Seconds without a sample of the files from which on a run carries a warning.
LONG_GAP = 0.1
#: What programs print when an operation is not permitted (strerror(3) of EPERM and EROFS), and the warning for it.
_PERMISSION_ERRORS = ("Operation not permitted", "Read-only file system")
_PERMISSION_WARNING = (
    "{} was not let do something: only root may set its network, and for all else 'container' in its manifest may ask "
    "(docs/untrusted.md says for what)"
)


class ComposeEngine:
    """Runs labs with `docker compose`."""

    name: EngineName = "compose"

    def __init__(self, cache: Cache, log_limit: int = 2 << 30, memory: int = confinement.MEMORY) -> None:
        """`cache`: has served files and certificates; `log_limit`, `memory`: bytes per endpoint."""
        self._cache = cache
        self._log_limit = log_limit
        self._memory = memory
        self._said: set[str] = set()
        """Warnings about this machine so far: each is given once."""
        self._paths: LabNetworks | None = None
        self._leaving: Project | None = None
        """The former run's containers, which are being removed."""

    @cached_property
    def _daemon(self) -> Daemon:
        daemon = describe_daemon()
        daemon.require_supported()
        return daemon

    def remove_orphans(self) -> list[str]:
        """Remove containers and networks of harness processes that no longer live."""
        return remove_orphans()

    def cancel(self) -> None:
        """Nothing to do: real-time labs run one at a time, in the thread that is interrupted."""

    def run(self, lab: Lab, folder: Path, progress: Progress) -> EngineResult:
        """Run a lab; see `harness.engine.Engine.run`."""
        try:
            with locked_served_files(lab, self._cache):
                folder = folder.resolve()
                # Its subfolders are open to any user that an image runs as. Other users of the host have no access.
                folder.chmod(0o700)
                paths = self._paths_for(lab, folder.parent)
                limits = _Limits(self._log_limit, self._memory)
                session = _Session(lab, folder, self._cache.folder, limits, progress, paths, self._left, self._daemon)
                try:
                    result = session.run()
                finally:
                    self._leaving = session.project
        except BaseException:
            self.close()
            raise
        new_warnings = [warning for warning in session.open_doors() if warning not in self._said]
        self._said.update(new_warnings)
        result = replace(result, warnings=(*result.warnings, *new_warnings))
        if not session.ended or result.outcome.status == "infrastructure":
            # The next run begins with new networks and simulators.
            self.close()
        return result

    def _paths_for(self, lab: Lab, runs: Path) -> LabNetworks:
        """Networks and simulators for this lab: the present ones where their kind matches, else new ones."""
        if self._paths is not None and self._paths.kind != kind_of(lab, runs):
            self.close()
        if self._paths is None:
            self._paths = LabNetworks(lab, runs, self._daemon)
        return self._paths

    def _left(self) -> None:
        """Wait until the former run's containers are removed."""
        previous, self._leaving = self._leaving, None
        if previous is not None:
            previous.gone()

    def close(self) -> None:
        """Remove what stays between runs; see `harness.engine.Engine.close`."""
        try:
            self._left()
        finally:
            paths, self._paths = self._paths, None
            if paths is not None:
                paths.down()


@dataclass(frozen=True)
class _Limits:
    """Limits of each endpoint, bytes."""

    logs: int
    memory: int


class _Session:
    """One lab, from its files to the removal of its own containers."""

    def __init__(
        self,
        lab: Lab,
        folder: Path,
        cache: Path,
        limits: _Limits,
        progress: Progress,
        paths: LabNetworks,
        left: Callable[[], None],
        daemon: Daemon,
    ) -> None:
        """`left`: waits until the former run's containers are removed."""
        self.ended = False
        """Whether the simulators ended this run, and can begin another one."""
        self._lab = lab
        self._folder = folder
        self._cache = cache
        self._progress = progress
        self._phases: dict[str, float] = {}
        self._phase = ("", time.monotonic())
        self._limits = limits
        self._sampler = Sampler(folder, exit_rules.log_limit(lab, limits.logs))
        self._paths = paths
        self._left = left
        self.project = Project(
            lab, folder, prepare_folder(lab, folder, cache), paths, self._sampler, limits.memory, daemon
        )
        self._conductor = Conductor(lab, folder, self.project, self._sampler, self._enter)

    def run(self) -> EngineResult:
        is_complete = False
        try:
            with self.project.death_notices():
                self._enter("create")
                self._paths.up()
                self._paths.order(self._folder)
                # The former run's containers may still have the addresses.
                self._left()
                self.project.up()
                self._paths.started()
                self._conductor.begin()
                self.project.look()
                self._sampler.start()
                self._enter("ready")
                outcome = self._conductor.watch()
                self._enter("collect")
                self._sampler.stop()
                self.ended = self.project.stop()
            is_complete = True
        finally:
            self._sampler.stop()
            self._enter("remove")
            if is_complete:
                self.project.leave()
            else:
                self.project.down()
            self._enter("")
        self._sampler.require_written()
        return self._result(outcome)

    def _enter(self, phase: str) -> None:
        name, since = self._phase
        now = time.monotonic()
        if name:
            self._phases[name] = round(self._phases.get(name, 0.0) + now - since, 3)
        self._phase = (phase, now)
        if phase:
            self._progress(phase)

    # --- afterwards

    def _result(self, outcome: Outcome) -> EngineResult:
        """The result: compares every received file with the served one, and has the failed host's last lines."""
        checks = [
            exit_rules.check_transfer(item, self._lab.flows[item.flow], self._folder, self._cache / "www")
            for item in self._conductor.transfers
        ]
        final = exit_rules.conclude(outcome, checks)
        blamed = self._conductor.blamed
        if final.status == "wrong_file":
            blamed = next(f"client{item.transfer.flow}" for item in checks if item.outcome is not None)
        if final.status != "completed":
            final = exit_rules.with_log_tail(final, tail(self.project.log_file(blamed)))
        events = read_events(self._folder)
        refused = final.status == "crashed" and any(word in "\n".join(final.log_tail) for word in _PERMISSION_ERRORS)
        return EngineResult(
            outcome=final,
            transfers=tuple(item.transfer for item in checks),
            phases=self._phases,
            sim_kernel=kernel_of(events),
            image_ids=self.project.image_ids,
            warnings=(
                *self._cautions(),
                *unrepeatable(events),
                *([_PERMISSION_WARNING.format(blamed)] if refused else ()),
            ),
            containers=self._confined(),
        )

    def _confined(self) -> str:
        """Limits and reachability of endpoints, as text for the run's record."""
        limits = {"memory": f"{Size(self._limits.memory)} of memory", "processes": f"{confinement.PROCESSES} processes"}
        granted = [words if limit not in self.project.unlimited else f"any {limit}" for limit, words in limits.items()]
        networks = "; ".join(("closed networks", *(f"without {layer}" for layer in self._paths.unfenced)))
        return f"{', '.join(granted)} each; {networks}"

    def open_doors(self) -> Iterator[str]:
        """Missing protections of this machine against endpoints, each as a sentence."""
        for limit in sorted(self.project.unlimited):
            yield f"endpoints may have any {limit}: Docker on this machine has no limits for that ('docker info')"
        for layer in self._paths.unfenced:
            yield f"this machine is not shut off from a lab's networks by all that it should: {layer}"

    def _cautions(self) -> tuple[str, ...]:
        """Warnings about the run: the harness itself did not get the CPU."""
        gap = self._sampler.longest_gap
        return (f"file sizes were not sampled for {gap * 1000:.0f} ms at worst",) if gap > LONG_GAP else ()
