"""Arguments and exit codes; nothing else.

Exit codes: 0 all met, 1 some verdict failed, 2 usage or invalid file, 3 infrastructure, 4 inconclusive with
--strict, 70 a fault of the harness itself, 130 interrupted. Data go to stdout, talk goes to stderr.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from harness.errors import HarnessError, InputError, did_you_mean, reason

if TYPE_CHECKING:
    from harness.app import App
    from harness.events import Listener
    from harness.model import Implementation
    from harness.outcome import Cell
    from harness.plan import Request
    from harness.reports import CellResult
    from harness.traces.divergence import Divergence


class KernelChoice(StrEnum):
    """Whose queues a simulator uses."""

    AUTO = "auto"
    HOST = "host"
    LAB = "lab"


class EngineChoice(StrEnum):
    """What runs a cell."""

    COMPOSE = "compose"
    VIRTUAL = "virtual"


ROOT = Path(__file__).resolve().parent.parent
MET, FAILED, USAGE, INFRASTRUCTURE, UNDECIDED, FAULT, INTERRUPTED = 0, 1, 2, 3, 4, os.EX_SOFTWARE, 130

cli = typer.Typer(
    name="harness",
    help="QUIC over long, lossy and shared paths: real implementations, real queues, verdicts.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
)

Scenarios = Annotated[list[str], typer.Argument(help="Scenario files, folders or names (satellite/medium, satellite).")]
Clients = Annotated[str, typer.Option(help="Client implementations, separated by commas, or 'all'.")]
Servers = Annotated[str, typer.Option(help="Server implementations, separated by commas, or 'all'.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
StoreFolder = Annotated[Path | None, typer.Option("--store", help="Folder of the results.")]
Manifests = Annotated[list[Path] | None, typer.Option("--manifest", help="A further image.yaml, from anywhere.")]
Kernel = Annotated[KernelChoice, typer.Option("--sim-kernel", help="Whose queues: auto, host or lab.")]
OnEngine = Annotated[EngineChoice, typer.Option("--engine", help="compose (real time) or virtual (virtual time).")]
Repeat = Annotated[int | None, typer.Option(help="Repetitions per cell, instead of the scenario's.", min=1)]
Seed = Annotated[int, typer.Option(help="Seed of the emulated loss.", min=0)]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="What holds in every cell: NAME=VALUE (client.X, server.X, X for both, path.forward.X)."
    ),
]
Vary = Annotated[
    list[str] | None, typer.Option("--vary", help="A cell for each value: NAME=VALUE,VALUE… (names as for --set).")
]
Zip = Annotated[bool, typer.Option("--zip", help="Pair the values of several --vary instead of all with all.")]


def _app(store: Path | None = None, manifests: list[Path] | None = None) -> App:
    from harness.app import App, Places

    state = Path(os.environ.get("HARNESS_STATE") or ROOT / ".state")
    cache = Path(os.environ.get("HARNESS_CACHE") or ROOT / ".cache")
    return App(Places(ROOT, store or ROOT / "results", state, cache, _host_cpu()), manifests or [])


def _console() -> Console:
    """Where talk goes."""
    return Console(stderr=True, highlight=False)


def _paper() -> Console:
    """Where tables go; wide enough for them where there is no terminal that says otherwise."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=max(console.width, 180))


def _print_json(content: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _print(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def _assignment(option: str, word: str) -> tuple[str, str]:
    """NAME and VALUE of one --set or --vary; the name is a known one."""
    from harness.sweep import dimensions, is_name

    name, equals, value = word.partition("=")
    if not equals or not value:
        raise InputError(f"{option} {word}: expected NAME=VALUE", f"for example {option} server.congestion_control=bbr")
    if not is_name(name):
        raise InputError(f"{option} {word}: nothing is called '{name}'", did_you_mean(name, dimensions()))
    return name, value


def _once(option: str, words: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words or []:
        name, value = _assignment(option, word)
        if name in found:
            raise InputError(f"{option} {name} is given twice", "give all its values to --vary, separated by commas")
        found[name] = value
    return found


def _request(
    app: App,
    scenarios: list[str],
    clients: str,
    servers: str,
    repeat: int | None,
    seed: int,
    engine: EngineChoice,
    kernel: KernelChoice,
    settings: list[str] | None,
    vary: list[str] | None = None,
    zipped: bool = False,
) -> Request:
    from harness.parameters import ROLES
    from harness.plan import Request

    if engine == EngineChoice.VIRTUAL:
        if kernel == KernelChoice.HOST:
            raise InputError(
                "--sim-kernel host: virtual time needs the lab kernel", "leave it out, or use --engine compose"
            )
        kernel = KernelChoice.LAB
    absent = app.absent() if "all" in (clients, servers) else {}
    if absent:
        _console().print(f"left out of 'all', not built here ('harness list' says why): {', '.join(absent)}")
    return Request(
        scenarios=app.catalogue.find_scenarios(scenarios),
        clients=app.catalogue.find_implementations(clients, "client", absent),
        servers=app.catalogue.find_implementations(servers, "server", absent),
        everybody=frozenset(role for role in ROLES if (clients if role == "client" else servers) == "all"),
        engine=engine.value,
        sim_kernel=kernel.value,
        repetitions=repeat,
        seed=seed,
        parameters=_once("--set", settings),
        vary={name: values.split(",") for name, values in _once("--vary", vary).items()},
        combine="zip" if zipped else None,
    )


def _exit_code(results: list[CellResult], *, strict: bool) -> int:
    """One exit code for all cells; the gravest wins. Never a count."""
    broken = [item for item in results if item.outcomes and set(item.outcomes) == {"infrastructure"}]
    if broken:
        return INFRASTRUCTURE
    if any(item.verdict.status in ("fail", "error") for item in results):
        return FAILED
    if strict and any(item.verdict.status == "inconclusive" for item in results):
        return UNDECIDED
    return MET


@cli.command("list")
def list_(as_json: AsJson = False, manifest: Manifests = None) -> None:
    """List the scenarios and the implementations."""
    from harness.reports import json_report, listing

    app = _app(manifests=manifest)
    scenarios = [app.catalogue.scenario(file) for file in app.catalogue.scenario_files()]
    entries = [
        listing.Entry(item, here, None if here else app.why_absent(item))
        for item, _ in app.catalogue.implementations().values()
        for here in [app.is_here(item)]
    ]
    if as_json:
        _print_json(json_report.catalogue(scenarios, entries))
    else:
        listing.show(scenarios, entries, _paper())


def _contestants(app: App, words: str, *, generators: bool = False) -> tuple[dict[str, Implementation], dict[str, str]]:
    """Implementations by name, whatever they play, and those that 'all' leaves out: name → why."""
    absent = app.absent() if words == "all" else {}
    if generators and words == "all":
        return {name: one for name, (one, _) in app.catalogue.implementations().items() if name not in absent}, absent
    roles = [app.catalogue.find_implementations(words, role, absent) for role in ("client", "server")]
    return {item.name: item for found in roles for item in found}, absent


@cli.command()
def images(
    names: Annotated[list[str] | None, typer.Argument(help="Implementations; all that can be built without.")] = None,
    manifest: Manifests = None,
    as_json: AsJson = False,
) -> None:
    """Build the images of the simulator and the implementations, and print their sizes."""
    from harness.progress import Talk
    from harness.reports import listing

    app = _app(manifests=manifest)
    chosen, absent = _contestants(app, ",".join(names or ["all"]), generators=True)
    talk = Talk(_console())
    with talk:
        made = app.make_images(sorted(chosen), talk)
    if as_json:
        _print_json(listing.images_json(made))
    else:
        listing.show_images(made, absent, _paper())
    for item in made.values():
        if item.error is not None:
            _complain(item.error)
    if any(item.error is not None for item in made.values()):
        raise typer.Exit(INFRASTRUCTURE)


@cli.command()
def validate(
    files: Annotated[list[Path] | None, typer.Argument(help="Files; all of the repository's without.")] = None,
) -> None:
    """Check scenario and image files without running anything."""
    from harness.app import validate as check

    app = _app()
    problems = check(app.catalogue, files or [])
    for problem in problems:
        _complain(problem)
    if problems:
        raise typer.Exit(USAGE)
    count = len(files or [*app.catalogue.scenario_files(), *app.catalogue.implementation_files()])
    _console().print(f"{count} files are valid")


@cli.command()
def explain(scenarios: Scenarios, engine: OnEngine = EngineChoice.COMPOSE) -> None:
    """Print what a scenario's path amounts to, and its path program under an engine."""
    from harness.reports.explain import explain as text

    app = _app()
    for scenario in app.catalogue.find_scenarios(scenarios):
        _print(text(scenario, engine.value))


@cli.command()
def schema(kind: Annotated[str, typer.Argument(help="scenario or image.")] = "scenario") -> None:
    """Print the JSON Schema that editors use."""
    from harness.catalogue import json_schema
    from harness.model import Implementation, Part, Scenario

    models: dict[str, type[Part]] = {"scenario": Scenario, "image": Implementation}
    if kind not in models:
        raise InputError(f"no schema '{kind}'", did_you_mean(kind, models))
    _print(json_schema(models[kind]))


@cli.command()
def plan(
    scenarios: Scenarios,
    clients: Clients = "all",
    servers: Servers = "all",
    repeat: Repeat = None,
    seed: Seed = 1,
    engine: OnEngine = EngineChoice.COMPOSE,
    sim_kernel: Kernel = KernelChoice.AUTO,
    settings: Settings = None,
    vary: Vary = None,
    zipped: Zip = False,
    store: StoreFolder = None,
    manifest: Manifests = None,
    as_json: AsJson = False,
) -> None:
    """Print the runs a request amounts to, which of them are stored, and how long the rest takes."""
    from harness.lab import expected_seconds
    from harness.plan import runs
    from harness.reports import json_report

    app = _app(store, manifest)
    request = _request(app, scenarios, clients, servers, repeat, seed, engine, sim_kernel, settings, vary, zipped)
    matrix = app.matrix(request, lambda event: None, pull=False)
    planned = runs(matrix, request.repetitions)
    done = app.stored(planned, frozenset({"infrastructure"}))
    seconds = sum(expected_seconds(item.cell) for item in planned if (item.cell.key, item.repetition) not in done)
    if as_json:
        _print_json(json_report.plan(planned, done, seconds))
        return
    for item in planned:
        state = "stored" if (item.cell.key, item.repetition) in done else "to run"
        cell = item.cell
        extra = " ".join(f"{name}={value}" for name, value in cell.parameters.items())
        pair = f"{cell.client.name}→{cell.server.name}"
        _print(f"{cell.key} {item.repetition:3} {state:7} {cell.scenario.name} {pair} {extra}".rstrip())
    beside = _jobs(None, engine)
    minutes = f"about {seconds / beside / 60:.0f} min to run" + (f", {beside} at a time" if beside > 1 else "")
    _console().print(
        f"{len(matrix)} cells, {len(planned)} runs, {len(done)} stored, {minutes} (builds not counted)", soft_wrap=True
    )


@cli.command()
def run(
    scenarios: Scenarios,
    clients: Clients = "all",
    servers: Servers = "all",
    repeat: Repeat = None,
    seed: Seed = 1,
    engine: OnEngine = EngineChoice.COMPOSE,
    jobs: Annotated[
        int | None, typer.Option(help="Runs side by side, in virtual time only; one per core without.", min=1)
    ] = None,
    sim_kernel: Kernel = KernelChoice.AUTO,
    settings: Settings = None,
    vary: Vary = None,
    zipped: Zip = False,
    store: StoreFolder = None,
    manifest: Manifests = None,
    fresh: Annotated[bool, typer.Option(help="Run again what is stored.")] = False,
    retry: Annotated[str, typer.Option(help="Outcomes to run again, such as crashed,timed_out.")] = "",
    strict: Annotated[bool, typer.Option(help="Inconclusive is a failure (exit code 4).")] = False,
    draw: Annotated[
        bool,
        typer.Option(
            "--figures/--no-figures", help="End with the figures of cells whose flows share or stop: SVG, HTML."
        ),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Run what is not stored yet, print the verdicts, and draw the figures of flows that share a path."""
    from harness.app import Options
    from harness.campaign import UnbuiltError
    from harness.progress import Talk
    from harness.reports import json_report, table

    app = _app(store, manifest)
    request = _request(app, scenarios, clients, servers, repeat, seed, engine, sim_kernel, settings, vary, zipped)
    outcomes = frozenset(word for word in retry.split(",") if word) | {"infrastructure"}
    options = Options(
        fresh=fresh, retry=outcomes, patience=_patience(), log_limit=_log_limit(), jobs=_jobs(jobs, engine),
        stall=_stall(),
    )  # fmt: skip
    talk = Talk(_console())
    unbuilt: UnbuiltError | None = None
    try:
        with talk:
            results = app.run(request, options, talk)
    except UnbuiltError as error:
        unbuilt, results = error, error.results
    except KeyboardInterrupt:
        words = shlex.join(["harness", *(word for word in sys.argv[1:] if word != "--fresh")])
        # Never folded: the line is there to be copied.
        _console().print(f"interrupted; what finished is kept. Go on with:\n  {words}", soft_wrap=True, markup=False)
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        _print_json(json_report.report(results))
    else:
        table.show(results, _paper())
    if draw:
        _draw_figures(app, results, jobs or len(os.sched_getaffinity(0)), talk)
    if unbuilt is not None:
        raise unbuilt
    raise typer.Exit(_exit_code(results, strict=strict))


def _draw_figures(app: App, results: list[CellResult], processes: int, listen: Listener) -> None:
    """Draw what is not drawn yet of a finished `run`. Nothing that goes wrong here costs its runs and verdicts."""
    from harness.events import Warned
    from harness.plots.shared import with_figures

    chosen, target, console = with_figures(results), app.places.store / "figures", _console()
    if not chosen:
        return
    sys.stdout.flush()
    try:
        from harness.plots.missing import draw_missing

        made = draw_missing(
            app.store, chosen, app.stored_results, target, app.places.cache, processes,
            lambda text: console.print(text, soft_wrap=True),
        )  # fmt: skip
    except KeyboardInterrupt:
        said = "interrupted while drawing; all runs are stored, and the same command draws the rest"
        console.print(said, soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:  # whatever it is, the verdicts stand
        listen(Warned(f"no figures: {reason(error)}"))
        return
    for problem in made.problems():
        listen(Warned(problem))
    place = f"[link={target.resolve().as_uri()}]{escape(str(target))}[/link]"
    console.print(made.sentence(place), soft_wrap=True)


def _jobs(asked: int | None, engine: EngineChoice) -> int:
    """How many runs side by side."""
    if engine == EngineChoice.VIRTUAL:
        return asked or len(os.sched_getaffinity(0))
    if asked not in (None, 1):
        raise InputError(f"--jobs {asked}: runs in real time would measure each other", "add --engine virtual")
    return 1


def _host_cpu() -> bool:
    """HARNESS_CPU, lab or host: whose processor endpoints see in virtual time."""
    word = os.environ.get("HARNESS_CPU") or "lab"
    if word not in ("lab", "host"):
        raise InputError(f"HARNESS_CPU: '{word}' is neither 'lab' nor 'host'", "leave it out for the lab's processor")
    return word == "host"


def _stall() -> float:
    """HARNESS_STALL: CPU seconds that the clock of a lab in virtual time may stand still."""
    from harness.engines.guest import STALL

    text = os.environ.get("HARNESS_STALL") or f"{STALL}"
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"HARNESS_STALL: '{text}' is no number of seconds", "for example 60") from error


def _patience() -> float:
    """HARNESS_PATIENCE, a duration: how long spoilt runs may wait, in all, for a machine that keeps time."""
    from harness.engines.quiet import PATIENCE
    from harness.units import Duration

    text = os.environ.get("HARNESS_PATIENCE") or f"{PATIENCE} s"
    try:
        return Duration.parse(text).seconds
    except ValueError as error:
        raise InputError(f"HARNESS_PATIENCE: {error}", "for example '5 min', or '0 s'") from error


def _log_limit() -> int:
    """HARNESS_LOG_LIMIT, a size: what one endpoint may write to its logs."""
    from harness.units import Size

    text = os.environ.get("HARNESS_LOG_LIMIT") or "2 GiB"
    try:
        return Size.parse(text).bytes
    except ValueError as error:
        raise InputError(f"HARNESS_LOG_LIMIT: {error}", "for example '2 GiB'") from error


def _stored(app: App, scenarios: list[str] | None, clients: str, servers: str, *, every: bool) -> list[CellResult]:
    names = {scenario.name for scenario in app.catalogue.find_scenarios(scenarios)} if scenarios else None

    def wanted(cell: Cell) -> bool:
        return (
            (names is None or cell.scenario.name in names)
            and (clients == "all" or cell.client.name in clients.split(","))
            and (servers == "all" or cell.server.name in servers.split(","))
        )

    return app.stored_results(wanted, every=every)


@cli.command()
def report(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(help="Scenarios; all stored ones without. Or: parameters, defaults, metrics [SCENARIOS]."),
    ] = None,
    clients: Clients = "all",
    servers: Servers = "all",
    store: StoreFolder = None,
    every: Annotated[bool, typer.Option("--every", help="Also cells that newer ones of other bits replace.")] = False,
    markdown: Annotated[bool, typer.Option(help="Print Markdown on stdout.")] = False,
    grid: Annotated[
        bool, typer.Option("--grid", help="Clients down, servers across: a figure or a reason a pair.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the verdicts of stored runs; needs no Docker.

    Two words in place of scenarios print tables of their own: `report parameters` the vocabulary of parameters, and
    `report defaults` the defaults in force of every implementation, confirmed by stored runs where these show them.
    `report metrics SCENARIOS` prints the metrics of flows, bottleneck and network of runs with several flows.
    """
    from harness.reports import grid as grid_report
    from harness.reports import json_report, table
    from harness.reports import markdown as markdown_report

    if scenarios == ["parameters"]:
        _report_parameters(markdown=markdown, as_json=as_json)
        return
    if scenarios and scenarios[0] == "metrics":
        _report_metrics(
            _stored(_app(store), scenarios[1:] or None, clients, servers, every=every),
            markdown=markdown,
            as_json=as_json,
        )
        return
    if scenarios == ["defaults"]:
        _report_defaults(store, markdown=markdown, as_json=as_json)
        return
    results = _stored(_app(store), scenarios, clients, servers, every=every)
    if as_json:
        _print_json(json_report.report(results))
    elif markdown:
        _print(grid_report.markdown(results) if grid else markdown_report.report(results))
    elif grid:
        grid_report.show(results, _paper())
    else:
        table.show(results, _paper())


def _report_metrics(results: list[CellResult], *, markdown: bool, as_json: bool) -> None:
    from harness.reports import flow_metrics

    if as_json:
        _print_json(flow_metrics.report(results))
    elif markdown:
        _print(flow_metrics.markdown(results))
    else:
        flow_metrics.show(results, _paper())


def _report_parameters(*, markdown: bool, as_json: bool) -> None:
    from harness.reports import vocabulary

    if as_json:
        _print_json(vocabulary.report())
    elif markdown:
        _print(vocabulary.markdown())
    else:
        vocabulary.show(_paper())


def _report_defaults(store: Path | None, *, markdown: bool, as_json: bool) -> None:
    from harness.reports import defaults as view

    results = [
        result
        for folder in ([store] if store else [ROOT / "results", ROOT / "results" / "checks"])
        for result in _app(folder).stored_results(lambda cell: True, every=True)
    ]
    known = [item for item, _ in _app().catalogue.implementations().values() if item.parameters and item.speaks_quic]
    made = view.defaults(known, view.observations(results))
    if as_json:
        _print_json(view.report(made))
    elif markdown:
        _print(view.markdown(made))
    else:
        view.show(made, _paper())


@cli.command()
def compare(
    scenarios: Annotated[list[str] | None, typer.Argument(help="Scenarios; all stored ones without.")] = None,
    clients: Clients = "all",
    servers: Servers = "all",
    store: StoreFolder = None,
    within: Annotated[str, typer.Option(help="Difference of the medians up to which the engines agree.")] = "3%",
    markdown: Annotated[bool, typer.Option(help="Print Markdown on stdout.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare the two engines over stored runs of the same cells: medians, differences, and what explains them.

    The exit code is 1 when engines disagree and nothing measured explains it.
    """
    from harness.reports import compare_views
    from harness.reports.compare import comparisons
    from harness.units import Percentage

    try:
        tolerance = Percentage.parse(within).fraction
    except ValueError as error:
        raise InputError(f"--within {within}: {error}", "for example 3%") from error
    compared = comparisons(_stored(_app(store), scenarios, clients, servers, every=False), within=tolerance)
    if as_json:
        _print_json(compare_views.report(compared))
    elif markdown:
        _print(compare_views.markdown(compared))
    else:
        compare_views.show(compared, _paper())
    if any(item.within is False and item.reason == "not_explained" for item in compared):
        raise typer.Exit(FAILED)


@cli.command()
def plot(
    scenarios: Annotated[list[str] | None, typer.Argument(help="Scenarios; all stored ones without.")] = None,
    clients: Clients = "all",
    servers: Servers = "all",
    store: StoreFolder = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write into; figures/ in that of the results.")] = None,
    formats: Annotated[str, typer.Option(help="Of png, svg and html, separated by commas.")] = "png,svg,html",
    only: Annotated[str, typer.Option(help="Figures to make, separated by commas; all without.")] = "",
    runs: Annotated[
        list[str] | None, typer.Option("--run", help="A run as KEY/REPETITION; the first of each cell without.")
    ] = None,
    detail: Annotated[str, typer.Option(help="What a detail shows, as FROM-TO in seconds; chosen without.")] = "",
) -> None:
    """Draw stored runs, from the store alone: figures as PNG and SVG, and one interactive page a run (HTML).

    A run with RED is drawn beside that of the same cell with DropTail. Prints the files it wrote.
    """
    from harness.plots.registry import plots
    from harness.plots.render import Format, has_letters, write
    from harness.plots.stored import find_drawings, folder_name
    from harness.reports import counted

    app = _app(store)
    chosen = [_one_of("--only", name, plots()) for name in only.split(",") if name]
    kinds = [Format(_one_of("--formats", name, list(Format))) for name in formats.split(",") if name]
    results = _stored(app, scenarios, clients, servers, every=bool(runs))
    drawings = find_drawings(app.store, results, app.stored_results, runs or [], _span(detail))
    if Format.PNG in kinds and not has_letters():
        _console().print("warning: this machine has no font, so PNGs have no words (Debian: fonts-dejavu-core)")
    target = out or app.places.store / "figures"
    count, bare = 0, list[str]()
    for drawing in drawings:
        run_ = drawing.run.run
        folder = target / folder_name(run_)
        wrote = write(drawing.run, folder, kinds, app.places.cache, partner=drawing.partner, only=chosen)
        for file in wrote:
            _print(str(file))
        count += 1
        if drawing.run.series is None:
            bare.append(run_.name)
    if bare:
        runs_ = f"{counted(len(bare), 'run')} (such as {bare[0]})"
        _console().print(f"{runs_}: no series are stored, so that only means could be drawn, if any", soft_wrap=True)
    if not count:
        _console().print("no stored runs match")


def _one_of(option: str, word: str, known: Iterable[str]) -> str:
    names = list(known)
    if word not in names:
        raise InputError(f"{option} {word}: there is no such thing", did_you_mean(word, names))
    return word


def _span(text: str) -> tuple[float, float] | None:
    """Two times in seconds, of FROM-TO; None of nothing."""
    if not text:
        return None
    begin, _, end = text.partition("-")
    try:
        span = float(begin), float(end)
    except ValueError:
        span = (0.0, 0.0)
    if not 0 <= span[0] < span[1]:
        raise InputError(f"--detail {text}: expected FROM-TO, in seconds", "for example --detail 21-24")
    return span


@cli.command()
def measure(
    scenarios: Annotated[list[str] | None, typer.Argument(help="Scenarios; all stored ones without.")] = None,
    clients: Clients = "all",
    servers: Servers = "all",
    store: StoreFolder = None,
) -> None:
    """Measure stored runs again from their artefacts. Needs no Docker."""
    app = _app(store)
    count = 0
    for result in _stored(app, scenarios, clients, servers, every=True):
        for run_, _ in result.runs:
            if (app.store.folder(run_.cell.key, run_.repetition) / "sim").is_dir():
                app.measure(run_)
                count += 1
    _console().print(f"{count} runs measured")


@cli.command()
def judge(
    scenarios: Annotated[list[str] | None, typer.Argument(help="Scenarios; all stored ones without.")] = None,
    clients: Clients = "all",
    servers: Servers = "all",
    store: StoreFolder = None,
    strict: Annotated[bool, typer.Option(help="Inconclusive is a failure (exit code 4).")] = False,
) -> None:
    """Print one line per stored cell: verdict, reason, sentence. The exit code is that of run."""
    results = _stored(_app(store), scenarios, clients, servers, every=False)
    for item in results:
        who = item.name
        _print(
            f"{item.verdict.status:12} {item.cell.scenario.name} {who}: {item.verdict.reason}: {item.verdict.sentence}"
        )
    raise typer.Exit(_exit_code(results, strict=strict))


@cli.command()
def lab(
    scenario: Annotated[str, typer.Argument(help="One scenario.")],
    folder: Annotated[Path, typer.Argument(help="Folder to write; made if needed.")],
    client: Annotated[str, typer.Option(help="Client implementation.")] = "ngtcp2",
    server: Annotated[str, typer.Option(help="Server implementation.")] = "ngtcp2",
    sim_kernel: Kernel = KernelChoice.AUTO,
    settings: Settings = None,
    manifest: Manifests = None,
) -> None:
    """Write one cell as files for `docker compose up` by hand, and build the images it names."""
    from harness.progress import Talk

    app = _app(manifests=manifest)
    request = _request(app, [scenario], client, server, 1, 1, EngineChoice.COMPOSE, sim_kernel, settings)
    talk = Talk(_console())
    with talk:
        app.write_lab(request, folder, talk)
    _console().print(
        f"docker compose --env-file {folder}/cell.env -f {folder}/compose.yaml up --abort-on-container-exit",
        soft_wrap=True,
    )


@cli.command(hidden=True)
def keep(
    scenarios: Scenarios,
    clients: Clients = "all",
    servers: Servers = "all",
    store: StoreFolder = None,
    into: Annotated[Path, typer.Option(help="Store that keeps them.")] = ROOT / "results" / "reference",
    series: Annotated[
        bool, typer.Option(help="With the series of first repetitions, from which figures are drawn.")
    ] = True,
) -> None:
    """Keep the figures of stored runs, without their artefacts, as the runs behind the README's tables.

    Cells that differ from a kept one only in their bits, and are older, are dropped.
    """
    app, kept = _app(store), _app(into)
    count = 0
    for result in _stored(app, scenarios, clients, servers, every=False):
        for run_, measured in result.runs:
            kept.store.keep(run_, measured, app.store.series(run_.cell.key, run_.repetition) if series else None)
            count += 1
    newest = {result.cell.key for result in kept.stored_results(lambda cell: True)}
    replaced = set(kept.store.cell_keys()) - newest
    for key in replaced:
        kept.store.drop(key)
    _console().print(f"kept {count} runs in {into}, dropped {len(replaced)} cells that others replace")


@cli.command(hidden=True)
def generate() -> None:
    """Write what is generated into the repository: schemas, compose/, the README's results."""
    from harness.catalogue import json_schema
    from harness.engines.compose_file import compose_text
    from harness.lab import build_lab
    from harness.model import Implementation, Scenario
    from harness.reports.by_hand import open_cell
    from harness.reports.readme import reference_page, with_parameters, with_results
    from harness.studies.pages import claims, pages

    app = _app(ROOT / "results" / "reference")
    (ROOT / "scenarios" / "schema.json").write_text(json_schema(Scenario))
    (ROOT / "images" / "schema.json").write_text(json_schema(Implementation))
    by_hand = build_lab(open_cell(app.catalogue.find_scenarios(["satellite/medium"])[0]), 0)
    (ROOT / "compose" / "plan").mkdir(exist_ok=True)
    (ROOT / "compose" / "lab.yaml").write_text(compose_text(by_hand))
    (ROOT / "compose" / "plan" / "plan.json").write_text(json.dumps(by_hand.sim_plan(), indent=1) + "\n")
    readme = ROOT / "README.md"
    results = app.stored_results(lambda cell: True)
    readme.write_text(with_results(readme.read_text(), results, claims(results)))
    (ROOT / "results" / "reference" / "README.md").write_text(reference_page(results))
    page = ROOT / "images" / "PARAMETERS.md"
    known = [item for item, _ in app.catalogue.implementations().values() if item.speaks_quic]
    page.write_text(with_parameters(page.read_text(), known, results))
    docs = ROOT / "docs"
    for name, text in pages(results, {file.name for file in (docs / "figures").glob("*.svg")}).items():
        (docs / name).write_text(text)


@cli.command(hidden=True)
def figures() -> None:
    """Draw the studies' figures from the reference runs."""
    from harness.plots.render import figures as figures_of
    from harness.plots.render import svg
    from harness.plots.stored import find_drawings
    from harness.studies.pages import figures as figures_of_studies

    app = _app(ROOT / "results" / "reference")
    folder = ROOT / "docs" / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    shown = figures_of_studies()
    results = app.stored_results(lambda cell: cell.scenario.name in {one.scenario for one in shown})
    for one in shown:
        chosen = [result for result in results if one.is_of(result)]
        for drawing in find_drawings(app.store, chosen, app.stored_results, (), None):
            for made in figures_of(drawing.run, drawing.partner, (one.plot,)):
                (folder / one.file).write_text(svg(made), encoding="utf-8")
                _print(str(folder / one.file))


@cli.command()
def clean() -> None:
    """Remove what the harness left or made in Docker: containers, networks, images. Results stay."""
    from harness.engines.images import remove_everything

    for name in remove_everything():
        _console().print(f"removed {name}")


@cli.command()
def check(
    names: Annotated[str, typer.Argument(help="Implementations, separated by commas, or 'all'.")],
    jobs: Annotated[int | None, typer.Option(help="Runs side by side; one per core without.", min=1)] = None,
    store: StoreFolder = None,
    manifest: Manifests = None,
    fresh: Annotated[bool, typer.Option(help="Run again what is stored.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check that implementations follow the contract and do what their manifests claim, in virtual time.

    The exit code is 1 when anything does not hold.
    """
    from harness.app import Options
    from harness.check import check as findings_of
    from harness.progress import Talk
    from harness.reports import findings as view

    app = _app(store or ROOT / "results" / "checks", manifest)
    chosen, absent = _contestants(app, names)
    options = Options(fresh=fresh, log_limit=_log_limit(), jobs=_jobs(jobs, EngineChoice.VIRTUAL), stall=_stall())
    with Talk(_console()) as talk:
        found = list(findings_of(app, chosen.values(), options, talk))
    if as_json:
        _print_json(view.report(found, absent))
    else:
        view.show(found, absent, _paper())
    if any(item.failed for item in found):
        raise typer.Exit(FAILED)


@cli.command()
def divergence(
    what: Annotated[
        list[str], typer.Argument(help="Folders of two stored runs; or one scenario, to run again and again.")
    ],
    client: Annotated[str, typer.Option(help="Client implementation.")] = "ngtcp2",
    server: Annotated[str, typer.Option(help="Server implementation.")] = "ngtcp2",
    times: Annotated[int, typer.Option(help="Runs at most, until one parts from the first.", min=2)] = 2,
    seed: Seed = 1,
    settings: Settings = None,
    keep: Annotated[
        Path | None, typer.Option(help="Folder that keeps the runs and their traces; none without.")
    ] = None,
    manifest: Manifests = None,
    as_json: AsJson = False,
) -> None:
    """Say where two runs of one cell part: first other packet, random bytes, and, of a cell run here, system call.

    A cell is run in virtual time, with a trace of its system calls. The exit code is 1 when the runs part.
    """
    from harness.divergence import stored
    from harness.reports import divergence as view

    made = 2
    if len(what) == 2:
        found = stored(Path(what[0]), Path(what[1]))
    elif len(what) == 1:
        found, made = _repeated(what[0], client, server, times, seed, settings, keep, manifest)
    else:
        raise InputError(f"{len(what)} things are named", "name one scenario, or the folders of two stored runs")
    if as_json:
        _print_json(view.report(found, made))
    else:
        _print(view.text(found, made))
    raise typer.Exit(MET if found.identical else FAILED)


def _repeated(
    scenario: str,
    client: str,
    server: str,
    times: int,
    seed: int,
    settings: list[str] | None,
    keep: Path | None,
    manifest: list[Path] | None,
) -> tuple[Divergence, int]:
    """Run one cell until two runs part; (where they do, runs made)."""
    import tempfile

    from harness.app import Options
    from harness.divergence import repeated
    from harness.progress import Talk

    app = _app(manifests=manifest)
    request = _request(
        app, [scenario], client, server, 1, seed, EngineChoice.VIRTUAL, KernelChoice.AUTO, settings
    )  # fmt: skip
    options = Options(log_limit=_log_limit(), stall=_stall())
    with tempfile.TemporaryDirectory(prefix="quic-lab-divergence-") as scratch, Talk(_console()) as talk:
        cells = app.matrix(request, talk, pull=True)
        if len(cells) != 1:
            raise InputError(f"{scenario}: {len(cells)} cells", "name one client and one server; give --set one value")
        if keep is not None and keep.exists() and any(keep.iterdir()):
            raise InputError(f"--keep {keep}: there is something in it", "name a folder that is new or empty")
        return repeated(app, cells[0], times, keep or Path(scratch), options, talk)


@cli.command()
def bench(
    parts: Annotated[list[str] | None, typer.Argument(help="virtual, real; both without.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the harness itself: overhead, rates and delays in real time; repeatability and speed in virtual time."""
    from harness.bench import PARTS
    from harness.bench import bench as run_bench

    for part in parts or []:
        if part not in PARTS:
            raise InputError(f"no benchmarks '{part}'", did_you_mean(part, PARTS))
    content = run_bench(_app(), _console(), parts or list(PARTS))
    if as_json:
        _print_json(content)


def _complain(error: HarnessError) -> None:
    console = _console()
    lines = error.message.splitlines() or [""]
    console.print(f"error: {lines[0]}", style="red", soft_wrap=True, markup=False)
    for line in lines[1:]:
        console.print(f"       {line}", soft_wrap=True, markup=False)
    if error.hint:
        console.print(f"hint: {error.hint}", soft_wrap=True, markup=False)


def main() -> None:
    """Entry point: errors become one message, a hint and an exit code."""
    # Who cancels a job, or closes its terminal, wants what Ctrl-C does: nothing left behind.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    try:
        cli()
    except HarnessError as error:
        if os.environ.get("HARNESS_DEBUG"):
            raise
        _complain(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        if os.environ.get("HARNESS_DEBUG"):
            raise
        _complain(_fault(error))
        sys.exit(FAULT)


def _fault(error: Exception) -> HarnessError:
    """What to say of an exception that nobody expected; its traceback goes into a file."""
    said = f"the harness itself failed: {reason(error)}"
    file = ROOT / ".state" / f"fault-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.log"
    try:
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join([f"{shlex.join(sys.argv)}\n\n", *traceback.format_exception(error)]))
    except OSError:
        return HarnessError(said, "HARNESS_DEBUG=1 shows where")
    return HarnessError(said, f"{file} says where; finished runs are kept")


if __name__ == "__main__":
    main()
