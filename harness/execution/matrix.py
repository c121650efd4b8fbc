"""Scenarios × implementations × parameters × repetitions → planned runs. Pure.

Every cell has a key (`harness.store.identity`). Resuming, caching, sharding and merging are therefore one mechanism:
`plan − store`.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.errors import InputError
from harness.outcome import ENGINES, Cell, Contestant, EngineName, Image, SimKernel
from harness.planning.design import PairDesign, design_for_pair, flow_pair, max_cells
from harness.planning.sweep import Combine, Point, expand_points
from harness.scenario.parameters import ROLES, ParameterValue, Role
from harness.scenario.schema import Implementation, Scenario
from harness.store.identity import Ledger, with_key

#: Maximum number of runs of one command: a larger number is a mistake, or would take a month.
MAX_RUNS = 100_000


@dataclass(frozen=True)
class Shard:
    """One of several disjoint parts of a matrix. A cell's part does not depend on code and image versions."""

    number: int
    """From 1."""
    total: int

    def includes(self, point: object) -> bool:
        """Whether the cell at a point (`harness.evaluation.cell_result.point_of`) is in this shard."""
        digest = hashlib.blake2b(repr(point).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self.total == self.number - 1


@dataclass(frozen=True)
class ShardSummary:
    """The work of one shard of a plan."""

    shard: str
    """As `--shard` takes it."""
    cells: int
    runs: int
    seconds: float
    """On one core."""


@dataclass(frozen=True)
class UntilDecided:
    """Repetitions until a cell's objectives are decided, up to a maximum."""

    maximum: int = 20


#: Every client with every server, or each implementation with itself alone.
Pairs = Literal["all", "itself"]


@dataclass(frozen=True)
class Request:
    """What the user requested."""

    scenarios: Sequence[Scenario]
    clients: Sequence[Implementation]
    servers: Sequence[Implementation]
    default_roles: frozenset[Role] = frozenset()
    """Roles for which the user named no implementation: a scenario's own choice then counts."""
    pairs: Pairs = "all"
    """Which clients go with which servers."""
    engine: EngineName = "compose"
    sim_kernel: SimKernel = "auto"
    repetitions: int | UntilDecided | None = None
    """None leaves it to the scenarios."""
    seed: int = 1
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    """Values for all cells: a name of `harness.planning.sweep.dimensions` → its value."""
    vary: Mapping[str, Sequence[ParameterValue]] = field(default_factory=dict)
    """Values that make a cell each, in addition to the scenario's own sweep, or in place of it."""
    combine: Combine | None = None
    """How several sweeps are combined; None leaves it to the scenario."""
    shard: Shard | None = None
    """The requested part of the matrix; None for the whole."""
    most: int | None = MAX_RUNS
    """Runs that it may ask for; None where a plan for stored runs is made, of which nothing need be run."""


@dataclass(frozen=True)
class StudyDesign:
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


def swept_points(request: Request) -> list[Point]:
    """The points of all scenarios' sweeps. Raises InputError."""
    all_points, run_count = [], 0
    for scenario in request.scenarios:
        swept = expand_points(scenario, request.parameters, request.vary, request.combine)
        if not ENGINES[request.engine].virtual_time and any(point.scenario.cpu for point in swept):
            raise InputError(
                f"{scenario.name}: cpu in real time, where computing costs what it costs",
                "add --engine virtual, or leave cpu out",
            )
        repetitions = request.repetitions or scenario.repetitions
        count = repetitions.maximum if isinstance(repetitions, UntilDecided) else repetitions
        study = scenario.study
        # The parameters that each pair supports are not known yet: count as for a pair that supports all.
        cells_per_pair = 1 if study is None else max_cells(study)
        pairs = len(request.clients) * (1 if request.pairs == "itself" else len(request.servers))
        run_count += cells_per_pair * len(swept) * pairs * count
        all_points += swept
    if request.most is not None and run_count > request.most:
        raise InputError(
            f"{run_count} runs are asked for, and {request.most} are the most at once",
            "name fewer scenarios, clients or servers, vary less, or repeat less often",
        )
    return all_points


def named_implementations(swept: Iterable[Point]) -> list[str]:
    """Names of the implementations that flows name themselves, sorted."""
    return sorted(
        {
            name
            for point in swept
            for flow in point.scenario.flows
            for role in ROLES
            if (name := flow.implementation(role)) is not None
        }
    )


def build_matrix(
    request: Request,
    images: Mapping[str, Image],
    sim_image: Image,
    flow_implementations: Mapping[str, Implementation] | None = None,
    *,
    engine_code: str = "",
    host_cpu: bool = False,
    every: Sequence[Point] | None = None,
    ledger: Ledger | None = None,
    swept: Sequence[Point] | None = None,
) -> list[Cell]:
    """The matrix, in the order scenario, parameters, client, server.

    `images`: name → image. `flow_implementations`: name that a flow gives → implementation. A scenario whose flows name
    all the clients, or all the servers, has one cell for all of the matrix's. `engine_code`, `host_cpu`: see `Cell`;
    `host_cpu` has no effect in real time. `every`: points in place of those of the request's own sweeps; the request
    then has one scenario. `ledger`: which digests are equivalent; without it none are. `swept`:
    the request's own points (`swept_points`), where they are known.
    """
    matrix = []
    for point in swept_points(request) if swept is None else swept:
        contestants = {
            name: Contestant(implementation=(flow_implementations or {})[name], image=images[name])
            for name in named_implementations([point])
        }
        for client, server in _pairs(request, point, contestants):
            contestant_implementations = (contestant.implementation for contestant in contestants.values())
            kernel = _sim_kernel(request, [client, server, *contestant_implementations])
            for study_point in _studied(point, client, server, contestants) if every is None else every:
                cell = Cell(
                    key="",
                    scenario=study_point.scenario,
                    client=client,
                    server=server,
                    client_image=images[client.name],
                    server_image=images[server.name],
                    sim_image=sim_image,
                    engine=request.engine,
                    sim_kernel=kernel,
                    parameters=dict(study_point.parameters),
                    seed=request.seed,
                    engine_code=engine_code,
                    host_cpu=host_cpu and ENGINES[request.engine].virtual_time,
                    others=contestants,
                )
                matrix.append(with_key(cell, ledger))
    return matrix


def _studied(
    point: Point, client: Implementation, server: Implementation, contestants: Mapping[str, Contestant]
) -> Sequence[Point]:
    """The points of the study for one pair; the point itself if there is no study."""
    if point.scenario.study is None:
        return [point]
    return design_for_pair(point, flow_pair(point.scenario, client, server, contestants)).points


def _sim_kernel(request: Request, implementations: Iterable[Implementation]) -> SimKernel:
    """The kernel of a cell's simulators: the requested one; the lab kernel for `auto` with a published image.

    On the host's kernel, what waits in the path's queues counts against the sender's socket buffer. The images that are
    built here avoid that (images/endpoint); published ones do not.
    """
    published = any(implementation.image is not None for implementation in implementations)
    return "lab" if request.sim_kernel == "auto" and published else request.sim_kernel


def study_designs(request: Request, flow_implementations: Mapping[str, Implementation]) -> list[StudyDesign]:
    """The design of each study of a request, for each pair; `flow_implementations` as in `cells`."""
    studies = []
    for point in swept_points(request):
        if point.scenario.study is None:
            continue
        # Images do not matter here.
        no_image = Image(reference="", identity="")
        contestants = {
            name: Contestant(implementation=flow_implementations[name], image=no_image)
            for name in named_implementations([point])
        }
        for client, server in _pairs(request, point, contestants):
            pair = flow_pair(point.scenario, client, server, contestants)
            studies.append(StudyDesign(point.scenario, client.name, server.name, design_for_pair(point, pair)))
    return studies


def varied_parameters(matrix: Iterable[Cell]) -> frozenset[str]:
    """Names of the parameters by which cells of one scenario differ."""
    scenario_values: dict[str, dict[str, set[ParameterValue | None]]] = {}
    matrix = list(matrix)
    names = dict.fromkeys(name for cell in matrix for name in cell.parameters)
    for cell in matrix:
        parameter_values = scenario_values.setdefault(cell.scenario.name, {})
        for name in names:
            parameter_values.setdefault(name, set()).add(cell.parameters.get(name))
    return frozenset(
        name
        for values_by_name in scenario_values.values()
        for name, values in values_by_name.items()
        if len(values) > 1
    )


def players(
    request: Request, role: Role, point: Point, contestants: Mapping[str, Contestant]
) -> Sequence[Implementation]:
    """The implementations of a role: those of the matrix, or that of the first flow if no flow leaves the role open."""
    first = point.scenario.flows[0].implementation(role)
    if role not in point.scenario.open_roles and first is not None:
        return [contestants[first].implementation]
    return matrix_players(request, role, point.scenario)


def _pairs(
    request: Request, point: Point, contestants: Mapping[str, Contestant]
) -> Iterator[tuple[Implementation, Implementation]]:
    """(client, server) of a point, by clients first."""
    clients, servers = (players(request, role, point, contestants) for role in ROLES)
    for client, server in itertools.product(clients, servers):
        if request.pairs == "all" or client.name == server.name:
            yield client, server


def matrix_players(request: Request, role: Role, scenario: Scenario) -> Sequence[Implementation]:
    """The implementations of a role that a scenario's flows leave open.

    If the request names none, these are the scenario's own, else all that speak QUIC.
    """
    candidates = request.clients if role == "client" else request.servers
    preferred = scenario.clients if role == "client" else scenario.servers
    if role not in request.default_roles:
        return candidates
    return [item for item in candidates if (item.name in preferred if preferred else item.speaks_quic)]


def plan_runs(matrix: Iterable[Cell], repetitions: int | None = None) -> list[PlannedRun]:
    """All repetitions, interleaved: each cell once before any cell twice, so that drift affects all cells equally."""
    matrix = list(matrix)
    counts = {cell.key: repetitions or cell.scenario.repetitions for cell in matrix}
    return [
        PlannedRun(cell, repetition)
        for repetition in range(max(counts.values(), default=0))
        for cell in matrix
        if repetition < counts[cell.key]
    ]
