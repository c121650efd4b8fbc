"""A lab as documents: the plans of its simulators, lab.json for readers of its artefacts, the content of its digest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from harness.netem import PathProgram
from harness.netem.program import LinkProgram, LinkState
from harness.scenario.schema import MTU
from harness.topology.lab_file import (
    Endpoint,
    FlowAddresses,
    LabFacts,
    Links,
    PathFacts,
    ProxyFacts,
    ScheduledChange,
    SeriesFacts,
)
from harness.topology.spec import (
    SAMPLE,
    SERVER_PORT,
    Interface,
    Lab,
    LabFlow,
    ProxyHost,
    Simulator,
)

#: The command of a proxy, in the simulator's image.
PROXY_COMMAND = ("python3", "-m", "simulator.split")


M = TypeVar("M", bound=BaseModel)


def sim_plan(lab: Lab, simulator: Simulator) -> dict[str, Any]:
    """A simulator's plan (see images/sim/simulator/plan.py), as plain data."""
    first = simulator is lab.simulators[0]
    captures: dict[str, Any] = {"whole_frames": True} if lab.whole_frames else {}
    if lab.mtu > MTU:
        captures |= {"mtu": lab.mtu}
    multi_path: dict[str, Any] = (
        {} if len(lab.simulators) == 1 else {"name": simulator.name, "peers": _simulator_names(lab)}
    )
    if lab.whole is not None:
        # The first one's probes pass all the others before these delay anything.
        multi_path |= {"routes": [route.model_dump() for route in simulator.routes], "after": "" if first else "sim"}
    return {
        "schema": 1,
        "kernel": lab.sim_kernel,
        "addresses": {side: interface.prefixed for side, interface in simulator.interfaces.items()},
        # Containers that start late are resolved when they come, behind the emulated delay.
        "neighbours": [
            {
                "side": side,
                "address": address,
                "late": host.role == "client" and lab.flows[host.flow].start > 0,
            }
            for host in lab.hosts
            for interface in host.interfaces
            for side, side_interface in simulator.interfaces.items()
            if interface.network == side_interface.network
            for address in interface.addresses
        ]
        + _neighbour_stations(lab, simulator),
        "setup": [list(command) for command in simulator.program.setup],
        "changes": [change.model_dump(mode="json") for change in simulator.program.changes],
        # The other simulators wait for the first.
        "wait_for": [[host.ipv4, SERVER_PORT] for host in lab.hosts if host.role == "server"] if first else [],
        "wait_seconds": lab.server_wait,
        "port": SERVER_PORT,
        "sample_seconds": SAMPLE,
        "memory_mib": simulator.memory_mib,
        **captures,
        **multi_path,
    }


def _neighbour_stations(lab: Lab, simulator: Simulator) -> list[dict[str, Any]]:
    """The stations next to a simulator, as neighbours, where segments are in a row."""
    stations = lab.stations
    place = next((number for number, station in enumerate(stations) if station is simulator), 0)
    sides = {"left": stations[place - 1 : place] if place else (), "right": stations[place + 1 : place + 2]}
    return [
        {"side": side, "address": address, "late": False}
        for side, neighbours in sides.items()
        for neighbour in neighbours
        for address in (neighbour.right if side == "left" else neighbour.left).addresses
    ]


def proxy_plan(proxy: ProxyHost) -> dict[str, Any]:
    """The plan of a proxy (see images/sim/simulator/split.py), as plain data."""
    return {
        "schema": 1,
        "addresses": {side: interface.prefixed for side, interface in proxy.interfaces.items()},
        "routes": [route.model_dump() for route in proxy.routes],
        "initial_cwnd": proxy.initial_cwnd,
        "initial_rwnd": proxy.initial_rwnd,
        "congestion_control": proxy.congestion_control,
    }


def proxy_environment(proxy: ProxyHost) -> dict[str, str]:
    """A proxy's environment."""
    return {"PROXY_PLAN": json.dumps(proxy_plan(proxy))}


def _simulator_names(lab: Lab) -> list[str]:
    return [simulator.name for simulator in lab.simulators]


def lab_summary(lab: Lab) -> dict[str, Any]:
    """lab.json: addresses and link figures, for readers of the run's artefacts. Unset fields are left out."""
    return lab_facts(lab).model_dump(mode="json", by_alias=True, exclude_unset=True)


def lab_facts(lab: Lab) -> LabFacts:
    """The configuration of a lab, as its readers find it."""
    first = lab.simulators[0]
    program = first.program
    whole = lab.whole if lab.whole is not None else program
    has_series = any(simulator.program.series for simulator in lab.simulators)
    has_events = bool(program.outages or program.faults or has_series)
    optional: dict[str, Any] = {}
    if len(lab.simulators) > 1 or any(flow.moves for flow in lab.flows) or has_events:
        optional["paths"] = tuple(_path(lab, simulator) for simulator in lab.simulators)
    if lab.proxies:
        optional["proxies"] = tuple(_proxy(lab, proxy) for proxy in lab.proxies)
    return LabFacts(
        schema=1,
        flows=tuple(_flow(lab, flow) for flow in lab.flows),
        mtu=lab.mtu,
        links=_links(whole),
        changes=_changes(whole),
        **optional,
    )


def _complete(items: Sequence[M]) -> tuple[M, ...]:
    """The same items with every field set, so that defaults are written as well."""
    return tuple(type(item).model_validate(item.model_dump()) for item in items)


def _links(program: PathProgram) -> Links:
    return Links.model_validate({name: _without_own_mtu(link) for name, link in program.links.items()})


def _without_own_mtu(link: LinkProgram | LinkState) -> dict[str, Any]:
    """The figures of a direction; its MTU is absent where it is its interfaces'."""
    return link.model_dump(exclude={"mtu"} if link.mtu is None else None)


def _changes(program: PathProgram) -> tuple[ScheduledChange, ...]:
    return tuple(
        ScheduledChange.model_validate(
            {"at": change.at}
            | {
                name: None if state is None else _without_own_mtu(state)
                for name, state in (("to_client", change.to_client), ("to_server", change.to_server))
            }
        )
        for change in program.timeline
    )


def _proxy(lab: Lab, proxy: ProxyHost) -> ProxyFacts:
    """A proxy by its name, and the simulators on its sides."""
    return ProxyFacts(
        proxy=proxy.name,
        left=next(simulator.name for simulator in lab.simulators if simulator.right.network == proxy.left.network),
        right=next(simulator.name for simulator in lab.simulators if simulator.left.network == proxy.right.network),
    )


def _path(lab: Lab, simulator: Simulator) -> PathFacts:
    # All segments in a row have the same clients behind them.
    network = lab.networks[(lab.simulators[0] if lab.whole is not None else simulator).left.network]
    program = simulator.program
    faults: dict[str, Any] = {"faults": _complete(program.faults)} if program.faults else {}
    series = _series(lab, simulator)
    return PathFacts(
        path=simulator.path,
        simulator=simulator.name,
        networks=(network.ipv4, network.ipv6, *network.further),
        links=_links(program),
        changes=_changes(program),
        outages=_complete(program.outages),
        mappings=_complete(program.mappings),
        **faults,
        **series,
    )


def plan_folder(lab: Lab, simulator: Simulator) -> str:
    """The folder of a simulator's plan in a run's folder. The first simulator's is the same with one and with more."""
    return "plan" if simulator is lab.simulators[0] else f"plan/{simulator.name}"


def _series(lab: Lab, simulator: Simulator) -> dict[str, Any]:
    """The series of a simulator, as a field of its path; nothing where there are none."""
    folder = plan_folder(lab, simulator)
    items = [
        SeriesFacts(direction=item.direction, kind=item.kind, file=f"{folder}/{item.file}", offset_ns=item.offset_ns)
        for item in simulator.program.series
    ]
    return {"series": tuple(items)} if items else {}


def _flow(lab: Lab, flow: LabFlow) -> FlowAddresses:
    client, server = lab.host(flow.client), lab.host(flow.server)
    # The addresses of a client as either side of a path sees them.
    addresses = dict.fromkeys([*client.addresses, *(address for move in flow.moves for address in move.addresses)])
    moves: dict[str, Any] = {}
    if flow.path or flow.moves:
        moves = {"path": flow.path, "moves": _complete(flow.moves)}
    return FlowAddresses(
        flow=flow.flow,
        client=Endpoint(addresses=tuple(addresses)),
        server=Endpoint(addresses=tuple(server.addresses)),
        kind=flow.kind,
        label=flow.label,
        sender=flow.sender,
        start=flow.start,
        stop=flow.stop,
        access_delay_ns=flow.access_delay_ns,
        **moves,
    )


def digest_content(lab: Lab) -> dict[str, Any]:
    """The content of a cell's digest: all that a lab's runs depend on, except the images, and no text for people.

    The names are part of the digest, and therefore written out here: a field of a lab can be renamed without a change
    of any cell's digest.
    """
    return {
        "kernel": lab.sim_kernel,
        "mtu": lab.mtu,
        "seed": lab.seed,
        "host_cpu": lab.host_cpu,
        "timeout": lab.timeout,
        "certificates": lab.certificates,
        "networks": {
            name: {"side": network.side, "ipv4": network.ipv4, "ipv6": network.ipv6}
            for name, network in lab.networks.items()
        },
        "simulators": [
            {
                "name": simulator.name,
                "path": simulator.path,
                "interfaces": {side: _interface_content(at) for side, at in simulator.interfaces.items()},
                "plan": sim_plan(lab, simulator),
            }
            for simulator in lab.simulators
        ],
        "proxies": [
            {
                "name": proxy.name,
                "interfaces": {side: _interface_content(at) for side, at in proxy.interfaces.items()},
                "plan": proxy_plan(proxy),
                "sysctls": proxy.sysctls,
            }
            for proxy in lab.proxies
        ],
        "hosts": [
            {
                "name": host.name,
                "role": host.role,
                "flow": host.flow,
                "interfaces": [_interface_content(at) for at in host.interfaces],
                "hosts": host.hosts,
                "environment": host.environment,
                "sysctls": host.sysctls,
                # With other capabilities an image may behave differently. A read-only root changes nothing that works.
                "capabilities": host.container.capabilities,
                "cpu_ps": () if host.cpu is None else host.cpu.costs,
            }
            for host in lab.hosts
        ],
        "flows": [_flow_content(flow) for flow in lab.flows],
    }


def _interface_content(interface: Interface) -> list[str]:
    return [interface.network, interface.ipv4, interface.ipv6]


def _flow_content(flow: LabFlow) -> dict[str, Any]:
    return {
        "client": flow.client,
        "server": flow.server,
        "kind": flow.kind,
        "file": flow.file,
        "size": flow.size,
        "folder": flow.folder,
        "files": [[file.name, file.size] for file in flow.files],
        "start": flow.start,
        "stop": flow.stop,
        "repeat_after": flow.repeat_after,
        "sender": flow.sender,
        "access_delay_ns": flow.access_delay_ns,
        "path": flow.path,
        "moves": [
            {
                "at": move.at,
                "how": move.how,
                "path": move.path,
                "gap": move.gap,
                "addresses": list(move.addresses),
                "port": move.port,
            }
            for move in flow.moves
        ],
    }
