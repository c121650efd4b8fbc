"""Searches for the fewest settings that meet objectives, on one checkout: the cells they ask for, and their runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from harness.doe.minimal_settings import Search, Settings, factors_of, hopeless, score, search, told
from harness.errors import EngineError, InputError
from harness.evaluation.cell_result import CellResult
from harness.execution.checkout import App
from harness.execution.events import Listener
from harness.execution.matrix import Request, named, players, points_of
from harness.execution.options import Options
from harness.outcome import Cell, Contestant, Image
from harness.planning.design import players_of
from harness.planning.sweep import Point
from harness.scenario.schema import Implementation

Say = Callable[[str], object]
#: Cells → what is known of each once it has its runs, in the same order.
Made = Callable[[list[Cell]], Sequence[CellResult]]
#: Yields cells, is sent what is known of each, and returns what the search came to.
Searching = Generator[list[Cell], Sequence[CellResult], Search]


def reach(app: App, request: Request, options: Options, budget: int, listen: Listener, say: Say) -> list[Search]:
    """A search for each pair of a request, within so many sets each; what is not stored is run. Raises HarnessError.

    `say` is told what is tried. InputError for a scenario without a study's factors, or without objectives.
    """

    def made(matrix: list[Cell]) -> Sequence[CellResult]:
        return app.run_cells(matrix, request.repetitions, options, listen)

    going = searching(app, request, budget, listen, width=max(1, options.jobs), pull=True, say=say)
    return finished(going, made)


def finished(going: Sequence[Searching], made: Made) -> list[Search]:
    """Searches to their ends, side by side: what all of them ask for is made at once.

    EngineError where a cell has no run that says anything.
    """
    found: dict[int, Search] = {}
    known: dict[int, Sequence[CellResult] | None] = dict.fromkeys(range(len(going)))
    while known:
        wanted: dict[int, list[Cell]] = {}
        for number, results in known.items():
            try:
                wanted[number] = next(going[number]) if results is None else going[number].send(results)
            except StopIteration as stopped:
                found[number] = stopped.value
        every = made([cell for cells in wanted.values() for cell in cells]) if wanted else []
        broken = next((one for one in every if set(one.outcomes) == {"infrastructure"}), None)
        if broken is not None:
            raise EngineError(f"{broken.name}: {broken.shortfall}", "the same command runs it again, and goes on")
        left = iter(every)
        known = {number: list(itertools.islice(left, len(cells))) for number, cells in wanted.items()}
    return [found[number] for number in sorted(found)]


def asked_so_far(going: Searching, known: Callable[[Cell], CellResult | None]) -> list[Cell]:
    """The cells that a search asks for, as far as those lead of which something is known."""
    asked: list[Cell] = []
    with suppress(StopIteration):
        wanted = next(going)
        while True:
            asked += wanted
            results = [one for cell in wanted if (one := known(cell)) is not None]
            if len(results) < len(wanted):
                break
            wanted = going.send(results)
    return asked


def searching(
    app: App, request: Request, budget: int, listen: Listener, *, width: int, pull: bool, say: Say = lambda text: None
) -> list[Searching]:
    """A search for each pair of a request, to be driven. InputError as `reach`.

    `width`: sets of one cost that are asked for at once; `pull`: whether images may be pulled.
    """

    def cells(one: Request, every: Sequence[Point]) -> list[Cell]:
        return app.matrix(one, listen, pull=pull, every=every)

    found = []
    for point in points_of(request):
        scenario = point.scenario
        if scenario.study is None or not scenario.study.factors or not scenario.objectives:
            hint = "studies/reach-50-10 has both; or write study: {factors: …} and objectives: into the scenario"
            raise InputError(f"{scenario.name} has no factors to search over, or no objectives to meet", hint)
        none = Image(reference="", identity="")
        cast = {name: Contestant(implementation=app.inventory.named(name), image=none) for name in named([point])}
        for client, server in itertools.product(
            players(request, "client", point, cast), players(request, "server", point, cast)
        ):
            own = replace(request, scenarios=[scenario], clients=[client], servers=[server], everybody=frozenset())
            found.append(_of_pair(own, point, client, server, cast, budget, width, cells, say))
    return found


def _of_pair(
    request: Request, point: Point, client: Implementation, server: Implementation, cast: Mapping[str, Contestant],
    budget: int, width: int, cells: Callable[[Request, Sequence[Point]], list[Cell]], say: Say,
) -> Searching:  # fmt: skip
    factors = factors_of(point, players_of(point.scenario, client, server, cast))
    pair = f"{client.name}→{server.name}"
    going = search(factors, 0 if (beyond := hopeless(point.scenario)) else budget, width)
    scores: dict[Settings, float] | None = None
    try:
        while True:
            sets = next(going) if scores is None else going.send(scores)
            for one in sets:
                say(f"{pair}: {', '.join(f'{name} {level}' for name, level in sorted(one)) or 'as it is'}")
            results = yield cells(request, [told(point, one) for one in sets])
            scores = {one: score(result.verdict) for one, result in zip(sets, results, strict=True)}
    except StopIteration as stopped:
        return Search(point.scenario, client.name, server.name, factors, stopped.value, beyond)
