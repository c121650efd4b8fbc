"""The Docker daemon: what it is, whether labs can run on it, and what its machine requires of containers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.engine.docker_cli import command_error, docker
from harness.errors import EngineError

#: The slice of all labs' containers, where systemd has the control groups (systemd.slice(5)). It is a group beside
#: those of users and of services, so that containers need not share the weight of one of these.
SLICE = "quiclab.slice"
#: The compose engine's alternative on a daemon that it cannot use.
_ALTERNATIVE = "use '--engine virtual', which needs Docker only to build images"


@dataclass(frozen=True)
class Daemon:
    """What a daemon and its machine are, as far as labs depend on it. The default: Docker's own, run by root."""

    podman: bool = False
    rootless: bool = False
    """It is run by an ordinary user, in a user namespace (docs.docker.com, Rootless mode)."""
    remaps_users: bool = False
    """Users of containers are others on the machine (dockerd(8), --userns-remap)."""
    selinux: bool = False
    """SELinux keeps containers from files without a label for them (dockerd(8), --selinux-enabled)."""
    slices: bool = False
    """systemd has the control groups, of version 2."""

    def require_supported(self) -> None:
        """EngineError, by name, where the compose engine cannot run labs."""
        if self.podman:
            raise EngineError(
                "the 'docker' command is Podman's, which the compose engine does not support",
                f"let DOCKER_HOST or 'docker context use' name a Docker daemon, or {_ALTERNATIVE}",
            )
        if self.rootless:
            raise EngineError(
                "this Docker daemon is rootless: its containers' files would belong to users that you are not",
                f"use the machine's own daemon ('docker context use default'), or {_ALTERNATIVE}",
            )
        if self.remaps_users:
            raise EngineError(
                "this Docker daemon maps users of containers to others (userns-remap), who may not write a run's files",
                f"use a daemon without 'userns-remap' in /etc/docker/daemon.json, or {_ALTERNATIVE}",
            )

    def adapt(self, service: Mapping[str, Any]) -> dict[str, Any]:
        """A service of a lab's Compose file, with what this daemon's machine requires of its containers."""
        adapted = dict(service)
        if self.selinux and "volumes" in service:
            adapted["volumes"] = [_shared(volume) for volume in service["volumes"]]
        if self.slices:
            adapted["cgroup_parent"] = SLICE
        return adapted

    def adapt_document(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """A Compose file, as plain data, with its services adapted."""
        services = {name: self.adapt(service) for name, service in document["services"].items()}
        return {**document, "services": services}


def _shared(volume: str) -> str:
    """A bind mount with the option that labels its files for all containers. Docker labels its own volumes."""
    if ":" not in volume:
        return volume
    # A variable of the file may contain colons: "${LAB_OUT:?see cell.env}/flow0/server:/logs".
    names = re.sub(r"\$\{[^}]*\}", lambda variable: "x" * len(variable[0]), volume)
    has_options = names.count(":") > 1
    return f"{volume},z" if has_options else f"{volume}:z"


def describe_daemon() -> Daemon:
    """Ask the daemon what it is. EngineError where it does not answer."""
    version = _object(docker("version", "--format", "{{json .}}", check=False).stdout)
    server = version.get("Server") or {}
    components = {component.get("Name", "") for component in server.get("Components") or []}
    if any("podman" in name.lower() for name in components) or (not server and _is_podman()):
        return Daemon(podman=True)
    completed = docker("info", "--format", "{{json .}}", check=False)
    information = _object(completed.stdout)
    if completed.returncode != 0 or information.get("ServerErrors"):
        raise command_error("docker info", completed.stderr or "\n".join(information.get("ServerErrors") or []))
    options = " ".join(information.get("SecurityOptions") or [])
    return Daemon(
        rootless="name=rootless" in options,
        remaps_users="name=userns" in options,
        selinux="name=selinux" in options,
        slices=information.get("CgroupDriver") == "systemd" and information.get("CgroupVersion") == "2",
    )


def _is_podman() -> bool:
    """Whether `docker` is Podman's command of that name (podman-docker)."""
    return docker("--version", check=False).stdout.lower().startswith("podman")


def _object(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def is_of_container(pid: int, container: str, processes: Path = Path("/proc")) -> bool:
    """Whether a process of this machine belongs to a container. `container`: its ID.

    The daemon may be on another machine, or in a virtual one (Docker Desktop). Its numbers of processes then belong to
    others here, or to nobody.
    """
    try:
        return container in (processes / str(pid) / "cgroup").read_text()
    except OSError:
        return False
