"""`harness run`."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from harness.cli.consoles import console, paper, print_json
from harness.cli.environment import cores, log_limit, open_app, patience, stall
from harness.cli.exits import INTERRUPTED, exit_code
from harness.cli.options import (
    ArtefactsChoice,
    AsJson,
    Clients,
    EngineChoice,
    Fresh,
    Jobs,
    KeptArtefacts,
    Kernel,
    KernelChoice,
    Manifests,
    OnEngine,
    Repeat,
    Scenarios,
    Seed,
    Servers,
    Settings,
    StoreFolder,
    Strict,
    Vary,
    Zip,
)
from harness.cli.words import jobs_of, repetitions_of, request_of
from harness.errors import reason

if TYPE_CHECKING:
    from harness.app import App
    from harness.events import Listener
    from harness.results import CellResult


def run(
    scenarios: Scenarios,
    clients: Clients = "all",
    servers: Servers = "all",
    repeat: Repeat = None,
    seed: Seed = 1,
    engine: OnEngine = EngineChoice.COMPOSE,
    jobs: Jobs = None,
    sim_kernel: Kernel = KernelChoice.AUTO,
    settings: Settings = None,
    vary: Vary = None,
    zipped: Zip = False,
    store: StoreFolder = None,
    manifest: Manifests = None,
    fresh: Fresh = False,
    retry: Annotated[str, typer.Option(help="Outcomes to run again, such as crashed,timed_out.")] = "",
    strict: Strict = False,
    draw: Annotated[
        bool,
        typer.Option(
            "--figures/--no-figures", help="End with the figures of cells whose flows share or stop: SVG, HTML."
        ),
    ] = True,
    artefacts: KeptArtefacts = ArtefactsChoice.ALL,
    as_json: AsJson = False,
) -> None:
    """Run what is not stored yet, print the verdicts, and draw the figures of flows that share a path."""
    from harness.app import Options
    from harness.campaign import UnbuiltError
    from harness.progress import Talk
    from harness.reports import json_report, table

    app = open_app(store, manifest)
    times = repetitions_of(repeat)
    request = request_of(app, scenarios, clients, servers, times, seed, engine, sim_kernel, settings, vary, zipped)
    outcomes = frozenset(word for word in retry.split(",") if word) | {"infrastructure"}
    options = Options(
        fresh=fresh, retry=outcomes, patience=patience(), log_limit=log_limit(), jobs=jobs_of(jobs, engine),
        stall=stall(), artefacts=artefacts.value,
    )  # fmt: skip
    talk = Talk(console())
    unbuilt: UnbuiltError | None = None
    try:
        with talk:
            results = app.run(request, options, talk)
    except UnbuiltError as error:
        unbuilt, results = error, error.results
    except KeyboardInterrupt:
        words = shlex.join(["harness", *(word for word in sys.argv[1:] if word != "--fresh")])
        # Never folded: the line is there to be copied.
        console().print(f"interrupted; what finished is kept. Go on with:\n  {words}", soft_wrap=True, markup=False)
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json(json_report.report(results))
    else:
        table.show(results, paper())
    if draw:
        _draw_figures(app, results, jobs or cores(), talk)
    if unbuilt is not None:
        raise unbuilt
    raise typer.Exit(exit_code(results, strict=strict))


def _draw_figures(app: App, results: list[CellResult], processes: int, listen: Listener) -> None:
    """Draw what is not drawn yet of a finished `run`. Nothing that goes wrong here costs its runs and verdicts."""
    from harness.events import Warned
    from harness.plots.shared import with_figures

    chosen, target, talk = with_figures(results), app.places.store / "figures", console()
    if not chosen:
        return
    sys.stdout.flush()
    try:
        from harness.plots.missing import draw_missing

        made = draw_missing(
            app.store, chosen, app.results.find, target, app.places.cache, processes,
            lambda text: talk.print(text, soft_wrap=True),
        )  # fmt: skip
    except KeyboardInterrupt:
        said = "interrupted while drawing; all runs are stored, and the same command draws the rest"
        talk.print(said, soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:  # whatever it is, the verdicts stand
        listen(Warned(f"no figures: {reason(error)}"))
        return
    for problem in made.problems():
        listen(Warned(problem))
    place = f"[link={target.resolve().as_uri()}]{escape(str(target))}[/link]"
    talk.print(made.sentence(place), soft_wrap=True)
