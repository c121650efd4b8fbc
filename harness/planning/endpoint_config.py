"""Cell → configuration of each endpoint: application protocol, command-line words and environment. Pure.

A parameter that an implementation does not honour is an error that names it: nothing is ignored silently.

A parameter that a cell sets for a role applies to every flow that can be configured with it. Every QUIC flow counts as
one, so an endpoint that does not honour the parameter makes the cell unsupported. A generator's TCP flow counts where
its implementation has that parameter in that role. A UDP flow never counts. A parameter that takes effect in no flow
makes the cell unsupported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.netem import bdp_bytes, queue_bytes
from harness.netem.mobility import client_moves
from harness.outcome import Cell
from harness.scenario.manifest_parameters import Setting
from harness.scenario.parameters import PARAMETERS, ROLES, ParameterValue, Role, parse_parameter_name, peer_role
from harness.scenario.schema import Flow, Implementation, LabFlowKind, Protocol, Scenario
from harness.units import Size

#: TESTCASE of the endpoint contract by protocol; the contract does not define the generator's, "traffic".
TESTCASES: dict[Protocol, str] = {
    "h3": "http3",
    "hq-interop": "transfer",
    "webtransport": "handshake",
    "h2": "http2",
    "tcp": "traffic",
    "udp": "traffic",
}


class UnsupportedError(Exception):
    """A combination that an implementation does not offer; the cell is unsupported, and the error says by whom."""

    def __init__(self, role: Role, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.role: Role = role
        self.reason = reason
        self.detail = detail


def _protocols(scenario: Scenario, flow: int | None) -> tuple[Protocol, ...]:
    """Protocols that a flow may use, the preferred one first."""
    if flow is not None and (kind := scenario.flows[flow].kind) != "quic":
        return (kind,)
    if scenario.testcase is not None and scenario.protocol == "auto":
        return ("h3" if scenario.testcase == "http3" else "hq-interop",)
    return ("h3", "hq-interop", "h2") if scenario.protocol == "auto" else (scenario.protocol,)


def common_protocol(
    scenario: Scenario, flow: int | None, client: Implementation, server: Implementation
) -> Protocol | None:
    """The protocol that two implementations use in a flow, or as the matrix's pair; None where they share none."""
    offered, accepted = client.protocols, server.protocols
    if _is_upload(scenario, flow):
        offered, accepted = client.uploads, server.uploads
    if flow is not None and scenario.flows[flow].schedule:
        offered = client.schedules
    if flow is not None and scenario.flows[flow].datagrams is not None:
        return "hq-interop" if client.datagrams and server.datagrams else None
    return next(
        (protocol for protocol in _protocols(scenario, flow) if protocol in offered and protocol in accepted), None
    )


def _is_upload(scenario: Scenario, flow: int | None) -> bool:
    """Whether a flow's client is to send files; over WebTransport its server asks for them."""
    if flow is None or scenario.protocol == "webtransport":
        return False
    return scenario.flows[flow].kind == "quic" and scenario.flows[flow].sender == "client"


def is_over_tcp(scenario: Scenario, flow: int, client: Implementation, server: Implementation) -> bool:
    """Whether a flow between two implementations uses TCP, as a generator's flow or as HTTPS."""
    return common_protocol(scenario, flow, client, server) in ("tcp", "h2")


def _is_quic(cell: Cell, flow: int | None) -> bool:
    return flow is None or cell.scenario.flows[flow].kind == "quic"


def application_protocol(cell: Cell, flow: int | None = None) -> Protocol:
    """The protocol that both ends of a flow, or of the matrix's pair, speak.

    Raises UnsupportedError, which names the end that does not speak it.
    """
    client, server = (cell.implementation(role, flow) for role in ROLES)
    protocol = common_protocol(cell.scenario, flow, client, server)
    if protocol is not None:
        return protocol
    if _is_upload(cell.scenario, flow):
        role: Role = "client" if not client.uploads else "server"
        name, peer = (client.name, server.name) if role == "client" else (server.name, client.name)
        detail = f"{name} sends no files" if role == "client" else f"{name} takes no files from {peer}"
        raise UnsupportedError(role, "uploads", detail)
    if flow is not None and cell.scenario.flows[flow].schedule and not client.schedules:
        raise UnsupportedError("client", "schedules", f"{client.name} asks for all files at once, not by a schedule")
    if flow is not None and cell.scenario.flows[flow].datagrams is not None:
        sender: Role = "client" if not client.datagrams else "server"
        name = client.name if sender == "client" else server.name
        raise UnsupportedError(sender, "datagrams", f"{name} sends and logs no datagrams")
    protocols = _protocols(cell.scenario, flow)
    if len(protocols) > 1:
        detail = f"{client.name} and {server.name} share no application protocol"
        raise UnsupportedError("client", "no_common_protocol", detail)
    role = "client" if protocols[0] not in client.protocols else "server"
    implementation = client if role == "client" else server
    raise UnsupportedError(role, "protocol", f"{implementation.name} does not speak {protocols[0]}")


def lab_kind(cell: Cell, flow: int) -> LabFlowKind:
    """The kind of a flow in a lab: a scenario's "quic" flow is HTTPS over TCP where both ends speak h2.

    Raises UnsupportedError as `application_protocol` does.
    """
    return "https" if application_protocol(cell, flow) == "h2" else cell.scenario.flows[flow].kind


def interop_testcase(cell: Cell, flow: int | None = None, role: Role = "client") -> str:
    """TESTCASE of the endpoint contract; empty when the pair has no common protocol."""
    testcase = cell.scenario.testcase_of(role)
    if testcase is not None and _is_quic(cell, flow):
        return testcase
    try:
        return TESTCASES[application_protocol(cell, flow)]
    except UnsupportedError:
        return ""


def default_receive_window(cell: Cell, sender: Role = "server") -> int:
    """Flow-control credit, bytes, that never limits what a role sends: twice the sum of BDP and queue of any path, at
    least 16 MiB.

    It is a power of two, because MsQuic accepts nothing else for a stream.
    """
    required = max(
        2 * (bdp_bytes(link.rate, path.rtt) + queue_bytes(link, path.rtt))
        for path in cell.scenario.every_path.values()
        for link in (path.to_client if sender == "server" else path.to_server,)
    )
    return max(16 * 2**20, 1 << (required - 1).bit_length())


def endpoint_parameters(parameters: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
    """A cell's parameters without those of its path (path.…) and of what computing costs (client.cpu.…), which are part
    of the scenario already.
    """
    names = (name.split(".") for name in parameters)
    own = {".".join(parts) for parts in names if parts[0] in ROLES and parts[1:2] != ["cpu"]}
    return {name: value for name, value in parameters.items() if name in own}


def effective_parameters(cell: Cell, flow: int | None = None) -> dict[str, ParameterValue]:
    """Parameters that are set for one flow or for the matrix's pair: the requested ones, and the harness's own where
    the image can set them.

    A parameter of a role is set for each flow that can be configured with it. If no flow can, it is set for all, so
    that one of them refuses it. A flow's own parameters take precedence.
    """
    flow_spec = None if flow is None else cell.scenario.flows[flow]
    requested = endpoint_parameters(cell.parameters)
    if flow_spec is not None and flow is not None and flow_spec.kind != "quic":
        applicable = {
            full: value
            for full, value in requested.items()
            if _applies(cell, flow, full) or not _applies_anywhere(cell, full)
        }
        return dict(sorted((applicable | flow_spec.parameters).items()))
    effective = requested | ({} if flow_spec is None else flow_spec.parameters)
    files = [item for item in cell.scenario.flows if item.kind == "quic"] if flow_spec is None else [flow_spec]
    sender: Role = "client" if files and all(item.sender == "client" for item in files) else "server"
    receiver = peer_role(sender)
    for name in ("connection_window", "stream_window"):
        setting = cell.implementation(receiver, flow).setting(receiver, name)
        if setting is not None and setting.settable:
            effective.setdefault(f"{receiver}.{name}", str(Size(default_receive_window(cell, sender))))
    return dict(sorted(effective.items()))


def _applies(cell: Cell, flow: int, full: str) -> bool:
    """Whether a role's parameter of the whole cell applies to a flow."""
    role, name = parse_parameter_name(full)
    kind = cell.scenario.flows[flow].kind
    return kind == "quic" or (kind == "tcp" and cell.implementation(role, flow).setting(role, name) is not None)


def _applies_anywhere(cell: Cell, full: str) -> bool:
    """Whether a role's parameter of the whole cell applies to any flow."""
    return any(_applies(cell, index, full) for index in range(len(cell.scenario.flows)))


@dataclass
class EndpointConfig:
    """Configuration of one endpoint."""

    words: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    sysctls: dict[str, str] = field(default_factory=dict)
    """Kernel settings in its network namespace."""


def refusal_reason(
    flow: Flow,
    client: Implementation,
    server: Implementation,
    full: str,
    parameters: Mapping[str, ParameterValue],
) -> str:
    """Why a pair does not honour role.NAME in a flow at its value; empty where it does, even if only by default.

    `parameters`: all parameters of the flow, with canonical values, role.NAME among them.
    """
    configs: dict[Role, EndpointConfig] = {"client": EndpointConfig(), "server": EndpointConfig()}
    try:
        _set_flow_parameter(flow, {"client": client, "server": server}, configs, full, parameters)
    except UnsupportedError as error:
        return error.detail
    return ""


def _set_flow_parameter(
    flow: Flow,
    pair: Mapping[Role, Implementation],
    configs: dict[Role, EndpointConfig],
    full: str,
    parameters: Mapping[str, ParameterValue],
) -> None:
    """Add the configuration of one parameter of a flow.

    Raises UnsupportedError, which names the end that does not honour it.
    """
    role, name = parse_parameter_name(full)
    if flow.kind == "udp":
        raise UnsupportedError(role, "parameter", f"a flow of udp has no parameters: nobody can be told {name}")
    setting = pair[role].setting(role, name)
    if flow.kind == "quic" or role == flow.sender or setting is None or setting.flag is None:
        _set_parameter(pair, configs, full, parameters[full])
        return
    # A generator takes the words of its sender, and they apply at both ends (`harness.topology.build`).
    in_force = _effective_value(flow.sender, pair[flow.sender], name, parameters)
    if parameters[full] != in_force:
        detail = f"{pair[role].name} has one {name} at both ends of a flow, that of the {flow.sender}, who sends"
        raise UnsupportedError(role, "parameter", detail + (f": {in_force}" if in_force is not None else ""))


def _effective_value(
    role: Role, implementation: Implementation, name: str, parameters: Mapping[str, ParameterValue]
) -> ParameterValue | None:
    """The value that is set for a role, else its default; None where that is unknown."""
    setting = implementation.setting(role, name)
    default = None if setting is None or setting.default is None else PARAMETERS[name].canonical(setting.default)
    return parameters.get(f"{role}.{name}", default)


def _set_parameter(
    pair: Mapping[Role, Implementation], configs: dict[Role, EndpointConfig], full: str, value: ParameterValue
) -> None:
    """Add the configuration of one parameter. Raises UnsupportedError, which names the end that does not honour it."""
    role, name = parse_parameter_name(full)
    parameter = PARAMETERS[name]
    implementation, peer = pair[role], pair[peer_role(role)]
    setting, peer_setting = implementation.setting(role, name), peer.setting(peer_role(role), name)
    try:
        if setting is not None and setting.flag is not None:
            configs[role].words.append(setting.fill(setting.flag, parameter, value))
        elif setting is not None and setting.environment is not None:
            variable, _, text = setting.fill(setting.environment, parameter, value).partition("=")
            configs[role].environment[variable] = text
        elif setting is not None and setting.sysctl is not None:
            variable, _, text = setting.fill(setting.sysctl, parameter, value).partition("=")
            configs[role].sysctls[variable] = text
        elif setting is not None and setting.default is not None and parameter.canonical(setting.default) == value:
            pass  # the value is in force, and cannot be changed
        elif (
            peer_setting is not None and peer_setting.asks is not None and "ack_frequency" in implementation.extensions
        ):
            implementation = peer
            configs[peer_role(role)].words.append(peer_setting.fill(peer_setting.asks, parameter, value))
        else:
            raise UnsupportedError(
                role, "parameter", _refusal_text(implementation, role, name, setting, peer, peer_setting)
            )
    except ValueError as error:
        raise UnsupportedError(role, "parameter", f"{implementation.name} {error}") from error


def _refusal_text(
    implementation: Implementation,
    role: Role,
    name: str,
    setting: Setting | None,
    peer: Implementation,
    peer_setting: Setting | None,
) -> str:
    text = f"{implementation.name} cannot set {name} as a {role}"
    if setting is not None and setting.default is not None:
        text += f"; it is {setting.default}" + (f" ({setting.note.strip()})" if setting.note else "")
    if peer_setting is not None and peer_setting.asks is not None:
        text += f", and does not let {peer.name} ask for it (it has no ack_frequency extension)"
    return text


def _require_document(cell: Cell, flow: int) -> None:
    """UnsupportedError for a browser whose schedule is none that a document says."""
    spec, client = cell.scenario.flows[flow], cell.implementation("client", flow)
    if not client.browser or not spec.schedule:
        return
    why = "it asks for nothing by a schedule but pages" if spec.page is None else spec.page.not_for_browsers
    if why:
        raise UnsupportedError("client", "schedules", f"{client.name} is a browser: {why}")


def _require_moves(cell: Cell, flow: int) -> None:
    """UnsupportedError for a client that cannot move as requested, and for an image that cannot use several paths."""
    client = cell.implementation("client", flow)
    if cell.scenario.flows[flow].moves and lab_kind(cell, flow) == "https":
        raise UnsupportedError("client", "move", f"{client.name} is over TCP, whose connections end with their address")
    for method in dict.fromkeys(move.how for move in client_moves(cell.scenario.flows[flow])):
        if method not in client.moves:
            offered = f"; its moves are {', '.join(client.moves)}" if client.moves else ""
            raise UnsupportedError("client", "move", f"{client.name} cannot be told to move by {method}{offered}")
    if len(cell.scenario.every_path) == 1 or cell.scenario.in_sequence:
        return
    for role in ROLES:
        implementation = cell.implementation(role, flow)
        if implementation.build is None:
            detail = f"{implementation.name} is a published image, which knows no way but the first path"
            raise UnsupportedError(role, "paths", detail)


def _require_tickets(cell: Cell, flow: int) -> None:
    """UnsupportedError for a client that keeps no session tickets, where its second connection needs a BDP seed."""
    flow_spec = cell.scenario.flows[flow]
    client = cell.implementation("client", flow)
    if flow_spec.repeat_after is None or client.session:
        return
    seed = effective_parameters(cell, flow).get("server.bdp_seed", "off")
    if seed != "off":
        detail = f"{client.name} keeps no session tickets, so that nothing resumes with the bdp_seed {seed}"
        raise UnsupportedError("client", "session", detail)


def _require_effect(cell: Cell) -> None:
    """UnsupportedError for a role's parameter that every applicable flow overrides with a value of its own."""
    for full, value in endpoint_parameters(cell.parameters).items():
        indices = [index for index in range(len(cell.scenario.flows)) if _applies(cell, index, full)]
        own_values = [cell.scenario.flows[index].parameters.get(full, value) for index in indices]
        if indices and value not in own_values:
            role, _ = parse_parameter_name(full)
            detail = f"{full} {value} is asked for, and each flow that can be told has its own: {own_values[0]}"
            raise UnsupportedError(role, "parameter", detail)


def configure_endpoints(cell: Cell, flow: int) -> dict[Role, EndpointConfig]:
    """Configuration of both endpoints of a flow.

    Raises UnsupportedError for the first role, protocol, move or parameter that an implementation does not offer.
    """
    for role in ROLES:
        implementation = cell.implementation(role, flow)
        if role not in implementation.roles:
            raise UnsupportedError(role, "role", f"{implementation.name} has no {role}")
    application_protocol(cell, flow)
    _require_document(cell, flow)
    client = cell.implementation("client", flow)
    if cell.scenario.flows[flow].connections > 1 and not client.connections:
        raise UnsupportedError("client", "connections", f"{client.name} makes one connection at a time")
    _require_moves(cell, flow)
    _require_tickets(cell, flow)
    configs: dict[Role, EndpointConfig] = {"client": EndpointConfig(), "server": EndpointConfig()}
    pair = {role: cell.implementation(role, flow) for role in ROLES}
    parameters = effective_parameters(cell, flow)
    for full in parameters:
        _set_flow_parameter(cell.scenario.flows[flow], pair, configs, full, parameters)
    _require_effect(cell)
    return configs
