"""Cell → what each endpoint is told: application protocol, words and environment. Pure.

A parameter that an implementation does not honour is an error, by name: nothing is ignored in silence.

What is asked of a role of the whole cell holds in every flow that can be told it. A QUIC flow always counts as one, so
that an endpoint that does not honour it makes the cell unsupported. A generator's flow over TCP is one where its
implementation has that parameter in that role, and UDP has none. What takes effect in no flow makes the cell
unsupported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.netem import bdp_bytes, queue_bytes
from harness.netem.mobility import told
from harness.outcome import Cell
from harness.scenario.manifest_parameters import Setting
from harness.scenario.parameters import PARAMETERS, ROLES, ParameterValue, Role, other, parse_parameter_name
from harness.scenario.schema import Flow, Implementation, LabFlowKind, Protocol, Scenario
from harness.units import Size

#: TESTCASE of the endpoint contract by protocol; the generator's is none of the contract's.
TESTCASES: dict[Protocol, str] = {
    "h3": "http3", "hq-interop": "transfer", "h2": "http2", "tcp": "traffic", "udp": "traffic",
}  # fmt: skip


class UnsupportedError(Exception):
    """A combination that an implementation does not offer; the cell is unsupported, by name."""

    def __init__(self, role: Role, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.role: Role = role
        self.reason = reason
        self.detail = detail


def _protocols(scenario: Scenario, flow: int | None) -> tuple[Protocol, ...]:
    """What a flow may use, best first."""
    if flow is not None and (kind := scenario.flows[flow].kind) != "quic":
        return (kind,)
    if scenario.testcase is not None:
        return ("h3" if scenario.testcase == "http3" else "hq-interop",)
    return ("h3", "hq-interop", "h2") if scenario.protocol == "auto" else (scenario.protocol,)


def common_protocol(
    scenario: Scenario, flow: int | None, client: Implementation, server: Implementation
) -> Protocol | None:
    """What two implementations speak in a flow, or as the matrix's pair; None where they have nothing in common."""
    protocols = _protocols(scenario, flow)
    return next(
        (protocol for protocol in protocols if protocol in client.protocols and protocol in server.protocols), None
    )


def is_over_tcp(scenario: Scenario, flow: int, client: Implementation, server: Implementation) -> bool:
    """Whether a flow between two implementations is TCP, be it a generator's or HTTPS."""
    return common_protocol(scenario, flow, client, server) in ("tcp", "h2")


def _is_quic(cell: Cell, flow: int | None) -> bool:
    return flow is None or cell.scenario.flows[flow].kind == "quic"


def application_protocol(cell: Cell, flow: int | None = None) -> Protocol:
    """The protocol both ends of a flow, or of the matrix's pair, speak; UnsupportedError names who does not."""
    client, server = (cell.implementation(role, flow) for role in ROLES)
    protocol = common_protocol(cell.scenario, flow, client, server)
    if protocol is not None:
        return protocol
    protocols = _protocols(cell.scenario, flow)
    if len(protocols) > 1:
        detail = f"{client.name} and {server.name} share no application protocol"
        raise UnsupportedError("client", "no_common_protocol", detail)
    role: Role = "client" if protocols[0] not in client.protocols else "server"
    implementation = client if role == "client" else server
    raise UnsupportedError(role, "protocol", f"{implementation.name} does not speak {protocols[0]}")


def lab_kind(cell: Cell, flow: int) -> LabFlowKind:
    """What a flow is in a lab: what a scenario calls quic is HTTPS over TCP between two that speak h2.

    UnsupportedError as of `application_protocol`.
    """
    return "https" if application_protocol(cell, flow) == "h2" else cell.scenario.flows[flow].kind


def interop_testcase(cell: Cell, flow: int | None = None, role: Role = "client") -> str:
    """TESTCASE of the endpoint contract; empty when the pair has no common protocol."""
    testcase = cell.scenario.told(role)
    if testcase is not None and _is_quic(cell, flow):
        return testcase
    try:
        return TESTCASES[application_protocol(cell, flow)]
    except UnsupportedError:
        return ""


def default_receive_window(cell: Cell) -> int:
    """Flow-control credit that never limits a path: twice the BDP and the queue, at least 16 MiB.

    A power of two, because MsQuic takes nothing else for a stream.
    """
    required = max(
        2 * (bdp_bytes(path.to_client.rate, path.rtt) + queue_bytes(path.to_client, path.rtt))
        for path in cell.scenario.every_path.values()
    )
    return max(16 * 2**20, 1 << (required - 1).bit_length())


def endpoint_parameters(parameters: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
    """Of a cell's parameters those of its endpoints; the others (path.…) are in its scenario's path already."""
    return {name: value for name, value in parameters.items() if name.partition(".")[0] in ROLES}


def effective_parameters(cell: Cell, flow: int | None = None) -> dict[str, ParameterValue]:
    """Parameters as set, of one flow or of the matrix's pair: those asked for, and the harness's own where the
    image can set them.

    What is asked of a role is asked of each flow that can be told it, and of every flow where none can, so that
    somebody refuses it. A flow's own parameters come before.
    """
    flow_spec = None if flow is None else cell.scenario.flows[flow]
    requested = endpoint_parameters(cell.parameters)
    if flow_spec is not None and flow is not None and flow_spec.kind != "quic":
        applicable = {
            full: value for full, value in requested.items() if _holds(cell, flow, full) or not _can_be_told(cell, full)
        }
        return dict(sorted((applicable | flow_spec.parameters).items()))
    effective = requested | ({} if flow_spec is None else flow_spec.parameters)
    client = cell.implementation("client", flow)
    for name in ("connection_window", "stream_window"):
        setting = client.setting("client", name)
        if setting is not None and setting.settable:
            effective.setdefault(f"client.{name}", str(Size(default_receive_window(cell))))
    return dict(sorted(effective.items()))


def _holds(cell: Cell, flow: int, full: str) -> bool:
    """Whether what is asked of a role is asked of a flow."""
    role, name = parse_parameter_name(full)
    kind = cell.scenario.flows[flow].kind
    return kind == "quic" or (kind == "tcp" and cell.implementation(role, flow).setting(role, name) is not None)


def _can_be_told(cell: Cell, full: str) -> bool:
    """Whether what is asked of a role is asked of some flow."""
    return any(_holds(cell, index, full) for index in range(len(cell.scenario.flows)))


@dataclass
class Given:
    """What one endpoint is told."""

    words: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    sysctls: dict[str, str] = field(default_factory=dict)
    """Settings of the kernel in its network namespace."""


def refusal(
    flow: Flow,
    client: Implementation,
    server: Implementation,
    full: str,
    parameters: Mapping[str, ParameterValue],
) -> str:
    """Why a pair does not honour role.NAME in a flow at a canonical value; empty where it does, be it by default.

    `parameters`: all that holds in the flow, with that value.
    """
    configs: dict[Role, Given] = {"client": Given(), "server": Given()}
    try:
        _tell_in(flow, {"client": client, "server": server}, configs, full, parameters)
    except UnsupportedError as error:
        return error.detail
    return ""


def _tell_in(
    flow: Flow | None,
    pair: Mapping[Role, Implementation],
    configs: dict[Role, Given],
    full: str,
    parameters: Mapping[str, ParameterValue],
) -> None:
    """Add what sets one of the parameters of a flow, or of the matrix's pair.

    UnsupportedError names who does not honour it.
    """
    role, name = parse_parameter_name(full)
    if flow is not None and flow.kind == "udp":
        raise UnsupportedError(role, "parameter", f"a flow of udp has no parameters: nobody can be told {name}")
    setting = pair[role].setting(role, name)
    if flow is None or flow.kind == "quic" or role == flow.sender or setting is None or setting.flag is None:
        _tell(pair, configs, full, parameters[full])
        return
    # A generator's words are those of its sender, and hold at both ends (`harness.topology.build`).
    in_force = _value_of(flow.sender, pair[flow.sender], name, parameters)
    if parameters[full] != in_force:
        detail = f"{pair[role].name} has one {name} at both ends of a flow, that of the {flow.sender}, who sends"
        raise UnsupportedError(role, "parameter", detail + (f": {in_force}" if in_force is not None else ""))


def _value_of(
    role: Role, implementation: Implementation, name: str, parameters: Mapping[str, ParameterValue]
) -> ParameterValue | None:
    """What a role is told, or does untold where that is known."""
    setting = implementation.setting(role, name)
    default = None if setting is None or setting.default is None else PARAMETERS[name].canonical(setting.default)
    return parameters.get(f"{role}.{name}", default)


def _tell(pair: Mapping[Role, Implementation], configs: dict[Role, Given], full: str, value: ParameterValue) -> None:
    """Add what sets one parameter. UnsupportedError names who does not honour it."""
    role, name = parse_parameter_name(full)
    parameter = PARAMETERS[name]
    implementation, peer = pair[role], pair[other(role)]
    setting, peer_setting = implementation.setting(role, name), peer.setting(other(role), name)
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
            pass  # it is in force, though nothing could change it
        elif (
            peer_setting is not None and peer_setting.asks is not None and "ack_frequency" in implementation.extensions
        ):
            implementation = peer
            configs[other(role)].words.append(peer_setting.fill(peer_setting.asks, parameter, value))
        else:
            raise UnsupportedError(role, "parameter", _cannot(implementation, role, name, setting, peer, peer_setting))
    except ValueError as error:
        raise UnsupportedError(role, "parameter", f"{implementation.name} {error}") from error


def _cannot(
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


def _given(cell: Cell, flow: int | None) -> tuple[dict[Role, Given], UnsupportedError | None]:
    """What both endpoints are told, and the first thing that somebody does not honour."""
    configs: dict[Role, Given] = {"client": Given(), "server": Given()}
    first_error: UnsupportedError | None = None
    pair = {role: cell.implementation(role, flow) for role in ROLES}
    parameters = effective_parameters(cell, flow)
    for full in parameters:
        try:
            _tell_in(None if flow is None else cell.scenario.flows[flow], pair, configs, full, parameters)
        except UnsupportedError as error:
            first_error = first_error or error
            configs[parse_parameter_name(full)[0]].words.append(f"unsupported:{error.detail}")
    return configs, first_error


def endpoint_arguments(cell: Cell, flow: int | None = None) -> tuple[str, str]:
    """What the parameters make of CLIENT_PARAMS and SERVER_PARAMS, environment and kernel settings, for a cell's key.

    A parameter nobody honours leaves a mark instead (see `checked`).
    """
    configs, _ = _given(cell, flow)
    client, server = (
        " ".join(
            [*config.words, *(f"{name}={text}" for name, text in sorted((config.environment | config.sysctls).items()))]
        )
        for config in (configs["client"], configs["server"])
    )
    return client, server


def _require_moves(cell: Cell, flow: int) -> None:
    """UnsupportedError for a client that cannot move as asked, and for an image that cannot be told several ways."""
    client = cell.implementation("client", flow)
    if cell.scenario.flows[flow].moves and lab_kind(cell, flow) == "https":
        raise UnsupportedError("client", "move", f"{client.name} is over TCP, whose connections end with their address")
    for method in dict.fromkeys(move.how for move in told(cell.scenario.flows[flow])):
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
    """UnsupportedError for a client that keeps no tickets, where a seed is asked for its second connection."""
    flow_spec = cell.scenario.flows[flow]
    client = cell.implementation("client", flow)
    if flow_spec.repeat_after is None or client.session:
        return
    seed = effective_parameters(cell, flow).get("server.bdp_seed", "off")
    if seed != "off":
        detail = f"{client.name} keeps no session tickets, so that nothing resumes with the bdp_seed {seed}"
        raise UnsupportedError("client", "session", detail)


def _require_effect(cell: Cell) -> None:
    """UnsupportedError for what is asked of a role where every flow that could be told has another value of its own."""
    for full, value in endpoint_parameters(cell.parameters).items():
        indices = [index for index in range(len(cell.scenario.flows)) if _holds(cell, index, full)]
        own_values = [cell.scenario.flows[index].parameters.get(full, value) for index in indices]
        if indices and value not in own_values:
            role, _ = parse_parameter_name(full)
            detail = f"{full} {value} is asked for, and each flow that can be told has its own: {own_values[0]}"
            raise UnsupportedError(role, "parameter", detail)


def checked(cell: Cell, flow: int) -> dict[Role, Given]:
    """What both endpoints of a flow are told.

    UnsupportedError for the first thing an implementation does not offer.
    """
    for role in ROLES:
        implementation = cell.implementation(role, flow)
        if role not in implementation.roles:
            raise UnsupportedError(role, "role", f"{implementation.name} has no {role}")
    application_protocol(cell, flow)
    _require_moves(cell, flow)
    _require_tickets(cell, flow)
    configs, unsupported = _given(cell, flow)
    if unsupported is not None:
        raise unsupported
    _require_effect(cell)
    return configs
