"""Searches for the fewest settings that meet objectives, on one checkout: sets that are not stored are run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from harness.app.checkout import App
from harness.app.options import Options
from harness.design import players_of
from harness.errors import EngineError, InputError
from harness.events import Listener
from harness.model import Implementation
from harness.outcome import Contestant, Image
from harness.plan import Request, named, players, points_of
from harness.reach import Settings, score, search
from harness.reaching import Search, factors_of, hopeless, told
from harness.sweep import Point

Say = Callable[[str], object]


def reach(app: App, request: Request, options: Options, budget: int, listen: Listener, say: Say) -> list[Search]:
    """A search for each pair of a request, within so many sets each. Raises HarnessError.

    `say` is told what is tried. InputError for a scenario without a study's factors, or without objectives.
    """
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
            one = replace(request, scenarios=[scenario], clients=[client], servers=[server], everybody=frozenset())
            found.append(_of_pair(app, one, point, client, server, cast, options, budget, listen, say))
    return found


def _of_pair(
    app: App, request: Request, point: Point, client: Implementation, server: Implementation,
    cast: Mapping[str, Contestant], options: Options, budget: int, listen: Listener, say: Say,
) -> Search:  # fmt: skip
    factors = factors_of(point, players_of(point.scenario, client, server, cast))
    pair = f"{client.name}→{server.name}"
    going = search(factors, 0 if (beyond := hopeless(point.scenario)) else budget, max(1, options.jobs))

    def tried(sets: Sequence[Settings]) -> dict[Settings, float]:
        for one in sets:
            say(f"{pair}: {', '.join(f'{name} {level}' for name, level in sorted(one)) or 'as it is'}")
        matrix = app.matrix(request, listen, pull=True, every=[told(point, one) for one in sets])
        results = app.run_cells(matrix, request.repetitions, options, listen)
        broken = next((one for one in results if set(one.outcomes) == {"infrastructure"}), None)
        if broken is not None:
            raise EngineError(f"{broken.name}: {broken.shortfall}", "the same command runs it again, and goes on")
        return {one: score(result.verdict) for one, result in zip(sets, results, strict=True)}

    try:
        wanted = next(going)
        while True:
            wanted = going.send(tried(wanted))
    except StopIteration as stopped:
        return Search(point.scenario, client.name, server.name, factors, stopped.value, beyond)
