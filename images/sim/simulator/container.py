"""Starts a process as a container engine would: namespaces, root, mounts, user, capabilities, limits.

What it does for a process is what Docker does by default, with NET_ADMIN added, so that an image runs in the lab
kernel as it runs in a container. Standard library only; runs as root of the lab kernel.
"""

from __future__ import annotations

import ctypes
import os
import resource
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from simulator.shell import CommandError

_LIBC = ctypes.CDLL(None, use_errno=True)
#: <linux/mount.h>
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 4096, 8192, 16384, 1 << 18
#: <linux/prctl.h>
PR_CAPBSET_DROP = 24
#: The lab kernel's own: picoseconds per system call, per datagram and per byte (images/lab-kernel/lab_cost.h).
PR_LAB_COST = 0x6C616263
#: Capabilities of <linux/capability.h> that Docker leaves a container (CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL,
#: SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, NET_RAW, SYS_CHROOT, MKNOD, AUDIT_WRITE, SETFCAP), and NET_ADMIN.
CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31, 12})
LAST_CAPABILITY = 40
OPEN_FILES = 1_048_576
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Name → (type and mode, major, minor).
_DEVICES = {
    "null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0),
}  # fmt: skip
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}


@dataclass(frozen=True)
class Mount:
    """A folder inside a container, or a file in a folder that was mounted before it."""

    source: str
    """Where it is in the lab kernel already."""
    target: str
    read_only: bool


@dataclass(frozen=True)
class Image:
    """What an image says about the process it starts."""

    reference: str
    rootfs: str
    """Its root file system on the host machine."""
    command: list[str]
    """Entry point and its arguments."""
    environment: list[str]
    working_dir: str
    user: str
    stop_signal: int
    set_ids: dict[str, int] = field(default_factory=dict)
    """Programs that run as their owner or group, whoever starts them, with their modes: on the host they do not."""


def mount(source: str, target: Path | str, kind: str, flags: int = 0, data: str = "") -> None:
    """Mount something. OSError with both names when it fails."""
    done = _LIBC.mount(source.encode(), str(target).encode(), kind.encode(), ctypes.c_ulong(flags), data.encode())
    if done != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"mounting {source or kind} on {target}: {os.strerror(code)}")


def mount_host(folder: str, target: Path, *, read_only: bool) -> None:
    """Mount a folder of the host machine (hostfs)."""
    target.mkdir(parents=True, exist_ok=True)
    mount("none", target, "hostfs", MS_RDONLY if read_only else 0, folder)


class Container:
    """One container: its root is made once, and processes are started in it one after the other."""

    def __init__(
        self,
        name: str,
        image: Image,
        lower: Path,
        scratch: Path,
        hosts: Mapping[str, list[str]],
        environment: Mapping[str, str],
        mounts: list[Mount],
        cpu_ps: tuple[int, ...] = (),
    ) -> None:
        """`lower` is the image's root, mounted read-only; what the container writes stays in `scratch`.

        `cpu_ps`: what computing costs, as PR_LAB_COST has it; empty where it costs nothing.
        """
        self.name = name
        self.image = image
        self.root = scratch / "root"
        self._environment = environment
        self._cpu_ps = cpu_ps
        for part in ("upper", "work", "root"):
            (scratch / part).mkdir(parents=True)
        layers = f"lowerdir={lower},upperdir={scratch / 'upper'},workdir={scratch / 'work'}"
        mount("overlay", self.root, "overlay", 0, layers)
        for place, mode in image.set_ids.items():
            self._inside(place).chmod(mode)
        self._write_names(hosts)
        self._make_devices()
        for item in mounts:
            target = self._inside(item.target)
            if Path(item.source).is_dir():
                target.mkdir(parents=True, exist_ok=True)
            mount(item.source, target, "", MS_BIND)
            if item.read_only:
                mount("", target, "", MS_BIND | MS_REMOUNT | MS_RDONLY)

    def _inside(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def _write_names(self, hosts: Mapping[str, list[str]]) -> None:
        etc = self._inside("etc")
        etc.mkdir(exist_ok=True)
        lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
        lines += [f"{address}\t{name}" for name, addresses in hosts.items() for address in addresses]
        for name, text in (("hosts", "\n".join(lines)), ("hostname", self.name), ("resolv.conf", "")):
            file = etc / name
            # An image may have made a link of it.
            file.unlink(missing_ok=True)
            file.write_text(text + "\n")

    def _make_devices(self) -> None:
        dev = self._inside("dev")
        dev.mkdir(exist_ok=True)
        mount("tmpfs", dev, "tmpfs", MS_NOSUID, "mode=755,size=65536k")
        for name, (major, minor) in _DEVICES.items():
            os.mknod(dev / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
            (dev / name).chmod(0o666)
        for name, target in _LINKS.items():
            (dev / name).symlink_to(target)
        for name in ("shm", "pts"):
            (dev / name).mkdir()
        mount("tmpfs", dev / "shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=65536k")
        mount("devpts", dev / "pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")

    def start(self, namespace: Path, log: Path, unable: Path) -> int:
        """Start the image's command in a network namespace, as the first process of namespaces of its own. The process.

        When the command cannot be started, the reason is in the file `unable`.
        """
        ours = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        # Only children become part of a namespace of processes.
        os.unshare(os.CLONE_NEWPID)
        process = os.fork()
        if process == 0:
            _become(self, namespace, log, unable)
        os.setns(ours, os.CLONE_NEWPID)
        os.close(ours)
        return process

    def enter(self) -> None:
        """Make this process the first of the container. Only in a process of its own, in its own namespaces."""
        mount("", "/", "", MS_REC | MS_PRIVATE)
        mount("proc", self._inside("proc"), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        settings = self._inside("proc/sys")
        # A container may bind low ports without being root (Docker ≥ 20.10), and change no setting of the kernel.
        Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("0")
        mount(str(settings), settings, "", MS_BIND)
        mount("", settings, "", MS_BIND | MS_REMOUNT | MS_RDONLY)
        mount("sysfs", self._inside("sys"), "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY)
        os.chdir(self.root)
        mount(".", "/", "", MS_MOVE)
        os.chroot(".")
        working_dir = self.image.working_dir or "/"
        Path(working_dir).mkdir(parents=True, exist_ok=True)
        os.chdir(working_dir)
        resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
        self._set_cost()
        for capability in range(LAST_CAPABILITY + 1):
            if capability not in CAPABILITIES:
                _LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        uid, gid, home = account(self.image.user, Path("/etc"))
        os.setgroups([gid])
        os.setgid(gid)
        os.setuid(uid)
        environment = {"PATH": DEFAULT_PATH, "HOSTNAME": self.name, "HOME": home}
        environment |= dict(item.split("=", 1) for item in self.image.environment if "=" in item)
        environment |= self._environment
        os.execvpe(self.image.command[0], self.image.command, environment)

    def _set_cost(self) -> None:
        """Have computing cost this process and all its children something, while it still may say so. OSError."""
        if self._cpu_ps and _LIBC.prctl(PR_LAB_COST, *map(ctypes.c_ulong, self._cpu_ps), ctypes.c_ulong(0)) != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"what computing costs: {os.strerror(code)}")


def _become(container: Container, namespace: Path, log: Path, unable: Path) -> None:
    """Become a container's first process, in its own namespace of processes already. Does not return."""
    # Both opened before the root changes: their folders are not inside.
    said = os.open(unable, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.setsid()
        with namespace.open("rb") as network:
            os.setns(network.fileno(), os.CLONE_NEWNET)
        os.unshare(os.CLONE_NEWNS | os.CLONE_NEWUTS | os.CLONE_NEWIPC)
        _LIBC.sethostname(container.name.encode(), len(container.name))
        nothing = os.open("/dev/null", os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.close(out)
        os.close(nothing)
        container.enter()
    except (OSError, CommandError) as error:
        os.write(said, reason(container.image, error).encode())
    finally:
        os._exit(127)


def exit_code(status: int) -> int:
    """Of a process by its wait status, as Docker has it: 128 and the number of the signal that ended it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def account(user: str, etc: Path) -> tuple[int, int, str]:
    """(uid, gid, home) for an image's user: "", "name", "1000", "name:group", "1000:1000". CommandError if unknown."""
    name, _, group = user.partition(":")
    people = [line.split(":") for line in _lines(etc / "passwd")]
    person = next((item for item in people if len(item) > 5 and name in (item[0], item[2])), None)
    if not name:
        uid, gid, home = 0, 0, "/root"
    elif person is not None:
        uid, gid, home = int(person[2]), int(person[3]), person[5]
    elif name.isdigit():
        uid, gid, home = int(name), 0, "/"
    else:
        raise CommandError(f"the image has no user {name}")
    if group:
        groups = [line.split(":") for line in _lines(etc / "group")]
        found = next((int(item[2]) for item in groups if len(item) > 2 and group in (item[0], item[2])), None)
        if found is None and not group.isdigit():
            raise CommandError(f"the image has no group {group}")
        gid = int(group) if found is None else found
    return uid, gid, home


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


def reason(image: Image, error: Exception) -> str:
    """Why an image's command could not be started, for people."""
    command = image.command[0]
    place = f"the image {image.reference}: {command}"
    if isinstance(error, FileNotFoundError) and Path(command).exists():
        return f"{place} needs {_interpreter(Path(command))}, which the image has not"
    if isinstance(error, FileNotFoundError):
        return f"{place} is not in the image"
    if isinstance(error, OSError) and error.errno == 8:
        return f"{place} is neither a program for this machine nor a script that names its interpreter"
    return f"{place}: {error}"


def _interpreter(program: Path) -> str:
    """What a program that is there says it needs to run: the interpreter of a script or the loader of a binary."""
    with program.open("rb") as file:
        head = file.read(4096)
    if head.startswith(b"#!"):
        return head[2:].split(b"\n", 1)[0].strip().split()[0].decode(errors="replace")
    loader = head.find(b"/ld-")
    if loader > 0:
        start = head.rfind(b"\0", 0, loader) + 1
        return head[start : head.find(b"\0", loader)].decode(errors="replace")
    return "something"
