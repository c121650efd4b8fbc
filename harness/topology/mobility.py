"""The effects of moves on a lab: the clients' addresses, the mappings of their paths, the clients' MOVES."""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from dataclasses import dataclass
from decimal import Decimal

from harness.netem import AddressMapping, Outage
from harness.netem.mobility import AppliedRebinding, client_moves, find_lost_paths, path_rebindings
from harness.scenario.schema import Move, Scenario
from harness.topology.addresses import FIRST_MAPPED, MAPPED_COUNT, address, flow_address
from harness.topology.spec import LabMove
from harness.units import Duration

#: Source ports of the mappings of a flow count up from here, below those that systems choose.
_FIRST_PORT = 10_000
#: ADDRESS4 and ADDRESS6.
Addresses = tuple[str, str]


@dataclass(frozen=True)
class FlowMoves:
    """The effects of one flow's moves."""

    moves: tuple[LabMove, ...]
    mappings: Dictionary[str, tuple[AddressMapping, ...]]
    """Path → its mappings of the client's address, in order of time."""
    words: str
    """MOVES of the client; empty where it does not act itself."""


def compile_moves(scenario: Scenario, slot: int) -> list[FlowMoves]:
    """The effects of the moves of each flow."""
    paths = list(scenario.every_path)
    used = dict.fromkeys(paths, 0)
    return [_compile_flow_moves(scenario, index, slot, paths, used) for index in range(len(scenario.flows))]


def _compile_flow_moves(scenario: Scenario, index: int, slot: int, paths: list[str], used: dict[str, int]) -> FlowMoves:
    """`used`: for each path the number of mapping addresses that were assigned so far."""
    flow = scenario.flows[index]
    own_addresses = {path: flow_address("left", slot, index, number) for number, path in enumerate(paths)}
    external: dict[str, tuple[Addresses, int | None]] = {
        path: (addresses, None) for path, addresses in own_addresses.items()
    }
    mappings: dict[str, list[AddressMapping]] = {}
    moves: list[LabMove] = []
    current_path, port = scenario.start(flow), _FIRST_PORT
    steps: list[Move | AppliedRebinding] = [*client_moves(flow), *path_rebindings(scenario, flow)]
    for step in sorted(steps, key=_time):
        if isinstance(step, AppliedRebinding):
            outer, source = external[current_path]
            if step.kind == "nat-port":
                source, port = port, port + 1
            else:
                outer = address(
                    "left", slot, FIRST_MAPPED + used[current_path] % MAPPED_COUNT, paths.index(current_path)
                )
                used[current_path] += 1
            external[current_path] = outer, source
            mapping = AddressMapping(at_ns=step.at_ns, inner=own_addresses[current_path], outer=outer, port=source)
            mappings.setdefault(current_path, []).append(mapping)
            moves.append(LabMove(at=step.at_ns / 1e9, how=step.kind, path=current_path, addresses=outer, port=source))
            continue
        current_path = step.path_to
        gap = (step.gap or Duration(0)).seconds
        outer, source = external[current_path]
        moves.append(
            LabMove(at=step.at.seconds, how=step.how, path=current_path, gap=gap, addresses=outer, port=source)
        )
    words = (",".join([_seconds(move.acts), move.how, *own_addresses[move.path_to]]) for move in client_moves(flow))
    return FlowMoves(
        tuple(moves), {path: tuple(path_mappings) for path, path_mappings in mappings.items()}, ";".join(words)
    )


def _time(step: Move | AppliedRebinding) -> int:
    return step.at_ns if isinstance(step, AppliedRebinding) else step.at.value


def _seconds(time: Duration) -> str:
    """Seconds with all their decimals: '0.2'."""
    return f"{Decimal(time.value).scaleb(-9).normalize():f}"


def outages_by_path(scenario: Scenario) -> dict[str, tuple[Outage, ...]]:
    """Path → its outages, in order of time. The paths' changes are plain."""
    by_path: dict[str, dict[tuple[int, str], Outage]] = {}
    for name, path in scenario.every_path.items():
        for begin, end, side in path.outages:
            direction = None if side is None else path.direction(side)
            outage = Outage(from_ns=begin.value, until_ns=end.value, direction=direction)
            by_path.setdefault(name, {})[begin.value, direction or ""] = outage
    for loss in find_lost_paths(scenario):
        # Several clients that lose it together make one outage.
        by_path.setdefault(loss.path, {})[loss.at_ns, ""] = Outage(from_ns=loss.at_ns, until_ns=loss.until_ns)
    return {path: tuple(by_start[at] for at in sorted(by_start)) for path, by_start in by_path.items()}
