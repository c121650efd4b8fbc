"""What a container of a lab may do, as keys of a Compose service. Pure; docs/untrusted.md has it as a table.

Docker's defaults stay: its filter of system calls, its profile of AppArmor or SELinux, its namespaces and devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.scenario.schema import Container

#: Every endpoint sets routes and checksums (/setup.sh of the contract), and serves on port 443. Only the owner may be
#: allowed to read its files (/certs, /www): that is the harness's user, who need not be root.
ENDPOINT = ("DAC_OVERRIDE", "NET_ADMIN", "NET_BIND_SERVICE")
#: For packet sockets on both interfaces, and for the path's queues and rules.
SIMULATOR = ("NET_ADMIN", "NET_RAW")
#: A simulator that stays up also writes to runs' folders, which only their owner may be allowed to read.
PERSISTENT_SIMULATOR = ("DAC_OVERRIDE", *SIMULATOR)
#: To answer from addresses of others (IP_TRANSPARENT), and to bind whatever port a client has.
PROXY = ("NET_ADMIN", "NET_BIND_SERVICE", "NET_RAW")
#: For addresses and rules of the lab's bridges.
FENCE = ("NET_ADMIN",)

#: Processes and threads that a container may have.
PROCESSES = 4096
#: Memory of an endpoint: bytes, and the default in the Compose file.
MEMORY, MEMORY_VARIABLE = 4 << 30, "${LAB_MEMORY:-4g}"
#: The least memory that may be set for it: a program with its libraries and a connection's buffers.
LEAST_MEMORY = 64 << 20
#: Memory of the harness's own containers, MiB: a simulator (beside twice that of its kernel), a proxy, a fence.
SIMULATOR_MEMORY, PROXY_MEMORY, FENCE_MEMORY = 1024, 2048, 64
#: Size of each folder in memory (tmpfs). It counts towards the container's memory.
FOLDER_SIZE = "64m"
#: An address without a resolver. Docker's resolver would forward names that are not in /etc/hosts to this one, from
#: outside the container's network.
NO_RESOLVER = "127.0.0.1"


@dataclass(frozen=True)
class Confinement:
    """What a container may do."""

    capabilities: tuple[str, ...]
    memory: str
    """In the notation of Compose."""
    read_only: bool = True
    """Whether its root file system is read-only."""
    writes: tuple[str, ...] = ("/run", "/tmp")
    """Folders in memory, where its root is read-only."""

    @property
    def keys(self) -> dict[str, Any]:
        """Keys of its Compose service."""
        return {
            "cap_drop": ["ALL"],
            "cap_add": sorted(self.capabilities),
            # A process cannot gain rights from files of its image: no set-user-ID, no file capability.
            "security_opt": ["no-new-privileges:true"],
            "pids_limit": PROCESSES,
            "mem_limit": self.memory,
            # Memory and swap together: so there is no swap.
            "memswap_limit": self.memory,
            # No core dump fills a disk. With 1, the host's crash handler is not called either (core(5)).
            "ulimits": {"core": 1},
            **({"read_only": True} if self.read_only else {}),
            **({"tmpfs": [tmpfs_entry(folder) for folder in self.writes]} if self.read_only and self.writes else {}),
        }


#: Only names of the lab can be resolved: they are in /etc/hosts.
NO_DNS: Mapping[str, Any] = {
    "dns": [NO_RESOLVER],
    "dns_search": ["."],
    # Other queries fail soon (resolv.conf(5)).
    "dns_opt": ["timeout:1", "attempts:1"],
}


def tmpfs_entry(folder: str, *options: str) -> str:
    """An entry of `tmpfs`: a folder in memory, with mount options."""
    return f"{folder}:{','.join((f'size={FOLDER_SIZE}', *options))}"


def isolated_options(*capabilities: str) -> tuple[str, ...]:
    """Options of `docker run` for a helper container of the harness, without a network."""
    keys = Confinement(capabilities, f"{PROXY_MEMORY}m").keys
    added = (word for name in keys["cap_add"] for word in ("--cap-add", name))
    return (
        "--rm",
        "--network",
        "none",
        "--cap-drop",
        "ALL",
        *added,
        "--security-opt",
        keys["security_opt"][0],
        "--pids-limit",
        str(PROCESSES),
        "--memory",
        keys["mem_limit"],
        "--read-only",
        "--tmpfs",
        tmpfs_entry("/tmp"),
    )


def endpoint_confinement(requested: Container) -> Confinement:
    """The confinement of an endpoint. `requested`: `container` in its image's manifest."""
    writes = (*Confinement.writes, *requested.writes)
    return Confinement((*ENDPOINT, *requested.capabilities), MEMORY_VARIABLE, requested.read_only, writes)
