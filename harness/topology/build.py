"""The lab of one run of a cell: its hosts, their addresses, and each endpoint's configuration."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

from harness.netem import MODEL_PERIOD, PathProgram, Server, compile_path
from harness.netem.bounds import full_frame
from harness.netem.mobility import flow_paths
from harness.netem.program import AddressMapping, Outage
from harness.outcome import ENGINES, Cell, EngineName
from harness.planning.endpoint_config import (
    EndpointConfig,
    configure_endpoints,
    effective_parameters,
    interop_testcase,
    lab_kind,
)
from harness.planning.sampling import sample_values, with_drawn_values
from harness.scenario.parameters import ROLES, ParameterValue, Role
from harness.scenario.schema import (
    SESSION_PROTOCOLS,
    ConstantRate,
    Datagrams,
    Flow,
    Path,
    Poisson,
    Scenario,
    ScheduledRequest,
    Traffic,
    UniformGaps,
)
from harness.topology.addresses import (
    FIRST_SIMULATOR,
    Side,
    address,
    flow_address,
    further_addresses,
    further_networks,
    network,
)
from harness.topology.mobility import FlowMoves, compile_moves, outages_by_path
from harness.topology.page_files import page_files
from harness.topology.segments import Layout, Station, segment_layout
from harness.topology.spec import SERVER_PORT, Host, Interface, Lab, LabFile, LabFlow, LabMove, Network, Simulator
from harness.units import Duration, Size

# --- The hosts of a flow, and their endpoints' configuration: addresses, environment, files to serve, traffic to send.


def _traffic(flow: Flow, seed: int, words: list[str]) -> str:
    """TRAFFIC of the generator, as JSON: its model, its duration or size, and the options of its sender."""
    if flow.stop is not None:
        extent: dict[str, float] = {"seconds": (flow.stop.value - flow.start.value) / 1e9}
    else:
        assert flow.amount is not None
        extent = {"size": flow.amount.bytes}
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
        figures |= {"packet": [size.bytes for size in packet], "gap": [bound.seconds for bound in gap]}
    return figures


def _environment(cell: Cell, role: Role, index: int, configs: dict[Role, EndpointConfig], seed: int) -> dict[str, str]:
    flow = cell.scenario.flows[index]
    host = f"server{cell.scenario.ip_version}"
    environment = {**cell.implementation(role, index).virtual_environment} if cell.virtual_time else {}
    environment |= {"ROLE": role, "TESTCASE": interop_testcase(cell, index, role)}
    if flow.kind == "quic":
        environment |= {
            "REQUESTS": _requests(cell.scenario, flow, role),
            **({"CONNECTIONS": str(flow.connections)} if flow.connections > 1 and role == "client" else {}),
            **({"DATAGRAMS": datagrams_text(flow.datagrams)} if flow.datagrams is not None else {}),
            **({"SCHEDULE": schedule_text(flow.schedule)} if flow.schedule and role == "client" else {}),
            **({"DIRECTION": "to_server"} if flow.sender == "client" else {}),
            "PROTOCOLS": "",
            "SSLKEYLOGFILE": "/logs/keys.log",
            "QLOGDIR": "/logs/qlog/",
            **(_session_environment(flow, role) if cell.scenario.protocol == "webtransport" else {}),
        }
    else:
        words = configs[flow.sender].words
        environment |= {"PEER": host, "TRAFFIC": _traffic(flow, (seed + index * 104_729) % 2**31, words)}
    environment |= {f"{role.upper()}_PARAMS": " ".join(configs[role].words), **configs[role].environment}
    if role == "client" and flow.repeat_after is not None and cell.implementation("client", index).session:
        environment["SESSION_DIR"] = "/session"
    return environment


#: The path of the WebTransport session, and the folder of its files at either end.
_SESSION = "session"


def _requests(scenario: Scenario, flow: Flow, role: Role) -> str:
    """REQUESTS of an endpoint. Over WebTransport a server asks for the files that its client has."""
    names = [file.name for file in served_files(flow, in_session=scenario.protocol == "webtransport")]
    if scenario.protocol == "webtransport":
        if role == "server":
            return " ".join(names) if flow.sender == "client" else ""
        names = names if names and flow.sender == "server" else [_SESSION]
    elif role == "server":
        return ""
    if not names:
        # The URL names the server; nothing is served.
        paths = end_to_end_paths(scenario, flow)
        names = ["datagrams" if flow.datagrams is not None else served_name(flow, *paths)]
    return request_urls(names, scenario.ip_version)


def _session_environment(flow: Flow, role: Role) -> dict[str, str]:
    """What an endpoint is told of a WebTransport session: its application protocols, and where it puts its files."""
    receives = not flow.session and role != flow.sender
    folder = "/logs" if not receives else "/uploads" if role == "server" else "/downloads"
    return {"PROTOCOLS": " ".join(SESSION_PROTOCOLS[role]), "DOWNLOAD_DIR": folder}


def request_urls(names: Iterable[str], ip_version: int) -> str:
    """REQUESTS of a client: the URLs of the files that it downloads, or uploads."""
    return " ".join(f"https://server{ip_version}:{SERVER_PORT}/{name}" for name in names)


def schedule_text(schedule: Iterable[ScheduledRequest]) -> str:
    """SCHEDULE of a client: AT,WAIT,AFTER,PRIORITY of each URL of REQUESTS, with ; between them.

    AT and WAIT are seconds; AFTER has numbers of URLs, from 0 on, with + between them, and A-B for a range; PRIORITY is
    the field of RFC 9218, without blanks.
    """
    return ";".join(
        f"{item.at.seconds:g},{item.wait.seconds:g},{_ranges(item.after)},{item.priority.replace(' ', '')}"
        for item in schedule
    )


def datagrams_text(datagrams: Datagrams) -> str:
    """DATAGRAMS of both ends: EVERY (s), PACKETS, SIZE (bytes), COUNT."""
    return f"{datagrams.every.seconds:g},{datagrams.packets},{datagrams.size.bytes},{datagrams.count}"


def _ranges(numbers: Sequence[int]) -> str:
    """'0+3-7' for 0, 3, 4, 5, 6 and 7."""
    # The numbers of a range are at the same distance from their places.
    runs = itertools.groupby(enumerate(numbers), lambda place: place[1] - place[0])
    ends = [(run[0][1], run[-1][1]) for _, items in runs if (run := [*items])]
    return "+".join(str(first) if first == last else f"{first}-{last}" for first, last in ends)


def end_to_end_paths(scenario: Scenario, flow: Flow) -> list[Path]:
    """The paths that a flow's client is on at some time, from end to end."""
    if scenario.in_sequence:
        return [scenario.path]
    return [scenario.every_path[name] for name in flow_paths(scenario, flow)]


def served_size(flow: Flow, *paths: Path) -> Size:
    """The size that a QUIC flow's sender has: the file, or more than can pass before the flow is cut off."""
    if flow.amount is not None:
        return flow.amount
    assert flow.stop is not None
    seconds = flow.stop.seconds - flow.start.seconds
    direction: Literal["to_client", "to_server"] = "to_client" if flow.sender == "server" else "to_server"
    fastest = max(rate.value for path in paths for _, rate in path.rates(direction))
    return _round_up_size(fastest * seconds / 8 + 10**6)


def _round_up_size(least: float) -> Size:
    """1, 2 or 5 times a power of ten MB, so that flows with different stops share a handful of files."""
    decade = 10 ** max(6, math.floor(math.log10(least)))
    return Size(next(step * decade for step in (1, 2, 5, 10) if step * decade >= least))


def served_files(flow: Flow, *, in_session: bool = False) -> tuple[LabFile, ...]:
    """The files of a flow that has several, each with a name of its own. `in_session`: in the folder of a session."""
    if flow.page is not None:
        return page_files(flow.page)
    files: list[LabFile] = []
    folder = f"{_SESSION}/" if in_session else ""
    for group in flow.groups:
        label = group.size.label()
        files += [
            LabFile(name=folder + _file_name(number, label, group.name_length), size=group.size.bytes)
            for number in range(len(files), len(files) + group.count)
        ]
    return tuple(files)


def _file_name(number: int, label: str, length: int | None) -> str:
    own = f"{number:04d}-{label}.bin"
    return own if length is None else "x" * (length - len(own)) + own


#: The longest name of a served folder that says what is in it.
_LONGEST_FOLDER = 100


def served_folder(flow: Flow) -> str:
    """The folder of the files of a flow that has several; flows with the same files share it."""
    if flow.page is not None:
        contents = "".join(map(repr, page_files(flow.page)))
        return f"page-{hashlib.sha256(contents.encode()).hexdigest()[:16]}"
    labels = (
        f"{group.count}x{group.size.label()}" + (f"n{group.name_length or ''}" if group.name_length else "")
        for group in flow.groups
    )
    name = "-".join(labels)
    return name if len(name) <= _LONGEST_FOLDER else hashlib.sha256(name.encode()).hexdigest()[:16]


def served_name(flow: Flow, *paths: Path) -> str:
    """The name of the file that a QUIC flow transfers."""
    return f"{served_size(flow, *paths).label()}.bin"


def client_interfaces(scenario: Scenario, index: int, slot: int) -> tuple[Interface, ...]:
    """The interfaces of a flow's client: one for each path that it is on at some time, the first path's first."""
    paths = list(scenario.every_path)
    interfaces = []
    for name in flow_paths(scenario, scenario.flows[index]):
        number = paths.index(name)
        ipv4, ipv6 = flow_address("left", slot, index, number)
        interfaces.append(Interface(network=client_network(name, number), ipv4=ipv4, ipv6=ipv6))
    return tuple(interfaces)


def client_network(name: str, number: int) -> str:
    """The name of the network of a path's clients."""
    return f"left-{name}" if number else "left"


def _routes(scenario: Scenario, slot: int) -> str:
    """ROUTES of a server: each further path's network of clients, and the simulator that leads there."""
    routes: list[str] = []
    # All segments in a row lie behind one simulator.
    for number in range(1, 1 if scenario.in_sequence else len(scenario.every_path)):
        ways = zip(network("left", slot, number), address("right", slot, FIRST_SIMULATOR + number), strict=True)
        routes += [f"{clients},{way}" for clients, way in ways]
    return ";".join(routes)


def flow_hosts(
    cell: Cell, configs: dict[Role, EndpointConfig], index: int, slot: int, seed: int, moves: str = ""
) -> tuple[Host, Host]:
    """Client and server of a flow. `moves`: MOVES of the client."""
    scenario = cell.scenario
    interfaces = client_interfaces(scenario, index, slot)
    left, left6 = interfaces[0].addresses
    right, right6 = flow_address("right", slot, index)
    servers = {"server4": (right,), "server6": (right6,), "server46": (right, right6)}
    clients = {"client4": (left,), "client6": (left6,), "client46": (left, left6)}
    start_path = list(scenario.every_path).index(scenario.start(scenario.flows[index]))
    address_environment = (
        {"ADDRESSES": ";".join(",".join(interface.addresses) for interface in interfaces)}
        if len(interfaces) > 1
        else {}
    )
    move_environment = {"MOVES": moves} if moves else {}
    route_environment = {"ROUTES": routes} if (routes := _routes(scenario, slot)) else {}
    client = Host(
        name=f"client{index}",
        role="client",
        flow=index,
        image=cell.image("client", index).reference,
        interfaces=interfaces,
        hosts={"sim": address("left", slot, FIRST_SIMULATOR, start_path)[:1], **servers},
        environment=_environment(cell, "client", index, configs, seed) | address_environment | move_environment,
        sysctls=configs["client"].sysctls,
        cpu=scenario.cpu.get("client"),
        container=cell.implementation("client", index).container,
    )
    server = Host(
        name=f"server{index}",
        role="server",
        flow=index,
        image=cell.image("server", index).reference,
        interfaces=(Interface(network="right", ipv4=right, ipv6=right6),),
        hosts={"sim": address("right", slot, FIRST_SIMULATOR)[:1], **servers, **clients},
        environment=_environment(cell, "server", index, configs, seed) | route_environment,
        sysctls=configs["server"].sysctls,
        cpu=scenario.cpu.get("server"),
        container=cell.implementation("server", index).container,
    )
    return client, server


# --- build


def server_of(engine: EngineName) -> Server:
    """The server of a bottleneck without a token bucket in the scenario: timers are late in real time only."""
    return "serial" if ENGINES[engine].virtual_time else "bucket"


#: Distance of the seeds of two paths: each path has several, for its directions and their netems.
_PATH_SEED = 1000


def _networks(scenario: Scenario, slot: int) -> dict[str, Network]:
    """The networks of parallel paths."""
    flows = len(scenario.flows)

    def on_side(side: Side, number: int = 0) -> Network:
        ipv4, ipv6 = network(side, slot, number)
        further = itertools.chain.from_iterable(further_networks(side, slot, flows, number))
        return Network(side=side, ipv4=ipv4, ipv6=ipv6, further=tuple(further))

    networks = {
        client_network(name, number): on_side("left", number) for number, name in enumerate(scenario.every_path)
    }
    return {**networks, "right": on_side("right")}


@functools.lru_cache(1024)
def _compiled_path(
    path: Path,
    server: Server,
    seed: int,
    access: tuple[tuple[str, Duration], ...],
    outages: tuple[Outage, ...],
    mappings: tuple[AddressMapping, ...],
    gateways: tuple[tuple[Side, tuple[str, ...]], ...],
) -> PathProgram:
    """`compile_path`, once for all pairs of implementations on the same path."""
    return compile_path(path, server, seed, dict(access), outages, mappings, dict(gateways))


def _simulators(
    scenario: Scenario, places: Sequence[Station], server: Server, seed: int, slot: int, movements: list[FlowMoves]
) -> list[Simulator]:
    """The simulators of parallel paths. `places`: the station of each."""
    path_outages, simulators = outages_by_path(scenario), []
    for number, (name, path) in enumerate(scenario.every_path.items()):
        mappings = [mapping for flow in movements for mapping in flow.mappings.get(name, ())]
        program = _compiled_path(
            path,
            server,
            seed + _PATH_SEED * number,
            tuple(_access_delays(scenario, slot, number).items()),
            tuple(path_outages.get(name, ())),
            tuple(sorted(mappings, key=lambda mapping: mapping.at_ns)),
            tuple((side, tuple(ways)) for side, ways in _gateways(places[number]).items()),
        )
        place = places[number]
        simulators.append(
            Simulator(
                name=f"sim-{name}" if number else "sim",
                path=name,
                left=place.left,
                right=place.right,
                program=program,
                memory_mib=_guest_memory(program, path.mtu),
                routes=place.routes,
            )
        )
    return simulators


def _gateways(place: Station) -> dict[Side, list[str]]:
    """The addresses of the next station on each side of one of several in a row; empty elsewhere."""
    gateways: dict[Side, list[str]] = {}
    for route in place.routes:
        known = gateways.setdefault(route.side, [])
        known += [route.via] if route.via not in known else []
    return gateways


def _simulator_stations(scenario: Scenario, slot: int) -> tuple[Station, ...]:
    """The stations of the simulators of parallel paths, in order."""
    flows = len(scenario.flows)

    def interface(name: str, side: Side, host: int, number: int = 0) -> Interface:
        ipv4, ipv6 = address(side, slot, host, number)
        further = itertools.chain.from_iterable(further_addresses(side, slot, host, flows, number))
        return Interface(network=name, ipv4=ipv4, ipv6=ipv6, further=tuple(further))

    return tuple(
        Station(
            left=interface(client_network(name, number), "left", FIRST_SIMULATOR, number),
            right=interface("right", "right", FIRST_SIMULATOR + number),
        )
        for number, name in enumerate(scenario.every_path)
    )


def _layout(scenario: Scenario, slot: int) -> Layout:
    if scenario.in_sequence:
        return segment_layout(scenario, slot)
    return Layout(_networks(scenario, slot), _simulator_stations(scenario, slot), ())


def flow_label(cell: Cell, index: int) -> str:
    """The label of a flow: 'quiche', 'ngtcp2 → quiche', 'quiche (reno)', 'TCP (cubic)', 'UDP (poisson)'."""
    flow = cell.scenario.flows[index]
    algorithm = effective_parameters(cell, index).get(f"{flow.sender}.congestion_control")
    if flow.kind != "quic":
        return f"{flow.kind.upper()} ({algorithm or flow.traffic.model})"
    client, server = (cell.implementation(role, index).name for role in ROLES)
    name = server if client == server else f"{client} → {server}"
    return name + (f" ({algorithm})" if algorithm is not None else "")


def _guest_memory(program: PathProgram, mtu: int) -> int:
    """MiB for the lab kernel: a base, and twice what the queues and delay lines can hold."""
    frame = full_frame(mtu)
    buffered = sum(
        (link.limit_bytes or (link.limit_packets or 0) * frame) + link.rate_bps * link.delay_ns / 8e9
        for link in program.links.values()
    )
    for series in program.series:
        if series.model is not None:
            # Two words of three a state; the mean number of states.
            buffered += 96 * MODEL_PERIOD.value / (series.model.good.value + series.model.bad.value)
        for trace in (trace for trace in series.traces if trace is not None):
            # Twice an entry's words, and what its largest rate or delay adds to the line.
            buffered += 48 * trace.entries
            link = program.links[series.direction]
            if series.kind == "rate":
                buffered += trace.largest * link.delay_ns / 8e9
            elif trace is series.traces[0]:
                buffered += link.rate_bps * trace.largest / 8e9
    # An skb costs about three times a small packet and twice a full one (truesize).
    return 192 + 64 * math.ceil(3 * buffered / 2**20 / 64)


def run_seed(cell: Cell, repetition: int) -> int:
    """Seed of netem's loss: the same for the same cell and repetition, different between repetitions."""
    return (cell.seed * 1_000_003 + repetition * 7_919) % 2**31 + 1


def build_lab(cell: Cell, repetition: int, slot: int = 0) -> Lab:
    """The lab of one run. UnsupportedError when an implementation does not offer what it needs."""
    seed = run_seed(cell, repetition)
    values = sample_values(cell.scenario, seed)
    scenario = with_drawn_values(cell.scenario, values)
    cell = cell.model_copy(update={"scenario": scenario})
    flow_configs = [configure_endpoints(cell, index) for index in range(len(scenario.flows))]
    movements, lab_layout = compile_moves(scenario, slot), _layout(scenario, slot)
    hosts = [
        host
        for index, configs in enumerate(flow_configs)
        for host in flow_hosts(cell, configs, index, slot, seed, movements[index].words)
    ]
    return Lab(
        name=f"{scenario.name} {cell.client.name}→{cell.server.name}",
        networks=lab_layout.networks,
        simulators=tuple(_simulators(scenario, lab_layout.simulators, server_of(cell.engine), seed, slot, movements)),
        proxies=lab_layout.proxies,
        whole=_compiled_path(scenario.path, server_of(cell.engine), 1, (), (), (), ())
        if scenario.in_sequence
        else None,
        hosts=tuple(hosts),
        flows=tuple(_flow(cell, index, movements[index].moves) for index in range(len(scenario.flows))),
        sim_image=cell.sim_image.reference,
        sim_kernel=cell.sim_kernel,
        mtu=scenario.path.mtu,
        seed=seed,
        certificates=scenario.certificates,
        whole_frames=scenario.testcase is not None,
        host_cpu=cell.host_cpu,
        timeout=scenario.timeout.seconds,
        effective=_effective_parameters(cell) | values,
    )


def _flow(cell: Cell, index: int, moves: tuple[LabMove, ...]) -> LabFlow:
    scenario, flow = cell.scenario, cell.scenario.flows[index]
    serves = flow.kind == "quic" and not (flow.groups or flow.datagrams or flow.session)
    in_session = scenario.protocol == "webtransport"
    files = served_files(flow, in_session=in_session)
    return LabFlow(
        flow=index,
        client=f"client{index}",
        server=f"server{index}",
        kind=lab_kind(cell, index),
        label=flow_label(cell, index),
        file=served_name(flow, *end_to_end_paths(scenario, flow)) if serves else "",
        size=served_size(flow, *end_to_end_paths(scenario, flow)).bytes if serves else sum(file.size for file in files),
        folder=f"{_SESSION}-{served_folder(flow)}" if in_session and files else served_folder(flow),
        files=files,
        start=flow.start.seconds,
        stop=None if flow.stop is None else flow.stop.seconds,
        repeat_after=None if flow.repeat_after is None else flow.repeat_after.seconds,
        sender=flow.sender,
        access_delay_ns=flow.access_delay.value,
        path="" if scenario.in_sequence else scenario.start(flow),
        moves=moves,
    )


def _access_delays(scenario: Scenario, slot: int, path: int) -> dict[str, Duration]:
    """Addresses of flows with an access delay of their own, both ends and IP versions → the delay."""
    return {
        host_address: flow.access_delay
        for index, flow in enumerate(scenario.flows)
        if flow.access_delay.value
        for side in get_args(Side)
        for host_address in flow_address(side, slot, index, path)
    }


def _effective_parameters(cell: Cell) -> dict[str, ParameterValue]:
    """The effective parameters: those of the matrix's pair, and for each flow those that differ from them."""
    shared = effective_parameters(cell) if cell.scenario.open_roles else {}
    own = {
        f"flow{index}.{name}": value
        for index in range(len(cell.scenario.flows))
        for name, value in effective_parameters(cell, index).items()
        if shared.get(name) != value
    }
    return shared | own
