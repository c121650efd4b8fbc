"""What a container of a lab may do, as keys of a Compose service. Pure; docs/untrusted.md has it as a table.

Docker's own filter of system calls, its profile of AppArmor or SELinux, its namespaces and devices are as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.scenario.schema import Container

#: Routes and checksums are for every endpoint to set (/setup.sh of the contract), on port 443 it serves, and what it
#: reads (/certs, /www) may be for its owner's eyes alone: the harness's user, who need not be root.
ENDPOINT = ("DAC_OVERRIDE", "NET_ADMIN", "NET_BIND_SERVICE")
#: Both interfaces with packet sockets, the path's queues and rules.
SIMULATOR = ("NET_ADMIN", "NET_RAW")
#: Where it stands from run to run, also runs' folders, which may be for their owner's eyes alone.
STANDING = ("DAC_OVERRIDE", *SIMULATOR)
#: To answer in others' names (IP_TRANSPARENT), and to bind whatever port a client has.
PROXY = ("NET_ADMIN", "NET_BIND_SERVICE", "NET_RAW")
#: Addresses and rules of the lab's bridges.
FENCE = ("NET_ADMIN",)

#: Processes and threads that a container may have.
PROCESSES = 4096
#: Memory of an endpoint: bytes, and how the Compose file says it where nobody says otherwise.
MEMORY, MEMORY_VARIABLE = 4 << 30, "${LAB_MEMORY:-4g}"
#: The least that is taken for it: a program with its libraries and a connection's buffers.
LEAST_MEMORY = 64 << 20
#: Memory of what the harness brings itself, MiB: a simulator's beside twice what its kernel has, a proxy's, a fence's.
SIMULATOR_MEMORY, PROXY_MEMORY, FENCE_MEMORY = 1024, 2048, 64
#: Each folder that is kept in memory, of what the container may have.
FOLDER_SIZE = "64m"
#: A resolver that nobody is: whom a container asks for a name that /etc/hosts has not, Docker's resolver asks in turn,
#: and that has ways out which the container has not.
NO_RESOLVER = "127.0.0.1"


@dataclass(frozen=True)
class Confinement:
    """What a container may do."""

    capabilities: tuple[str, ...]
    memory: str
    """As Compose says it."""
    read_only: bool = True
    """Its root."""
    writes: tuple[str, ...] = ("/run", "/tmp")
    """Folders in memory, where its root is read-only."""

    @property
    def keys(self) -> dict[str, Any]:
        """Of its service."""
        return {
            "cap_drop": ["ALL"],
            "cap_add": sorted(self.capabilities),
            # Nothing in an image gives its process more than it was started with: no set-user-ID, no file capability.
            "security_opt": ["no-new-privileges:true"],
            "pids_limit": PROCESSES,
            "mem_limit": self.memory,
            # With what may be swapped out: none of it.
            "memswap_limit": self.memory,
            # No dump fills a disk. With 1, the machine's own handler of crashes is not called either (core(5)).
            "ulimits": {"core": 1},
            **({"read_only": True} if self.read_only else {}),
            **({"tmpfs": [in_memory(folder) for folder in self.writes]} if self.read_only and self.writes else {}),
        }


#: No names but those of the lab, which /etc/hosts has.
NAMELESS: Mapping[str, Any] = {
    "dns": [NO_RESOLVER],
    "dns_search": ["."],
    # Who asks all the same hears soon that there is none (resolv.conf(5)).
    "dns_opt": ["timeout:1", "attempts:1"],
}


def in_memory(folder: str, *more: str) -> str:
    """A folder of `tmpfs`."""
    return f"{folder}:{','.join((f'size={FOLDER_SIZE}', *more))}"


def alone(*capabilities: str) -> tuple[str, ...]:
    """Words behind `docker run` for what the harness has done by a container that is in no network."""
    keys = Confinement(capabilities, f"{PROXY_MEMORY}m").keys
    added = (word for name in keys["cap_add"] for word in ("--cap-add", name))
    return (
        "--rm", "--network", "none", "--cap-drop", "ALL", *added, "--security-opt", keys["security_opt"][0],
        "--pids-limit", str(PROCESSES), "--memory", keys["mem_limit"], "--read-only", "--tmpfs", in_memory("/tmp"),
    )  # fmt: skip


def of_endpoint(asked: Container) -> Confinement:
    """`asked`: by its image's manifest."""
    writes = (*Confinement.writes, *asked.writes)
    return Confinement((*ENDPOINT, *asked.capabilities), MEMORY_VARIABLE, asked.read_only, writes)
