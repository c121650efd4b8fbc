"""Commands on stored runs: `compare`, `merge`, `plot`, `judge`, `measure`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import completion
from harness.cli.consoles import console, empty_json_if_absent, print_document, print_json, print_text, print_warning
from harness.cli.environment import open_app
from harness.cli.options import (
    AsJson,
    AsMarkdown,
    Clients,
    Servers,
    StoredScenarios,
    StoreFolder,
    Strict,
    command_with,
    parse_span,
    parse_tolerance,
    require_choice,
    split_words,
)
from harness.cli.signals import FAILED, INFRASTRUCTURE, NOTHING, exit_code
from harness.cli.stored import StoredArguments, select_stored
from harness.errors import InputError, NoDataError, ResultError


@dataclass(frozen=True)
class CompareArguments(StoredArguments):
    """The arguments of `harness compare`."""

    within: Annotated[str, typer.Option(help="Difference of the medians up to which the engines agree.")] = "3%"
    markdown: AsMarkdown = False
    as_json: AsJson = False


@command_with(CompareArguments)
def compare(asking: CompareArguments) -> None:
    """Compare the two engines over stored runs of the same cells: medians, differences, and what explains them.

    The exit code is 1 when engines disagree and nothing measured explains it, 5 when there is nothing to compare.
    """
    from harness.report.compare import comparison_document, comparisons

    tolerance = parse_tolerance("--within", asking.within)
    with empty_json_if_absent(asking.as_json, lambda: comparison_document([])):
        compared = comparisons(asking.cells(), within=tolerance)
    print_document(comparison_document(compared), markdown=asking.markdown, as_json=asking.as_json)
    if all(item.within is None for item in compared):
        raise typer.Exit(NOTHING)
    if any(item.within is False and item.reason == "not_explained" for item in compared):
        raise typer.Exit(FAILED)


# --- `harness merge`.


def merge(
    stores: Annotated[list[Path], typer.Argument(help="Stores whose runs are taken over: folders, or in columns.")],
    store: StoreFolder = None,
    as_json: AsJson = False,
) -> None:
    """Take the runs of other stores into one, each once: those of shards, say, or of another machine.

    A run that the store has with other figures is not taken but named, and the exit code is 1.
    """
    from harness.store.merge import merge as merged
    from harness.store.results import is_columnar

    app = open_app(store)
    if is_columnar(app.store.root):
        raise InputError(
            f"{app.store.root} holds reference runs in columns, and no run is written there", "name another --store"
        )
    for folder in stores:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder, so there are no runs in it", "name the folder of a store")
        if folder.resolve() == app.store.root.resolve():
            raise InputError(f"{folder}: that is the store itself", "name others")
    sources = [open_app(folder).stored_runs for folder in stores]
    merge_result = merged(app.store, sources)
    for conflict in merge_result.conflicts:
        run = conflict.run
        label = f"{run.name} {run.cell.scenario.name} {run.cell.client.name}→{run.cell.server.name}"
        console().print(
            f"not taken: {label}: {conflict.why} ({conflict.rejected_path}; {conflict.kept_path} stays)",
            markup=False,
            soft_wrap=True,
        )
    for run, place in merge_result.skipped:
        print_warning(f"not taken: {place} of the run {run.name} is a link, or no file at all")
    if as_json:
        conflicts = [
            {"run": item.run.name, "why": item.why, "stays": item.kept_path, "not_taken": item.rejected_path}
            for item in merge_result.conflicts
        ]
        print_json({"schema": 1, "taken": merge_result.merged, "there": merge_result.present, "conflicts": conflicts})
    else:
        conflict_count = len(merge_result.conflicts)
        console().print(
            f"taken {merge_result.merged} runs, {merge_result.present} were there, {conflict_count} conflict"
        )
    if merge_result.conflicts:
        raise typer.Exit(FAILED)
    if not merge_result.merged and not merge_result.present:
        raise typer.Exit(NOTHING)


# --- `harness plot`.


def plot(
    scenarios: StoredScenarios = None,
    clients: Clients = "all",
    servers: Servers = "all",
    store: StoreFolder = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write into; figures/ in that of the results.")] = None,
    formats: Annotated[
        str, typer.Option(help="Of png, svg and html, separated by commas.", autocompletion=completion.formats)
    ] = "png,svg,html",
    only: Annotated[
        str,
        typer.Option(
            help="Figures to make, separated by commas; those that fit a run without.",
            autocompletion=completion.figures,
        ),
    ] = "",
    runs: Annotated[
        list[str] | None, typer.Option("--run", help="A run as KEY/REPETITION; the first of each cell without.")
    ] = None,
    together: Annotated[
        bool,
        typer.Option(
            "--together", help="All in one figure. So are two or more runs or cells that are named, without --only."
        ),
    ] = False,
    detail: Annotated[str, typer.Option(help="What a detail shows, as FROM-TO in seconds; chosen without.")] = "",
) -> None:
    """Draw stored runs, from the store alone: figures as PNG and SVG, and one interactive page a run (HTML).

    Several runs or cells that are named, as in `plot KEY/0 KEY/1` or `plot 'ngtcp2→quiche' 'quiche→quiche'`, share one
    figure; its legend says what they differ in. A run with RED is drawn beside that of the same cell with DropTail.
    Prints the files it wrote.
    """
    from harness.formatting import format_count
    from harness.report.plots.curves import MOST
    from harness.report.plots.registry import plots
    from harness.report.plots.render import Format, has_font, write_comparison, write_figures
    from harness.report.plots.stored import comparison_folder, find_subjects, run_folder

    app, messages = open_app(store), console()
    chosen = [require_choice("--only", name, plots()) for name in split_words(only)]
    kinds = [Format(require_choice("--formats", name, list(Format))) for name in split_words(formats)]
    shown = parse_span("--detail", detail)
    selection = select_stored(app, scenarios, clients, servers, every=bool(runs))
    run_names = list(dict.fromkeys([*selection.runs, *(runs or [])]))
    subjects = find_subjects(selection.results, app.results.find, run_names)
    one_figure = together or any(plots()[name].of == "runs" for name in chosen) or (selection.several and not chosen)
    if one_figure and len(subjects) > MOST:
        raise InputError(
            f"{len(subjects)} runs in one figure could not be told apart", f"name {MOST} at most: KEY/REPETITION"
        )
    for stored_run in (run for subject in subjects for run in subject.runs):
        app.results.make_series(stored_run)
    if Format.PNG in kinds and not has_font():
        messages.print("warning: this machine has no font, so PNGs have no words (Debian: fonts-dejavu-core)")
    target = out.resolve() if out is not None else app.store.root / "figures"
    without_series: list[str] = []
    if one_figure:
        drawn_runs = [subject.drawing(app.stored_runs, shown).run for subject in subjects]
        for file in (
            write_comparison(drawn_runs, target / comparison_folder(drawn_runs), kinds, app.paths.cache)
            if drawn_runs
            else []
        ):
            print_text(str(file))
        without_series = [run.run.name for run in drawn_runs if run.series is None]
    else:
        for subject in subjects:
            drawing = subject.drawing(app.stored_runs, shown)
            folder = target / run_folder(drawing.run.run)
            for file in write_figures(
                drawing.run, folder, kinds, app.paths.cache, partner=drawing.partner, only=chosen
            ):
                print_text(str(file))
            without_series += [drawing.run.run.name] if drawing.run.series is None else []
    if without_series:
        affected = f"{format_count(len(without_series), 'run')} (such as {without_series[0]})"
        messages.print(f"{affected}: no series are stored, so that only means could be drawn, if any", soft_wrap=True)


# --- `harness judge`.


@dataclass(frozen=True)
class JudgeArguments(StoredArguments):
    """The arguments of `harness judge`."""

    strict: Strict = False


@command_with(JudgeArguments)
def judge(asking: JudgeArguments) -> None:
    """Print one line per stored cell: verdict, reason, sentence. The exit code is that of run."""
    results = asking.cells()
    for item in results:
        verdict = item.verdict
        print_text(f"{verdict.status:12} {item.cell.scenario.name} {item.name}: {verdict.reason}: {verdict.sentence}")
    raise typer.Exit(exit_code(results, strict=asking.strict))


# --- `harness measure`.


@command_with(StoredArguments)
def measure(asking: StoredArguments) -> None:
    """Measure stored runs again from their artefacts. Needs no Docker.

    A run whose artefacts were damaged keeps the figures it has, and is named.
    """
    from harness.execution.measured_store import remeasure
    from harness.formatting import format_count

    app = open_app(asking.store)
    count = skipped = 0
    for result in asking.cells(app, every=True):
        for run, _ in result.runs:
            if not (app.store.folder(run.cell.key, run.repetition) / "sim").is_dir():
                continue
            try:
                remeasure(app.store, run)
                count += 1
            except ResultError as error:
                print_warning(f"{error.message} ({error.hint})")
                skipped += 1
    if not count + skipped:
        raise NoDataError("no stored run has artefacts to measure", "what is kept in columns has figures only")
    console().print(format_count(count, "run") + " measured" + (f", {skipped} left as they were" if skipped else ""))
    if skipped:
        raise typer.Exit(INFRASTRUCTURE)
