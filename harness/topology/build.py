"""The lab of one run of a cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import get_args

from harness.netem import PathProgram, Server, compile_path
from harness.outcome import Cell, EngineName
from harness.planning.endpoint_config import checked, effective_parameters, lab_kind
from harness.planning.sampling import drawn, settled
from harness.scenario.parameters import ROLES, ParameterValue
from harness.scenario.schema import Scenario
from harness.topology.addresses import FIRST, SIMULATOR, Side, address, network
from harness.topology.endpoints import (
    client_network,
    pair,
    served_files,
    served_folder,
    served_name,
    served_size,
    ways_of,
)
from harness.topology.mobility import Moving, moving, outages
from harness.topology.segments import Layout, Station, layout
from harness.topology.spec import Interface, Lab, LabFlow, LabMove, Network, Simulator
from harness.units import Duration

#: What serves a bottleneck that the scenario gives no token bucket: only in real time are timers late.
SERVERS: dict[EngineName, Server] = {"compose": "bucket", "virtual": "serial"}


#: Seeds of paths lie so far apart: each has several, of its directions and what delays in them.
_PATH_SEED = 1000


def _networks(scenario: Scenario, slot: int) -> dict[str, Network]:
    """Of paths beside each other."""
    made = {}
    for number, name in enumerate(scenario.every_path):
        ipv4, ipv6 = network("left", slot, number)
        made[client_network(name, number)] = Network(side="left", ipv4=ipv4, ipv6=ipv6)
    ipv4, ipv6 = network("right", slot)
    return {**made, "right": Network(side="right", ipv4=ipv4, ipv6=ipv6)}


def _simulators(
    scenario: Scenario, places: Sequence[Station], server: Server, seed: int, slot: int, moved: list[Moving]
) -> list[Simulator]:
    """`places`: where each stands."""
    gone, made = outages(scenario), []
    for number, (name, path) in enumerate(scenario.every_path.items()):
        mappings = [mapping for flow in moved for mapping in flow.mappings.get(name, ())]
        program = compile_path(
            path, server, seed + _PATH_SEED * number, _access(scenario, slot, number), gone.get(name, ()),
            sorted(mappings, key=lambda mapping: mapping.at_ns),
        )  # fmt: skip
        place = places[number]
        made.append(
            Simulator(
                name=f"sim-{name}" if number else "sim",
                path=name,
                left=place.left,
                right=place.right,
                program=program,
                memory_mib=_guest_memory(program),
                routes=place.routes,
            )
        )
    return made


def _places(scenario: Scenario, slot: int) -> tuple[Station, ...]:
    """Where the simulators of paths beside each other stand, in their order."""
    made = []
    for number, name in enumerate(scenario.every_path):
        (left, left6), (right, right6) = (
            address("left", slot, SIMULATOR, number),
            address("right", slot, SIMULATOR + number),
        )
        made.append(
            Station(
                left=Interface(network=client_network(name, number), ipv4=left, ipv6=left6),
                right=Interface(network="right", ipv4=right, ipv6=right6),
            )
        )
    return tuple(made)


def _layout(scenario: Scenario, slot: int) -> Layout:
    if scenario.in_sequence:
        return layout(scenario, slot)
    return Layout(_networks(scenario, slot), _places(scenario, slot), ())


def flow_label(cell: Cell, index: int) -> str:
    """'quiche', 'ngtcp2 → quiche', 'quiche (reno)', 'TCP (cubic)', 'UDP (poisson)'."""
    flow = cell.scenario.flows[index]
    algorithm = effective_parameters(cell, index).get(f"{flow.sender}.congestion_control")
    if flow.kind != "quic":
        return f"{flow.kind.upper()} ({algorithm or flow.traffic.model})"
    client, server = (cell.implementation(role, index).name for role in ROLES)
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
    seed = run_seed(cell, repetition)
    values = drawn(cell.scenario, seed)
    scenario = settled(cell.scenario, values)
    cell = cell.model_copy(update={"scenario": scenario})
    given = [checked(cell, index) for index in range(len(scenario.flows))]
    moved, laid = moving(scenario, slot), _layout(scenario, slot)
    hosts = [
        host for index, told in enumerate(given) for host in pair(cell, told, index, slot, seed, moved[index].words)
    ]
    return Lab(
        name=f"{scenario.name} {cell.client.name}→{cell.server.name}",
        networks=laid.networks,
        simulators=tuple(_simulators(scenario, laid.simulators, SERVERS[cell.engine], seed, slot, moved)),
        proxies=laid.proxies,
        whole=compile_path(scenario.path, SERVERS[cell.engine]) if scenario.in_sequence else None,
        hosts=tuple(hosts),
        flows=tuple(_flow(cell, index, moved[index].moves) for index in range(len(scenario.flows))),
        sim_image=cell.sim_image.reference,
        sim_kernel=cell.sim_kernel,
        mtu=scenario.path.mtu,
        seed=seed,
        certificates=scenario.certificates,
        whole_frames=scenario.testcase is not None,
        host_cpu=cell.host_cpu,
        timeout=scenario.timeout.seconds,
        effective=_effective(cell) | values,
    )


def _flow(cell: Cell, index: int, moves: tuple[LabMove, ...]) -> LabFlow:
    scenario, flow = cell.scenario, cell.scenario.flows[index]
    serves = flow.kind == "quic" and not flow.files
    files = served_files(flow)
    return LabFlow(
        flow=index,
        client=f"client{index}",
        server=f"server{index}",
        kind=lab_kind(cell, index),
        label=flow_label(cell, index),
        file=served_name(flow, *ways_of(scenario, flow)) if serves else "",
        size=served_size(flow, *ways_of(scenario, flow)).bytes if serves else sum(file.size for file in files),
        folder=served_folder(flow),
        files=files,
        start=flow.start.seconds,
        stop=None if flow.stop is None else flow.stop.seconds,
        repeat_after=None if flow.repeat_after is None else flow.repeat_after.seconds,
        sender=flow.sender,
        access_delay_ns=flow.access_delay.value,
        path="" if scenario.in_sequence else scenario.start(flow),
        moves=moves,
    )


def _access(scenario: Scenario, slot: int, path: int) -> dict[str, Duration]:
    """Addresses of flows with an access delay of their own, both ends and IP versions → the delay."""
    return {
        one: flow.access_delay
        for index, flow in enumerate(scenario.flows)
        if flow.access_delay.value
        for side in get_args(Side)
        for one in address(side, slot, FIRST + index, path)
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
