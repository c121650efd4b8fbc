"""Searches for the fewest settings that meet objectives, on one checkout: the cells that they need, and their runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from harness.doe.minimal_settings import (
    Search,
    Settings,
    factors_of,
    impossible_objective,
    score,
    search,
    settings_point,
    slow_start_bound,
    slow_start_text,
)
from harness.errors import EngineError, InputError
from harness.evaluation.cell_result import CellResult
from harness.execution.checkout import App
from harness.execution.events import Listener
from harness.execution.matrix import Request, named_implementations, players, swept_points
from harness.execution.options import Options
from harness.outcome import Cell, Contestant, Image
from harness.planning.design import flow_pair
from harness.planning.sweep import Point
from harness.scenario.schema import Implementation

Say = Callable[[str], object]
#: Runs cells, and returns the result of each, in the same order.
RunCells = Callable[[list[Cell]], Sequence[CellResult]]
#: Yields cells, is sent the result of each, and returns the search with its result.
SearchGenerator = Generator[list[Cell], Sequence[CellResult], Search]
T = TypeVar("T")


def run_searches(app: App, request: Request, options: Options, budget: int, listen: Listener, say: Say) -> list[Search]:
    """Search for each pair of a request, within `budget` sets each. Cells that are not stored are run.

    `say` gets a line for each set that is tried. Raises HarnessError; InputError for a scenario without a study's
    factors, or without objectives.
    """

    def run_cells(matrix: list[Cell]) -> Sequence[CellResult]:
        return app.run_cells(matrix, request.repetitions, options, listen)

    searches = start_searches(app, request, budget, listen, width=max(1, options.jobs), pull=True, say=say)
    return drive_searches(searches, run_cells)


def drive_searches(searches: Sequence[Generator[list[Cell], Sequence[CellResult], T]], run: RunCells) -> list[T]:
    """Drive searches, or other generators of cells, to their ends, in parallel: the cells that all of them need next
    run together.

    Raises EngineError where all runs of a cell were invalidated by the infrastructure.
    """
    outcomes: dict[int, T] = {}
    answers: dict[int, Sequence[CellResult] | None] = dict.fromkeys(range(len(searches)))
    while answers:
        requests: dict[int, list[Cell]] = {}
        for number, results in answers.items():
            try:
                requests[number] = next(searches[number]) if results is None else searches[number].send(results)
            except StopIteration as stopped:
                outcomes[number] = stopped.value
        cell_results = run([cell for cells in requests.values() for cell in cells]) if requests else []
        broken = next((result for result in cell_results if set(result.outcomes) == {"infrastructure"}), None)
        if broken is not None:
            raise EngineError(f"{broken.name}: {broken.shortfall}", "the same command runs it again, and goes on")
        remaining = iter(cell_results)
        answers = {number: list(itertools.islice(remaining, len(cells))) for number, cells in requests.items()}
    return [outcomes[number] for number in sorted(outcomes)]


def cells_so_far(
    generator: Generator[list[Cell], Sequence[CellResult], Any], lookup: Callable[[Cell], CellResult | None]
) -> list[Cell]:
    """The cells that a search needs, up to the first batch with a cell that has no result."""
    cells: list[Cell] = []
    with suppress(StopIteration):
        batch = next(generator)
        while True:
            cells += batch
            results = [result for cell in batch if (result := lookup(cell)) is not None]
            if len(results) < len(batch):
                break
            batch = generator.send(results)
    return cells


def start_searches(
    app: App, request: Request, budget: int, listen: Listener, *, width: int, pull: bool, say: Say = lambda text: None
) -> list[SearchGenerator]:
    """A search for each pair of a request, as generators to be driven. Raises InputError as `reach` does.

    `width`: the most sets of one cost that are yielded at once; `pull`: whether images may be pulled.
    """

    def cells(pair_request: Request, points: Sequence[Point]) -> list[Cell]:
        return app.matrix(pair_request, listen, pull=pull, every=points)

    searches = []
    for point in swept_points(request):
        scenario = point.scenario
        if scenario.study is None or not scenario.study.factors or not scenario.objectives:
            hint = "studies/reach-50-10 has both; or write study: {factors: …} and objectives: into the scenario"
            raise InputError(f"{scenario.name} has no factors to search over, or no objectives to meet", hint)
        placeholder = Image(reference="", identity="")
        cast = {
            name: Contestant(implementation=app.inventory.implementation(name), image=placeholder)
            for name in named_implementations([point])
        }
        for client, server in itertools.product(
            players(request, "client", point, cast), players(request, "server", point, cast)
        ):
            pair_request = replace(
                request, scenarios=[scenario], clients=[client], servers=[server], default_roles=frozenset()
            )
            searches.append(_search_pair(pair_request, point, client, server, cast, budget, width, cells, say))
    return searches


def _search_pair(
    request: Request,
    point: Point,
    client: Implementation,
    server: Implementation,
    cast: Mapping[str, Contestant],
    budget: int,
    width: int,
    cells: Callable[[Request, Sequence[Point]], list[Cell]],
    say: Say,
) -> SearchGenerator:
    players = flow_pair(point.scenario, client, server, cast)
    factors, bound = factors_of(point, players), slow_start_bound(point.scenario, players)
    pair = f"{client.name}→{server.name}"
    generator = search(factors, 0 if (problem := impossible_objective(point.scenario)) else budget, width, bound)
    scores: dict[Settings, float] | None = None
    try:
        while True:
            sets = next(generator) if scores is None else generator.send(scores)
            for settings in sets:
                say(f"{pair}: {', '.join(f'{name} {level}' for name, level in sorted(settings)) or 'as it is'}")
            results = yield cells(request, [settings_point(point, settings) for settings in sets])
            scores = {settings: score(result.verdict) for settings, result in zip(sets, results, strict=True)}
    except StopIteration as stopped:
        proof = slow_start_text(bound, factors, stopped.value)
        return Search(point.scenario, client.name, server.name, factors, stopped.value, problem, slow_start=proof)
