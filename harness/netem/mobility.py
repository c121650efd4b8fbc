"""The path of each flow's client over time, and the effects of its moves on the paths. Pure.

Times are ns after the first datagram of the run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from harness.errors import did_you_mean
from harness.formatting import format_value
from harness.netem import PathState, Timeline, realise, timeline
from harness.scenario.schema import Flow, Move, Rebinding, Scenario
from harness.scenario.validation_errors import Location, Mistake

#: Rebindings of one flow: each takes a port of its own.
MAX_REBINDINGS = 1000
_FOREVER = 1 << 62


@dataclass(frozen=True)
class Stay:
    """A client on one path."""

    path: str
    since_ns: int
    until_ns: int
    """When it goes to the next path; beyond any run where it does not."""


@dataclass(frozen=True)
class AppliedRebinding:
    """One rewriting of a client's address or port by the path it is on."""

    at_ns: int
    path: str
    kind: Rebinding


@dataclass(frozen=True)
class PathLoss:
    """A path that a client leaves is gone for it."""

    path: str
    at_ns: int
    until_ns: int | None
    """When a client comes to the path again; None where none does."""
    location: Location
    """Location of the move that loses it."""


def client_stays(scenario: Scenario, flow: Flow) -> list[Stay]:
    """The paths that a flow's client is on, in order of time."""
    steps = [(0, scenario.start(flow))]
    steps += [(move.at.value, move.to) for move in flow.moves if move.to is not None]
    return [Stay(path, since, until) for (since, path), (until, _) in pairwise([*steps, (_FOREVER, "")])]


def flow_paths(scenario: Scenario, flow: Flow) -> list[str]:
    """The paths that a flow's client is on at some time, each once, the one that it starts on first."""
    return list(dict.fromkeys(stay.path for stay in client_stays(scenario, flow)))


def client_moves(flow: Flow) -> list[Move]:
    """The moves that a flow's client makes itself."""
    return [move for move in flow.moves if move.to is not None]


def path_rebindings(scenario: Scenario, flow: Flow) -> list[AppliedRebinding]:
    """The rebindings of a flow's client by its paths, without its knowledge, in order of time."""
    events = []
    current_path = scenario.start(flow)
    for number, move in enumerate(flow.moves):
        if move.how in ("migrate", "interface"):
            current_path = move.path_to
        elif move.how == "nat-port" or move.how == "nat-address":
            events += [AppliedRebinding(at, current_path, move.how) for at in _rebinding_times(scenario, flow, number)]
    return events


def _rebinding_times(scenario: Scenario, flow: Flow, number: int) -> range:
    """The times of a rebinding: one, or several at a fixed interval until the flow's next move or its end."""
    move, later = flow.moves[number], flow.moves[number + 1 :]
    if move.every is None:
        return range(move.at.value, move.at.value + 1)
    end = (flow.stop or scenario.timeout).value
    return range(move.at.value, max(move.at.value + 1, later[0].at.value if later else end), move.every.value)


def find_lost_paths(scenario: Scenario) -> list[PathLoss]:
    """The paths that clients lose, with start and end; in order of flows and of time."""
    if all(move.loses is None for flow in scenario.flows for move in flow.moves):
        return []
    arrivals = {
        name: sorted(
            stay.since_ns for flow in scenario.flows for stay in client_stays(scenario, flow) if stay.path == name
        )
        for name in scenario.every_path
    }
    lost_paths = []
    for index, flow in enumerate(scenario.flows):
        current_path = scenario.start(flow)
        for number, move in enumerate(flow.moves):
            if move.to is None:
                continue
            if (loss_time := move.loses) is not None:
                return_ns = next((at for at in arrivals[current_path] if at > loss_time.value), None)
                lost_paths.append(PathLoss(current_path, loss_time.value, return_ns, ("flows", index, "moves", number)))
            current_path = move.to
    return lost_paths


def flow_timeline(scenario: Scenario, flow: Flow | None = None) -> Timeline:
    """A flow's path over time, with changes, outages and moves. The default is the first flow.

    The path of an upload is seen from the client, its sender: the ends are exchanged. For segments in a row it is the
    path from end to end. Ranges of changes are taken as the seed 0 draws them, where no values were drawn yet.
    """
    flow = scenario.flows[0] if flow is None else flow
    upload = flow.sender == "client"
    if scenario.in_sequence:
        return replace(timeline(scenario.path.mirrored if upload else scenario.path), upload=upload)
    holes: dict[str, list[tuple[float, float]]] = {}
    for loss in find_lost_paths(scenario):
        until = math.inf if loss.until_ns is None else loss.until_ns / 1e9
        holes.setdefault(loss.path, []).append((loss.at_ns / 1e9, until))
    states: list[PathState] = []
    bucket_bits = 0.0
    for stay in client_stays(scenario, flow):
        path = realise(scenario.every_path[stay.path], 0, scenario.horizon, stay.path)
        course = timeline(path.mirrored if upload else path)
        bucket_bits = bucket_bits if states else course.bucket_bits
        segment = course.cut(holes.get(stay.path, ()))
        until = math.inf if stay.until_ns == _FOREVER else stay.until_ns / 1e9
        states += segment.during(stay.since_ns / 1e9, until)
    return Timeline(tuple(states), bucket_bits, upload)


def find_mistakes(scenario: Scenario) -> Iterator[Mistake]:
    """Mistakes in the paths that flows start on and move to."""
    unknown = [
        mistake for index, flow in enumerate(scenario.flows) for mistake in _unknown_paths(scenario, index, flow)
    ]
    yield from unknown
    if unknown:
        return
    for index, flow in enumerate(scenario.flows):
        for number, move in enumerate(flow.moves):
            count = len(_rebinding_times(scenario, flow, number))
            if count > MAX_REBINDINGS:
                text = f"every {move.every} makes {count} moves, and a flow has room for {MAX_REBINDINGS}"
                yield Mistake(("flows", index, "moves", number, "every"), text, "write a longer time")
    for loss in find_lost_paths(scenario):
        yield from _loss_mistakes(scenario, loss)


def _unknown_paths(scenario: Scenario, index: int, flow: Flow) -> Iterator[Mistake]:
    """Unknown paths, and moves to the path that the client is on."""
    location: Location = ("flows", index)
    names = scenario.paths
    unnamed = "the scenario has one path, which has no name"
    if flow.path is not None and flow.path not in names:
        text = f"there is no path {format_value(flow.path)}" if names else unnamed
        yield Mistake((*location, "path"), text, did_you_mean(flow.path, names) if names else "leave it out")
        return
    current_path = scenario.start(flow)
    for number, move in enumerate(flow.moves):
        if move.to is None:
            continue
        place = (*location, "moves", number, "to")
        if move.to not in names:
            text = f"there is no path {format_value(move.to)}" if names else f"{unnamed}: there is none to move to"
            yield Mistake(place, text, did_you_mean(move.to, names) if names else "write paths: {NAME: …}")
            return
        if move.to == current_path:
            yield Mistake(place, f"the client is on {current_path} already", "name another path")
        current_path = move.to


def _loss_mistakes(scenario: Scenario, loss: PathLoss) -> Iterator[Mistake]:
    """Why a client cannot lose a path: another flow is on it, or the path changes by itself."""
    until = _FOREVER if loss.until_ns is None else loss.until_ns
    for index, flow in enumerate(scenario.flows):
        for stay in client_stays(scenario, flow):
            if stay.path == loss.path and stay.since_ns < until and stay.until_ns > loss.at_ns:
                text = f"{loss.path} is gone at {loss.at_ns / 1e9:g} s, and flow {index} is on it"
                yield Mistake(loss.location, text, "move that flow first, or give it a path of its own")
                return
    path = scenario.paths[loss.path]
    if path.changes or not path.is_plain:
        text = f"a client loses this path at {loss.at_ns / 1e9:g} s: its figures stay as they are"
        yield Mistake(("paths", loss.path, "changes"), text, "leave out changes, or how: interface and overlap")
    for name, link in (("forward", path.forward), ("return", path.return_)):
        if link.poisson is not None:
            text = f"a client loses this path at {loss.at_ns / 1e9:g} s, and a service process goes on for ever"
            yield Mistake(("paths", loss.path, name, "service"), text, "leave out service, or how: interface")
