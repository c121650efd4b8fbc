"""Two workers as on two machines: containers without Docker, root or capabilities, reached by TLS alone."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.examples import ROOT
from tests.lab.conftest import CACHE, Harness
from tests.polling import wait_for

#: Who workers are, where this is root.
USER = os.getuid() or 1000
#: What runs in them of this machine: its programs and libraries, Python and its packages, ours; nothing can be written.
_PYTHON = Path(sys.base_prefix)
_HOME = _PYTHON if _PYTHON.is_relative_to("/usr") else Path("/opt/python")
_PLACES = {
    Path("/usr"): Path("/usr"),
    **({} if _HOME == _PYTHON else {_PYTHON: _HOME}),
    Path(sysconfig.get_path("purelib")): Path("/opt/packages"),
    ROOT / "harness": Path("/opt/ours/harness"),
    ROOT / "images" / "sim" / "simulator": Path("/opt/ours/simulator"),
}
_INTERPRETER = str(_HOME / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
#: Prints the lab kernels that run in a container: process, and the process of the worker that started it.
_GUESTS = """
import os
for one in filter(str.isdigit, os.listdir("/proc")):
    try:
        words = open(f"/proc/{one}/environ").read().split("\\0")
    except OSError:
        continue
    for word in words:
        if word.startswith("QUIC_LAB_OWNER=") and os.getpgid(int(one)) == int(one):
            print(one, word.partition("=")[2].partition("-")[0])
"""


def docker(*words: str) -> str:
    process = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    assert process.returncode == 0, f"docker {' '.join(words)}: {process.stderr}"
    return process.stdout.strip()


@dataclass(frozen=True)
class Machine:
    """A container that stands for a machine."""

    name: str

    def python(self, program: str) -> str:
        return docker("exec", self.name, _INTERPRETER, "-S", "-c", program)

    def guests(self) -> dict[int, int]:
        """The lab kernels that run there: process → the worker's."""
        return {int(guest): int(worker) for guest, worker in map(str.split, self.python(_GUESTS).splitlines())}

    def output(self) -> str:
        process = subprocess.run(["docker", "logs", self.name], capture_output=True, text=True, check=False)
        return process.stdout + process.stderr


@dataclass(frozen=True)
class Cluster:
    address: str
    certificates: Path
    machines: tuple[Machine, ...]


def _idle() -> list[str]:
    """A container inherits no precedence: where these tests stand back, so do their workers."""
    return ["chrt", "--idle", "0"] if os.sched_getscheduler(0) == os.SCHED_IDLE else []


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    certificates = tmp_path / "certificates"
    process = subprocess.run(
        [sys.executable, "-m", "harness.cli", "cluster", "tls", str(certificates)], cwd=ROOT, check=True, text=True,
        capture_output=True,
    )  # fmt: skip
    assert "a worker: dask worker tls://HOST:8786" in process.stderr
    theirs = tmp_path / "theirs"
    shutil.copytree(certificates, theirs)
    for file in theirs.iterdir():
        os.chown(file, USER, -1)
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    network = f"quic-lab-test-{os.getpid()}"
    machines = tuple(Machine(f"{network}-{number}") for number in range(2))
    with contextlib.ExitStack() as exit_stack:
        docker("network", "create", "--internal", network)
        exit_stack.callback(docker, "network", "rm", network)
        gateway = docker("network", "inspect", "--format", "{{(index .IPAM.Config 0).Gateway}}", network)
        log = exit_stack.enter_context((tmp_path / "scheduler.log").open("w"))
        scheduler = subprocess.Popen(
            [sys.executable, "-m", "harness.cli", "cluster", "scheduler", "--cluster-tls", str(certificates), "--port",
             str(port)],
            cwd=ROOT, stdout=log, stderr=log,
        )  # fmt: skip
        exit_stack.callback(scheduler.wait, 30)
        exit_stack.callback(scheduler.send_signal, signal.SIGINT)
        wait_for(lambda: "Scheduler at" in (tmp_path / "scheduler.log").read_text())
        for number, machine in enumerate(machines):
            _start(machine, f"tls://{gateway}:{port}", network, theirs, number)
            exit_stack.callback(docker, "rm", "--force", machine.name)
        yield Cluster(f"tls://{gateway}:{port}", certificates, machines)


def _start(machine: Machine, scheduler: str, network: str, certificates: Path, number: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    ours = {f"{place}:{path}:ro" for place, path in {**_PLACES, certificates: Path("/certificates")}.items()}
    docker(
        "run", "--detach", "--name", machine.name, "--network", network, "--hostname", f"machine{number}",
        "--user", str(USER), "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only",
        "--cpuset-cpus", str(cores[number % len(cores)]),
        # Memory of guests, and what is kept between runs: both hold programs.
        "--tmpfs", f"/ram:exec,mode=700,uid={USER},size=3g", "--tmpfs", f"/kept:exec,mode=700,uid={USER},size=3g",
        "--env", "TMPDIR=/ram", "--env", "HARNESS_CACHE=/kept", "--env", "HOME=/kept",
        "--env", "PYTHONPATH=/opt/ours:/opt/packages", "--env", "PYTHONDONTWRITEBYTECODE=1",
        # Where Python is a program and a library, it looks for that where it was installed.
        "--env", f"LD_LIBRARY_PATH={_HOME / 'lib'}",
        *(word for volume in sorted(ours) for word in ("--volume", volume)),
        "debian:trixie-slim", *_idle(), _INTERPRETER, "-m", "distributed.cli.dask_worker", scheduler, "--nthreads", "1",
        "--nworkers", "1", "--no-dashboard", "--local-directory", "/ram", "--tls-ca-file", "/certificates/ca.pem",
        "--tls-cert", "/certificates/cert.pem", "--tls-key", "/certificates/key.pem",
    )  # fmt: skip


def _runs(store: Path) -> dict[str, dict[str, object]]:
    """Cell → what is the same of a run wherever it is made."""
    runs = {}
    for file in sorted(store.glob("runs/*/*/run.json")):
        run = json.loads(file.read_text())
        same = ("outcome", "captures", "artefacts", "trail", "transfers", "virtual", "cpu", "effective", "random")
        runs["/".join(file.parts[-3:-1])] = {name: run[name] for name in same}
    return runs


def _entries(store: Path) -> set[str]:
    """How lab kernels entered their guests' programs, without what they say of protection keys and pages."""
    runs = (json.loads(file.read_text()) for file in store.glob("runs/*/*/run.json"))
    return {re.split("[:,]", run["host"]["entered"])[0] for run in runs}


def _wait_for_no_guest(machine: Machine) -> None:
    wait_for(lambda: not machine.guests())


def test_a_worker_killed_in_mid_run_costs_that_run_alone(
    warm: Harness, harness: Harness, cluster: Cluster, tmp_path: Path
) -> None:
    case = harness.scenario("two-machines", flows=[{"download": "3 MB"}], milestones=["3 MB"])
    asked = ["run", case, "--clients", "ngtcp2,quic-go", "--servers", "ngtcp2,quic-go", "--repeat", "1",
             "--engine", "virtual", "--no-figures"]  # fmt: skip
    command = harness.command(
        *asked, "--cluster", cluster.address, "--cluster-tls", str(cluster.certificates), "--verify", "100%"
    )
    path = tmp_path / "said"
    with path.open("w") as out:
        driver = subprocess.Popen(
            command, cwd=ROOT, stdout=out, stderr=out,
            # How programs are entered is asked of the workers, and changes nothing of what comes out below.
            env=os.environ | {"HARNESS_CACHE": str(CACHE), "HARNESS_ENTRY": "trap"},
        )  # fmt: skip
    busy_workers: list[tuple[Machine, int]] = []

    def mid_run() -> bool:
        """A guest runs, and something has finished, so that it could be made again by mistake."""
        assert driver.poll() is None, path.read_text() + "".join(machine.output() for machine in cluster.machines)
        if not list(harness.store.glob("runs/*/0/run.json")):
            return False
        busy_workers[:] = [(machine, worker) for machine in cluster.machines for worker in machine.guests().values()]
        return bool(busy_workers)

    try:
        wait_for(mid_run, 600)
        first = {file: file.stat().st_ino for file in harness.store.glob("runs/*/0/run.json")}
        killed, worker = busy_workers[0]
        killed.python(f"import os; os.kill({worker}, 9)")
        assert driver.wait(900) == 0, path.read_text()
    finally:
        driver.kill()
        driver.wait()
    output = path.read_text()
    # A line a run that finished: each of them once.
    assert output.count(": completed") == 4 and "done: 4 runs" in output, output
    assert {file: file.stat().st_ino for file in first} == first and not list(harness.store.glob("runs/*/replaced"))
    assert "4 runs made twice, on different workers: the same" in output, output
    assert "2 workers on 2 machines, 2 cores" in output
    for machine in cluster.machines:
        _wait_for_no_guest(machine)
        assert machine.python("import os; print([n for n in os.listdir('/ram') if n.startswith('quic-lab.')])") == "[]"
        assert machine.python("import os; print(*os.listdir('/kept/runs'))") == ""

    alone = Harness(tmp_path / "alone")
    alone.folder.mkdir()
    process = subprocess.run(alone.command(*asked), cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert process.returncode == 0, process.stderr
    assert _runs(alone.store) == _runs(harness.store)
    assert _entries(harness.store) == {"trap"}
