"""Whether anything is TCP where a proxy splits it: a scenario says so itself, or who is named for it does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness.planning.endpoint_config import is_over_tcp
from harness.scenario.parameters import ROLES, Role
from harness.scenario.schema import Implementation, Proxy, Scenario
from harness.scenario.validation_errors import Location, Mistake

Players = Mapping[Role, Sequence[Implementation]]
"""Who plays the roles that flows leave open."""
#: How many of the contestants an error names.
_NAMED = 3
_ROUTER = "everything would pass it as a router"


def mistakes(scenario: Scenario, points: Iterable[Scenario], known: Mapping[str, Implementation]) -> Iterator[Mistake]:
    """Proxies of a scenario in which nothing can be TCP, whoever is named for it, each at its place.

    `points`: the scenario at each point of its sweep, which may say who plays a flow.
    """
    if not any(scenario.proxies):
        return
    possible = {role: _possible(scenario, role, known) for role in ROLES}
    if any(is_split(point, possible, known) for point in points):
        return
    text = f"a proxy that splits TCP, and no flow is TCP: {_ROUTER}"
    hint = f"leave it out, write a flow of kind: tcp, or name who speaks HTTPS over TCP: {_over_tcp(known)}"
    for where in _places(scenario):
        yield Mistake(where, text, hint, named=False)


def unsplit(scenario: Scenario, asked: Players, known: Mapping[str, Implementation]) -> Mistake:
    """What is wrong with a request in which nobody is TCP: the scenario's first proxy, where it stands."""
    clients, servers = (_listing([one.name for one in asked[role]]) for role in ROLES)
    text = f"a proxy that splits TCP, and nobody asked for is TCP ({clients} → {servers}): {_ROUTER}"
    hint = f"name who speaks HTTPS over TCP beside them or alone, {_over_tcp(known)}; or leave the proxy out"
    return Mistake(next(_places(scenario)), text, hint, named=False)


def is_split(scenario: Scenario, players: Players, known: Mapping[str, Implementation]) -> bool:
    """Whether a flow of a scenario is TCP, between those whom it names, or else some of the players."""
    for number, flow in enumerate(scenario.flows):
        clients, servers = (
            players[role] if (name := flow.implementation(role)) is None else [known[name]] if name in known else []
            for role in ROLES
        )
        if flow.kind == "tcp" or any(
            is_over_tcp(scenario, number, client, server) for client in clients for server in servers
        ):
            return True
    return False


def are_listed(scenario: Scenario, players: Players) -> bool:
    """Whether a scenario names all the players itself: then it is for its file to say whether that makes sense."""
    return all(one.name in _listed(scenario, role) for role in scenario.open_roles for one in players[role])


def _listed(scenario: Scenario, role: Role) -> Sequence[str]:
    return scenario.clients if role == "client" else scenario.servers


def _possible(scenario: Scenario, role: Role, known: Mapping[str, Implementation]) -> list[Implementation]:
    """Whom a scenario names for a role, or all who have it."""
    names = _listed(scenario, role) or known
    return [known[name] for name in names if name in known and role in known[name].roles]


def _listing(names: Sequence[str]) -> str:
    """Some names at least."""
    return ", ".join(names if len(names) <= _NAMED else [*names[:_NAMED], "…"])


def _over_tcp(known: Mapping[str, Implementation]) -> str:
    return ", ".join(sorted(name for name, one in known.items() if "h2" in one.protocols))


def _places(scenario: Scenario) -> Iterator[Location]:
    for number, step in enumerate(scenario.steps):
        if isinstance(step, Proxy):
            yield "path", number, "proxy"
