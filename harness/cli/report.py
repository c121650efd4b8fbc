"""`harness report` and the tables that are commands below it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from harness.cli import completion
from harness.cli.consoles import console, empty_json_if_absent, print_document, print_json, print_text, print_warning
from harness.cli.environment import open_app, store_folder
from harness.cli.gate import Allow, Within, build_gate_report
from harness.cli.options import (
    AsJson,
    AsMarkdown,
    Clients,
    Every,
    Servers,
    StoredScenarios,
    StoreFolder,
    command_with,
    split_words,
)
from harness.cli.site import NightFolders, open_site, read_nights, write_site
from harness.cli.stored import ReportArguments, StoredArguments, stored_cells
from harness.errors import InputError, NoDataError, did_you_mean
from harness.formatting import format_count

# --- A command that has subcommands, and arguments of its own in the same place.


class WithSubcommands(TyperGroup):
    """Takes the first word for a subcommand where it names one, else for an argument of its own.

    Options may come before or after that word, as in `report --json metrics`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Leave a subcommand's name and its arguments in `ctx.args`; nothing where there is none."""
        # The parser of a group stops at the first word. That word and the rest become arguments.
        parsed, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        (argument,) = (parameter.name for parameter in self.params if parameter.param_type_name == "argument")
        words = list(parsed.get(argument) or ())
        if not words or words[0] not in self.commands:
            ctx.allow_interspersed_args = True
            return super().parse_args(ctx, args)
        super().parse_args(ctx, [])
        reordered = [words[0], *args[: len(args) - len(words)], *words[1:]]
        ctx.args = reordered
        return reordered

    def invoke(self, ctx: Any) -> Any:
        """Call the named subcommand, or the group's own function."""
        if not ctx.args:
            return super().invoke(ctx)
        name, *args = ctx.args
        # With the group's parent as parent, the usage line shows no arguments of the group.
        with self.commands[name].make_context(f"{ctx.info_name} {name}", args, parent=ctx.parent) as below:
            return below.command.invoke(below)


# --- report


reports = typer.Typer(cls=WithSubcommands, invoke_without_command=True)


def _subcommands(incomplete: str = "") -> list[str]:
    """The subcommands that begin with these letters."""
    return [name for command in reports.registered_commands if (name := command.name or "").startswith(incomplete)]


def _words(incomplete: str) -> list[str]:
    """Completions of the first word: tables and scenarios."""
    return [*_subcommands(incomplete), *completion.scenarios(incomplete)]


@reports.callback()
def report(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(
            help="Scenarios, or cells and runs by the names that tables print; all stored ones without.",
            autocompletion=_words,
        ),
    ] = None,
    clients: Clients = "all",
    servers: Servers = "all",
    store: StoreFolder = None,
    every: Every = False,
    markdown: AsMarkdown = False,
    grid: Annotated[
        bool, typer.Option("--grid", help="Clients down, servers across: a figure or a reason a pair.")
    ] = False,
    metrics_asked: Annotated[
        str,
        typer.Option(
            "--metrics",
            help="Metrics to show and to rank cells by, separated by commas: mean_srtt, flow1_goodput, "
            "repeat_completion (docs/metrics.md has them).",
        ),
    ] = "",
    why: Annotated[
        bool,
        typer.Option("--why", help="End with what 'harness why' measured of the cells that miss an objective."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the verdicts of stored runs, and how their cells compare; needs no Docker.

    The commands below print other tables.
    """
    from harness.report.column_selection import parse_metrics
    from harness.report.grid import grid_document
    from harness.report.results import results_document

    with empty_json_if_absent(as_json, lambda: results_document([])):
        app = open_app(store)
        results = stored_cells(app, scenarios, clients, servers, every=every, instead=_subcommands())
    chosen_metrics = parse_metrics(metrics_asked, results)
    document = grid_document(results) if grid and not as_json else results_document(results, chosen_metrics)
    if why:
        from harness.report.why import with_explanations

        document = with_explanations(document, results, app.results.find(lambda cell: True, every=every))
    print_document(document, markdown=markdown, as_json=as_json)


@reports.command("metrics")
@command_with(ReportArguments)
def metrics(asking: ReportArguments) -> None:
    """Print the metrics of flows, bottleneck and network of stored runs with several flows."""
    from harness.report.metrics import metrics_document

    asking.print_report(metrics_document)


@reports.command("moves")
@command_with(ReportArguments)
def moves(asking: ReportArguments) -> None:
    """Print what servers do when a client moves, with the evidence, beside RFC 9000 §9.4 and a published survey."""
    from harness.report.migration import cells_with_moves, migration_document

    asking.print_report(lambda results: migration_document(cells_with_moves(results)))


@dataclass(frozen=True)
class InteropArguments(ReportArguments):
    """The arguments of a report, and what is special to the interop runner."""

    published: Annotated[
        Path | None, typer.Option("--from", help="A result.json of the interop runner, to be shown beside.")
    ] = None
    as_result: Annotated[
        bool, typer.Option("--result-json", help="Print what the interop runner writes (its result.json).")
    ] = False
    logs: Annotated[
        Path | None,
        typer.Option("--logs", help="With --result-json: a new folder for the logs and captures that its links name."),
    ] = None
    list_checks: Annotated[
        bool, typer.Option("--checks", help="Print what the checks of a scenario can demand, and no results.")
    ] = False


@reports.command("interop")
@command_with(InteropArguments)
def interop(asking: InteropArguments) -> None:
    """Print which of the interop runner's test cases succeed, pair by pair, and the first wrong packet of failures."""
    from harness.analysis.interop import declared_checks
    from harness.analysis.interop.registry import FOLDER
    from harness.analysis.interop.runner_json import to_matrix
    from harness.report import interop as view

    if asking.list_checks:
        asking.print(view.checks_document(list(declared_checks().values())))
        return
    published, app = asking.published, open_app(asking.store)
    runner_results = to_matrix(_read_document(published), str(published)) if published is not None else None
    with empty_json_if_absent(asking.as_json, lambda: view.interop_document(view.matrix_of([]))):
        words = asking.scenarios or [FOLDER.rstrip("/")]
        results = stored_cells(app, words, asking.clients, asking.servers, every=asking.every)
        if why := view.empty_reason(results):
            raise NoDataError(why, f"test cases are below {FOLDER}; 'harness report' shows other cells")
    matrix = view.matrix_of(results)
    if asking.logs is not None and not asking.as_result:
        raise InputError("--logs goes with --result-json", "the logs are those that result.json has links to")
    if asking.as_result:
        if asking.logs is not None:
            from harness.report.interop_logs import write_logs

            if incomplete := write_logs(results, asking.logs):
                print_warning(
                    f"{format_count(len(incomplete), 'run')} without captures, {incomplete[0]} among them: "
                    "'harness run --evidence full' keeps them"
                )
        titles = {result.cell.scenario.name.removeprefix(FOLDER): result.cell.scenario.title for result in results}
        log_folder = "" if asking.logs is None else asking.logs.resolve().name
        print_json(view.result_json(results, titles, log_folder))
    else:
        asking.print(view.interop_document(matrix, runner_results))


@dataclass(frozen=True)
class StudyArguments(ReportArguments):
    """The arguments of a report, and figures of it."""

    draw: Annotated[
        Path | None,
        typer.Option("--figures", help="Folder to draw into: effects ranked, a heat map, a response curve."),
    ] = None
    heat: Annotated[
        str,
        typer.Option("--heat", metavar="NAME,NAME", help="The two factors of the heat map; the greatest two without."),
    ] = ""
    response: Annotated[
        str, typer.Option("--response", metavar="NAME", help="The factor of the response curve; the greatest without.")
    ] = ""


@reports.command("study")
@command_with(StudyArguments)
def study(asking: StudyArguments) -> None:
    """Print what the factors of studies are worth in seconds, ranked, with intervals; and profiles side by side."""
    from harness.doe.effects import analyse_all
    from harness.doe.effects.samples import group_profiles
    from harness.report.effects import effects_document

    results = asking.results(lambda: effects_document(([], [])))
    heat, response, draw = asking.heat, asking.response, asking.draw
    evaluated = analyse_all(results), group_profiles(results)
    factors = {name for analysis in evaluated[0] for name in analysis.sample.factors}
    axes = split_words(heat)
    named = [*axes, *filter(None, [response.strip()])]
    for word in named:
        if word not in factors:
            raise InputError(f"no stored study has a factor '{word}'", did_you_mean(word, factors))
    if heat and len(axes) != 2:
        raise InputError(
            f"--heat {heat}: a heat map is of two factors", "write --heat server.initial_rtt,client.ack_ratio"
        )
    asking.print(effects_document(evaluated))
    if draw is not None:
        from harness.report.plots.study import study_figures, write_study_figures

        for study_name in dict.fromkeys(analysis.sample.name for analysis in evaluated[0]):
            matching = [
                analysis
                for analysis in evaluated[0]
                if analysis.sample.name == study_name and {*named} <= {*analysis.sample.factors}
            ]
            figures = study_figures(matching, (axes[0], axes[1]) if heat else None, response) if matching else {}
            for file in write_study_figures(figures, draw.resolve()):
                console().print(str(file), soft_wrap=True)


def _read_document(file: Path) -> Any:
    from harness.analysis.interop.runner_json import parse
    from harness.store.records import read_record_bytes

    try:
        # The user named the file, so a link is followed.
        return parse(read_record_bytes(file.resolve()), str(file))
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}", "is the name the one you meant?") from error


@reports.command("junit")
@command_with(StoredArguments)
def junit(asking: StoredArguments) -> None:
    """Print the verdicts as JUnit XML, for CI systems: a suite a scenario, a case a cell."""
    from harness.report.gate import junit_verdicts

    print_text(junit_verdicts(asking.cells()))


@dataclass(frozen=True)
class SummaryArguments(StoredArguments):
    """The arguments that select cells, and what they are compared with."""

    baseline: Annotated[
        Path | None, typer.Option("--baseline", help="Store of the runs to compare with; what changed comes first.")
    ] = None
    allow: Allow = None
    within: Within = "3%"


@reports.command("summary")
@command_with(SummaryArguments)
def summary(asking: SummaryArguments) -> None:
    """Print a summary of stored runs in Markdown, for a CI job: what changed since the baseline, verdicts, tables."""
    from harness.report.gate import nightly_document

    gate_report = None
    if asking.baseline is not None:
        gate_report = build_gate_report(asking, asking.baseline, asking.allow, asking.within)
    print_document(nightly_document(asking.cells(), gate_report), markdown=True)


@reports.command("parameters")
def parameters(markdown: AsMarkdown = False, as_json: AsJson = False) -> None:
    """Print the vocabulary of parameters."""
    from harness.report.parameters import vocabulary_document

    print_document(vocabulary_document(), markdown=markdown, as_json=as_json)


@reports.command("defaults")
def defaults(store: StoreFolder = None, markdown: AsMarkdown = False, as_json: AsJson = False) -> None:
    """Print the defaults in force of every implementation, confirmed by stored runs where these show them."""
    from harness.report import parameters as view

    results = [
        result
        for folder in ([store] if store else [store_folder(), store_folder("checks")])
        for result in open_app(folder).results.find(lambda cell: True, every=True)
    ]
    catalogue = open_app().catalogue
    implementations = [item for item, _ in catalogue.implementations().values() if item.parameters and item.speaks_quic]
    table = view.defaults(implementations, view.observations(results))
    print_document(view.defaults_document(table), markdown=markdown, as_json=as_json)


@reports.command("trend")
def trend(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Folders of nights' stores, or stores; results/nights without.")
    ] = None,
    scenarios: Annotated[
        list[str] | None,
        typer.Option(
            "--scenario", help="A scenario, or a folder of them; all without.", autocompletion=completion.scenarios
        ),
    ] = None,
    clients: Clients = "all",
    servers: Servers = "all",
    markdown: AsMarkdown = False,
    as_json: AsJson = False,
) -> None:
    """Print the headline figure of every cell over the nights of a folder of stores."""
    from harness.report.trend import trend_document

    with empty_json_if_absent(as_json, lambda: trend_document([])):
        nights = read_nights(folders or [store_folder("nights")], scenarios, clients, servers)
    print_document(trend_document(nights), markdown=markdown, as_json=as_json)


@reports.command("html")
def html(
    folder: Annotated[Path, typer.Argument(help="Folder of the site; made, or made anew.")],
    scenarios: StoredScenarios = None,
    clients: Clients = "all",
    servers: Servers = "all",
    store: StoreFolder = None,
    every: Every = False,
    baseline: Annotated[
        Path | None, typer.Option("--baseline", help="Store of the runs to compare with, for a page of what changed.")
    ] = None,
    allow: Allow = None,
    within: Within = "3%",
    nights: NightFolders = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write a site of stored runs that opens from the file system: heat maps, a page a cell with its evidence, one an
    implementation, and the studies. It fetches nothing from elsewhere.
    """
    app, asking = open_app(store), StoredArguments(scenarios, clients, servers, store)
    results = asking.cells(app, every=every)
    gate_report = None if baseline is None else build_gate_report(asking, baseline, allow, within)
    address = write_site(app, results, folder, gate_report, read_nights(nights) if nights else ())
    print_text(address)
    if open_it:
        open_site(address)
