"""Checks that an implementation of the catalogue supports what a scenario requests: parameters, TCP proxies, seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from harness.errors import InputError, did_you_mean
from harness.formatting import format_value
from harness.planning.endpoint_config import is_over_tcp
from harness.scenario.manifest_parameters import Setting
from harness.scenario.parameters import (
    PARAMETERS,
    ROLES,
    Parameter,
    ParameterValue,
    Role,
    parse_parameter_name,
    peer_role,
)
from harness.scenario.schema import Flow, FlowKind, Implementation, Proxy, Scenario
from harness.scenario.validation_errors import Location, Mistake


class SupportChecker:
    """The names, parameters and values that at least one implementation supports."""

    def __init__(self, implementations: Mapping[str, Implementation]) -> None:
        self.implementations = implementations

    def mistakes(self, scenario: Scenario) -> Iterator[Mistake]:
        """Names and values of a scenario that no implementation supports; `values` checks its sweep."""
        for role in ROLES:
            names = scenario.clients if role == "client" else scenario.servers
            for index, name in enumerate(names):
                yield from self._name((f"{role}s", index), name)
            players = [self.implementations[name] for name in names if name in self.implementations]
            takes = (player.speaks_quic or scenario.protocol in player.protocols for player in players)
            if scenario.testcase is not None and players and not any(takes):
                text = "a testcase is told to endpoints of QUIC, and none of these speaks it"
                yield Mistake((f"{role}s",), text, "leave out testcase, or name somebody who does")
        yield from self._values(("parameters",), scenario.parameters, _kinds(scenario))
        for number, flow in enumerate(scenario.flows):
            for role in ROLES:
                if (word := flow.client if role == "client" else flow.server) is not None:
                    yield from self._name(("flows", number, role), word)
            yield from self._values(("flows", number, "parameters"), flow.parameters, {flow.kind})

    def values(self, location: Location, name: str, words: Sequence[object], scenario: Scenario) -> Iterator[Mistake]:
        """Values of a dimension of `harness.planning.sweep` that no implementation supports."""
        flow, _, setting_name = name.partition(".") if name.startswith("flow") else ("", "", name)
        kinds = {scenario.flows[int(flow[4:])].kind} if flow else _kinds(scenario)
        owner, _, parameter = setting_name.partition(".")
        for index, word in enumerate(words):
            if flow and setting_name in ROLES:
                yield from self._name((*location, index), str(word))
            elif parameter in PARAMETERS and owner in ROLES:
                yield from self._values(
                    (*location, index), {setting_name: PARAMETERS[parameter].canonical(word)}, kinds, inner=False
                )
            elif setting_name in PARAMETERS:
                value = PARAMETERS[setting_name].canonical(word)
                for role in ROLES:
                    yield from self._values((*location, index), {f"{role}.{setting_name}": value}, kinds, inner=False)

    def settings(
        self, location: Location, values: Mapping[str, ParameterValue], scenario: Scenario
    ) -> Iterator[Mistake]:
        """Endpoint settings of a scenario, role.NAME → value, that no implementation supports."""
        yield from self._values(location, values, _kinds(scenario))

    def unsettable(self, name: str, words: Sequence[object], players: Mapping[Role, Sequence[Implementation]]) -> str:
        """Why no pair of these implementations runs a parameter that is requested of both roles; empty where one does.

        `players`: the requested implementations of each role.
        """
        parameter = PARAMETERS[name]
        values = [parameter.canonical(word) for word in words]
        able = {
            role: [
                item.name
                for item in players[role]
                if any(self._is_accepted([item], role, parameter, value) for value in values)
            ]
            for role in ROLES
        }
        silent = [role for role in ROLES if players[role] and not able[role]]
        if not silent:
            return ""
        owner = " (acknowledging is the receiver's)" if name in _OF_THE_RECEIVER else ""
        suggestions = [f"try {role}.{name}: {', '.join(able[role])} can" for role in ROLES if able[role]]
        everywhere = [
            f"{role}.{name}: {', '.join(names)}"
            for role in ROLES
            if (names := [item.name for item in self.implementations.values() if _is_settable(item, role, name)])
        ]
        hint = "; ".join(suggestions) or f"who can: {'; '.join(everywhere) or 'nobody here'}"
        return f"{hint}{owner}"

    def _name(self, location: Location, word: str) -> Iterator[Mistake]:
        try:
            self.implementations[word]
        except InputError as error:  # a release that cannot be had
            yield Mistake(location, error.message, error.hint)
        except KeyError:
            text = f"nobody here has the implementation {format_value(word)}"
            yield Mistake(location, text, did_you_mean(word, self.implementations))

    def _values(
        self, location: Location, values: Mapping[str, ParameterValue], kinds: Set[FlowKind], *, inner: bool = True
    ) -> Iterator[Mistake]:
        """`kinds`: those of the flows that the values apply to."""
        for full, value in values.items():
            role, name = parse_parameter_name(full)
            parameter = PARAMETERS[name]
            if kinds == {"udp"}:
                at = (*location, full) if inner else location
                yield Mistake(
                    at, f"a flow of udp has no {name}", "parameters are of flows over QUIC and TCP", of_key=inner
                )
                continue
            in_role = [item for item in self.implementations.values() if role in item.roles]
            players = [item for item in in_role if any(_supports_kind(item, kind) for kind in kinds - {"udp"})]
            # Without any such implementation a value cannot be checked.
            if players and not self._is_accepted(players, role, parameter, value):
                yield _refusal((*location, full) if inner else location, players, role, parameter, value)

    def _is_accepted(
        self, players: Iterable[Implementation], role: Role, parameter: Parameter, value: ParameterValue
    ) -> bool:
        peer_settings = [
            implementation.setting(peer_role(role), parameter.name) for implementation in self.implementations.values()
        ]
        settings = [(item.setting(role, parameter.name), bool(item.extensions)) for item in players]
        return any(
            (setting is not None and _accepts(setting, parameter, value))
            or (
                has_extensions
                and any(
                    peer_setting is not None
                    and peer_setting.asks is not None
                    and _is_valid(peer_setting, parameter, value)
                    for peer_setting in peer_settings
                )
            )
            for setting, has_extensions in settings
        )


#: Parameters of acknowledging, which only whoever receives the data decides.
_OF_THE_RECEIVER = frozenset({"ack_ratio", "max_ack_delay"})


def _is_settable(item: Implementation, role: Role, name: str) -> bool:
    setting = item.setting(role, name)
    return setting is not None and setting.claimed


def _kinds(scenario: Scenario) -> Set[FlowKind]:
    """Kinds of a scenario's flows: the parameters of a role apply to all flows."""
    return {flow.kind for flow in scenario.flows}


def _supports_kind(item: Implementation, kind: FlowKind) -> bool:
    return item.transfers_files if kind == "quic" else kind in item.protocols


def _accepts(setting: Setting, parameter: Parameter, value: ParameterValue) -> bool:
    if setting.default is not None and parameter.canonical(setting.default) == value:
        return True
    return setting.settable and _is_valid(setting, parameter, value)


def _is_valid(setting: Setting, parameter: Parameter, value: ParameterValue) -> bool:
    try:
        setting.own(parameter, value)
    except ValueError:
        return False
    return True


def _refusal(
    location: Location, players: Sequence[Implementation], role: Role, parameter: Parameter, value: ParameterValue
) -> Mistake:
    settings = [setting for item in players if (setting := item.setting(role, parameter.name)) is not None]
    words = {
        str(word)
        for setting in settings
        for word in (*((setting.values or ()) if setting.settable else ()), setting.default)
        if word is not None
    }
    label = "congestion control" if parameter.name == "congestion_control" else parameter.name
    if not any(setting.claimed for setting in settings):
        in_force = ", ".join(sorted(words))
        hint = f"in force there: {in_force}; {peer_role(role)}.{parameter.name} is what can be told" if in_force else ""
        return Mistake(location, f"nobody here can be told the {label} of a {role}", hint)
    text = f"nobody here has the {label} {format_value(value)}" + ("" if parameter.kind == "word" else f" as a {role}")
    if parameter.kind in ("word", "switch"):
        return Mistake(location, text, did_you_mean(str(value), words))
    bounds = sorted({f"{word} {bound}" for setting in settings if setting.settable for word, bound in _bounds(setting)})
    return Mistake(location, text, "they take it " + ", or ".join(bounds) if bounds else "")


def _bounds(setting: Setting) -> Iterator[tuple[str, ParameterValue]]:
    if setting.minimum is not None:
        yield "from", setting.minimum
    if setting.maximum is not None:
        yield "up to", setting.maximum


# --- Whether a scenario's repeated connections can start from a seed: their clients must keep session tickets.


_SEED = "server.bdp_seed"
_NONE = "off"


def seed_mistakes(scenario: Scenario, implementations: Mapping[str, Implementation]) -> Iterator[Mistake]:
    """Seeds of flows whose named clients all keep no tickets, each at the location of its value."""
    for number, flow in enumerate(scenario.flows):
        clients = _without_tickets(scenario, flow, implementations)
        if not clients:
            continue
        holders = sorted(
            name
            for name, implementation in implementations.items()
            if implementation.session and "client" in implementation.roles
        )
        for location, value in _seeds(scenario, number, flow):
            verb = "keeps" if len(clients) == 1 else "keep"
            text = f"the bdp_seed {value} is for a client that resumes, and {' and '.join(clients)} {verb} no tickets"
            yield Mistake(location, text, f"clients with tickets: {', '.join(holders)}")


def _without_tickets(scenario: Scenario, flow: Flow, implementations: Mapping[str, Implementation]) -> list[str]:
    """The clients that a repeated flow names, if none of them keeps tickets; else empty."""
    if flow.repeat_after is None:
        return []
    named = [flow.client] if flow.client is not None else [*scenario.clients]
    clients = [implementations[name] for name in named if name in implementations]
    return [] if any(client.session for client in clients) else [client.name for client in clients]


def _seeds(scenario: Scenario, number: int, flow: Flow) -> Iterator[tuple[Location, object]]:
    """Location and value of every seed that applies to a flow."""
    seeds: list[tuple[Location, object]] = [
        (("flows", number, "parameters", _SEED), flow.parameters.get(_SEED)),
        (("parameters", _SEED), scenario.parameters.get(_SEED)),
    ]
    for name in (_SEED, "bdp_seed", f"flow{number}.{_SEED}"):
        seeds += [(("vary", name, index), value) for index, value in enumerate(scenario.vary.get(name, ()))]
    for location, value in seeds:
        if value not in (None, _NONE):
            yield location, value


# --- Whether any flow is TCP if a proxy splits TCP: by its kind, or by the implementations that are named for it.


Players = Mapping[Role, Sequence[Implementation]]
"""The implementations of the roles that flows leave open."""
#: Maximum number of implementations that an error names.
_MAX_NAMED = 3
_ROUTER = "everything would pass it as a router"


def split_mistakes(
    scenario: Scenario, points: Iterable[Scenario], implementations: Mapping[str, Implementation]
) -> Iterator[Mistake]:
    """Proxies of a scenario in which no flow can be TCP with any implementation, each at its location.

    `points`: the scenario at each point of its sweep, which may name the implementations of a flow.
    """
    if not any(scenario.proxies):
        return
    possible = {role: _possible(scenario, role, implementations) for role in ROLES}
    if any(is_split(point, possible, implementations) for point in points):
        return
    text = f"a proxy that splits TCP, and no flow is TCP: {_ROUTER}"
    hint = (
        "leave it out, write a flow of kind: tcp, or name who speaks HTTPS over TCP: "
        f"{_tcp_implementations(implementations)}"
    )
    for location in _places(scenario):
        yield Mistake(location, text, hint, named=False)


def unsplit_mistake(scenario: Scenario, players: Players, implementations: Mapping[str, Implementation]) -> Mistake:
    """The mistake of a request without TCP, at the location of the scenario's first proxy."""
    clients, servers = (_name_list([player.name for player in players[role]]) for role in ROLES)
    text = f"a proxy that splits TCP, and nobody asked for is TCP ({clients} → {servers}): {_ROUTER}"
    hint = (
        f"name who speaks HTTPS over TCP beside them or alone, {_tcp_implementations(implementations)}; or "
        "leave the proxy out"
    )
    return Mistake(next(_places(scenario)), text, hint, named=False)


def is_split(scenario: Scenario, players: Players, implementations: Mapping[str, Implementation]) -> bool:
    """Whether a flow of a scenario is TCP, between the implementations that it names, else between some players."""
    for number, flow in enumerate(scenario.flows):
        clients, servers = (
            players[role]
            if (name := flow.implementation(role)) is None
            else [implementations[name]]
            if name in implementations
            else []
            for role in ROLES
        )
        if flow.kind == "tcp" or any(
            is_over_tcp(scenario, number, client, server) for client in clients for server in servers
        ):
            return True
    return False


def are_named_by_scenario(scenario: Scenario, players: Players) -> bool:
    """Whether a scenario names all the players itself; the check of its file then suffices."""
    return all(
        player.name in _named_players(scenario, role) for role in scenario.open_roles for player in players[role]
    )


def _named_players(scenario: Scenario, role: Role) -> Sequence[str]:
    return scenario.clients if role == "client" else scenario.servers


def _possible(scenario: Scenario, role: Role, implementations: Mapping[str, Implementation]) -> list[Implementation]:
    """The implementations that a scenario names for a role, or all that can play it."""
    names = _named_players(scenario, role) or implementations
    return [implementations[name] for name in names if name in implementations and role in implementations[name].roles]


def _name_list(names: Sequence[str]) -> str:
    """The first few names, for people."""
    return ", ".join(names if len(names) <= _MAX_NAMED else [*names[:_MAX_NAMED], "…"])


def _tcp_implementations(implementations: Mapping[str, Implementation]) -> str:
    return ", ".join(
        sorted(name for name, implementation in implementations.items() if "h2" in implementation.protocols)
    )


def _places(scenario: Scenario) -> Iterator[Location]:
    for number, step in enumerate(scenario.steps):
        if isinstance(step, Proxy):
            yield "path", number, "proxy"
