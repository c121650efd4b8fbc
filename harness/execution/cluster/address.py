"""The address of a cluster: an existing one, or a local one that is started here and ends with this process.

Anybody who can reach a scheduler can run code on its workers, and its answers can run code at a driver. So a local
scheduler requires certificates, which are made for it and removed with it. A scheduler without authentication is used
only if the option says so explicitly.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import EngineError, InputError
from harness.execution.cluster import tls
from harness.formatting import format_value

#: Seconds to wait for the start of a local scheduler.
START_TIMEOUT = 300.0
#: Maximum number of local workers: each is a process.
MAX_LOCAL_WORKERS = 256
#: Required prefix for the address of a scheduler without authentication, so that it is not used by mistake.
UNAUTHENTICATED = "unauthenticated:"
#: prctl(2): the signal that a process gets when its parent ends.
_PR_SET_PDEATHSIG = 1
# Loaded now, because very little is allowed between fork and exec in a process with threads.
_LIBC = ctypes.CDLL(None)


@dataclass(frozen=True)
class ClusterOptions:
    """The values of `--cluster` and related options."""

    address: str
    """tcp://HOST:PORT, tls://HOST:PORT; empty for a local cluster."""
    local: int = 0
    """Number of workers of a local cluster."""
    tls: Path | None = None
    files: str = ""
    """Folder or URL (fsspec) that parcels are written to for workers; empty if they are sent."""
    verify: float = 0.0
    """Share of the runs that are made twice."""


@dataclass(frozen=True)
class Scheduler:
    """A scheduler that answers."""

    address: str
    tls: Path | None
    """Folder of the certificates that it requires; None if it has no authentication."""

    @property
    def security(self) -> Any:
        """Dask's security object for it; None without TLS. Raises InputError."""
        return None if self.tls is None else tls.dask_security(self.tls)


def parse_cluster_options(
    text: str, folder: Path | None = None, files: str = "", verify: str = ""
) -> ClusterOptions | None:
    """The cluster options from the command line; None without a cluster. Raises InputError."""
    if not text:
        dependent_options = {"--cluster-tls": folder, "--cluster-files": files, "--verify": verify}
        for option, value in dependent_options.items():
            if value:
                raise InputError(f"{option} is for runs on a cluster", "add --cluster ADDRESS, or local:N")
        return None
    share = _parse_share(verify)
    if (local := re.fullmatch(r"local:([0-9]{1,4})", text)) and int(local[1]):
        if int(local[1]) > MAX_LOCAL_WORKERS:
            raise InputError(
                f"--cluster {text}: {MAX_LOCAL_WORKERS} workers are the most that one machine starts",
                "a worker a core does; more machines take an address",
            )
        return ClusterOptions("", int(local[1]), folder, files, share)
    open_to_all, text = text.startswith(UNAUTHENTICATED), text.removeprefix(UNAUTHENTICATED)
    address = re.fullmatch(r"(tcp|tls)://[^/\s]+:([0-9]{1,5})", text)
    if address is not None and not 0 < int(address[2]) < 1 << 16:
        raise InputError(f"--cluster {text}: there is no port {int(address[2])}", "ports are 1 to 65535")
    if address is None:
        raise InputError(
            f"--cluster {format_value(text)}: expected tls://HOST:PORT, local:N or {UNAUTHENTICATED}tcp://HOST:PORT",
            "for example --cluster tls://10.0.0.1:8786, or --cluster local:4",
        )
    if text.startswith("tls:") and folder is None:
        raise InputError(
            f"--cluster {text}: TLS needs certificates", "add --cluster-tls FOLDER ('harness cluster tls')"
        )
    if text.startswith("tcp:") and folder is not None:
        raise InputError(f"--cluster {text} is without TLS, and --cluster-tls with it", f"write tls:{text[4:]}")
    if text.startswith("tcp:") and not open_to_all:
        raise InputError(
            f"--cluster {text}: such a scheduler lets in anybody, who may then run anything on its workers, and here",
            f"write tls:{text[4:]} with --cluster-tls FOLDER, or {UNAUTHENTICATED}{text} where you mean it",
        )
    if text.startswith("tls:") and open_to_all:
        raise InputError(f"--cluster {UNAUTHENTICATED}{text}: TLS is not without certificates", f"write {text}")
    return ClusterOptions(text, 0, folder, files, share)


def _parse_share(text: str) -> float:
    if not text:
        return 0.0
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%", text)
    if match is None or float(match[1]) > 100:
        raise InputError(f"--verify {format_value(text)}: expected a share, 0 % to 100 %", "for example --verify 2%")
    return float(match[1]) / 100


@contextlib.contextmanager
def run_scheduler(cluster: ClusterOptions, environment: Mapping[str, str], threads: int = 1) -> Iterator[Scheduler]:
    """Provide a scheduler. A local one, with its workers, ends with the context, or with this process.

    `environment`: variables of the workers, in addition to those of this process; `threads`: threads of each worker,
    which make one run at a time each. Other users of this machine can reach the ports, so without a folder of
    certificates temporary ones are made. Raises EngineError.
    """
    if cluster.address:
        _require_host(cluster.address)
        yield Scheduler(cluster.address, cluster.tls)
        return
    with tempfile.TemporaryDirectory(prefix="quic-lab-cluster-") as folder, contextlib.ExitStack() as stack:
        scheduler_file, log = Path(folder) / "scheduler.json", Path(folder) / "log"
        certificates = cluster.tls
        if certificates is None:
            certificates = Path(folder) / "certificates"
            tls.write_certificates(certificates)
        options = tls.dask_options(certificates)
        scheduler = scheduler_command(certificates, 0, everywhere=False)
        process = stack.enter_context(_process([*scheduler, "--scheduler-file", str(scheduler_file)], log, {}))
        address = _await_address(scheduler_file, process, log)
        workers = [
            *dask_command("worker"),
            address,
            "--host",
            "127.0.0.1",
            "--nworkers",
            str(cluster.local),
            "--nthreads",
            str(threads),
            "--no-dashboard",
            "--local-directory",
            folder,
            "--death-timeout",
            "30",
            *options,
        ]
        stack.enter_context(_process(workers, log, environment))
        yield Scheduler(address, certificates)


def _require_host(address: str) -> None:
    """EngineError for an address whose host cannot be resolved."""
    host, _, port = address.partition("://")[2].rpartition(":")
    try:
        socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise EngineError(f"--cluster {address}: nobody knows the host {host}: {error}", "check its name") from error


def scheduler_command(folder: Path | None, port: int, *, everywhere: bool = True) -> list[str]:
    """The command of a scheduler. Without TLS it listens only on loopback, since its clients can run any code.

    InputError if the folder has no certificates.
    """
    if folder is None:
        listener = ["--host", "127.0.0.1", "--protocol", "tcp"]
    else:
        listener = [*(() if everywhere else ("--host", "127.0.0.1")), "--protocol", "tls", *tls.dask_options(folder)]
    return [
        *dask_command("scheduler"),
        *listener,
        "--port",
        str(port),
        "--no-dashboard",
        "--dashboard-address",
        "127.0.0.1:0",
    ]


def dask_command(command: str) -> list[str]:
    """The command `dask scheduler`, or `dask worker`, of this Python."""
    return [sys.executable, "-m", f"distributed.cli.dask_{command}"]


@contextlib.contextmanager
def _process(command: list[str], log: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    # In a new session: Ctrl-C is for this process, which ends the others after its own work.
    with log.open("ab") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env={**os.environ, "PYTHONWARNINGS": "ignore", **environment},
            preexec_fn=_exit_with_parent,  # noqa: PLW1509
        )
    try:
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _exit_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _await_address(scheduler_file: Path, process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, ValueError, KeyError):
            return str(json.loads(scheduler_file.read_text())["address"])
        time.sleep(0.05)
    words = log.read_text(errors="replace").strip().splitlines()[-1:] or ["without a word"]
    raise EngineError(f"the scheduler did not come up: {words[0]}", "is 'distributed' installed ('make setup')?")
