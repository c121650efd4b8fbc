"""`harness reference`, for whoever makes the runs behind the repository's pages."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.consoles import console, print_text
from harness.cli.environment import REFERENCE, lab_kernel, log_limit, open_app, patience, stall
from harness.cli.interrupts import heard
from harness.cli.options import ArtefactsChoice, EngineChoice, Jobs, KeptArtefacts
from harness.cli.words import jobs_of

if TYPE_CHECKING:
    from harness.reference import Share


class Which(StrEnum):
    """Which of the campaign's requests."""

    VIRTUAL = "virtual"
    COMPOSE = "compose"


def reference(
    engine: Annotated[Which, typer.Option(help="The requests of one engine.")] = Which.VIRTUAL,
    only: Annotated[list[str] | None, typer.Option(help="The cells of this scenario or folder.")] = None,
    jobs: Jobs = None,
    artefacts: KeptArtefacts = ArtefactsChoice.FAILED,
    plan: Annotated[bool, typer.Option("--plan", help="Say what is to be done, and do nothing.")] = False,
) -> None:
    """Do what of the campaign is in neither the reference nor the store, and take it over, request by request.

    results/reference/campaign.yaml holds the requests. What was done is kept: the same command goes on.
    """
    from harness.app import Options
    from harness.columns.keep import keep
    from harness.pages import behind_figures
    from harness.progress import Talk
    from harness.reference import Reference

    app = open_app()
    campaign = Reference(app, REFERENCE)
    options = Options(
        patience=patience(),
        log_limit=log_limit(),
        jobs=jobs_of(jobs, EngineChoice(engine.value)),
        stall=stall(),
        artefacts=artefacts.value,
        kernel=lab_kernel(),
    )
    with Talk(console()) as talk, heard(talk.interrupted, app.end_hard):
        chosen = list(campaign.shares(engine.value, only or [], talk))
        for share in chosen:
            print_text(_line(share, options.jobs))
        seconds = sum(share.seconds for share in chosen) / options.jobs
        console().print(f"{sum(len(share.todo) for share in chosen)} runs to do, about {seconds / 60:.0f} min")
        if plan:
            return
        for share in chosen:
            campaign.work(share, options, talk)
            made = campaign.unkept(share)
            if made:
                drawn = behind_figures(made)
                kept = keep(REFERENCE, made, app.stored, lambda run, drawn=drawn: run.name in drawn)  # type: ignore[misc]
                console().print(f"{share.name}: kept {kept.runs} runs, dropped {kept.replaced} older cells")
    console().print("the pages follow with 'make generate', figures with 'harness figures'")


def _line(share: Share, jobs: int) -> str:
    runs = len(share.planned)
    todo = f"{len(share.todo)} to do, about {share.seconds / jobs / 60:.0f} min" if share.todo else "all there"
    return f"{share.name}: {len(share.cells)} cells, {runs} runs, {todo}"
