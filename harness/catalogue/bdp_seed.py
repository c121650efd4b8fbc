"""Whether a scenario's second connections can start from a seed: their clients keep session tickets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.scenario.schema import Flow, Implementation, Scenario
from harness.scenario.validation_errors import Location, Mistake

_SEED = "server.bdp_seed"
_NONE = "off"


def mistakes(scenario: Scenario, known: Mapping[str, Implementation]) -> Iterator[Mistake]:
    """Seeds that are asked for where every client that is named keeps no tickets, each at its value."""
    for number, flow in enumerate(scenario.flows):
        clients = _without_tickets(scenario, flow, known)
        if not clients:
            continue
        holders = sorted(name for name, one in known.items() if one.session and "client" in one.roles)
        for where, value in _seeds(scenario, number, flow):
            verb = "keeps" if len(clients) == 1 else "keep"
            text = f"the bdp_seed {value} is for a client that resumes, and {' and '.join(clients)} {verb} no tickets"
            yield Mistake(where, text, f"clients with tickets: {', '.join(holders)}")


def _without_tickets(scenario: Scenario, flow: Flow, known: Mapping[str, Implementation]) -> list[str]:
    """The clients that a repeated flow names, where none of them keeps tickets; else empty."""
    if flow.repeat_after is None:
        return []
    named = [flow.client] if flow.client is not None else [*scenario.clients]
    found = [known[name] for name in named if name in known]
    return [] if any(one.session for one in found) else [one.name for one in found]


def _seeds(scenario: Scenario, number: int, flow: Flow) -> Iterator[tuple[Location, object]]:
    """Every seed that is asked of a flow, and where."""
    asked: list[tuple[Location, object]] = [
        (("flows", number, "parameters", _SEED), flow.parameters.get(_SEED)),
        (("parameters", _SEED), scenario.parameters.get(_SEED)),
    ]
    for name in (_SEED, "bdp_seed", f"flow{number}.{_SEED}"):
        asked += [(("vary", name, index), value) for index, value in enumerate(scenario.vary.get(name, ()))]
    for where, value in asked:
        if value not in (None, _NONE):
            yield where, value
