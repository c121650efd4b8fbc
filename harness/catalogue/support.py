"""Whether anybody here can be what a word says, or honour a value that is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from harness.errors import did_you_mean
from harness.formatting import shown
from harness.scenario.manifest_parameters import Setting
from harness.scenario.parameters import PARAMETERS, ROLES, Parameter, ParameterValue, Role, other, parse_parameter_name
from harness.scenario.schema import FlowKind, Implementation, Scenario
from harness.scenario.validation_errors import Location, Mistake


class Honoured:
    """What some implementation or other is, has and takes."""

    def __init__(self, known: Mapping[str, Implementation]) -> None:
        self.known = known

    def mistakes(self, scenario: Scenario) -> Iterator[Mistake]:
        """Names and values of a scenario that nobody here has or takes; its sweep is left to `values`."""
        for role in ROLES:
            names = scenario.clients if role == "client" else scenario.servers
            for index, name in enumerate(names):
                yield from self._name((f"{role}s", index), name)
            players = [self.known[name] for name in names if name in self.known]
            if scenario.testcase is not None and players and not any(one.speaks_quic for one in players):
                text = "a testcase is told to endpoints of QUIC, and none of these speaks it"
                yield Mistake((f"{role}s",), text, "leave out testcase, or name somebody who does")
        yield from self._values(("parameters",), scenario.parameters, _kinds(scenario))
        for number, flow in enumerate(scenario.flows):
            for role in ROLES:
                if (word := flow.client if role == "client" else flow.server) is not None:
                    yield from self._name(("flows", number, role), word)
            yield from self._values(("flows", number, "parameters"), flow.parameters, {flow.kind})

    def values(self, where: Location, name: str, words: Sequence[object], scenario: Scenario) -> Iterator[Mistake]:
        """Of the values that are asked for under a name of `harness.planning.sweep`, those that nobody here honours."""
        flow, _, rest = name.partition(".") if name.startswith("flow") else ("", "", name)
        kinds = {scenario.flows[int(flow[4:])].kind} if flow else _kinds(scenario)
        owner, _, short = rest.partition(".")
        for index, word in enumerate(words):
            if flow and rest in ROLES:
                yield from self._name((*where, index), str(word))
            elif short in PARAMETERS and owner in ROLES:
                yield from self._values((*where, index), {rest: PARAMETERS[short].canonical(word)}, kinds, inner=False)
            elif rest in PARAMETERS:
                value = PARAMETERS[rest].canonical(word)
                for one in ROLES:
                    yield from self._values((*where, index), {f"{one}.{rest}": value}, kinds, inner=False)

    def settings(self, where: Location, values: Mapping[str, ParameterValue], scenario: Scenario) -> Iterator[Mistake]:
        """Of settings of a scenario's endpoints, role.NAME → value, those that nobody here honours."""
        yield from self._values(where, values, _kinds(scenario))

    def _name(self, where: Location, word: str) -> Iterator[Mistake]:
        if word not in self.known:
            text = f"nobody here has the implementation {shown(word)}"
            yield Mistake(where, text, did_you_mean(word, self.known))

    def _values(
        self, where: Location, values: Mapping[str, ParameterValue], kinds: Set[FlowKind], *, inner: bool = True
    ) -> Iterator[Mistake]:
        """`kinds`: of the flows that the values are asked of."""
        for full, value in values.items():
            one, name = parse_parameter_name(full)
            parameter = PARAMETERS[name]
            if kinds == {"udp"}:
                at = (*where, full) if inner else where
                yield Mistake(
                    at, f"a flow of udp has no {name}", "parameters are of flows over QUIC and TCP", of_key=inner
                )
                continue
            playing = [item for item in self.known.values() if one in item.roles]
            players = [item for item in playing if any(_plays(item, kind) for kind in kinds - {"udp"})]
            # Without anybody there is nothing to hold a value against.
            if players and not self._taken(players, one, parameter, value):
                yield _refusal((*where, full) if inner else where, players, one, parameter, value)

    def _taken(self, players: Iterable[Implementation], role: Role, what: Parameter, value: ParameterValue) -> bool:
        asks = [one.setting(other(role), what.name) for one in self.known.values()]
        settings = [(item.setting(role, what.name), bool(item.extensions)) for item in players]
        return any(
            (setting is not None and _takes(setting, what, value))
            or (extended and any(ask is not None and ask.asks is not None and _fits(ask, what, value) for ask in asks))
            for setting, extended in settings
        )


def _kinds(scenario: Scenario) -> Set[FlowKind]:
    """What the flows of a scenario are, which all are asked what is asked of a role."""
    return {flow.kind for flow in scenario.flows}


def _plays(item: Implementation, kind: FlowKind) -> bool:
    return item.transfers_files if kind == "quic" else kind in item.protocols


def _takes(setting: Setting, parameter: Parameter, value: ParameterValue) -> bool:
    if setting.default is not None and parameter.canonical(setting.default) == value:
        return True
    return setting.settable and _fits(setting, parameter, value)


def _fits(setting: Setting, parameter: Parameter, value: ParameterValue) -> bool:
    try:
        setting.own(parameter, value)
    except ValueError:
        return False
    return True


def _refusal(
    where: Location, players: Sequence[Implementation], role: Role, parameter: Parameter, value: ParameterValue
) -> Mistake:
    settings = [setting for item in players if (setting := item.setting(role, parameter.name)) is not None]
    words = {
        str(word)
        for setting in settings
        for word in (*((setting.values or ()) if setting.settable else ()), setting.default)
        if word is not None
    }
    what = "congestion control" if parameter.name == "congestion_control" else parameter.name
    if not any(setting.claimed for setting in settings):
        in_force = ", ".join(sorted(words))
        hint = f"in force there: {in_force}; {other(role)}.{parameter.name} is what can be told" if in_force else ""
        return Mistake(where, f"nobody here can be told the {what} of a {role}", hint)
    text = f"nobody here has the {what} {shown(value)}" + ("" if parameter.kind == "word" else f" as a {role}")
    if parameter.kind in ("word", "switch"):
        return Mistake(where, text, did_you_mean(str(value), words))
    bounds = sorted({f"{word} {bound}" for setting in settings if setting.settable for word, bound in _bounds(setting)})
    return Mistake(where, text, "they take it " + ", or ".join(bounds) if bounds else "")


def _bounds(setting: Setting) -> Iterator[tuple[str, ParameterValue]]:
    if setting.minimum is not None:
        yield "from", setting.minimum
    if setting.maximum is not None:
        yield "up to", setting.maximum
