"""A run's own containers, endpoints and proxies: made on the existing networks, watched, ended and removed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import queue
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.engine.compose_file import services
from harness.engine.confinement import isolated_options
from harness.engine.docker.daemon import Daemon, is_of_container
from harness.engine.docker.networks import LabNetworks, next_project, retry_on_interrupt
from harness.engine.docker.run_options import PROJECT_LABEL, SERVICE_LABEL, Launch, launch
from harness.engine.docker.sampler import Sampler
from harness.engine.docker_cli import OWNER_LABEL, command_error, docker, start_docker
from harness.engine.external_failures import ExternalEvents, ExternalFailure
from harness.engine.fence import FENCE
from harness.engine.process_owner import owner
from harness.errors import EngineError
from harness.topology import Lab
from harness.units import Size

# --- Clients with a delayed start: their containers are up, and wait on a named pipe.
#
# Starting a container takes a third of a second of CPU, at a moment that is hard to predict. During a transfer it would
# be late and disturb the path. So the container of such a client starts with the others. Its shell reads a named pipe,
# and then executes the image's own program. The Compose file for use by hand does not have this.


_PIPE = "start"
#: Without the pipe, as when the container is started again, the program starts at once.
_SCRIPT = f'[ ! -p /held/{_PIPE} ] || read _ < /held/{_PIPE}; exec "$0" "$@"'


class DelayedStarts:
    """The containers of one lab that wait for their start, by service."""

    def __init__(self, folder: Path, images: Mapping[str, str]) -> None:
        """`folder`: a place of its own, made here and removed by `remove`; `images`: service → image."""
        self._folder = folder
        self._images = images

    def services(self) -> dict[str, dict[str, list[str]]]:
        """Make the pipes. Service → keys that override those of the lab's Compose file. Raises EngineError."""
        for service in self._images:
            place = self._folder / service
            place.mkdir(parents=True)
            os.mkfifo(place / _PIPE)
            # Any user that an image runs as may read it.
            (place / _PIPE).chmod(0o644)
        programs = {image: _program(image) for image in sorted(set(self._images.values()))}
        return {
            service: delayed_service(programs[image], self._folder / service) for service, image in self._images.items()
        }

    def release(self, service: str) -> bool:
        """Let a service start its program; False while its shell does not read the pipe yet."""
        pipe = self._folder / service / _PIPE
        try:
            end = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nobody reads yet
                return False
            raise EngineError(f"{service} cannot be told to start: {error}") from error
        try:
            os.write(end, b"\n")
        finally:
            os.close(end)
        pipe.unlink()
        return True

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)


def delayed_service(program: list[str], place: Path) -> dict[str, list[str]]:
    """Keys of a service that waits on the pipe in a folder, and then executes its program. Pure."""
    return {"entrypoint": ["/bin/sh", "-c", _SCRIPT, *program], "volumes": [f"{place}:/held:ro"]}


def _program(image: str) -> list[str]:
    """The command of an image: entrypoint and arguments. Raises EngineError."""
    config = json.loads(docker("image", "inspect", "--format", "{{json .Config}}", image).stdout)
    program = [*(config.get("Entrypoint") or []), *(config.get("Cmd") or [])]
    if not program:
        raise EngineError(f"the image {image} names no program to run")
    return program


# --- containers


#: Events of containers that are requested from the daemon: ends, and what somebody does to them.
_EVENTS = ("start", "die", "kill", "oom", "pause")
#: Seconds before `docker events` is started again after it ended.
_RESTART_EVENTS = 0.1
#: Seconds between the stop signal and the kill signal.
_GRACE = "2"
#: Seconds to wait for the daemon's event after a container was told to end.
_STOP_WAIT = 4.0


@dataclass(frozen=True)
class Death:
    """A container ended."""

    service: str
    exit_code: int
    at_ns: int
    """ns since the epoch, by the daemon's clock."""


class Project:
    """The containers of one lab, whose files are in its run's folder."""

    def __init__(
        self,
        lab: Lab,
        folder: Path,
        variables: Mapping[str, str],
        paths: LabNetworks,
        sampler: Sampler,
        memory: int,
        daemon: Daemon,
    ) -> None:
        """`variables`: those of `prepare_folder`; `paths`: networks and simulators, which stay up between runs;
        `sampler`: samples the containers; `memory`: bytes that each endpoint may have.
        """
        self.image_ids: dict[str, str] = {}
        """Service → ID of its image."""
        self.unlimited: set[str] = set()
        """Limits that Docker cannot enforce on this machine: memory, processes."""
        self._lab = lab
        self._folder = folder
        self._memory = memory
        self._variables = {**variables, "LAB_OUT": str(folder), "LAB_OWNER": owner(), "LAB_MEMORY": str(memory)}
        self._paths = paths
        self._daemon = daemon
        self._sampler = sampler
        self._name = next_project()
        self._deaths: queue.Queue[Death] = queue.Queue()
        self._ids: dict[str, str] = {}
        self._news = threading.Condition()
        """Notifies of containers that have ended."""
        self._ended: set[str] = set()
        self._told: set[str] = set()
        """Services that were told to end before the others."""
        self._without_memory: set[str] = set()
        """Services of which the kernel killed a process for lack of memory, by the daemon's events."""
        self._outside = ExternalEvents()
        self._stopping: list[subprocess.Popen[str]] = []
        self._removal: subprocess.Popen[str] | None = None
        self._hands = ThreadPoolExecutor(len(lab.hosts) + len(lab.proxies) + 1, thread_name_prefix="docker")
        """Threads that handle several containers in parallel."""
        delayed = sorted(flow.client for flow in lab.flows if flow.start > 0)
        self._held = (
            DelayedStarts(folder / "held", {name: lab.host(name).image for name in delayed}) if delayed else None
        )

    # --- up

    def up(self) -> None:
        """Start all containers in parallel. Clients with a delayed start wait on their pipes. Raises EngineError."""
        service_specs = services(self._lab)
        for name, overrides in (self._held.services() if self._held is not None else {}).items():
            service_specs[name] = {
                **service_specs[name],
                **overrides,
                "volumes": [*service_specs[name]["volumes"], *overrides["volumes"]],
            }
        names = self._name, self._paths.project
        launches = {
            name: launch(self._daemon.adapt(service), name, *names, self._variables)
            for name, service in service_specs.items()
        }
        futures = {name: self._hands.submit(self._start, command) for name, command in launches.items()}
        self._ids = {name: future.result() for name, future in futures.items()}

    @staticmethod
    def _start(command: Launch) -> str:
        """Make a container and start it; its ID."""
        if not command.further:
            return docker("run", "--detach", *command.words).stdout.strip()
        identity = docker("create", *command.words).stdout.strip()
        for network in command.further:
            docker("network", "connect", *network, identity)
        docker("start", identity)
        return identity

    def look(self) -> None:
        """Find the containers' processes and images."""
        for service, identity in self._paths.ids.items():
            if service not in self._ids:
                # It was up before this run.
                if pid := self._paths.pids.get(service):
                    self._sampler.watch_process(service, pid, new=False)
                    self._outside.watch(service, pid)
                self._outside.watch_shim(service, identity)
        self._ids |= self._paths.ids
        completed = docker("inspect", *self._ids.values(), check=False)
        if completed.returncode != 0 and "No such" not in completed.stderr:
            raise command_error("docker inspect", completed.stderr)
        # Containers that somebody has removed are missing here.
        containers: list[dict[str, Any]] = json.loads(completed.stdout)
        for container in containers:
            service, state = container["Config"]["Labels"][SERVICE_LABEL], container["State"]
            self.image_ids[service] = container["Image"]
            if service in self._paths.ids:
                self._look_at_standing(service, state)
                continue
            self._look_at_limits(container["HostConfig"])
            if is_of_container(state["Pid"], container["Id"]):
                self._sampler.watch_process(service, state["Pid"])
                self._outside.watch(service, state["Pid"])
        self._sampler.watch_logs({host.name: self._folder / f"flow{host.flow}" / host.role for host in self._lab.hosts})

    def _look_at_standing(self, service: str, state: Mapping[str, Any]) -> None:
        """Report what happened to a simulator before its events were watched: only the daemon knows that."""
        if state["Paused"]:
            self._outside.hear(service, "pause", {})
        if not state["Running"] and service not in self._ended:
            self._outside.hear(service, "die", {"exitCode": state["ExitCode"]})
            self._deaths.put(Death(service, state["ExitCode"], time.time_ns()))

    def _look_at_limits(self, config: Mapping[str, Any]) -> None:
        """Note limits that the daemon does not enforce: it leaves them out of the container's configuration."""
        for limit, key in (("memory", "Memory"), ("processes", "PidsLimit")):
            if (config.get(key) or 0) <= 0:
                self.unlimited.add(limit)

    # --- while it runs

    @contextlib.contextmanager
    def death_notices(self) -> Iterator[None]:
        """Deaths of this lab's containers arrive for `next_death`, from before the first is started."""
        since, lock, closed = f"{time.time():.3f}", threading.Lock(), threading.Event()
        process = self._events(since)

        def read() -> None:
            nonlocal process
            seen_lines: set[str] = set()
            while True:
                assert process.stdout is not None
                for line in process.stdout:
                    if line not in seen_lines:
                        seen_lines.add(line)
                        self._hear(line)
                process.wait()
                if closed.wait(_RESTART_EVENTS):
                    return
                with lock:
                    if closed.is_set():
                        return
                    # `docker events` ended. The new one repeats the old events, and has those that came meanwhile.
                    process = self._events(since)

        reader = threading.Thread(target=read, name="docker-events", daemon=True)
        reader.start()
        try:
            yield
        finally:
            with lock:
                closed.set()
                process.terminate()
            reader.join()
            self._outside.close()

    def _events(self, since: str) -> subprocess.Popen[str]:
        return start_docker(
            [
                "events",
                "--since",
                since,
                "--format",
                "{{json .}}",
                "--filter",
                f"label={OWNER_LABEL}={owner()}",
                *(word for name in _EVENTS for word in ("--filter", f"event={name}")),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def _hear(self, line: str) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            # The line was cut short. The next `docker events` repeats the event.
            return
        attributes = event["Actor"]["Attributes"]
        if attributes.get(PROJECT_LABEL) not in (self._name, self._paths.project):
            # An event of the run before.
            return
        service, action = attributes[SERVICE_LABEL], event["Action"]
        if service == FENCE and event["Actor"]["ID"] != self._paths.fence:
            # A former fence, which has been replaced.
            return
        if action == "oom":
            self._without_memory.add(service)
        self._outside.hear(service, action, attributes, event["Actor"]["ID"])
        if action == "start":
            self._ended.discard(service)
        if action == "die":
            with self._news:
                self._ended.add(service)
                self._news.notify_all()
            self._deaths.put(Death(service, int(attributes["exitCode"]), int(event["timeNano"])))

    def befell(self, service: str) -> ExternalFailure | None:
        """The external failure of a container; None where none is known."""
        external = self._outside.befell(service, self._ids[service])
        if service in self._told:
            return external
        # The daemon also reports the kill of a child process that the first one survives, such as a server's worker.
        if service not in self._without_memory and (external is None or external.reason != "out_of_memory"):
            return external
        hint = "free memory ('free -m', 'dmesg'), and give the same command again"
        if "memory" not in self.unlimited and any(host.name == service for host in self._lab.hosts):
            hint = f"it may have {Size(self._memory)} (HARNESS_ENDPOINT_MEMORY); if it had less, {hint}"
        return ExternalFailure("out_of_memory", f"a process of {service} was killed for want of memory: {hint}")

    def next_death(self, timeout: float) -> Death | None:
        """The next container that ended. Waits at most `timeout` seconds; None where none ended."""
        try:
            return self._deaths.get(timeout=timeout) if timeout > 0 else self._deaths.get_nowait()
        except queue.Empty:
            return None

    def release(self, service: str) -> bool:
        """Start a client that waits; False while its shell is not there yet."""
        assert self._held is not None
        return self._held.release(service)

    def start_again(self, service: str) -> None:
        """Start a container again that has ended. Raises EngineError."""
        docker("start", self._ids[service])
        # Its process is a new one.
        with contextlib.suppress(EngineError):
            self.look()

    def tell(self, *services: str) -> None:
        """Tell containers to end, with the stop signals of their images, and do not wait: others go on."""
        self._outside.tell(*services)
        self._told.update(services)
        words = ["stop", "--time", _GRACE, *(self._ids[service] for service in services)]
        self._stopping.append(start_docker(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    # --- down

    def stop(self) -> bool:
        """End the endpoints and the simulators' run, and keep their output. Whether the simulators ended their run."""
        for process in self._stopping:
            process.wait()
        path_end = self._hands.submit(self._paths.end)
        endings = [self._hands.submit(self._end, service, identity) for service, identity in self._own.items()]
        for ending in endings:
            ending.result()
        ended = path_end.result()
        for service, identity in self._paths.ids.items():
            # A simulator that took its order writes its log itself.
            if not self.log_file(service).exists():
                self._keep_log(service, identity)
        return ended

    def _end(self, service: str, identity: str) -> None:
        if not self._has_ended(service, 0):
            # Docker reports an end when all output is there. Its clean-up afterwards takes longer.
            stop = start_docker(
                ["stop", "--time", _GRACE, identity], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            self._stopping.append(stop)
            if not self._has_ended(service, _STOP_WAIT):
                stop.wait()
        self._keep_log(service, identity)

    def _has_ended(self, service: str, seconds: float) -> bool:
        """Whether the daemon has reported a container's end. Waits at most `seconds` for it."""
        with self._news:
            return self._news.wait_for(lambda: service in self._ended, seconds)

    @property
    def _own(self) -> dict[str, str]:
        """Service → container, for those that belong to this run alone."""
        return {service: identity for service, identity in self._ids.items() if service not in self._paths.ids}

    def log_file(self, service: str) -> Path:
        """File with the output of a container."""
        return self._folder / f"{service}.log"

    def _keep_log(self, service: str, identity: str) -> None:
        # Where the log cannot be written, the run cannot be stored either, and that raises an error later.
        with contextlib.suppress(OSError), self.log_file(service).open("wb") as log:
            start_docker(["logs", identity], stdout=log, stderr=log).wait()

    def leave(self) -> None:
        """Begin to remove this run's containers, which have ended. `gone` waits for that."""
        self._hands.shutdown()
        self._removal = start_docker(
            ["rm", "--force", "--volumes", *self._own.values()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._tidy()

    def gone(self) -> None:
        """Wait until this run's containers are removed. Raises EngineError."""
        for process in self._stopping:
            process.wait()
        if self._removal is None or self._removal.wait() != 0:
            self.down()

    def down(self) -> None:
        """Remove this run's containers, in any state. A second Ctrl-C does not leave them behind."""
        retry_on_interrupt(self._remove)
        self._tidy()

    def _remove(self, check: bool) -> None:
        # Wait for threads that are about to start a container.
        self._hands.shutdown()
        for process in self._stopping:
            process.wait()
        listed = docker("ps", "--all", "--quiet", "--filter", f"label={PROJECT_LABEL}={self._name}", check=check)
        if own := listed.stdout.split():
            docker("rm", "--force", "--volumes", *own, check=check)

    def _tidy(self) -> None:
        if os.geteuid() != 0:
            self._own_files()
        if self._held is not None:
            self._held.remove()

    def _own_files(self) -> None:
        """Give files that containers wrote as root to the user, who could not delete them otherwise."""
        docker(
            "run",
            *isolated_options("CHOWN", "DAC_OVERRIDE"),
            "--volume",
            f"{self._folder}:/run-folder",
            "--entrypoint",
            "chown",
            self._lab.sim_image,
            "-R",
            f"{os.getuid()}:{os.getgid()}",
            "/run-folder",
            check=False,
        )
