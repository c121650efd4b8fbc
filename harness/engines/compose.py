"""The compose engine: a lab as containers on this machine, in real time."""

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.engines import EngineResult, Progress, conclusion
from harness.engines.docker import PREFIX, docker, failure, json_lines, remove_orphans, start, tail
from harness.engines.folder import CLIENT_START, diary, kernel_of, prepare_folder
from harness.engines.held import Held
from harness.engines.owner import owner
from harness.engines.sampler import Sampler
from harness.engines.served import serve
from harness.errors import EngineError
from harness.lab import SERVER_WAIT, Lab, LabFlow
from harness.outcome import EngineName, Outcome, Transfer

#: Seconds without a sample of the files from which on a run carries a warning.
LONG_GAP = 0.1
_numbers = itertools.count()


@dataclass
class _Download:
    """One flow while the lab runs."""

    flow: LabFlow
    index: int = 0
    started_ns: int = 0
    deadline: float | None = None
    resume_at: float | None = None
    """When the repeat is due (monotonic seconds), while the flow pauses."""
    cut_at: float | None = None
    """When it is cut off (monotonic seconds), until it is."""
    done: bool = False
    transfers: list[Transfer] = field(default_factory=list)


@dataclass(frozen=True)
class _Death:
    """A container ended."""

    service: str
    exit_code: int
    at_ns: int


class ComposeEngine:
    """Runs labs with `docker compose`."""

    name: EngineName = "compose"

    def __init__(self, cache: Path, log_limit: int = 2 << 30) -> None:
        """`cache` holds served files and certificates; `log_limit` is in bytes per endpoint."""
        self._cache = cache
        self._log_limit = log_limit

    def remove_orphans(self) -> list[str]:
        """Remove containers and networks of harness processes that no longer live."""
        return remove_orphans()

    def cancel(self) -> None:
        """Nothing to do: real-time labs run one at a time, in the thread that is interrupted."""

    def run(self, lab: Lab, folder: Path, progress: Progress) -> EngineResult:
        """Run a lab; see `harness.engines.Engine.run`."""
        serve(lab, self._cache)
        session = _Session(lab, folder, self._cache, self._log_limit, progress)
        return session.run()


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


class _Session:
    """One lab, from its files to its removal."""

    def __init__(self, lab: Lab, folder: Path, cache: Path, log_limit: int, progress: Progress) -> None:
        self._lab = lab
        self._folder = folder.resolve()
        self._cache = cache.resolve()
        self._progress = progress
        self._project = f"{PREFIX}-{os.getpid()}-{next(_numbers)}"
        self._deaths: queue.Queue[_Death] = queue.Queue()
        self._downloads = {flow.client: _Download(flow) for flow in lab.flows}
        self._ids: dict[str, str] = {}
        self._image_ids: dict[str, str] = {}
        self._phases: dict[str, float] = {}
        self._phase = ("", time.monotonic())
        self._sampler = Sampler(self._folder, log_limit)
        self._ready_at: float | None = None
        self._blamed = "sim"
        # Hosts of flows that were cut off: how they end is of no account any more.
        self._told: set[str] = set()
        self._stopping: list[subprocess.Popen[str]] = []
        self._late = {flow.client for flow in lab.flows if flow.start > 0}
        self._held = Held(self._folder / "held", {name: lab.host(name).image for name in sorted(self._late)})

    def run(self) -> EngineResult:
        self._write_files()
        try:
            with self._death_notices():
                self._enter("create")
                self._up()
                self._look()
                self._sampler.start()
                self._enter("ready")
                outcome = self._watch()
                self._enter("collect")
                self._sampler.stop()
                self._stop()
        finally:
            self._sampler.stop()
            self._enter("remove")
            self._down()
            self._held.remove()
            self._enter("")
        outcome = self._verify(outcome)
        return EngineResult(
            outcome=outcome,
            transfers=tuple(item for download in self._downloads.values() for item in download.transfers),
            phases=self._phases,
            sim_kernel=kernel_of(diary(self._folder)),
            image_ids=self._image_ids,
            warnings=self._cautions(),
        )

    # --- phases

    def _enter(self, phase: str) -> None:
        name, since = self._phase
        now = time.monotonic()
        if name:
            self._phases[name] = round(self._phases.get(name, 0.0) + now - since, 3)
        self._phase = (phase, now)
        if phase:
            self._progress(phase)

    # --- bringing up

    def _write_files(self) -> None:
        self._variables = prepare_folder(self._lab, self._folder, self._cache)

    def _compose(self, *words: str, check: bool = True) -> str:
        return compose(self._project, self._folder, self._variables, *words, check=check)

    def _up(self) -> None:
        more = ("--file", str(self._held.write())) if self._late else ()
        self._compose(*more, "up", "--detach", "--no-build")
        for name, download in self._downloads.items():
            if name not in self._late:
                self._begin(download)

    def _begin(self, download: _Download) -> None:
        """A client was started."""
        download.started_ns = time.time_ns()
        download.resume_at = None
        if self._ready_at is not None:
            self._limit(download, time.monotonic())
        flow = download.flow.flow
        if download.flow.file:
            self._sampler.watch_download(self._folder / f"flow{flow}" / "downloads", flow, download.index)

    def _limit(self, download: _Download, now: float) -> None:
        if not download.flow.cut_off:
            download.deadline = now + CLIENT_START + self._lab.time_limit(download.flow)

    def _look(self) -> None:
        """Learn the containers' IDs, processes and images."""
        listed = docker("ps", "--all", "--quiet", "--filter", f"label=com.docker.compose.project={self._project}")
        found: list[dict[str, Any]] = json.loads(docker("inspect", *listed.stdout.split()).stdout)
        for container in found:
            service = container["Config"]["Labels"]["com.docker.compose.service"]
            self._ids[service] = container["Id"]
            self._image_ids[service] = container["Image"]
            if container["State"]["Pid"]:
                self._sampler.watch_process(service, container["State"]["Pid"])
        self._sampler.watch_logs({host.name: self._folder / f"flow{host.flow}" / host.role for host in self._lab.hosts})

    @contextlib.contextmanager
    def _death_notices(self) -> Iterator[None]:
        """Deaths of this project's containers arrive in a queue, from before the first is started."""
        process = start(
            ["events", "--since", f"{time.time():.3f}", "--filter", "event=die", "--format", "{{json .}}",
             "--filter", f"label=com.docker.compose.project={self._project}"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                event = json_lines(line)[0]
                attributes = event["Actor"]["Attributes"]
                service = attributes["com.docker.compose.service"]
                self._deaths.put(_Death(service, int(attributes["exitCode"]), int(event["timeNano"])))

        reader = threading.Thread(target=read, name="docker-events", daemon=True)
        reader.start()
        try:
            yield
        finally:
            process.terminate()
            process.wait()
            reader.join()

    # --- running

    def _watch(self) -> Outcome:
        """Follow the lab until every flow is done or something ends it."""
        begun = time.monotonic()
        while True:
            now = time.monotonic()
            if self._ready_at is None:
                self._look_for_ready(now)
            if self._sampler.overflowed is not None:
                self._blamed = self._sampler.overflowed
                return conclusion.of_logs(self._lab.host(self._blamed))
            late = [item for item in self._downloads.values() if item.deadline is not None and now > item.deadline]
            if late:
                return self._timed_out(late[0])
            if self._ready_at is None and now - begun > 2 * SERVER_WAIT + 15:
                return conclusion.of_simulator("", "the simulator was not ready in time")
            self._start_due(now)
            for download in self._downloads.values():
                if download.cut_at is not None and now >= download.cut_at:
                    self._cut_off(download)
            if all(item.done for item in self._downloads.values()):
                return Outcome(status="completed")
            try:
                death = self._deaths.get(timeout=self._until_next(now))
            except queue.Empty:
                continue
            outcome = self._died(death)
            if outcome is not None:
                return outcome

    def _until_next(self, now: float) -> float:
        """How long to wait for a death: to the next thing that is due, at most a quarter second."""
        dues = [due for item in self._downloads.values() for due in (self._due(item), item.cut_at) if due is not None]
        limit = 0.05 if self._ready_at is None else 0.25
        return max(0.001, min([limit, *(due - now for due in dues)]))

    def _due(self, download: _Download) -> float | None:
        """When a client is to be started next: a repeat after its pause, a late starter once the path is up."""
        if download.resume_at is not None:
            return download.resume_at
        if download.started_ns or self._ready_at is None:
            return None
        return self._ready_at + download.flow.start

    def _look_for_ready(self, now: float) -> None:
        if any(event["event"] == "ready" for event in diary(self._folder)):
            self._ready_at = now
            self._enter("transfer")
            for download in self._downloads.values():
                if download.started_ns:
                    self._limit(download, now)
                if download.flow.cut_off and download.flow.stop is not None:
                    download.cut_at = now + download.flow.stop

    def _start_due(self, now: float) -> None:
        """Start clients whose time has come: late starters, and repeats after their pause."""
        for download in self._downloads.values():
            due = self._due(download)
            if due is None or now < due:
                continue
            if download.resume_at is None:
                if self._held.release(download.flow.client):
                    self._begin(download)
                continue
            if all(item.resume_at is not None or item.done for item in self._downloads.values()):
                self._enter("transfer")
            docker("start", self._ids[download.flow.client])
            self._begin(download)
            self._relook(download.flow.client)

    def _relook(self, service: str) -> None:
        """A container was started anew: its process is another one."""
        with contextlib.suppress(EngineError):
            self._look()
        if service not in self._ids:
            raise EngineError(f"the container of {service} is gone", "was it removed by hand?")

    def _cut_off(self, download: _Download) -> None:
        """Tell a flow's client and server to end; how they do is of no account any more."""
        flow = download.flow
        download.cut_at, download.done = None, True
        self._told |= {flow.client, flow.server}
        ended_ns = time.time_ns()
        # Each with its image's own stop signal, and without waiting: other flows go on.
        words = ["stop", "--time", "2", self._ids[flow.client], self._ids[flow.server]]
        self._stopping.append(start(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        self._record(download, _Death(flow.client, 0, ended_ns))
        last = download.transfers[-1]
        download.transfers[-1] = last.model_copy(update={"exit_code": None, "cut_off": True})

    def _died(self, death: _Death) -> Outcome | None:
        """What a container's end means: None while the lab goes on."""
        if death.service == "sim":
            return self._sim_died(death)
        if death.service in self._told:
            return None
        host = self._lab.host(death.service)
        outcome = conclusion.of_exit(host, self._lab.flows[host.flow], death.exit_code)
        download = self._downloads.get(death.service)
        if download is not None:
            self._record(download, death)
        if outcome is not None:
            self._blamed = host.name
            return outcome
        assert download is not None
        if download.flow.repeat_after is not None and download.index == 0:
            download.index = 1
            download.resume_at = time.monotonic() + download.flow.repeat_after - (time.time_ns() - death.at_ns) / 1e9
            self._enter("pause")
        else:
            download.done = True
        return None

    def _record(self, download: _Download, death: _Death) -> None:
        """Note a finished transfer, verify its file and make room for a repeat."""
        flow = download.flow
        download.deadline = None
        if flow.file:
            self._sampler.unwatch_download(flow.flow)
            place = self._folder / f"flow{flow.flow}" / "downloads" / flow.file
            with contextlib.suppress(FileNotFoundError):
                place.rename(conclusion.received_file(self._folder, flow.flow, download.index))
        download.transfers.append(
            Transfer(
                flow=flow.flow,
                index=download.index,
                size=flow.size,
                started_ns=download.started_ns,
                ended_ns=death.at_ns,
                exit_code=death.exit_code,
            )
        )

    def _sim_died(self, death: _Death) -> Outcome:
        said = next((event for event in reversed(diary(self._folder)) if event["event"] == "failed"), None)
        if said is None:
            message = f"the simulator ended with exit code {death.exit_code}"
            return conclusion.of_simulator("", message, death.exit_code)
        outcome = conclusion.of_simulator(said["reason"], said["message"], death.exit_code)
        if outcome.role == "server":
            self._blamed = next(host.name for host in self._lab.hosts if host.role == "server")
        return outcome

    def _timed_out(self, download: _Download) -> Outcome:
        flow = download.flow
        now = time.time_ns()
        self._record(download, _Death(flow.client, -1, now))
        download.transfers[-1] = download.transfers[-1].model_copy(update={"exit_code": None})
        self._blamed = flow.client
        return conclusion.of_timeout(self._lab.host(flow.client), self._lab.time_limit(flow))

    # --- bringing down

    def _stop(self) -> None:
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

    def _log_file(self, service: str) -> Path:
        return self._folder / f"{service}.log"

    def _keep_log(self, service: str, identity: str) -> None:
        with self._log_file(service).open("wb") as log:
            process = start(["logs", identity], stdout=log, stderr=log)
            process.wait()

    def _down(self) -> None:
        """Remove containers and networks; a second Ctrl-C does not leave them behind."""
        for attempt in range(3):
            try:
                self._compose("down", "--volumes", "--timeout", "2", "--remove-orphans", check=attempt == 2)
                if os.geteuid() != 0:
                    self._own_files()
                return
            except KeyboardInterrupt:
                continue

    def _own_files(self) -> None:
        """Give files that containers wrote as root to the user, who could not delete them."""
        docker(
            "run", "--rm", "--network", "none", "--volume", f"{self._folder}:/run-folder", "--entrypoint", "chown",
            self._lab.sim_image, "-R", f"{os.getuid()}:{os.getgid()}", "/run-folder", check=False,
        )  # fmt: skip

    # --- afterwards

    def _cautions(self) -> tuple[str, ...]:
        """What to check before trusting the run: the harness itself did not get the CPU."""
        gap = self._sampler.longest_gap
        return (f"file sizes were not sampled for {gap * 1000:.0f} ms at worst",) if gap > LONG_GAP else ()

    def _verify(self, outcome: Outcome) -> Outcome:
        """Compare every received file with the served one; add the last lines of whoever failed."""
        checks = []
        for download in self._downloads.values():
            checked = [
                conclusion.check(item, download.flow, self._folder, self._cache / "www") for item in download.transfers
            ]
            download.transfers = [item.transfer for item in checked]
            checks += checked
        concluded = conclusion.conclude(outcome, checks)
        if concluded.status == "wrong_file":
            self._blamed = next(f"client{item.transfer.flow}" for item in checks if item.outcome is not None)
        if concluded.status != "completed":
            concluded = conclusion.with_words(concluded, tail(self._log_file(self._blamed)))
        return concluded
