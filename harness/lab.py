"""Cell → Lab: hosts, addresses, simulator plan, flows. Pure; both engines build what it says.

Addresses and names are those of the published network simulator (quic-network-simulator): client
193.167.0.100, server 193.167.100.100, the simulator at .2 of both networks. Further flows count up from
there. A second lab on the same machine takes another slot, with the third byte shifted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from harness.errors import InputError
from harness.model import Implementation
from harness.outcome import Cell
from harness.parameters import PARAMETERS, ROLES, ParameterValue, Role, Setting, other, parse_parameter_name
from harness.path import PathProgram, bdp_bytes, compile_path, ideal_time, queue_bytes
from harness.units import Size

#: Raised whenever a change here changes what happens in a run; part of every cell's key.
LAB_VERSION = 1
#: TCP port on which the simulator says that the path is up, and UDP port of the servers.
READY_PORT, SERVER_PORT = 57832, 443
#: How long the simulator waits for the servers to answer, seconds.
SERVER_WAIT = 15.0
#: Period of the simulator's counters, seconds.
SAMPLE = 0.1
MAXIMUM_FLOWS = 50
#: Wall seconds of a run in virtual time: start and stop, and per byte of a transfer (`make bench` has the figures).
VIRTUAL_START, VIRTUAL_BYTE = 2.0, 1.1e-7


class UnsupportedError(Exception):
    """A combination that an implementation does not offer; the cell is unsupported, by name."""

    def __init__(self, role: Role, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.role: Role = role
        self.reason = reason
        self.detail = detail


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
    file: str
    size: int
    start: float
    repeat_after: float | None


class Lab(Spec):
    """Everything an engine needs to bring a cell up."""

    name: str
    networks: dict[Literal["left", "right"], Network]
    hosts: tuple[Host, ...]
    flows: tuple[LabFlow, ...]
    sim_image: str
    sim_kernel: str
    program: PathProgram
    memory_mib: int
    seed: int
    """What chance in the lab depends on: netem's loss, and the random numbers of a kernel in virtual time."""
    timeout: float
    """Seconds one transfer may take."""
    effective: dict[str, ParameterValue]

    def host(self, name: str) -> Host:
        """The host of that name."""
        return next(host for host in self.hosts if host.name == name)

    def sim_plan(self) -> dict[str, Any]:
        """The simulator's plan (see images/sim/simulator/plan.py), as plain data."""
        return {
            "schema": 1,
            "kernel": self.sim_kernel,
            "addresses": {
                side: [f"{network.sim_ipv4}/24", f"{network.sim_ipv6}/64"] for side, network in self.networks.items()
            },
            # Those that start late are resolved when they come, behind the emulated delay.
            "neighbours": [
                {"side": "left" if host.role == "client" else "right", "address": address}
                for host in self.hosts
                if host.role == "server" or self.flows[host.flow].start == 0
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
                }
                for flow in self.flows
            ],
            "links": {name: link.model_dump(mode="json") for name, link in self.program.links.items()},
            "changes": [change.model_dump(mode="json") for change in self.program.timeline],
        }


def application_protocol(cell: Cell) -> Literal["h3", "hq-interop"]:
    """The protocol both ends speak; UnsupportedError names who does not."""
    asked = cell.scenario.protocol
    for protocol in ("h3", "hq-interop") if asked == "auto" else (asked,):
        if protocol in cell.client.protocols and protocol in cell.server.protocols:
            return protocol
    if asked == "auto":
        detail = f"{cell.client.name} and {cell.server.name} share no application protocol"
        raise UnsupportedError("client", "no_common_protocol", detail)
    role: Role = "client" if asked not in cell.client.protocols else "server"
    who = cell.client if role == "client" else cell.server
    raise UnsupportedError(role, "protocol", f"{who.name} does not speak {asked}")


def interop_testcase(cell: Cell) -> str:
    """TESTCASE of the endpoint contract; empty when the pair has no common protocol."""
    try:
        return {"h3": "http3", "hq-interop": "transfer"}[application_protocol(cell)]
    except UnsupportedError:
        return ""


def default_receive_window(cell: Cell) -> int:
    """Flow-control credit that never limits the path: twice the BDP and the queue, at least 16 MiB.

    A power of two, because MsQuic takes nothing else for a stream.
    """
    link = cell.scenario.path.to_client
    rtt = cell.scenario.path.rtt
    needed = 2 * (bdp_bytes(link.rate, rtt) + queue_bytes(link, rtt))
    return max(16 * 2**20, 1 << (needed - 1).bit_length())


def endpoint_parameters(parameters: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
    """Of a cell's parameters those of its endpoints; the others (path.…) are in its scenario's path already."""
    return {name: value for name, value in parameters.items() if name.partition(".")[0] in ROLES}


def effective_parameters(cell: Cell) -> dict[str, ParameterValue]:
    """Parameters as set: those asked for, and the harness's own where the image can set them."""
    chosen = endpoint_parameters(cell.parameters)
    for name in ("connection_window", "stream_window"):
        setting = cell.client.setting("client", name)
        if setting is not None and setting.settable:
            chosen.setdefault(f"client.{name}", str(Size(default_receive_window(cell))))
    return dict(sorted(chosen.items()))


@dataclass
class _Given:
    """What one endpoint is told."""

    words: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)


def _tell(cell: Cell, given: dict[Role, _Given], full: str, value: ParameterValue) -> None:
    """Add what sets one parameter. UnsupportedError names who does not honour it."""
    role, name = parse_parameter_name(full)
    parameter = PARAMETERS[name]
    who, peer = cell.implementation(role), cell.implementation(other(role))
    setting, asking = who.setting(role, name), peer.setting(other(role), name)
    try:
        if setting is not None and setting.flag is not None:
            given[role].words.append(setting.fill(setting.flag, parameter, value))
        elif setting is not None and setting.environment is not None:
            variable, _, text = setting.fill(setting.environment, parameter, value).partition("=")
            given[role].environment[variable] = text
        elif asking is not None and asking.asks is not None and "ack_frequency" in who.extensions:
            who = peer
            given[other(role)].words.append(asking.fill(asking.asks, parameter, value))
        else:
            raise UnsupportedError(role, "parameter", _cannot(who, role, name, setting, peer, asking))
    except ValueError as error:
        raise UnsupportedError(role, "parameter", f"{who.name} {error}") from error


def _cannot(
    who: Implementation, role: Role, name: str, setting: Setting | None, peer: Implementation, asking: Setting | None
) -> str:
    text = f"{who.name} cannot set {name} as a {role}"
    if setting is not None and setting.default is not None:
        text += f"; it is {setting.default}"
    if asking is not None and asking.asks is not None:
        text += f", and does not let {peer.name} ask for it (it has no ack_frequency extension)"
    return text


def _given(cell: Cell) -> tuple[dict[Role, _Given], UnsupportedError | None]:
    """What both endpoints are told, and the first thing that somebody does not honour."""
    given: dict[Role, _Given] = {"client": _Given(), "server": _Given()}
    first: UnsupportedError | None = None
    for full, value in effective_parameters(cell).items():
        try:
            _tell(cell, given, full, value)
        except UnsupportedError as error:
            first = first or error
            given[parse_parameter_name(full)[0]].words.append(f"unsupported:{error.detail}")
    return given, first


def endpoint_arguments(cell: Cell) -> tuple[str, str]:
    """What the parameters make of CLIENT_PARAMS and SERVER_PARAMS and of the environment, for a cell's key.

    A parameter nobody honours leaves a mark instead (see build_lab).
    """
    given, _ = _given(cell)
    client, server = (
        " ".join([*one.words, *(f"{name}={text}" for name, text in sorted(one.environment.items()))])
        for one in (given["client"], given["server"])
    )
    return client, server


def _checked(cell: Cell) -> dict[Role, _Given]:
    """What both endpoints are told. UnsupportedError for the first thing an implementation does not offer."""
    for role in ROLES:
        implementation = cell.implementation(role)
        if role not in implementation.roles:
            raise UnsupportedError(role, "role", f"{implementation.name} has no {role}")
    application_protocol(cell)
    given, unsupported = _given(cell)
    if unsupported is not None:
        raise unsupported
    return given


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


def _environment(cell: Cell, role: Role, file: str, given: _Given, repeats: bool) -> dict[str, str]:
    host = "server6" if cell.scenario.ip_version == 6 else "server4"
    environment = {
        "ROLE": role,
        "TESTCASE": interop_testcase(cell),
        "REQUESTS": f"https://{host}:{SERVER_PORT}/{file}" if role == "client" else "",
        "PROTOCOLS": "",
        "SSLKEYLOGFILE": "/logs/keys.log",
        "QLOGDIR": "/logs/qlog/",
        f"{role.upper()}_PARAMS": " ".join(given.words),
        **given.environment,
    }
    if role == "client" and repeats and cell.client.session:
        environment["SESSION_DIR"] = "/session"
    return environment


def _pair(cell: Cell, given: dict[Role, _Given], index: int, slot: int) -> tuple[Host, Host]:
    flow = cell.scenario.flows[index]
    number = 100 + index
    left, right = f"193.167.{slot}.{number}", f"193.167.{100 + slot}.{number}"
    left6, right6 = f"fd00:cafe:cafe:{slot}::{number}", f"fd00:cafe:cafe:{100 + slot}::{number}"
    file = f"{flow.download.label()}.bin"
    servers = {"server4": (right,), "server6": (right6,), "server46": (right, right6)}
    clients = {"client4": (left,), "client6": (left6,), "client46": (left, left6)}
    repeats = flow.repeat_after is not None
    client = Host(
        name=f"client{index}", role="client", flow=index, image=cell.client_image.reference,
        ipv4=left, ipv6=left6,
        hosts={"sim": (f"193.167.{slot}.2",), **servers},
        environment=_environment(cell, "client", file, given["client"], repeats),
    )  # fmt: skip
    server = Host(
        name=f"server{index}", role="server", flow=index, image=cell.server_image.reference,
        ipv4=right, ipv6=right6,
        hosts={"sim": (f"193.167.{100 + slot}.2",), **servers, **clients},
        environment=_environment(cell, "server", file, given["server"], repeats),
    )  # fmt: skip
    return client, server


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
    given = _checked(cell)
    scenario = cell.scenario
    if len(scenario.flows) > MAXIMUM_FLOWS:
        raise InputError(f"{scenario.name}: {len(scenario.flows)} flows, but a lab holds {MAXIMUM_FLOWS}")
    program = compile_path(scenario.path, run_seed(cell, repetition))
    hosts = [host for index in range(len(scenario.flows)) for host in _pair(cell, given, index, slot)]
    flows = tuple(
        LabFlow(
            flow=index,
            client=f"client{index}",
            server=f"server{index}",
            file=f"{flow.download.label()}.bin",
            size=flow.download.bytes,
            start=flow.start.seconds,
            repeat_after=None if flow.repeat_after is None else flow.repeat_after.seconds,
        )
        for index, flow in enumerate(scenario.flows)
    )
    return Lab(
        name=f"{scenario.name} {cell.client.name}→{cell.server.name}",
        networks=_networks(slot),
        hosts=tuple(hosts),
        flows=flows,
        sim_image=cell.sim_image.reference,
        sim_kernel=cell.sim_kernel,
        program=program,
        memory_mib=_guest_memory(program),
        seed=run_seed(cell, repetition),
        timeout=scenario.timeout.seconds,
        effective=effective_parameters(cell),
    )


def expected_seconds(cell: Cell) -> float:
    """Rough wall time of one run, for the estimate.

    In real time transfers at 1.3 × the ideal, pauses, overhead; in virtual time what the packets cost.
    """
    if cell.engine == "virtual":
        sizes = [flow.download.bytes * (1 if flow.repeat_after is None else 2) for flow in cell.scenario.flows]
        return VIRTUAL_START + VIRTUAL_BYTE * sum(sizes)
    longest = 0.0
    for flow in cell.scenario.flows:
        once = min(1.3 * ideal_time(cell.scenario.path, flow.download) + 3, cell.scenario.timeout.seconds)
        again = 0.0 if flow.repeat_after is None else flow.repeat_after.seconds + once
        longest = max(longest, flow.start.seconds + once + again)
    return longest + 6
