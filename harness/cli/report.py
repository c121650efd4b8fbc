"""`harness report` and the tables that are commands below it."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli import completion
from harness.cli.consoles import json_all_the_same, paper, print_json, print_text
from harness.cli.environment import ROOT, open_app
from harness.cli.options import AsJson, AsMarkdown, Clients, Every, Servers, StoredScenarios, StoreFolder
from harness.cli.stored import stored_cells
from harness.cli.subcommands import WithSubcommands

reports = typer.Typer(cls=WithSubcommands, invoke_without_command=True)


def _tables(incomplete: str = "") -> list[str]:
    """The commands below that begin so."""
    return [name for command in reports.registered_commands if (name := command.name or "").startswith(incomplete)]


def _words(incomplete: str) -> list[str]:
    """What may stand first: a table, or a scenario."""
    return [*_tables(incomplete), *completion.scenarios(incomplete)]


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
    as_json: AsJson = False,
) -> None:
    """Print the verdicts of stored runs, and how their cells compare; needs no Docker.

    The commands below print other tables.
    """
    from harness.reports import grid as grid_report
    from harness.reports import json_report, table
    from harness.reports import markdown as markdown_report
    from harness.reports.chosen import named

    with json_all_the_same(as_json, lambda: json_report.report([])):
        results = stored_cells(open_app(store), scenarios, clients, servers, every=every, instead=_tables())
    asked_for = named(metrics_asked, results)
    if as_json:
        print_json(json_report.report(results, asked_for))
    elif markdown:
        print_text(grid_report.markdown(results) if grid else markdown_report.report(results, asked_for))
    elif grid:
        grid_report.show(results, paper())
    else:
        table.show(results, paper(), asked_for)


@reports.command("metrics")
def metrics(
    scenarios: StoredScenarios = None,
    clients: Clients = "all",
    servers: Servers = "all",
    store: StoreFolder = None,
    every: Every = False,
    markdown: AsMarkdown = False,
    as_json: AsJson = False,
) -> None:
    """Print the metrics of flows, bottleneck and network of stored runs with several flows."""
    from harness.reports import flow_metrics

    with json_all_the_same(as_json, lambda: flow_metrics.report([])):
        results = stored_cells(open_app(store), scenarios, clients, servers, every=every)
    if as_json:
        print_json(flow_metrics.report(results))
    elif markdown:
        print_text(flow_metrics.markdown(results))
    else:
        flow_metrics.show(results, paper())


@reports.command("moves")
def moves(
    scenarios: StoredScenarios = None,
    clients: Clients = "all",
    servers: Servers = "all",
    store: StoreFolder = None,
    every: Every = False,
    markdown: AsMarkdown = False,
    as_json: AsJson = False,
) -> None:
    """Print what servers do when a client moves, with the evidence, beside RFC 9000 §9.4 and a published survey."""
    from harness.reports import moves as view

    with json_all_the_same(as_json, lambda: view.report([])):
        results = stored_cells(open_app(store), scenarios, clients, servers, every=every)
    moved = view.moved(results)
    if as_json:
        print_json(view.report(moved))
    elif markdown:
        print_text(view.markdown(moved))
    else:
        view.show(moved, paper())


@reports.command("parameters")
def parameters(markdown: AsMarkdown = False, as_json: AsJson = False) -> None:
    """Print the vocabulary of parameters."""
    from harness.reports import vocabulary

    if as_json:
        print_json(vocabulary.report())
    elif markdown:
        print_text(vocabulary.markdown())
    else:
        vocabulary.show(paper())


@reports.command("defaults")
def defaults(store: StoreFolder = None, markdown: AsMarkdown = False, as_json: AsJson = False) -> None:
    """Print the defaults in force of every implementation, confirmed by stored runs where these show them."""
    from harness.reports import defaults as view

    results = [
        result
        for folder in ([store] if store else [ROOT / "results", ROOT / "results" / "checks"])
        for result in open_app(folder).results.find(lambda cell: True, every=True)
    ]
    catalogue = open_app().catalogue
    known = [item for item, _ in catalogue.implementations().values() if item.parameters and item.speaks_quic]
    made = view.defaults(known, view.observations(results))
    if as_json:
        print_json(view.report(made))
    elif markdown:
        print_text(view.markdown(made))
    else:
        view.show(made, paper())
