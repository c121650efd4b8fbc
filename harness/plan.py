"""Scenarios × implementations × parameters × repetitions → runs to do. Pure.

A cell's key is the hash of what was asked for and of whom (results/README.md). Resume, cache, shard and merge
are then one mechanism: `plan − store`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.arguments import endpoint_arguments, interop_testcase
from harness.lab import LAB_VERSION
from harness.model import Implementation, Scenario
from harness.outcome import Cell, Contestant, EngineName, Image, SimKernel
from harness.parameters import ROLES, ParameterValue, Role
from harness.sweep import Combine, Point, points

#: Parts of a scenario that do not change what happens in a run, only what is read from it.
_ONLY_READ = {
    "title",
    "description",
    "references",
    "objectives",
    "repetitions",
    "milestones",
    "name",
    "vary",
    "combine",
    "clients",
    "servers",
}


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    scenarios: Sequence[Scenario]
    clients: Sequence[Implementation]
    servers: Sequence[Implementation]
    everybody: frozenset[Role] = frozenset()
    """Roles for which nobody was named: a scenario's own choice then counts."""
    engine: EngineName = "compose"
    sim_kernel: SimKernel = "auto"
    repetitions: int | None = None
    seed: int = 1
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    """What holds in every cell: a name of `harness.sweep.dimensions` → its value."""
    vary: Mapping[str, Sequence[ParameterValue]] = field(default_factory=dict)
    """What makes a cell for each value, beside or in place of the scenario's own sweep."""
    combine: Combine | None = None
    """How several sweeps go together, where it is not left to the scenario."""


@dataclass(frozen=True)
class PlannedRun:
    """One repetition of one cell."""

    cell: Cell
    repetition: int


def cell_key(cell: Cell) -> str:
    """16 hexadecimal digits of BLAKE2b over the canonical JSON of what the cell's runs depend on."""
    scenario = cell.scenario.model_dump(mode="json", by_alias=True, exclude=_ONLY_READ)
    client_words, server_words = endpoint_arguments(cell)
    flows = [] if not cell.others else [
        [cell.image(role, flow).identity, words]
        for flow in range(len(cell.scenario.flows))
        for role, words in zip(ROLES, endpoint_arguments(cell, flow), strict=True)
    ]  # fmt: skip
    content = {
        "lab": LAB_VERSION,
        "scenario": scenario,
        "client": [cell.client.name, cell.client_image.identity, client_words, cell.client.session],
        "server": [cell.server.name, cell.server_image.identity, server_words],
        "testcase": interop_testcase(cell),
        "sim": cell.sim_image.identity,
        "sim_kernel": cell.sim_kernel,
        "engine": cell.engine,
        "parameters": cell.parameters,
        "seed": cell.seed,
        **({"flows": flows} if flows else {}),
        **({"host_cpu": True} if cell.host_cpu else {}),
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def points_of(request: Request) -> list[Point]:
    """The points of all scenarios' sweeps. Raises InputError."""
    return [
        point
        for scenario in request.scenarios
        for point in points(scenario, request.parameters, request.vary, request.combine)
    ]


def named(swept: Iterable[Point]) -> list[str]:
    """Implementations that flows name for themselves, sorted."""
    return sorted(
        {
            name
            for point in swept
            for flow in point.scenario.flows
            for role in ROLES
            if (name := flow.implementation(role)) is not None
        }
    )


def cells(
    request: Request,
    images: Mapping[str, Image],
    sim_image: Image,
    others: Mapping[str, Implementation] | None = None,
    *,
    host_cpu: bool = False,
) -> list[Cell]:
    """The matrix, in the order scenario, parameters, client, server.

    `images` maps names to images, `others` the names that flows give to implementations. A scenario whose flows
    name all the clients, or all the servers, has one cell for all of the matrix's. `host_cpu`: see `Cell`; it is of no
    account in real time.
    """
    made = []
    for point in points_of(request):
        cast = {name: Contestant(implementation=(others or {})[name], image=images[name]) for name in named([point])}
        for client, server in itertools.product(
            players(request, "client", point, cast), players(request, "server", point, cast)
        ):
            cell = Cell(
                key="",
                scenario=point.scenario,
                client=client,
                server=server,
                client_image=images[client.name],
                server_image=images[server.name],
                sim_image=sim_image,
                engine=request.engine,
                sim_kernel=request.sim_kernel,
                parameters=dict(point.parameters),
                seed=request.seed,
                host_cpu=host_cpu and request.engine == "virtual",
                others=cast,
            )
            made.append(cell.model_copy(update={"key": cell_key(cell)}))
    return made


def players(request: Request, role: Role, point: Point, cast: Mapping[str, Contestant]) -> Sequence[Implementation]:
    """Who plays a role in turn: the matrix's, or, where no flow leaves it open, the first flow's alone."""
    scenario = point.scenario
    first = scenario.flows[0].implementation(role)
    if role not in scenario.open_roles and first is not None:
        return [cast[first].implementation]
    asked = request.clients if role == "client" else request.servers
    own = scenario.clients if role == "client" else scenario.servers
    if role not in request.everybody or not own:
        return asked
    return [item for item in asked if item.name in own]


def runs(matrix: Iterable[Cell], repetitions: int | None = None) -> list[PlannedRun]:
    """All repetitions, interleaved: every cell once before any cell twice, so that drift hits all alike."""
    matrix = list(matrix)
    counts = {cell.key: repetitions or cell.scenario.repetitions for cell in matrix}
    return [
        PlannedRun(cell, repetition)
        for repetition in range(max(counts.values(), default=0))
        for cell in matrix
        if repetition < counts[cell.key]
    ]
