"""`harness reference`, for whoever makes the runs behind the repository's pages."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.consoles import console, print_text
from harness.cli.environment import REFERENCE, endpoint_memory, lab_kernel, log_limit, open_app, patience, stall
from harness.cli.interrupts import heard
from harness.cli.options import (
    ArtefactsChoice,
    Cluster,
    ClusterFiles,
    ClusterTls,
    EngineChoice,
    Jobs,
    KeptArtefacts,
    VerifyShare,
)
from harness.cli.words import jobs_of, place_of

if TYPE_CHECKING:
    from tools.reference.campaign import Share


class Which(StrEnum):
    """Which of the campaign's requests."""

    VIRTUAL = "virtual"
    COMPOSE = "compose"


def reference(
    engine: Annotated[Which, typer.Option(help="The requests of one engine.")] = Which.VIRTUAL,
    only: Annotated[list[str] | None, typer.Option(help="The cells of this scenario or folder.")] = None,
    jobs: Jobs = None,
    artefacts: KeptArtefacts = ArtefactsChoice.FAILED,
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
    """Do what of the campaign is in neither the reference nor the store, and take it over, request by request.

    results/reference/campaign.yaml holds the requests. What was done is kept: the same command goes on. A cluster makes
    the runs as it makes those of `harness run`.
    """
    from harness.evaluation.publish import forget, keep
    from harness.execution import Options
    from harness.formatting import counted
    from harness.report.progress import Talk
    from tools.reference.campaign import Reference
    from tools.reference.pages import behind_figures

    place = place_of(cluster, cluster_tls, cluster_files, verify, EngineChoice(engine.value))
    app = open_app()
    campaign = Reference(app, REFERENCE, fresh=fresh)
    options = Options(
        patience=patience(),
        log_limit=log_limit(),
        memory=endpoint_memory(),
        jobs=jobs_of(jobs, EngineChoice(engine.value)),
        stall=stall(),
        artefacts=artefacts.value,
        kernel=lab_kernel(),
        cluster=place,
    )
    beside = place.local if place is not None and place.local else options.jobs
    with Talk(console()) as talk, heard(talk.interrupted, app.end_hard):
        chosen = list(campaign.shares(engine.value, only or [], talk))
        for share in chosen:
            print_text(_line(share, beside))
        seconds = sum(share.seconds for share in chosen) / beside
        console().print(f"{sum(len(share.todo) for share in chosen)} runs to do, about {seconds / 60:.0f} min")
        for share in () if plan else chosen:
            made = campaign.work(share, options, talk)
            if made:
                drawn = behind_figures(made)
                kept = keep(REFERENCE, made, app.stored, lambda run, drawn=drawn: run.name in drawn)  # type: ignore[misc]
                console().print(f"{share.name}: kept {kept.runs} runs, dropped {kept.replaced} older cells")
        if tidy:
            unasked = campaign.unasked(talk)
            console().print(f"{counted(len(unasked), 'cell')} of the reference that no request asks for")
            if unasked and not plan:
                forget(REFERENCE, unasked)
    if plan:
        return
    console().print("the pages follow with 'make generate', figures with 'harness figures'")


def _line(share: Share, jobs: int) -> str:
    runs = len(share.planned)
    # What a search asks for after these is not known yet.
    first = "first " if share.asked.search is not None else ""
    todo = f"{len(share.todo)} to do {first}(about {share.seconds / jobs / 60:.0f} min)" if share.todo else "all there"
    return f"{share.name}: {len(share.cells)} cells, {runs} runs, {todo}"
