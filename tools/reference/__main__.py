"""`python -m tools.reference`: the runs behind the repository's pages, and the pages.

$ .venv/bin/python -m tools.reference run --plan
$ .venv/bin/python -m tools.reference generate
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.main import get_command

from harness.cli.consoles import console, print_text
from harness.cli.entry import CommandGroup, create_program, run_program
from harness.cli.environment import REFERENCE, endpoint_memory, lab_kernel, log_limit, open_app, patience, stall
from harness.cli.options import (
    Clients,
    Cluster,
    ClusterFiles,
    ClusterTls,
    EngineChoice,
    EvidenceChoice,
    Jobs,
    KeptEvidence,
    Servers,
    StoredScenarios,
    StoreFolder,
    VerifyShare,
    cluster_options,
    jobs_of,
)
from harness.cli.signals import handle_interrupts
from harness.cli.site import write_site
from harness.cli.stored import stored_cells

if TYPE_CHECKING:
    from harness.evaluation.publish import PublishedRuns
    from harness.execution import App
    from harness.outcome import Run
    from tools.reference.campaign import Share


program = create_program("reference", CommandGroup, no_args_is_help=True)


class Which(StrEnum):
    """Which of the campaign's requests."""

    VIRTUAL = "virtual"
    COMPOSE = "compose"


@program.command("run")
def run_campaign(
    engine: Annotated[Which, typer.Option(help="The requests of one engine.")] = Which.VIRTUAL,
    only: Annotated[list[str] | None, typer.Option(help="The cells of this scenario or folder.")] = None,
    jobs: Jobs = None,
    evidence: KeptEvidence = EvidenceChoice.FAILED,
    cluster: Cluster = "",
    cluster_tls: ClusterTls = None,
    cluster_files: ClusterFiles = "",
    verify: VerifyShare = "",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Make what the reference has, too: only what the store has is done.")
    ] = False,
    tidy: Annotated[
        bool, typer.Option("--tidy", help="Then drop cells of the reference that no request asks for.")
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Say what is to be done, and do nothing.")] = False,
) -> None:
    """Make the runs of the campaign that neither the reference nor the store has, and publish them.

    results/reference/campaign.yaml holds the requests. The same command goes on after an interrupt, which publishes the
    finished runs. A request that the infrastructure ends early does not end the others. A cluster makes the runs as it
    makes those of `harness run`.
    """
    from harness.errors import EngineError
    from harness.evaluation.publish import remove_cells
    from harness.execution import Options
    from harness.formatting import format_count
    from harness.report.progress import ProgressPrinter
    from tools.reference.campaign import Reference
    from tools.reference.pages import behind_figures

    place = cluster_options(cluster, cluster_tls, cluster_files, verify, EngineChoice(engine.value))
    app = open_app()
    campaign = Reference(app, REFERENCE, fresh=fresh)
    options = Options(
        patience=patience(),
        log_limit=log_limit(),
        memory=endpoint_memory(),
        jobs=jobs_of(jobs, EngineChoice(engine.value)),
        stall=stall(),
        evidence=(evidence or EvidenceChoice.FAILED).value,
        kernel=lab_kernel(),
        cluster=place,
    )
    beside = place.local if place is not None and place.local else options.jobs
    with ProgressPrinter(console()) as progress, handle_interrupts(progress.interrupted, app.kill_all):
        chosen = list(campaign.shares(engine.value, only or [], progress))
        for share in chosen:
            print_text(_line(share, beside))
        seconds = sum(share.seconds for share in chosen) / beside
        console().print(f"{sum(len(share.missing_runs) for share in chosen)} runs to do, about {seconds / 60:.0f} min")
        todo = () if plan else chosen
        failures: list[EngineError] = []
        try:
            for share in todo:
                try:
                    results = campaign.work(share, options, progress)
                except EngineError as error:
                    console().print(f"{share.name}: {error}", soft_wrap=True, markup=False)
                    failures.append(error)
                else:
                    _print_published(campaign.publish(results, behind_figures, _print_publishing, last=False))
        finally:
            _print_published(campaign.publish([], behind_figures, _print_publishing, last=True))
        if tidy:
            unasked = campaign.unrequested(progress)
            console().print(f"{format_count(len(unasked), 'cell')} of the reference that no request asks for")
            if unasked and not plan:
                remove_cells(REFERENCE, unasked)
        if not plan:
            _drop_unused_equivalences(app)
    if plan:
        return
    if failures:
        message = f"{len(failures)} of {len(todo)} requests ended early, the first because: {failures[0]}"
        raise EngineError(message, "the same command goes on with them")
    console().print("the pages and figures follow with 'make generate'")


def _drop_unused_equivalences(app: App) -> None:
    """Take the entries out of the ledger that no run of the reference needs any more."""
    from harness.formatting import format_count
    from harness.store.identity import write_ledger
    from harness.store.parquet import ColumnStore
    from tools.reference.campaign import ledger_of_stored

    columns, ledger = ColumnStore(REFERENCE), app.ledger
    needed = ledger_of_stored(ledger, (run.cell for key in columns.cell_keys() for run in columns.runs(key)))
    unused = len(ledger.entries.equivalences) - len(needed.entries.equivalences)
    if unused:
        write_ledger(app.ledger_file, needed)
        console().print(f"dropped {format_count(unused, 'equivalence')} that no stored run needs any more")


def _print_publishing(runs: int) -> None:
    from harness.formatting import format_count

    console().print(f"publishing {format_count(runs, 'run')}, which takes minutes: do not interrupt it")


def _print_published(published: PublishedRuns | None) -> None:
    if published is not None:
        console().print(f"kept {published.runs} runs, dropped {published.replaced} older cells")


def _line(share: Share, jobs: int) -> str:
    runs = len(share.planned)
    # What a search or an experiment asks for after these is not known yet.
    first = "first " if share.request.grows else ""
    todo = (
        f"{len(share.missing_runs)} to do {first}(about {share.seconds / jobs / 60:.0f} min)"
        if share.missing_runs
        else "all there"
    )
    return f"{share.name}: {len(share.cells)} cells, {runs} runs, {todo}"


class SeriesChoice(StrEnum):
    """Of which runs the series are kept: they are what is large."""

    FIGURES = "figures"
    FIRST = "first"
    NONE = "none"


@program.command()
def keep(
    scenarios: StoredScenarios = None,
    clients: Clients = "all",
    servers: Servers = "all",
    store: StoreFolder = None,
    into: Annotated[Path, typer.Option(help="Store in columns that takes them; made if there is none.")] = REFERENCE,
    series: Annotated[
        SeriesChoice,
        typer.Option(help="Whose series go along: those behind the pages' figures, every cell's first run's, none."),
    ] = SeriesChoice.FIGURES,
) -> None:
    """Take stored runs over into the reference: all but their artefacts, in a few files.

    Cells that differ from a kept one only in their bits, and are older, are dropped.
    """
    from harness.evaluation.publish import publish_runs as take_over
    from harness.evaluation.publish import rekey
    from tools.reference.pages import behind_figures

    app = open_app(store)
    results = stored_cells(app, scenarios, clients, servers)
    drawn = behind_figures(results) if series == SeriesChoice.FIGURES else set()

    def with_series(run: Run) -> bool:
        return run.name in drawn or (series == SeriesChoice.FIRST and run.repetition == 0)

    kept = take_over(into, results, app.stored_runs, with_series)
    rekey(into, app.ledger)
    if into.resolve() == REFERENCE.resolve():
        _drop_unused_equivalences(app)
    console().print(f"kept {kept.runs} runs in {into}, dropped {kept.replaced} cells that others replace")


@program.command()
def generate() -> None:
    """Write what is generated into the repository: schemas, compose/, and the pages of the reference runs."""
    from tools.reference.pages import page_texts

    for file, text in page_texts(open_app(REFERENCE)).items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text(), encoding="utf-8")


@program.command()
def figures() -> None:
    """Draw the figures of the pages from the reference runs."""
    from tools.reference.pages import drawings

    for file, svg in drawings(open_app(REFERENCE)):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(svg, encoding="utf-8")
        print_text(str(file))


@program.command()
def site(folder: Annotated[Path, typer.Argument(help="Folder of the site; made, or made anew.")]) -> None:
    """Write the site of the reference runs, which says of each whether it is of today."""
    from tools.reference.campaign import Reference

    app = open_app(REFERENCE)
    results = Reference(app, REFERENCE).with_staleness(app.results.find(lambda cell: True), lambda event: None)
    print_text(write_site(app, results, folder))


if __name__ == "__main__":
    run_program(lambda: get_command(program), "python -m tools.reference")
