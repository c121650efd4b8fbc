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

from harness.engines import EngineResult, Progress
from harness.engines.compose_file import compose_text
from harness.engines.docker import PREFIX, docker, failure, json_lines, remove_orphans, start, tail
from harness.engines.owner import owner
from harness.engines.sampler import Sampler
from harness.engines.served import certificates, same_content, served_file
from harness.errors import EngineError
from harness.lab import SERVER_WAIT, Lab, LabFlow
from harness.outcome import EngineName, Outcome, Transfer

#: From the moment the path is up to a client's first datagram: its wait for the simulator, its start.
CLIENT_START = 5.0
#: Seconds without a sample of the files from which on a run carries a warning.
LONG_GAP = 0.1
#: Exit code of the endpoint contract for "not supported".
NOT_SUPPORTED = 127
_PARTS = ("client", "server", "downloads")
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

    def run(self, lab: Lab, folder: Path, progress: Progress) -> EngineResult:
        """Run a lab; see `harness.engines.Engine.run`."""
        for flow in lab.flows:
            served_file(self._cache / "www", flow.file, flow.size)
        session = _Session(lab, folder, self._cache, self._log_limit, progress)
        return session.run()


def prepare_folder(lab: Lab, folder: Path, cache: Path) -> dict[str, str]:
    """Write a lab's files (Compose file, plan, summary) into its run's folder; the variables they leave open."""
    for name in ("sim", "plan", *(f"flow{flow.flow}/{part}" for flow in lab.flows for part in _PARTS)):
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        # Whatever user an image runs as may write its logs.
        place.chmod(0o777)
    (folder / "plan" / "plan.json").write_text(json.dumps(lab.sim_plan()))
    (folder / "lab.json").write_text(json.dumps(lab.summary(), indent=1))
    (folder / "compose.yaml").write_text(compose_text(lab))
    variables = {
        "LAB_WWW": str(cache / "www"),
        "LAB_CERTS": str(certificates(cache / "certs")),
        "LAB_PLAN": str(folder / "plan"),
    }
    # By hand, output goes elsewhere: a stored run is not overwritten.
    by_hand = {**variables, "LAB_PLAN": "./plan", "LAB_OUT": "./by-hand", "LAB_OWNER": "by-hand"}
    (folder / "cell.env").write_text("".join(f"{name}={value}\n" for name, value in by_hand.items()))
    return variables


def simulator_events(folder: Path) -> list[dict[str, Any]]:
    """The simulator's diary in a run's folder so far; a line that is still being written is left out."""
    try:
        text = (folder / "sim" / "events.jsonl").read_text()
    except OSError:
        return []
    return json_lines(text[: text.rfind("\n") + 1])


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
        self._differs_at = 0

    def run(self) -> EngineResult:
        self._write_files()
        try:
            with self._death_notices():
                self._enter("create")
                self._up([host.name for host in self._lab.hosts if not self._starts_late(host.name)])
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
            self._enter("")
        outcome = self._verify(outcome)
        return EngineResult(
            outcome=outcome,
            transfers=tuple(item for download in self._downloads.values() for item in download.transfers),
            phases=self._phases,
            sim_kernel=self._kernel(),
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

    def _starts_late(self, name: str) -> bool:
        download = self._downloads.get(name)
        return download is not None and download.flow.start > 0

    def _up(self, services: list[str]) -> None:
        self._compose("up", "--detach", "--no-build", "sim", *services)
        for service in services:
            if service in self._downloads:
                self._begin(self._downloads[service])

    def _begin(self, download: _Download) -> None:
        """A client container was started."""
        download.started_ns = time.time_ns()
        download.resume_at = None
        if self._ready_at is not None:
            download.deadline = time.monotonic() + CLIENT_START + self._lab.timeout
        flow = download.flow.flow
        self._sampler.watch_download(self._folder / f"flow{flow}" / "downloads", flow, download.index)

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
                name = self._sampler.overflowed
                host = self._lab.host(name)
                return self._failed("log_overflow", name, host.role, None, f"{name} wrote more than the log limit")
            late = [item for item in self._downloads.values() if item.deadline is not None and now > item.deadline]
            if late:
                return self._timed_out(late[0])
            if self._ready_at is None and now - begun > 2 * SERVER_WAIT + 15:
                return self._failed("infrastructure", "sim", "sim", None, "the simulator was not ready in time")
            self._start_due(now)
            try:
                death = self._deaths.get(timeout=self._until_next(now))
            except queue.Empty:
                continue
            outcome = self._died(death)
            if outcome is not None:
                return outcome

    def _until_next(self, now: float) -> float:
        """How long to wait for a death: to the next thing that is due, at most a quarter second."""
        dues = [due for item in self._downloads.values() if (due := self._due(item)) is not None]
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
        if any(event["event"] == "ready" for event in self._events()):
            self._ready_at = now
            self._enter("transfer")
            for download in self._downloads.values():
                if download.started_ns:
                    download.deadline = now + CLIENT_START + self._lab.timeout

    def _start_due(self, now: float) -> None:
        """Start clients whose time has come: late starters, and repeats after their pause."""
        for download in self._downloads.values():
            due = self._due(download)
            if due is None or now < due:
                continue
            if download.resume_at is None:
                self._compose("up", "--detach", "--no-build", "--no-recreate", download.flow.client)
            else:
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

    def _died(self, death: _Death) -> Outcome | None:
        """What a container's end means: None while the lab goes on."""
        if death.service == "sim":
            return self._sim_died(death)
        host = self._lab.host(death.service)
        if death.exit_code == NOT_SUPPORTED:
            testcase = host.environment["TESTCASE"]
            return self._failed(
                "unsupported",
                host.name,
                host.role,
                death.exit_code,
                f"{host.role} does not support TESTCASE={testcase}",
            )
        if host.role == "server":
            return self._failed(
                "crashed", host.name, "server", death.exit_code, f"the server ended with exit code {death.exit_code}"
            )
        download = self._downloads[death.service]
        self._record(download, death)
        if death.exit_code != 0:
            return self._failed(
                "crashed", host.name, "client", death.exit_code, f"the client ended with exit code {death.exit_code}"
            )
        if download.flow.repeat_after is not None and download.index == 0:
            download.index = 1
            download.resume_at = time.monotonic() + download.flow.repeat_after - (time.time_ns() - death.at_ns) / 1e9
            self._enter("pause")
        else:
            download.done = True
        if all(item.done for item in self._downloads.values()):
            return Outcome(status="completed")
        return None

    def _record(self, download: _Download, death: _Death) -> None:
        """Note a finished transfer, verify its file and make room for a repeat."""
        flow = download.flow
        self._sampler.unwatch_download(flow.flow)
        download.deadline = None
        place = self._folder / f"flow{flow.flow}" / "downloads" / flow.file
        with contextlib.suppress(FileNotFoundError):
            place.rename(self._received(flow, download.index))
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
        """The simulator never ends by itself: a server did not answer, or the ground failed."""
        said = next((event for event in reversed(self._events()) if event["event"] == "failed"), None)
        message = said["message"] if said else f"the simulator ended with exit code {death.exit_code}"
        if said and said["reason"] == "NotReadyError":
            server = next(host for host in self._lab.hosts if host.role == "server")
            return self._failed("crashed", server.name, "server", None, message, reason="no_answer")
        return self._failed("infrastructure", "sim", "sim", death.exit_code, message)

    def _timed_out(self, download: _Download) -> Outcome:
        flow = download.flow
        now = time.time_ns()
        self._record(download, _Death(flow.client, -1, now))
        download.transfers[-1] = download.transfers[-1].model_copy(update={"exit_code": None})
        return self._failed(
            "timed_out", flow.client, "client", None, f"the transfer did not end within {self._lab.timeout:g} s"
        )

    def _failed(
        self, status: Any, name: str, role: Any, exit_code: int | None, detail: str, reason: str = ""
    ) -> Outcome:
        code = reason or (f"exit_{exit_code}" if exit_code is not None else status)
        self._blamed = name
        return Outcome(status=status, role=role, exit_code=exit_code, reason=code, detail=detail)

    # --- bringing down

    def _stop(self) -> None:
        """End the endpoints and the simulator, and keep what they printed."""
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

    def _events(self) -> list[dict[str, Any]]:
        return simulator_events(self._folder)

    def _kernel(self) -> str:
        event = next((event for event in self._events() if event["event"] == "kernel"), None)
        return "" if event is None else f"{event['kernel']} {event['release']}"

    def _verify(self, outcome: Outcome) -> Outcome:
        """Compare every received file with the served one; add the last lines of whoever failed."""
        for download in self._downloads.values():
            download.transfers = [self._verified(download.flow, item) for item in download.transfers]
        broken = [item for download in self._downloads.values() for item in download.transfers if not item.intact]
        if outcome.status == "completed" and broken:
            outcome = self._wrong_file(broken[0])
        if outcome.status != "completed":
            outcome = outcome.model_copy(update={"log_tail": tail(self._log_file(self._blamed))})
        return outcome

    def _received(self, flow: LabFlow, index: int) -> Path:
        """Where a flow's file is put once its client has ended."""
        return self._folder / f"flow{flow.flow}" / f"transfer{index}"

    def _verified(self, flow: LabFlow, transfer: Transfer) -> Transfer:
        file = self._received(flow, transfer.index)
        if not file.exists():
            return transfer
        received = file.stat().st_size
        difference = same_content(file, self._cache / "www" / flow.file)
        if difference is not None and received == flow.size:
            self._differs_at = difference
        file.unlink()
        return transfer.model_copy(update={"received": received, "intact": difference is None})

    def _wrong_file(self, transfer: Transfer) -> Outcome:
        self._blamed = f"client{transfer.flow}"
        if transfer.received == transfer.size:
            detail = f"the file differs from the served one at byte {self._differs_at}"
            return Outcome(status="wrong_file", role="client", reason="different_bytes", detail=detail)
        detail = f"the client ended with exit code 0 and {transfer.received} of {transfer.size} bytes"
        return Outcome(status="wrong_file", role="client", reason="short_file", detail=detail)
