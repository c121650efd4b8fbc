"""Scenarios × implementations × parameters × repetitions → runs to do. Pure.

Every cell has its key (`harness.store.identity`). Resume, cache, shard and merge are then one mechanism: `plan −
store`.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.errors import InputError
from harness.outcome import ENGINES, Cell, Contestant, EngineName, Image, SimKernel
from harness.planning.design import PairDesign, most_cells, of_pair, players_of
from harness.planning.sweep import Combine, Point, points
from harness.scenario.parameters import ROLES, ParameterValue, Role
from harness.scenario.schema import Implementation, Scenario
from harness.store.identity import Ledger, keyed

#: Runs of one command: what more than that many are is a slip, or a month's work.
MOST_RUNS = 100_000


@dataclass(frozen=True)
class Shard:
    """One of so many parts of a matrix, none of which has a cell of another; by what a cell is, not by its bits."""

    number: int
    """From 1."""
    of: int

    def takes(self, point: object) -> bool:
        """Whether the cell at a point (`harness.evaluation.cell_result.point_of`) is in it."""
        digest = hashlib.blake2b(repr(point).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self.of == self.number - 1


@dataclass(frozen=True)
class SharedOut:
    """What a shard of a plan has to do."""

    shard: str
    """As `--shard` takes it."""
    cells: int
    runs: int
    seconds: float
    """On one core."""


@dataclass(frozen=True)
class UntilDecided:
    """Repetitions until a cell's objectives are decided, but at most so many."""

    most: int = 20


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
    repetitions: int | UntilDecided | None = None
    """None leaves it to the scenarios."""
    seed: int = 1
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    """What holds in every cell: a name of `harness.planning.sweep.dimensions` → its value."""
    vary: Mapping[str, Sequence[ParameterValue]] = field(default_factory=dict)
    """What makes a cell for each value, beside or in place of the scenario's own sweep."""
    combine: Combine | None = None
    """How several sweeps go together, where it is not left to the scenario."""
    shard: Shard | None = None
    """The part of the matrix that is asked for; None for the whole."""


@dataclass(frozen=True)
class Designed:
    """A study of one pair."""

    scenario: Scenario
    client: str
    server: str
    design: PairDesign


@dataclass(frozen=True)
class PlannedRun:
    """One repetition of one cell."""

    cell: Cell
    repetition: int


def points_of(request: Request) -> list[Point]:
    """The points of all scenarios' sweeps. Raises InputError."""
    found, runs = [], 0
    for scenario in request.scenarios:
        swept = points(scenario, request.parameters, request.vary, request.combine)
        asked = request.repetitions or scenario.repetitions
        times = asked.most if isinstance(asked, UntilDecided) else asked
        study = scenario.study
        # What each pair honours is not known yet: as many as one that honours everything has.
        each = 1 if study is None else most_cells(study)
        runs += each * len(swept) * len(request.clients) * len(request.servers) * times
        found += swept
    if runs > MOST_RUNS:
        raise InputError(
            f"{runs} runs are asked for, and {MOST_RUNS} are the most at once",
            "name fewer scenarios, clients or servers, vary less, or repeat less often",
        )
    return found


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
    engine_code: str = "",
    host_cpu: bool = False,
    every: Sequence[Point] | None = None,
    ledger: Ledger | None = None,
) -> list[Cell]:
    """The matrix, in the order scenario, parameters, client, server.

    `images` maps names to images, `others` the names that flows give to implementations. A scenario whose flows
    name all the clients, or all the servers, has one cell for all of the matrix's. `engine_code`, `host_cpu`: see
    `Cell`; the latter is of no account in real time. `every`: points instead of those of the request's own sweeps; it
    has one scenario then. `ledger`: which digests are the same thing; without one none is.
    """
    made = []
    for point in points_of(request):
        cast = {name: Contestant(implementation=(others or {})[name], image=images[name]) for name in named([point])}
        for client, server in itertools.product(
            players(request, "client", point, cast), players(request, "server", point, cast)
        ):
            for own in _studied(point, client, server, cast) if every is None else every:
                cell = Cell(
                    key="",
                    scenario=own.scenario,
                    client=client,
                    server=server,
                    client_image=images[client.name],
                    server_image=images[server.name],
                    sim_image=sim_image,
                    engine=request.engine,
                    sim_kernel=request.sim_kernel,
                    parameters=dict(own.parameters),
                    seed=request.seed,
                    engine_code=engine_code,
                    host_cpu=host_cpu and ENGINES[request.engine].virtual_time,
                    others=cast,
                )
                made.append(keyed(cell, ledger))
    return made


def _studied(
    point: Point, client: Implementation, server: Implementation, cast: Mapping[str, Contestant]
) -> Sequence[Point]:
    """The points of a study for one pair; without a study the point itself."""
    if point.scenario.study is None:
        return [point]
    return of_pair(point, players_of(point.scenario, client, server, cast)).points


def designs(request: Request, others: Mapping[str, Implementation]) -> list[Designed]:
    """What the studies among a request's scenarios are for each pair; `others` as in `cells`."""
    made = []
    for point in points_of(request):
        if point.scenario.study is None:
            continue
        # Images are of no account here.
        none = Image(reference="", identity="")
        cast = {name: Contestant(implementation=others[name], image=none) for name in named([point])}
        for client, server in itertools.product(
            players(request, "client", point, cast), players(request, "server", point, cast)
        ):
            pair = players_of(point.scenario, client, server, cast)
            made.append(Designed(point.scenario, client.name, server.name, of_pair(point, pair)))
    return made


def varied(matrix: Iterable[Cell]) -> frozenset[str]:
    """Names of the parameters by which cells of one scenario differ."""
    asked: dict[str, dict[str, set[ParameterValue | None]]] = {}
    matrix = list(matrix)
    names = dict.fromkeys(name for cell in matrix for name in cell.parameters)
    for cell in matrix:
        own = asked.setdefault(cell.scenario.name, {})
        for name in names:
            own.setdefault(name, set()).add(cell.parameters.get(name))
    return frozenset(name for own in asked.values() for name, values in own.items() if len(values) > 1)


def players(request: Request, role: Role, point: Point, cast: Mapping[str, Contestant]) -> Sequence[Implementation]:
    """Who plays a role in turn: the matrix's, or, where no flow leaves it open, the first flow's alone."""
    first = point.scenario.flows[0].implementation(role)
    if role not in point.scenario.open_roles and first is not None:
        return [cast[first].implementation]
    return of_matrix(request, role, point.scenario)


def of_matrix(request: Request, role: Role, scenario: Scenario) -> Sequence[Implementation]:
    """Who plays a role of a scenario that its flows leave open. Where nobody is named that is whom the scenario names,
    and by default all of QUIC.
    """
    asked = request.clients if role == "client" else request.servers
    own = scenario.clients if role == "client" else scenario.servers
    if role not in request.everybody:
        return asked
    return [item for item in asked if (item.name in own if own else item.speaks_quic)]


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
