"""`harness gate`."""

from __future__ import annotations

import datetime
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.consoles import annotate, console, print_document
from harness.cli.environment import endpoint_memory, log_limit, open_app, patience, require_linux, stall
from harness.cli.options import (
    AsJson,
    AsMarkdown,
    EngineChoice,
    Jobs,
    command_with,
    jobs_of,
    parse_tolerance,
    split_words,
)
from harness.cli.signals import FAILED, NOTHING, UNDECIDED, handle_interrupts
from harness.cli.site import NightFolders, read_nights, write_site
from harness.cli.stored import StoredArguments
from harness.errors import InputError, NoDataError, did_you_mean
from harness.formatting import escape_html, format_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.evaluation.cell_result import CellResult
    from harness.evaluation.regression.accepted_changes import AllowedNames
    from harness.execution import App
    from harness.report.gate import GateReport

Baseline = Annotated[Path, typer.Option("--baseline", help="Store of the runs to compare with.")]
Allow = Annotated[
    Path | None, typer.Option("--allow", help="File of accepted changes, each with a reason and a last day.")
]
Within = Annotated[str, typer.Option("--within", help="Change of a figure up to which it counts as the same.")]


@dataclass(frozen=True, kw_only=True)
class GateArguments(StoredArguments):
    """The arguments of `harness gate`."""

    baseline: Baseline
    allow: Allow = None
    within: Within = "3%"
    metrics_asked: Annotated[
        str, typer.Option("--metrics", help="Metrics to look at besides those of objectives and headlines, by commas.")
    ] = ""
    across: Annotated[
        str,
        typer.Option(
            "--across", metavar="NAMES", help="Parameters by commas: cells that differ in their values are compared."
        ),
    ] = ""
    until: Annotated[
        int | None,
        typer.Option(
            "--until",
            metavar="N",
            min=2,
            max=1000,
            help="Repeat what cannot be told until it can, at most N repetitions a cell.",
        ),
    ] = None
    jobs: Jobs = None
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write what is decided as JUnit XML, too.")
    ] = None
    summary: Annotated[
        Path | None,
        typer.Option("--summary", metavar="FILE", help="Write what 'harness report summary' prints, too, in Markdown."),
    ] = None
    site: Annotated[
        Path | None,
        typer.Option("--html", metavar="FOLDER", help="Write the site of these runs, too, with what changed."),
    ] = None
    nights: NightFolders = None
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            metavar="FOLDER",
            help="Keep the baseline's cells that have changed as a store in columns; for docs/changed.md, "
            "results/former.",
        ),
    ] = None
    update_baseline: Annotated[
        bool,
        typer.Option(
            "--update-baseline",
            help="Take these runs into the baseline if the gate is open; where there is no baseline, they become it.",
        ),
    ] = False
    strict: Annotated[
        bool, typer.Option("--strict", help="What cannot be told, and a cell that is gone, is exit code 4.")
    ] = False
    markdown: AsMarkdown = False
    as_json: AsJson = False


@command_with(GateArguments)
def gate(asking: GateArguments) -> None:
    """Compare stored runs with a baseline, figure by figure: same, better, worse, new, gone, or cannot tell, and why.

    The exit code is 1 when something is worse, or other though its bits are the same, and nobody has accepted it; 5
    when there is nothing to compare. With GITHUB_ACTIONS each such cell is annotated.
    """
    from harness.evaluation.regression.baseline import write_changed_cells
    from harness.report import gate as view

    if asking.update_baseline and not asking.baseline.exists():
        _start_baseline(asking)
        return

    def evaluate() -> GateReport:
        return build_gate_report(
            asking,
            asking.baseline,
            asking.allow,
            asking.within,
            asking.metrics_asked,
            asking.until,
            _parameter_names(asking.across),
        )

    if asking.until is not None:
        _repeat(asking.store, evaluate, asking.until, asking.jobs)
    gate_report = evaluate()
    print_document(view.gate_document(gate_report), markdown=asking.markdown, as_json=asking.as_json)
    if asking.junit is not None:
        _write(asking.junit, view.junit_decisions(gate_report))
    if asking.summary is not None:
        _write_summary(asking.summary, _cells(asking, open_app(asking.store)), gate_report)
    _write_site(asking, gate_report)
    if asking.keep is not None:
        write_changed_cells(
            asking.keep,
            [cell_report.weighed.decision for cell_report in gate_report.cells],
            gate_report.within,
            open_app(asking.baseline).stored_runs,
        )
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for text in view.workflow_commands(gate_report):
            annotate(text)
    if (code := _exit_code(gate_report, asking.strict)) is not None:
        raise typer.Exit(code)
    if asking.update_baseline:
        # Cells that these runs lack stay in the baseline, so that they are missed as long as they are.
        app = open_app(asking.store)
        _update_baseline(asking.baseline, asking.cells(app), app)


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()


def _parameter_names(words: str) -> tuple[str, ...]:
    """The parameters of --across: client.ack_ratio, and for ack_ratio those of both roles."""
    from harness.planning.sweep import dimensions, full_names, is_dimension

    names = split_words(words)
    for name in names:
        if not is_dimension(name):
            raise InputError(f"--across {name}: there is no such parameter", did_you_mean(name, dimensions()))
    return tuple(dict.fromkeys(full for name in names for full in full_names(name)))


def _exit_code(gate_report: GateReport, strict: bool) -> int | None:
    """The exit code of a gate that is not open; None for an open one."""
    if gate_report.alarms:
        return FAILED
    if not gate_report.open:
        return NOTHING
    if strict and gate_report.counts.keys() & {"cannot tell", "gone"}:
        return UNDECIDED
    return None


def _start_baseline(asking: GateArguments) -> None:
    """Make the selected runs the baseline, and write what was asked for beside it.

    In JUnit's XML the first night has the suite and the names of all later ones, and no failure.
    """
    from harness.evaluation.regression.accepted_changes import apply_allowances
    from harness.evaluation.regression.decision import decide, match_cells
    from harness.report.document import Document, Paragraph
    from harness.report.gate import CellReport, GateReport, junit_decisions

    app = open_app(asking.store)
    cells = asking.cells(app)
    if asking.junit is not None:
        within = parse_tolerance("--within", asking.within)
        applied = apply_allowances(decide(match_cells([], cells), within=within), (), _today())
        _write(
            asking.junit,
            junit_decisions(GateReport(tuple(CellReport(weighed, ()) for weighed in applied.cells), applied, within)),
        )
    if asking.summary is not None:
        _write_summary(asking.summary, cells, None)
    _write_site(asking, None)
    _update_baseline(asking.baseline, cells, app)
    text = f"There was no baseline; it is now these {format_count(len(cells), 'cell')}: {asking.baseline}"
    document = Document(
        {"baseline": str(asking.baseline), "cells": [cell.cell.key for cell in cells]}, [Paragraph(text)]
    )
    print_document(document, markdown=asking.markdown, as_json=asking.as_json)


def _update_baseline(baseline: Path, cells: list[CellResult], app: App) -> None:
    """Copy the runs of an app's cells into the baseline, without artefacts and series."""
    from harness.evaluation.publish import publish_runs, rekey

    publish_runs(baseline, cells, app.stored_runs, lambda run: False)
    rekey(baseline, app.ledger)


def _write_site(asking: GateArguments, gate_report: GateReport | None) -> None:
    """Write the site if it was asked for, and print its address."""
    if asking.site is None:
        return
    app = open_app(asking.store)
    if cells := _cells(asking, app):
        nights = read_nights([*(asking.nights or ()), app.paths.store]) if asking.nights else ()
        console().print(write_site(app, cells, asking.site, gate_report, nights), soft_wrap=True)


def _write_summary(file: Path, cells: list[CellResult], gate_report: GateReport | None) -> None:
    from harness.report.gate import nightly_document
    from harness.report.markdown import render_markdown

    _write(file, escape_html(render_markdown(nightly_document(cells, gate_report))))


def build_gate_report(
    asking: StoredArguments,
    baseline: Path,
    allow: Path | None,
    within: str,
    metrics_asked: str = "",
    until: int | None = None,
    across: tuple[str, ...] = (),
) -> GateReport:
    """The gate's decisions on the selected stored cells. Raises InputError, also where there is no baseline."""
    from harness.evaluation.regression.accepted_changes import apply_allowances, read_allowances
    from harness.evaluation.regression.decision import decide, match_cells, version_differences
    from harness.execution.more_repetitions import evaluation_sizes
    from harness.report.column_selection import parse_metrics
    from harness.report.gate import CellReport, GateReport

    tolerance = parse_tolerance("--within", within)
    app, baseline_app = open_app(asking.store), open_app(baseline)
    if not baseline.is_dir():
        raise InputError(f"{baseline}: no such folder, so there is no baseline", "'harness run --store' makes one")
    # A cell may be in one store only: that it is missing now is an answer, too.
    now, base = (_cells(asking, source) for source in (app, baseline_app))
    allowances = () if allow is None else read_allowances(allow, _names(app, [*now, *base]))
    if not now and not base:
        asking.cells(app)
    times = 1 if until is None else 1 + len(evaluation_sizes(until))
    decisions = decide(
        match_cells(base, now, across), parse_metrics(metrics_asked, [*now, *base]), within=tolerance, looks=times
    )
    applied = apply_allowances(decisions, allowances, _today())
    contents = (baseline_app.stored_runs.contents, app.stored_runs.contents)
    cell_reports = tuple(
        CellReport(
            weighed,
            ()
            if weighed.decision.status == "same"
            else tuple(version_differences(weighed.decision.pair, contents, app.ledger)),
        )
        for weighed in applied.cells
    )
    return GateReport(cell_reports, applied, tolerance)


def _names(app: App, cells: list[CellResult]) -> AllowedNames:
    """Names that a file of accepted changes may use: those of this checkout, and of the compared cells."""
    from harness.evaluation.regression.accepted_changes import AllowedNames

    scenarios = {app.catalogue.scenario_name(file) for file in app.catalogue.scenario_files()}
    players = {name for result in cells for name in (result.cell.client.name, result.cell.server.name)}
    return AllowedNames(
        scenarios | {result.cell.scenario.name for result in cells}, players | app.catalogue.implementations().keys()
    )


def _repeat(store: Path | None, evaluate: Callable[[], GateReport], max_repetitions: int, jobs: int | None) -> None:
    """Run more repetitions of the cells that cannot be told yet."""
    from harness.execution import Options
    from harness.execution.more_repetitions import repeat_until
    from harness.report.progress import ProgressPrinter

    require_linux("gate --until")
    app = open_app(store)
    options = Options(
        patience=patience(),
        log_limit=log_limit(),
        memory=endpoint_memory(),
        jobs=jobs_of(jobs, EngineChoice.VIRTUAL),
        stall=stall(),
    )

    def undecided() -> list[CellResult]:
        open_decisions = [
            cell_report.weighed.decision
            for cell_report in evaluate().cells
            if cell_report.weighed.decision.status == "cannot tell"
        ]
        return [decision.pair.current for decision in open_decisions if decision.pair.current is not None]

    with ProgressPrinter(console()) as progress, handle_interrupts(progress.interrupted, app.kill_all):
        repeat_until(app, undecided, max_repetitions, options, progress)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text + "\n")
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}", "its folder must be there, and take files") from error


def _cells(asking: StoredArguments, app: App) -> list[CellResult]:
    """The selected cells; empty where none is stored."""
    try:
        return asking.cells(app)
    except NoDataError:
        return []
