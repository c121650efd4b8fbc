"""The lab of one run of a cell."""

from __future__ import annotations

import math
from typing import get_args

from harness.arguments import checked, effective_parameters
from harness.lab.addresses import FIRST, SIMULATOR, Side, address, network
from harness.lab.endpoints import pair, served_name, served_size
from harness.lab.spec import Lab, LabFlow, Network
from harness.model import Scenario
from harness.outcome import Cell, EngineName
from harness.parameters import ROLES, ParameterValue
from harness.path import PathProgram, Server, compile_path
from harness.units import Duration

#: What serves a bottleneck that the scenario gives no token bucket: only in real time are timers late.
SERVERS: dict[EngineName, Server] = {"compose": "bucket", "virtual": "serial"}


def _networks(slot: int) -> dict[Side, Network]:
    made: dict[Side, Network] = {}
    for side in get_args(Side):
        (ipv4, ipv6), (sim_ipv4, sim_ipv6) = network(side, slot), address(side, slot, SIMULATOR)
        made[side] = Network(side=side, ipv4=ipv4, ipv6=ipv6, sim_ipv4=sim_ipv4, sim_ipv6=sim_ipv6)
    return made


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
    hosts = [host for index, told in enumerate(given) for host in pair(cell, told, index, slot, seed)]
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
        one: flow.access_delay
        for index, flow in enumerate(scenario.flows)
        if flow.access_delay.value
        for side in get_args(Side)
        for one in address(side, slot, FIRST + index)
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
