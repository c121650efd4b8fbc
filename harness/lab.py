"""Cell → Lab: hosts, addresses, simulator plan, flows. Pure; both engines build what it says.

Addresses and names are those of the published network simulator (quic-network-simulator): client
193.167.0.100, server 193.167.100.100, the simulator at .2 of both networks. Further flows count up from
there. A second lab on the same machine takes another slot, with the third byte shifted.
"""

from __future__ import annotations

import json
import math
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from harness.arguments import Given, checked, effective_parameters, interop_testcase
from harness.model import MTU, ConstantRate, Flow, FlowKind, Poisson, Scenario, Traffic, UniformGaps
from harness.model import Path as EmulatedPath
from harness.outcome import Cell, EngineName
from harness.parameters import ROLES, ParameterValue, Role
from harness.path import PathProgram, Server, compile_path, ideal_time
from harness.units import Duration, Size

#: What serves a bottleneck that the scenario gives no token bucket: only in real time are timers late.
SERVERS: dict[EngineName, Server] = {"compose": "bucket", "virtual": "serial"}
#: UDP port of the servers.
SERVER_PORT = 443
#: How long the simulator waits for the servers to answer, seconds.
SERVER_WAIT = 15.0
#: Period of the simulator's counters, seconds.
SAMPLE = 0.1
#: After the stop of a flow that ends by itself, seconds in which it is to do so: its last data is still under way.
DRAIN = 10.0
#: Wall seconds of a run in virtual time: start and stop, and per byte of a transfer (`make bench` has the figures).
VIRTUAL_START, VIRTUAL_BYTE = 2.0, 1.1e-7


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
        """Seconds from its start in which a client must come to its own end."""
        return self.timeout if flow.stop is None else flow.stop - flow.start + DRAIN

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


def _networks(slot: int) -> dict[Literal["left", "right"], Network]:
    made: dict[Literal["left", "right"], Network] = {}
    for side, third in (("left", slot), ("right", 100 + slot)):
        made[side] = Network(  # type: ignore[index]
            side=side,
            ipv4=f"193.167.{third}.0/24",
            ipv6=f"fd00:cafe:cafe:{third}::/64",
            sim_ipv4=f"193.167.{third}.2",
            sim_ipv6=f"fd00:cafe:cafe:{third}::2",
        )
    return made


def _traffic(flow: Flow, seed: int, words: list[str]) -> str:
    """TRAFFIC of the generator: what it sends, for how long or how much, and what its sender is told, as JSON."""
    if flow.stop is not None:
        extent: dict[str, float] = {"seconds": (flow.stop.value - flow.start.value) / 1e9}
    else:
        assert flow.download is not None
        extent = {"size": flow.download.bytes}
    return json.dumps(
        {
            "kind": flow.kind,
            "sender": flow.sender,
            **extent,
            "traffic": _figures(flow.traffic),
            "seed": seed,
            "words": words,
        }
    )


def _figures(traffic: Traffic) -> dict[str, Any]:
    """A model of traffic in base units: bytes, bit/s, seconds."""
    figures: dict[str, Any] = {"model": traffic.model}
    if isinstance(traffic, ConstantRate | Poisson):
        figures |= {"rate": traffic.rate.value, "packet": [traffic.packet.bytes] * 2}
    elif isinstance(traffic, UniformGaps):
        packet, gap = traffic.packet, traffic.gap
        figures |= {"packet": [size.bytes for size in packet], "gap": [one.seconds for one in gap]}
    return figures


def _environment(cell: Cell, role: Role, index: int, given: dict[Role, Given], seed: int) -> dict[str, str]:
    flow = cell.scenario.flows[index]
    host = "server6" if cell.scenario.ip_version == 6 else "server4"
    environment = {"ROLE": role, "TESTCASE": interop_testcase(cell, index)}
    if flow.kind == "quic":
        file = served_name(flow, cell.scenario.path)
        environment |= {
            "REQUESTS": f"https://{host}:{SERVER_PORT}/{file}" if role == "client" else "",
            "PROTOCOLS": "",
            "SSLKEYLOGFILE": "/logs/keys.log",
            "QLOGDIR": "/logs/qlog/",
        }
    else:
        words = given[flow.sender].words
        environment |= {"PEER": host, "TRAFFIC": _traffic(flow, (seed + index * 104_729) % 2**31, words)}
    environment |= {f"{role.upper()}_PARAMS": " ".join(given[role].words), **given[role].environment}
    if role == "client" and flow.repeat_after is not None and cell.implementation("client", index).session:
        environment["SESSION_DIR"] = "/session"
    return environment


def served_size(flow: Flow, path: EmulatedPath) -> Size:
    """What a server holds ready for a QUIC flow: the file, or more than can pass before the flow is cut off."""
    if flow.download is not None:
        return flow.download
    assert flow.stop is not None
    rates = [path.to_client.rate.value]
    for change in path.changes:
        side = change.forward if path.terminal == "client" else change.return_
        rates.append(0 if side is None or side.rate is None else side.rate.value)
    seconds = flow.stop.seconds - flow.start.seconds
    return Size(math.ceil(max(rates) * seconds / 8 / 10**6 + 1) * 10**6)


def served_name(flow: Flow, path: EmulatedPath) -> str:
    """The name of the file a QUIC flow downloads."""
    return f"{served_size(flow, path).label()}.bin"


def _pair(cell: Cell, given: dict[Role, Given], index: int, slot: int, seed: int) -> tuple[Host, Host]:
    number = 100 + index
    left, right = f"193.167.{slot}.{number}", f"193.167.{100 + slot}.{number}"
    left6, right6 = f"fd00:cafe:cafe:{slot}::{number}", f"fd00:cafe:cafe:{100 + slot}::{number}"
    servers = {"server4": (right,), "server6": (right6,), "server46": (right, right6)}
    clients = {"client4": (left,), "client6": (left6,), "client46": (left, left6)}
    client = Host(
        name=f"client{index}", role="client", flow=index, image=cell.image("client", index).reference,
        ipv4=left, ipv6=left6,
        hosts={"sim": (f"193.167.{slot}.2",), **servers},
        environment=_environment(cell, "client", index, given, seed),
    )  # fmt: skip
    server = Host(
        name=f"server{index}", role="server", flow=index, image=cell.image("server", index).reference,
        ipv4=right, ipv6=right6,
        hosts={"sim": (f"193.167.{100 + slot}.2",), **servers, **clients},
        environment=_environment(cell, "server", index, given, seed),
    )  # fmt: skip
    return client, server


def flow_label(cell: Cell, index: int) -> str:
    """'quiche', 'ngtcp2 → quiche', 'quiche (reno)', 'TCP (cubic)', 'UDP (poisson)'."""
    flow = cell.scenario.flows[index]
    if flow.kind != "quic":
        algorithm = flow.parameters.get(f"{flow.sender}.congestion_control")
        return f"{flow.kind.upper()} ({algorithm or flow.traffic.model})"
    client, server = (cell.implementation(role, index).name for role in ROLES)
    algorithm = effective_parameters(cell, index).get(f"{flow.sender}.congestion_control")
    name = server if client == server else f"{client} → {server}"
    return name + (f" ({algorithm})" if algorithm is not None else "")


def _guest_memory(program: PathProgram) -> int:
    """MiB for the lab kernel: a base, and twice what the queues and delay lines can hold."""
    held = sum(
        (link.limit_bytes or (link.limit_packets or 0) * 1514) + link.rate_bps * link.delay_ns / 8e9
        for link in program.links.values()
    )
    # An skb costs about three times a small packet and twice a full one (truesize).
    return 192 + 64 * math.ceil(3 * held / 2**20 / 64)


def run_seed(cell: Cell, repetition: int) -> int:
    """Seed of netem's loss: the same for the same cell and repetition, different between repetitions."""
    return (cell.seed * 1_000_003 + repetition * 7_919) % 2**31 + 1


def build_lab(cell: Cell, repetition: int, slot: int = 0) -> Lab:
    """The lab of one run. UnsupportedError when an implementation does not offer what it needs."""
    scenario, seed = cell.scenario, run_seed(cell, repetition)
    given = [checked(cell, index) for index in range(len(scenario.flows))]
    program = compile_path(scenario.path, SERVERS[cell.engine], seed, _access(scenario, slot))
    hosts = [host for index, told in enumerate(given) for host in _pair(cell, told, index, slot, seed)]
    return Lab(
        name=f"{scenario.name} {cell.client.name}→{cell.server.name}",
        networks=_networks(slot),
        hosts=tuple(hosts),
        flows=tuple(_flow(cell, index) for index in range(len(scenario.flows))),
        sim_image=cell.sim_image.reference,
        sim_kernel=cell.sim_kernel,
        program=program,
        mtu=scenario.path.mtu,
        memory_mib=_guest_memory(program),
        seed=seed,
        host_cpu=cell.host_cpu,
        timeout=scenario.timeout.seconds,
        effective=_effective(cell),
    )


def _flow(cell: Cell, index: int) -> LabFlow:
    flow, path = cell.scenario.flows[index], cell.scenario.path
    serves = flow.kind == "quic"
    return LabFlow(
        flow=index,
        client=f"client{index}",
        server=f"server{index}",
        kind=flow.kind,
        label=flow_label(cell, index),
        file=served_name(flow, path) if serves else "",
        size=served_size(flow, path).bytes if serves else 0,
        start=flow.start.seconds,
        stop=None if flow.stop is None else flow.stop.seconds,
        repeat_after=None if flow.repeat_after is None else flow.repeat_after.seconds,
        sender=flow.sender,
        access_delay_ns=flow.access_delay.value,
    )


def _access(scenario: Scenario, slot: int) -> dict[str, Duration]:
    """Addresses of flows with an access delay of their own, both ends and IP versions → the delay."""
    return {
        address: flow.access_delay
        for index, flow in enumerate(scenario.flows)
        if flow.access_delay.value
        for third in (slot, 100 + slot)
        for address in (f"193.167.{third}.{100 + index}", f"fd00:cafe:cafe:{third}::{100 + index}")
    }


def _effective(cell: Cell) -> dict[str, ParameterValue]:
    """Parameters as set: those of the matrix's pair, and of each flow what differs from them."""
    shared = effective_parameters(cell) if cell.scenario.open_roles else {}
    own = {
        f"flow{index}.{name}": value
        for index in range(len(cell.scenario.flows))
        for name, value in effective_parameters(cell, index).items()
        if shared.get(name) != value
    }
    return shared | own


def expected_seconds(cell: Cell) -> float:
    """Rough wall time of one run, for the estimate.

    In real time transfers at 1.3 × the ideal, pauses, overhead; in virtual time what the packets cost.
    """
    if cell.engine == "virtual":
        return VIRTUAL_START + VIRTUAL_BYTE * transferred_bytes(cell.scenario)
    longest = 0.0
    for flow in cell.scenario.flows:
        if flow.download is None:
            longest = max(longest, flow.stop.seconds if flow.stop is not None else 0.0)
            continue
        once = min(1.3 * ideal_time(cell.scenario.path, flow.download) + 3, cell.scenario.timeout.seconds)
        again = 0.0 if flow.repeat_after is None else flow.repeat_after.seconds + once
        longest = max(longest, flow.start.seconds + once + again)
    return longest + 6


def transferred_bytes(scenario: Scenario) -> int:
    """About what all flows of a run transfer: their files, or what passes the bottleneck until the last stop."""
    files = [flow for flow in scenario.flows if flow.download is not None]
    sizes = [flow.download.bytes * (1 if flow.repeat_after is None else 2) for flow in files if flow.download]
    last = max([flow.stop.seconds for flow in scenario.flows if flow.stop is not None], default=0.0)
    return sum(sizes) + round(scenario.path.to_client.rate.value * last / 8)
