"""A lab's containers and networks: one project of Docker Compose, from `up` to `down`."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.engines.docker import PREFIX, docker, failure, json_lines, start
from harness.engines.held import Held
from harness.engines.outside import Finding, Outside
from harness.engines.owner import owner
from harness.engines.sampler import Sampler
from harness.errors import EngineError
from harness.lab import Lab

#: What the daemon is asked to tell of containers: their ends, and what somebody does to them.
_EVENTS = ("start", "die", "kill", "oom", "pause")
_numbers = itertools.count()


@dataclass(frozen=True)
class Death:
    """A container ended."""

    service: str
    exit_code: int
    at_ns: int
    """ns since the epoch, by the daemon's clock."""


def compose(
    project: str, folder: Path, variables: Mapping[str, str], *words: str, timeout: float = 120, check: bool = True
) -> str:
    """Run `docker compose WORDS` on the lab in `folder`, whose output goes there. Standard output."""
    environment = {**os.environ, **variables, "LAB_OUT": str(folder), "LAB_OWNER": owner()}
    done = docker(
        "compose", "--project-name", project, "--file", str(folder / "compose.yaml"), "--progress", "quiet", *words,
        timeout=timeout, environment=environment, check=False,
    )  # fmt: skip
    if check and done.returncode != 0:
        raise failure(f"docker compose {words[0]}", done.stderr or done.stdout)
    return done.stdout


class Project:
    """The containers of one lab, whose files are in its run's folder."""

    def __init__(self, lab: Lab, folder: Path, variables: Mapping[str, str], sampler: Sampler) -> None:
        """`variables`: what `prepare_folder` says; `sampler`: what looks at the containers from outside."""
        self.image_ids: dict[str, str] = {}
        """Service → the ID of the image it ran on."""
        self._lab = lab
        self._folder = folder
        self._variables = variables
        self._sampler = sampler
        self._name = f"{PREFIX}-{os.getpid()}-{next(_numbers)}"
        self._deaths: queue.Queue[Death] = queue.Queue()
        self._ids: dict[str, str] = {}
        self._outside = Outside()
        self._stopping: list[subprocess.Popen[str]] = []
        late = sorted(flow.client for flow in lab.flows if flow.start > 0)
        self._held = Held(folder / "held", {name: lab.host(name).image for name in late}) if late else None

    def _compose(self, *words: str, check: bool = True) -> str:
        return compose(self._name, self._folder, self._variables, *words, check=check)

    # --- up

    def up(self) -> None:
        """Start everything; clients that start late are held."""
        more = ("--file", str(self._held.write())) if self._held is not None else ()
        self._compose(*more, "up", "--detach", "--no-build")

    def look(self) -> None:
        """Learn the containers' IDs, processes and images."""
        listed = docker("ps", "--all", "--quiet", "--filter", f"label=com.docker.compose.project={self._name}")
        found: list[dict[str, Any]] = json.loads(docker("inspect", *listed.stdout.split()).stdout)
        for container in found:
            service = container["Config"]["Labels"]["com.docker.compose.service"]
            self._ids[service] = container["Id"]
            self.image_ids[service] = container["Image"]
            if container["State"]["Pid"]:
                self._sampler.watch_process(service, container["State"]["Pid"])
                self._outside.watch(service, container["State"]["Pid"])
        self._sampler.watch_logs({host.name: self._folder / f"flow{host.flow}" / host.role for host in self._lab.hosts})

    # --- while it runs

    @contextlib.contextmanager
    def death_notices(self) -> Iterator[None]:
        """Deaths of this project's containers arrive for `next_death`, from before the first is started."""
        process = start(
            ["events", "--since", f"{time.time():.3f}", "--format", "{{json .}}",
             "--filter", f"label=com.docker.compose.project={self._name}",
             *(word for name in _EVENTS for word in ("--filter", f"event={name}"))],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                event = json_lines(line)[0]
                attributes = event["Actor"]["Attributes"]
                service, what = attributes["com.docker.compose.service"], event["Action"]
                self._outside.hear(service, what, attributes, event["Actor"]["ID"])
                if what == "die":
                    self._deaths.put(Death(service, int(attributes["exitCode"]), int(event["timeNano"])))

        reader = threading.Thread(target=read, name="docker-events", daemon=True)
        reader.start()
        try:
            yield
        finally:
            process.terminate()
            process.wait()
            reader.join()
            self._outside.close()

    def befell(self, service: str) -> Finding | None:
        """What befell a container from outside; None where nothing did that is known of."""
        return self._outside.befell(service, self._ids[service])

    def next_death(self, timeout: float) -> Death | None:
        """The next container that ended, waiting so many seconds for it."""
        try:
            return self._deaths.get(timeout=timeout) if timeout > 0 else self._deaths.get_nowait()
        except queue.Empty:
            return None

    def release(self, service: str) -> bool:
        """Let a client that is held go on; False while it is not there yet."""
        assert self._held is not None
        return self._held.release(service)

    def start_again(self, service: str) -> None:
        """Start a container that ended once more. Raises EngineError."""
        docker("start", self._ids[service])
        # Its process is another one.
        with contextlib.suppress(EngineError):
            self.look()
        if service not in self._ids:
            raise EngineError(f"the container of {service} is gone", "was it removed by hand?")

    def tell(self, *services: str) -> None:
        """Tell containers to end, each with its image's own stop signal, and without waiting: others go on."""
        self._outside.tell(*services)
        words = ["stop", "--time", "2", *(self._ids[service] for service in services)]
        self._stopping.append(start(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    # --- down

    def stop(self) -> None:
        """End the endpoints and the simulator, and keep what they printed."""
        for process in self._stopping:
            process.wait()
        self._compose("stop", check=False)
        threads = [
            threading.Thread(target=self._keep_log, args=(service, identity), daemon=True)
            for service, identity in self._ids.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def log_file(self, service: str) -> Path:
        """Where what a container printed is kept."""
        return self._folder / f"{service}.log"

    def _keep_log(self, service: str, identity: str) -> None:
        with self.log_file(service).open("wb") as log:
            process = start(["logs", identity], stdout=log, stderr=log)
            process.wait()

    def down(self) -> None:
        """Remove containers and networks; a second Ctrl-C does not leave them behind."""
        for attempt in range(3):
            try:
                self._compose("down", "--volumes", "--timeout", "2", "--remove-orphans", check=attempt == 2)
                if os.geteuid() != 0:
                    self._own_files()
                break
            except KeyboardInterrupt:
                continue
        if self._held is not None:
            self._held.remove()

    def _own_files(self) -> None:
        """Give files that containers wrote as root to the user, who could not delete them."""
        docker(
            "run", "--rm", "--network", "none", "--volume", f"{self._folder}:/run-folder", "--entrypoint", "chown",
            self._lab.sim_image, "-R", f"{os.getuid()}:{os.getgid()}", "/run-folder", check=False,
        )  # fmt: skip
