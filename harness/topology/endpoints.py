"""The hosts of a flow, and what their endpoints are told: addresses, environment, what to serve or to send."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from harness.netem.mobility import paths_of
from harness.outcome import Cell
from harness.planning.endpoint_config import Given, interop_testcase
from harness.scenario.parameters import Role
from harness.scenario.schema import ConstantRate, Files, Flow, Path, Poisson, Scenario, Traffic, UniformGaps
from harness.topology.addresses import FIRST, SIMULATOR, address, network
from harness.topology.spec import SERVER_PORT, Host, Interface, LabFile
from harness.units import Size


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
    host = f"server{cell.scenario.ip_version}"
    environment = {**cell.implementation(role, index).virtual_environment} if cell.engine == "virtual" else {}
    environment |= {"ROLE": role, "TESTCASE": interop_testcase(cell, index, role)}
    if flow.kind == "quic":
        names = [file.name for file in served_files(flow)] or [served_name(flow, *ways_of(cell.scenario, flow))]
        urls = requests(names, cell.scenario.ip_version)
        environment |= {
            "REQUESTS": urls if role == "client" else "",
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


def requests(names: Iterable[str], ip_version: int) -> str:
    """REQUESTS of a client: the addresses of the files that it downloads."""
    return " ".join(f"https://server{ip_version}:{SERVER_PORT}/{name}" for name in names)


def ways_of(scenario: Scenario, flow: Flow) -> list[Path]:
    """The paths that a flow's client is on at some time, from end to end."""
    if scenario.in_sequence:
        return [scenario.path]
    return [scenario.every_path[name] for name in paths_of(scenario, flow)]


def served_size(flow: Flow, *paths: Path) -> Size:
    """What a server holds ready for a QUIC flow: the file, or more than can pass before the flow is cut off."""
    if flow.download is not None:
        return flow.download
    assert flow.stop is not None
    seconds = flow.stop.seconds - flow.start.seconds
    fastest = max(rate.value for path in paths for _, rate in path.rates_to_client)
    return _round_size(fastest * seconds / 8 + 10**6)


def _round_size(least: float) -> Size:
    """1, 2 or 5 times a power of ten MB: whatever the stops of flows, they share a handful of files."""
    decade = 10 ** max(6, math.floor(math.log10(least)))
    return Size(next(step * decade for step in (1, 2, 5, 10) if step * decade >= least))


def served_files(flow: Flow) -> tuple[LabFile, ...]:
    """The files of a flow that has several, each with a name of its own."""
    sizes = [one for one in flow.files for _ in range(one.count)]
    return tuple(LabFile(name=_file_name(number, one), size=one.size.bytes) for number, one in enumerate(sizes))


def _file_name(number: int, files: Files) -> str:
    own = f"{number:04d}-{files.size.label()}.bin"
    return own if files.name_length is None else "x" * (files.name_length - len(own)) + own


def served_folder(flow: Flow) -> str:
    """The folder of the files of a flow that has several, the same for all that have the same ones."""
    groups = (
        f"{one.count}x{one.size.label()}" + (f"n{one.name_length or ''}" if one.name_length else "")
        for one in flow.files
    )
    return "-".join(groups)


def served_name(flow: Flow, *paths: Path) -> str:
    """The name of the file a QUIC flow downloads."""
    return f"{served_size(flow, *paths).label()}.bin"


def interfaces_of(scenario: Scenario, index: int, slot: int) -> tuple[Interface, ...]:
    """Where a flow's client is: a network for each path it is on at some time, that of the first one first."""
    paths = list(scenario.every_path)
    made = []
    for name in paths_of(scenario, scenario.flows[index]):
        number = paths.index(name)
        ipv4, ipv6 = address("left", slot, FIRST + index, number)
        made.append(Interface(network=client_network(name, number), ipv4=ipv4, ipv6=ipv6))
    return tuple(made)


def client_network(name: str, number: int) -> str:
    """What the network of a path's clients is called."""
    return f"left-{name}" if number else "left"


def _routes(scenario: Scenario, slot: int) -> str:
    """ROUTES of a server: each further path's network of clients, and which simulator leads there."""
    routes: list[str] = []
    # All segments in a row lie behind one simulator.
    for number in range(1, 1 if scenario.in_sequence else len(scenario.every_path)):
        ways = zip(network("left", slot, number), address("right", slot, SIMULATOR + number), strict=True)
        routes += [f"{clients},{way}" for clients, way in ways]
    return ";".join(routes)


def pair(
    cell: Cell, given: dict[Role, Given], index: int, slot: int, seed: int, moves: str = ""
) -> tuple[Host, Host]:  # fmt: skip
    """Client and server of a flow. `moves`: MOVES of the client."""
    scenario = cell.scenario
    interfaces = interfaces_of(scenario, index, slot)
    left, left6 = interfaces[0].addresses
    right, right6 = address("right", slot, FIRST + index)
    servers = {"server4": (right,), "server6": (right6,), "server46": (right, right6)}
    clients = {"client4": (left,), "client6": (left6,), "client46": (left, left6)}
    started = list(scenario.every_path).index(scenario.start(scenario.flows[index]))
    own = {"ADDRESSES": ";".join(",".join(one.addresses) for one in interfaces)} if len(interfaces) > 1 else {}
    told = {"MOVES": moves} if moves else {}
    ways = {"ROUTES": routes} if (routes := _routes(scenario, slot)) else {}
    client = Host(
        name=f"client{index}", role="client", flow=index, image=cell.image("client", index).reference,
        interfaces=interfaces,
        hosts={"sim": address("left", slot, SIMULATOR, started)[:1], **servers},
        environment=_environment(cell, "client", index, given, seed) | own | told,
        sysctls=given["client"].sysctls, container=cell.implementation("client", index).container,
    )  # fmt: skip
    server = Host(
        name=f"server{index}", role="server", flow=index, image=cell.image("server", index).reference,
        interfaces=(Interface(network="right", ipv4=right, ipv6=right6),),
        hosts={"sim": address("right", slot, SIMULATOR)[:1], **servers, **clients},
        environment=_environment(cell, "server", index, given, seed) | ways,
        sysctls=given["server"].sysctls, container=cell.implementation("server", index).container,
    )  # fmt: skip
    return client, server
