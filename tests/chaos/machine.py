"""What is on this machine: processes, containers, networks, mounts, locks; read, and never changed, here."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.engine.docker.host_jitter import SETTINGS

#: What the harness puts on its containers and networks.
LABEL = "org.quic-lab.owner"
#: From this share of the processor's time on that the hypervisor takes, a spoilt run is its doing.
STOLEN = 0.02


@dataclass(frozen=True)
class Process:
    """One process, as proc_pid_stat(5) has it."""

    pid: int
    name: str
    state: str
    parent: int
    group: int


def processes() -> dict[int, Process]:
    """All processes by their number."""
    by_pid = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                head, _, rest = (folder / "stat").read_text().rpartition(")")
                fields = rest.split()
                pid = int(folder.name)
                by_pid[pid] = Process(pid, head.partition("(")[2], fields[0], int(fields[1]), int(fields[2]))
    return by_pid


def stolen_shares(store: Path) -> list[float]:
    """The share of the processor's time that the hypervisor took, for each spoilt run of a store.

    A run is spoilt where its link was not the requested one, or where an endpoint was starved. What a fault has damaged
    is left out.
    """
    shares = []
    for file in store.glob("runs/*/*/measured.json"):
        with suppress(OSError, ValueError):
            run = json.loads(file.read_bytes())
            link = run.get("link")
            if link is not None and (run["starved"] or not link["valid"]):
                shares.append(link["steal"] or 0.0)
    return shares


def stolen_share(store: Path) -> float:
    """The least of those shares where the hypervisor spoilt every spoilt run, else zero."""
    least = min(stolen_shares(store), default=0.0)
    return least if least >= STOLEN else 0.0


def below(pid: int) -> list[Process]:
    """All that descend from a process, without itself."""
    known = processes()
    descendants: list[Process] = []
    left = [pid]
    while left:
        parent = left.pop()
        children = [item for item in known.values() if item.parent == parent]
        descendants += children
        left += [item.pid for item in children]
    return descendants


def words_of(pid: int) -> list[str]:
    """The words that a process was started with; none once it has gone."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return [word.decode(errors="replace") for word in raw.split(b"\0") if word]


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler of its own for a signal (proc_pid_status(5), SigCgt)."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    mask = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    return bool(int(mask, 16) >> (number - 1) & 1)


def at_home_in(folders: tuple[Path, ...]) -> list[Process]:
    """Processes that were started for one of these folders: it is in their environment, or where they are."""
    names = [str(folder).encode() for folder in folders]
    at_home = []
    for pid, process in processes().items():
        if process.state == "Z" or pid == os.getpid():
            continue
        seen = b""
        with suppress(OSError):
            seen += Path(f"/proc/{pid}/environ").read_bytes()
        with suppress(OSError):
            seen += os.fsencode(Path(f"/proc/{pid}/cwd").readlink())
        if any(name in seen for name in names):
            at_home.append(process)
    return at_home


def mounts_below(folders: tuple[Path, ...]) -> list[str]:
    """Mount points below one of these folders."""
    points = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return [point for point in points if any(Path(point).is_relative_to(folder) for folder in folders)]


def is_locked(file: Path) -> bool:
    """Whether some process holds a lock of flock(2) on a file."""
    with file.open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def docker_lines(*words: str) -> list[str]:
    """What `docker WORDS` prints, by line."""
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=True).stdout.splitlines()


def containers(owner: int) -> dict[str, int]:
    """Service → process of the containers that a harness process started and that run."""
    form = '{{.ID}} {{.Label "com.docker.compose.service"}} {{.Label "' + LABEL + '"}}'
    pids = {}
    for line in docker_lines("ps", "--filter", f"label={LABEL}", "--format", form):
        identity, service, label = line.split()
        if label.startswith(f"{owner}-"):
            with suppress(subprocess.CalledProcessError):
                pids[service] = int(docker_lines("inspect", "--format", "{{.State.Pid}}", identity)[0])
    return {service: pid for service, pid in pids.items() if pid}


def container_ids(owner: int) -> dict[str, str]:
    """Service → container, of those that a harness process started."""
    form = '{{.ID}} {{.Label "com.docker.compose.service"}} {{.Label "' + LABEL + '"}}'
    lines = [line.split() for line in docker_lines("ps", "--filter", f"label={LABEL}", "--format", form)]
    return {service: identity for identity, service, label in lines if label.startswith(f"{owner}-")}


@dataclass(frozen=True)
class Shared:
    """What all commands on this machine share: only one who runs alone can tell whose it is."""

    resources: frozenset[str]

    def since(self, before: Shared) -> list[str]:
        """What is here now, was not before, and should have gone."""
        return sorted(self.resources - before.resources)


def shared() -> Shared:
    """Containers, networks, interfaces, namespaces of networks and settings of control groups, by name."""
    return Shared(frozenset(_shared()))


def _shared() -> Iterator[str]:
    for name in docker_lines("ps", "--all", "--format", "{{.Names}} ({{.Status}})"):
        yield f"container {name.split()[0]}"
    for name in docker_lines("network", "ls", "--format", "{{.Name}}"):
        yield f"network {name}"
    for device in Path("/sys/class/net").iterdir():
        yield f"interface {device.name}"
    spaces = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                spaces.add((folder / "ns/net").readlink().name)
    # Of those that nobody is in any more Docker itself lets go, once a minute (libnetwork, osl/namespace_linux.go).
    for space in spaces:
        yield f"network namespace {space}"
    for setting in SETTINGS:
        with suppress(OSError):
            text = setting.file.read_text().strip()
            # A group comes and goes; what somebody killed has left changed the next one takes back.
            if text != setting.default:
                yield f"{setting.file} = {text}"
