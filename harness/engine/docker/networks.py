"""The networks and simulators of a lab. They are up from the first run that needs them to the last.

To make networks, to start a container with two of them, and to remove both takes longer than the rest of a short
transfer. So they stay up between runs that need the same ones. Each run orders a path from each simulator, which then
starts afresh (images/sim/simulator/standing.py). Endpoints and proxies are made for each run.

The simulators have the parent folder of all runs' folders mounted. They also have a folder for orders in it. It is
named after its owner, like unfinished runs, so that it is removed together with those.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.engine.compose_file import CLOCK, RUNS, paths_document, to_yaml
from harness.engine.docker.daemon import Daemon, is_of_container
from harness.engine.docker.run_options import PROJECT_LABEL, SERVICE_LABEL
from harness.engine.docker_cli import PREFIX, command_error, docker, remove_networks
from harness.engine.fence import FENCE, REPORT_FILE, missing_layers
from harness.engine.images.host_kernel import lab_features
from harness.engine.process_owner import owner
from harness.engine.run_dir import plan_path
from harness.errors import EngineError
from harness.topology import Lab, sim_plan

#: Seconds between two checks whether the simulators or the fence are done, and the most that they may take.
_LOOK, _END_WAIT = 0.002, 10.0
_numbers = itertools.count()


def compose(
    project: str, folder: Path, variables: Mapping[str, str], *words: str, timeout: float = 120, check: bool = True
) -> str:
    """Run `docker compose WORDS` on the lab in `folder`; the lab's output goes there. Returns standard output."""
    environment = {**os.environ, **variables, "LAB_OUT": str(folder), "LAB_OWNER": owner()}
    completed = docker(
        "compose",
        "--project-name",
        project,
        "--file",
        str(folder / "compose.yaml"),
        "--progress",
        "quiet",
        *words,
        timeout=timeout,
        environment=environment,
        check=False,
    )
    if check and completed.returncode != 0:
        raise command_error(f"docker compose {words[0]}", completed.stderr or completed.stdout)
    return completed.stdout


def retry_on_interrupt(remove: Callable[[bool], object]) -> None:
    """Call `remove` until it is done, also after Ctrl-C. Its argument: whether a failure is an error."""
    for attempt in range(3):
        try:
            remove(attempt == 2)
            break
        except KeyboardInterrupt:
            continue


def next_project() -> str:
    """A project name that is unique on this machine."""
    return f"{PREFIX}-{os.getpid()}-{next(_numbers)}"


def kind_of(lab: Lab, runs: Path) -> str:
    """A key that is equal for labs that can share networks and simulators. `runs`: parent of the runs' folders."""
    plans = [sim_plan(lab, simulator) for simulator in lab.simulators]
    fixed = [
        {name: plan[name] for name in ("kernel", "addresses", "memory_mib")}
        # What decides whether the host's kernel will do.
        | {"features": () if lab.sim_kernel == "lab" else lab_features(lab)}
        for plan in plans
    ]
    return json.dumps([str(runs), paths_document(lab), fixed], sort_keys=True)


class LabNetworks:
    """The networks and simulators of labs of one kind."""

    def __init__(self, lab: Lab, runs: Path, daemon: Daemon) -> None:
        """`runs`: the parent of all runs' folders. Nothing is made before `up`."""
        self.kind = kind_of(lab, runs)
        self.project = next_project()
        self.ids: dict[str, str] = {}
        """Service → container."""
        self.pids: dict[str, int] = {}
        """Service → its container's first process; without those whose machine is another one."""
        self.fence = ""
        """ID of the current fence's container."""
        self.unfenced: tuple[str, ...] = ()
        """Layers of the fence that are missing: 'layer: why' (see `harness.engine.fence`)."""
        self._lab = lab
        self._daemon = daemon
        self._runs = runs
        self._folder = runs / f"{owner()}.{self.project}.paths"
        self._held: dict[str, int] = {}
        """Service → pidfd."""

    def up(self) -> None:
        """Make and start whatever is not there or has ended. Raises EngineError."""
        if self.stand():
            return
        fence = self._folder / FENCE
        if FENCE not in self._held or self._ended(FENCE):
            if self.fence:
                # It is dead, or its state is unknown.
                self.fence = ""
                self._compose("rm", "--stop", "--force", FENCE)
            shutil.rmtree(fence, ignore_errors=True)
            fence.mkdir(parents=True)
            fence.chmod(0o777)
        self._let_go()
        for simulator in self._lab.simulators:
            place = self._folder / simulator.name
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            # The container's root may be any user on the host.
            place.chmod(0o777)
            (place / "plan.json").write_text(json.dumps(sim_plan(self._lab, simulator)))
        (self._folder / "compose.yaml").write_text(to_yaml(self._daemon.adapt_document(paths_document(self._lab))))
        self._compose("up", "--detach", "--no-build")
        self._look()
        self.unfenced = self._fenced(fence / REPORT_FILE)

    def _fenced(self, report_file: Path) -> tuple[str, ...]:
        """Wait for the fence. Returns what it could not do."""
        deadline = time.monotonic() + _END_WAIT
        while (gaps := missing_layers(report_file)) is None:
            if time.monotonic() > deadline:
                raise EngineError(
                    "the lab's networks could not be closed towards this machine",
                    f"'docker logs {self.project}-{FENCE}-1' says more while it is there",
                )
            time.sleep(_LOOK)
        return gaps

    def _compose(self, *words: str, check: bool = True) -> None:
        variables = {
            "LAB_RUNS": str(self._runs),
            "LAB_ORDERS": str(RUNS / self._folder.name),
            "LAB_FENCE": str(self._folder / FENCE),
        }
        compose(self.project, self._folder, variables, *words, check=check)

    def _look(self) -> None:
        listed = docker("ps", "--all", "--quiet", "--filter", f"label={PROJECT_LABEL}={self.project}")
        containers: list[dict[str, Any]] = json.loads(docker("inspect", *listed.stdout.split()).stdout)
        for container in containers:
            service, pid = container["Config"]["Labels"][SERVICE_LABEL], container["State"]["Pid"]
            is_here = is_of_container(pid, container["Id"])
            if service == FENCE:
                self.fence = container["Id"]
            else:
                self.ids[service] = container["Id"]
                self.pids |= {service: pid} if is_here else {}
            # A process on another machine has no pidfd here, so its container is started anew for each run.
            with contextlib.suppress(OSError):
                if is_here:
                    self._held[service] = os.pidfd_open(pid)

    def stand(self) -> bool:
        """Whether all simulators and the fence are alive, as far as this process can see."""
        return len(self._held) == len(self._lab.simulators) + 1 and not self._ended(*self._held)

    def _ended(self, *services: str) -> bool:
        """Whether one of these services has ended. They must have a pidfd."""
        return bool(select.select([self._held[service] for service in services], [], [], 0)[0])

    def order(self, folder: Path) -> None:
        """Order all simulators to begin the run in `folder`."""
        container_path = RUNS / folder.relative_to(self._runs)
        for simulator in self._lab.simulators:
            place = self._folder / simulator.name
            (place / "done").unlink(missing_ok=True)
            run = {
                "plan": container_path / plan_path(self._lab, simulator),
                "logs": container_path / simulator.name,
                "shared": container_path / CLOCK,
                "started": RUNS / self._folder.name / simulator.name / "started",
                "said": container_path / f"{simulator.name}.log",
            }
            unfinished = place / "order.new"
            unfinished.write_text(json.dumps({name: str(path) for name, path in run.items()}))
            # Atomic: the order is there as a whole, or not at all.
            unfinished.rename(place / "order")

    def started(self) -> None:
        """Tell the simulators that all endpoints were started. Their time limit for these begins now."""
        for simulator in self._lab.simulators:
            (self._folder / simulator.name / "started").touch()

    def end(self) -> bool:
        """Order all simulators to end their run. Whether they did, and can begin another one."""
        for simulator in self._lab.simulators:
            (self._folder / simulator.name / "stop").touch()
        deadline = time.monotonic() + _END_WAIT
        while time.monotonic() < deadline and self.stand():
            if all((self._folder / simulator.name / "done").exists() for simulator in self._lab.simulators):
                return True
            time.sleep(_LOOK)
        return False

    def down(self) -> None:
        """Remove containers and networks; a second Ctrl-C does not leave them behind. Raises EngineError."""
        retry_on_interrupt(self._remove)
        self._let_go()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _remove(self, check: bool) -> None:
        self._compose("down", "--volumes", "--timeout", "0", "--remove-orphans", check=check)
        # Compose leaves networks that have an endpoint, and takes that for success.
        of_project = ("--filter", f"label={PROJECT_LABEL}={self.project}")
        if remaining := docker("network", "ls", "--no-trunc", "--quiet", *of_project, check=check).stdout.split():
            remove_networks(remaining)

    def _let_go(self) -> None:
        for pidfd in self._held.values():
            os.close(pidfd)
        self._held.clear()
