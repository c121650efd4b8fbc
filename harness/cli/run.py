"""Commands that plan and run cells: `plan`, `run`, `reach`, `why`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from harness.cli.consoles import console, print_document, print_error
from harness.cli.environment import cores, lab_kernel, open_app, stall
from harness.cli.options import (
    EngineChoice,
    Jobs,
    PlanArguments,
    Repeat,
    RunArguments,
    command_with,
    jobs_of,
    parse_repetitions,
)
from harness.cli.signals import (
    BISECT_ABORT,
    BISECT_SKIP,
    INTERRUPTED,
    bisect_exit_code,
    exit_code,
    handle_interrupts,
    interrupted_exit,
)
from harness.cli.site import write_site
from harness.cli.stored import ReportArguments
from harness.errors import HarnessError, InputError, NoDataError, describe_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.evaluation.cell_result import CellResult
    from harness.evaluation.retention import RequestedEvidence
    from harness.execution import App
    from harness.execution.events import Listener
    from harness.execution.matrix import PlannedRun, Request, ShardSummary
    from harness.outcome import Cell


# --- Figures of cells beside each other, at the end of a `run`.


def draw_comparisons(results: Sequence[CellResult], folder: Path) -> None:
    """Draw the rankings of cells of one scenario, and print the files' names. An error here costs no verdict."""
    from harness.evaluation.ranking import rank_cells
    from harness.report.results import group_by_scenario

    messages = console()
    cell_rankings = [ranking for cells in group_by_scenario(results) for ranking in rank_cells(cells)]
    if not cell_rankings:
        return
    try:
        from harness.report.plots.distribution import write_ranking

        for ranking in cell_rankings:
            if (file := write_ranking(ranking, folder)) is not None:
                messages.print(f"{ranking.name} of {len(ranking.cells)} cells: {file}", soft_wrap=True, markup=False)
    except Exception as error:  # the verdicts are valid all the same
        messages.print(
            f"warning: no figure of the cells: {describe_error(error)}", style="yellow", soft_wrap=True, markup=False
        )


# --- run


#: Runs that are tried until one can be drawn: those that ended early have nothing to show.
_DRAW_ATTEMPTS = 5


@command_with(RunArguments)
def run(asking: RunArguments) -> None:
    """Run what is not stored yet, print the verdicts, and draw figures: of flows that share a path, or of the worst
    download.
    """
    if not asking.expect:
        raise typer.Exit(_run(asking, lambda results: exit_code(results, strict=asking.strict)))
    try:
        raise typer.Exit(_run(asking, bisect_exit_code))
    except HarnessError as error:
        print_error(error)
        raise typer.Exit(BISECT_ABORT if isinstance(error, InputError) else BISECT_SKIP) from None


def _run(asking: RunArguments, code_of: Callable[[Sequence[CellResult]], int]) -> int:
    """Run, and print what came of it. Returns the exit code."""
    from harness.execution.scheduler import UnbuiltError
    from harness.report.migration import cells_with_moves, migration_document
    from harness.report.progress import ProgressPrinter
    from harness.report.results import results_document

    app = asking.open()
    request = asking.request(app)
    options = asking.options(request)
    # An error in what is run last is better now than after minutes of runs, too.
    real_time = _RealTime(asking.in_real_time, app) if asking.check_real else None
    if asking.html is not None:
        from harness.report.site.build import require_site_folder

        # An error is better now than after hours of runs.
        require_site_folder(asking.html)
    progress = ProgressPrinter(console())
    unbuilt: UnbuiltError | None = None
    try:
        with progress, handle_interrupts(progress.interrupted, app.kill_all):
            results = app.run(request, options, progress)
    except UnbuiltError as error:
        unbuilt, results = error, error.results
    except KeyboardInterrupt:
        raise interrupted_exit() from None
    if not asking.as_json:
        print_document(results_document(results, reasons=False))
    real_results = real_time.results() if real_time is not None else []
    every = [*results, *real_results]
    if asking.as_json:
        print_document(results_document(every), as_json=True)
    if not asking.as_json and (migrations := cells_with_moves(results)):
        print_document(migration_document(migrations))
    if not asking.as_json:
        _print_effects(results)
    if asking.draw:
        draw_comparisons(results, app.store.root / "figures")
        _draw_figures(app, results, asking.jobs or cores(), progress)
    site = write_site(app, every, asking.html) if asking.html is not None else ""
    if asking.as_json:
        if site:
            console().print(site, soft_wrap=True)
    else:
        _print_closing(results, real_results, site)
    if unbuilt is not None:
        raise unbuilt
    return code_of(results)


class _RealTime:
    """The runs of `--check-real`: each implementation with itself on Compose."""

    def __init__(self, asking: RunArguments, app: App) -> None:
        """Plan the runs. Raises InputError."""
        self._app, self._request = app, asking.request(app)
        self._options = asking.options(self._request)

    def results(self) -> list[CellResult]:
        """Run what is not stored. An error is a warning: the verdicts in virtual time are valid all the same."""
        from harness.execution.events import Warned
        from harness.execution.scheduler import UnbuiltError
        from harness.report.progress import ProgressPrinter

        sys.stdout.flush()
        progress = ProgressPrinter(console())
        try:
            with progress, handle_interrupts(progress.interrupted, self._app.kill_all):
                return self._app.run(self._request, self._options, progress)
        except UnbuiltError as error:
            progress(Warned(error.message))
            return error.results
        except HarnessError as error:
            progress(Warned(f"nothing in real time: {error.message}"))
            return []
        except KeyboardInterrupt:
            raise interrupted_exit() from None


def _print_effects(results: Sequence[CellResult]) -> None:
    """Print what the factors of studies and sweeps are worth, as `report study` does; nothing without any."""
    from harness.doe.effects import analyse_all
    from harness.doe.effects.samples import group_profiles
    from harness.report.effects import effects_document

    if len(results) < 2 or not any(result.cell.parameters or result.cell.scenario.study for result in results):
        return
    evaluated = analyse_all(results), group_profiles(results)
    if any(evaluated):
        print_document(effects_document(evaluated))


def _print_closing(results: Sequence[CellResult], real_results: Sequence[CellResult], site: str) -> None:
    """Print what matters of the cells, at the end of the output."""
    from harness.report.closing import closing_document
    from harness.report.compare import comparisons

    ran = {(result.cell.scenario.name, result.cell.client.name, result.cell.server.name) for result in real_results}
    both = [
        result
        for result in (*results, *real_results)
        if (result.cell.scenario.name, result.cell.client.name, result.cell.server.name) in ran
    ]
    print_document(closing_document(results, site=site, compared=comparisons(both)))


def _draw_figures(app: App, results: list[CellResult], processes: int, listen: Listener) -> None:
    """Draw the missing figures of a finished `run`. An error here costs none of its runs and verdicts."""
    from harness.execution.events import Warned
    from harness.report.plots.stored import cells_with_figures, rank_runs

    chosen, notable = cells_with_figures(results), rank_runs(results)
    target, messages = app.store.root / "figures", console()
    if not chosen and not notable:
        return
    sys.stdout.flush()
    try:
        from harness.report.plots.stored import draw_outdated, draw_transfer

        # Only one of many is drawn here. `harness plot` draws the others.
        for result, stored_run, measured in notable[:_DRAW_ATTEMPTS]:
            file = draw_transfer(app.store, stored_run, measured, target, app.paths.cache)
            if file is not None:
                name = f"{result.cell.scenario.name} {result.name} #{stored_run.repetition}"
                messages.print(_with_link(f"{name} over time: {file}", file), soft_wrap=True)
                messages.print(f"  harness plot {stored_run.name} draws it as a page and as PNG, too", soft_wrap=True)
                break
        if chosen:
            drawing = draw_outdated(
                app.store,
                chosen,
                app.results.find,
                target,
                app.paths.cache,
                processes,
                lambda text: messages.print(text, soft_wrap=True),
            )
            for problem in drawing.problems():
                listen(Warned(problem))
            messages.print(_with_link(drawing.sentence(str(target)), target), soft_wrap=True)
    except KeyboardInterrupt:
        message = "interrupted while drawing; all runs are stored, and the same command draws the rest"
        messages.print(message, soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:  # the verdicts are valid all the same
        listen(Warned(f"no figures: {describe_error(error)}"))


def _with_link(sentence: str, place: Path) -> Text:
    """A sentence for a console, with a link on the path in it."""
    text = Text(sentence)
    text.highlight_words([str(place)], f"link {place.resolve().as_uri()}")
    return text


# --- `harness plan`.


@command_with(PlanArguments)
def plan(asking: PlanArguments) -> None:
    """Print the runs a request amounts to, which of them are stored, how long the rest takes and what of the disk.

    Takes the words of `run`; those that say what becomes of results change nothing here, but for --evidence.
    """
    from harness.execution.estimates import DiskUse
    from harness.execution.matrix import UntilDecided, named_implementations, study_designs, swept_points
    from harness.execution.repetitions import RepetitionPlan
    from harness.formatting import format_size
    from harness.report.designs import plan_document
    from harness.report.progress import duration_text

    app = asking.open()
    request = asking.request(app)
    # Options that 'harness run' refuses are refused here, too.
    options = asking.options(request)
    matrix = app.matrix(request, lambda event: None, pull=False)
    studies = study_designs(
        request, {name: app.inventory.implementation(name) for name in named_implementations(swept_points(request))}
    )
    series = RepetitionPlan(matrix, request.repetitions, app.results.result_of)
    stored = (
        set()
        if asking.fresh
        else app.results.completed_runs(
            series.possible_runs(), asking.again, options.evidence if options.evidence_required else "figures"
        )
    )
    # With --repeat auto: only the repetitions that are needed by what is stored now.
    series.first_runs(stored)
    planned = [item for item in series.possible_runs() if item.repetition < series.scheduled_count(item.cell)]
    stored &= {(item.cell.key, item.repetition) for item in planned}
    todo = [item for item in planned if (item.cell.key, item.repetition) not in stored]
    experience = app.duration_model(matrix)
    seconds = sum(experience.expected_seconds(item.cell) for item in todo)
    parallel = asking.beside
    disk = DiskUse(app.store, options.evidence, app.cache.www)
    need, free = disk.need(todo, parallel), disk.free()
    shards = _shards(asking.shards or 0, todo, experience.expected_seconds)
    room = {
        "least": need.minimum,
        "stay": need.maximum,
        "meanwhile": need.temporary,
        "served": need.served_files,
        "free": free,
    }
    print_document(plan_document(planned, stored, seconds, room, shards, studies), as_json=asking.as_json)
    if asking.as_json:
        return
    undecided = isinstance(request.repetitions, UntilDecided) and len(stored) < len(planned)
    suffix = ", then more until the objectives are decided" if undecided else ""
    minutes = f"about {duration_text(seconds / max(1, min(parallel, len(todo))))} to run" + (
        f", {parallel} at a time" if parallel > 1 else ""
    )
    console().print(
        f"{len(matrix)} cells, {len(planned)} runs, {len(stored)} stored, {minutes} (builds not counted){suffix}",
        soft_wrap=True,
    )
    if todo:
        fits = ""
        if (has_room := disk.fits(need)) is False:
            fits = ": they do not fit, and 'harness run' would refuse them"
        elif has_room is None:
            fits = ": where too many of them fail, that will not do"
        console().print(f"{need.text}; {format_size(free)} are free{fits}", soft_wrap=True)


def _shards(count: int, todo: Sequence[PlannedRun], expected: Callable[[Cell], float]) -> list[ShardSummary]:
    """The runs and expected seconds of each of `count` shards."""
    from harness.evaluation.cell_result import point_of
    from harness.execution.matrix import Shard, ShardSummary

    shares = []
    for number in range(1, count + 1):
        shard = Shard(number, count)
        shard_runs = [item for item in todo if shard.includes(point_of(item.cell))]
        seconds = sum(expected(item.cell) for item in shard_runs)
        shares.append(
            ShardSummary(f"{number}/{count}", len({item.cell.key for item in shard_runs}), len(shard_runs), seconds)
        )
    return shares


# --- `harness reach`.


@dataclass(frozen=True)
class ReachArguments(RunArguments):
    """The arguments of `run`, and the limit of the search."""

    budget: Annotated[
        int, typer.Option("--budget", help="Sets of settings that may be tried for each pair.", min=1, max=10000)
    ] = 60
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown on stdout.")] = False


def _searched_evidence(asking: RunArguments, request: Request) -> RequestedEvidence:
    """What the runs of a search keep."""
    from harness.evaluation.retention import default_evidence

    return default_evidence(request.engine, many=True) if asking.evidence is None else asking.evidence.value


@command_with(ReachArguments)
def reach(asking: ReachArguments) -> None:
    """Search a study's factors for the fewest settings with which each pair meets all objectives of its scenario.

    Stored runs count; missing ones are made. The same command goes on where it was stopped, and a larger budget
    where a smaller one ended.
    """
    from harness.doe.settings_search import run_searches as search
    from harness.report.designs import searches_document
    from harness.report.progress import ProgressPrinter

    if asking.shard or asking.html is not None:
        raise InputError("a search has no shards, and no site", "leave --shard and --html out")
    app = asking.open()
    request = asking.request(app)
    options = replace(asking.options(request), evidence=_searched_evidence(asking, request))
    output = console()
    progress = ProgressPrinter(output)

    def say(text: str) -> None:
        output.print(text, soft_wrap=True, markup=False)

    try:
        with progress, handle_interrupts(progress.interrupted, app.kill_all):
            search_result = search(app, request, options, asking.budget, progress, say)
    except KeyboardInterrupt:
        raise interrupted_exit() from None
    print_document(searches_document(search_result), markdown=asking.markdown, as_json=asking.as_json)


# --- `harness why`.


@dataclass(frozen=True)
class WhyArguments(ReportArguments):
    """The arguments that select stored cells, and those of their runs."""

    repeat: Repeat = None
    jobs: Jobs = None


@command_with(WhyArguments)
def why(asking: WhyArguments) -> None:
    """Run stored cells with each cause of lost time removed, and with all of them removed together, in virtual time.

    Prints what was predicted, what was saved, and what no setting removes. A cell whose figures depend on the seed gets
    six runs of each, others one. Stored runs count; the same command goes on where it was stopped.
    """
    from harness.doe.interventions import Explained, explain, runs_of, trial_keys
    from harness.doe.settings_search import drive_searches
    from harness.execution import Options
    from harness.report.progress import ProgressPrinter
    from harness.report.why import why_document
    from harness.store.identity import with_key

    app = open_app(asking.store)
    repetitions = parse_repetitions(asking.repeat)
    if repetitions is not None and not isinstance(repetitions, int):
        raise InputError(f"--repeat {asking.repeat}: every cell needs as many runs as its base", "give a number")
    options = Options(
        jobs=jobs_of(asking.jobs, EngineChoice.VIRTUAL), stall=stall(), kernel=lab_kernel(), evidence="figures"
    )
    results = asking.cells(app, every=asking.every)
    trials = trial_keys(results)
    cells = {
        (cell := app.current_cell(result.cell.model_copy(update={"engine": "virtual", "sim_kernel": "lab"}))).key: cell
        for result in results
        if result.cell.key not in trials
    }
    entries = list[Explained | None]()
    progress = ProgressPrinter(console())
    try:
        with progress, handle_interrupts(progress.interrupted, app.kill_all):
            for count in sorted({repetitions or runs_of(cell) for cell in cells.values()}):
                experiments = [
                    explain(cell, partial(with_key, ledger=app.ledger))
                    for cell in cells.values()
                    if count == (repetitions or runs_of(cell))
                ]
                run_cells = partial(app.run_cells, repetitions=count, options=options, listen=progress)
                entries += drive_searches(experiments, run_cells)
    except KeyboardInterrupt:
        raise interrupted_exit() from None
    explained = [entry for entry in entries if entry is not None]
    asking.print(why_document(explained))
    if not explained:
        raise NoDataError(
            "no run of these cells says where its time went", "docs/because.md says of which runs it is known"
        )
