"""What a lab is: everything that an engine needs to bring a cell up."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from harness.model import MTU, FlowKind
from harness.parameters import ParameterValue, Role
from harness.path import PathProgram

#: UDP port of the servers.
SERVER_PORT = 443
#: How long the simulator waits for the servers to answer, seconds.
SERVER_WAIT = 15.0
#: Period of the simulator's counters, seconds.
SAMPLE = 0.1
#: After the stop of a flow that ends by itself, seconds in which it is to do so: its last data is still under way.
DRAIN = 10.0
#: From the moment the path is up to a client's first datagram, seconds: its wait for the simulator, its start.
CLIENT_START = 5.0
#: From the last byte of a client's file to its own end, seconds, where its time is over by then. To close a connection
#: takes three times the probe timeout (RFC 9000 §10.2): 5.4 s and more where a round trip takes 0.6 s.
CLIENT_END = 10.0


class Spec(BaseModel):
    """A frozen part of a lab."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Host(Spec):
    """One endpoint: what a container, or a namespace with that image as its root, is given."""

    name: str
    """client0, server0, …"""
    role: Role
    flow: int
    image: str
    ipv4: str
    ipv6: str
    hosts: dict[str, tuple[str, ...]]
    """Entries of /etc/hosts: name → addresses."""
    environment: dict[str, str]
    sysctls: dict[str, str] = {}
    """Settings of the kernel in its network namespace: name → value."""


class Network(Spec):
    """One side of the simulator."""

    side: Literal["left", "right"]
    ipv4: str
    ipv6: str
    sim_ipv4: str
    sim_ipv6: str


class LabFlow(Spec):
    """What one client is to do."""

    flow: int
    client: str
    server: str
    kind: FlowKind = "quic"
    label: str = ""
    """What people call it: implementations and congestion control, as far as they were named."""
    file: str
    """What is served and downloaded; empty where nothing is."""
    size: int
    """Of the file, bytes; 0 where there is none."""
    start: float
    stop: float | None = None
    """When it is cut off."""
    repeat_after: float | None
    sender: Role = "server"
    access_delay_ns: int = 0
    """One-way delay of this flow alone, in both directions, on top of the link's."""

    @property
    def cut_off(self) -> bool:
        """Whether it is the engine that ends it, at its stop; a generator ends by itself."""
        return self.kind == "quic" and self.stop is not None


class Lab(Spec):
    """Everything an engine needs to bring a cell up."""

    name: str
    networks: dict[Literal["left", "right"], Network]
    hosts: tuple[Host, ...]
    flows: tuple[LabFlow, ...]
    sim_image: str
    sim_kernel: str
    program: PathProgram
    mtu: int = MTU
    """IP MTU of every interface, bytes."""
    memory_mib: int
    seed: int
    """What chance in the lab depends on: netem's loss, and the random numbers of a kernel in virtual time."""
    host_cpu: bool = False
    """In virtual time: endpoints see the host's processor."""
    timeout: float
    """Seconds one transfer may take."""
    effective: dict[str, ParameterValue]

    def host(self, name: str) -> Host:
        """The host of that name."""
        return next(host for host in self.hosts if host.name == name)

    def time_limit(self, flow: LabFlow) -> float:
        """Seconds from a client's first datagram in which its transfer must come to an end."""
        return self.timeout if flow.stop is None else flow.stop - flow.start + DRAIN

    def patience(self, flow: LabFlow) -> float:
        """Seconds from a client's start to its first datagram; 0 where the datagrams do not tell, as in plain UDP."""
        return 0.0 if flow.kind == "udp" else CLIENT_START

    def sim_plan(self) -> dict[str, Any]:
        """The simulator's plan (see images/sim/simulator/plan.py), as plain data."""
        return {
            "schema": 1,
            "kernel": self.sim_kernel,
            "addresses": {
                side: [f"{network.sim_ipv4}/24", f"{network.sim_ipv6}/64"] for side, network in self.networks.items()
            },
            # Containers that start late are resolved when they come, behind the emulated delay.
            "neighbours": [
                {
                    "side": "left" if host.role == "client" else "right",
                    "address": address,
                    "late": host.role == "client" and self.flows[host.flow].start > 0,
                }
                for host in self.hosts
                for address in (host.ipv4, host.ipv6)
            ],
            "setup": [list(command) for command in self.program.setup],
            "changes": [change.model_dump(mode="json") for change in self.program.changes],
            "wait_for": [[host.ipv4, SERVER_PORT] for host in self.hosts if host.role == "server"],
            "wait_seconds": SERVER_WAIT,
            "port": SERVER_PORT,
            "sample_seconds": SAMPLE,
            "memory_mib": self.memory_mib,
        }

    def summary(self) -> dict[str, Any]:
        """lab.json: addresses and link figures, for whoever reads the run's artefacts."""
        return {
            "schema": 1,
            "flows": [
                {
                    "flow": flow.flow,
                    "client": {"addresses": [self.host(flow.client).ipv4, self.host(flow.client).ipv6]},
                    "server": {"addresses": [self.host(flow.server).ipv4, self.host(flow.server).ipv6]},
                    "kind": flow.kind,
                    "label": flow.label,
                    "sender": flow.sender,
                    "start": flow.start,
                    "stop": flow.stop,
                    "access_delay_ns": flow.access_delay_ns,
                }
                for flow in self.flows
            ],
            "mtu": self.mtu,
            "links": {name: link.model_dump(mode="json") for name, link in self.program.links.items()},
            "changes": [change.model_dump(mode="json") for change in self.program.timeline],
        }
