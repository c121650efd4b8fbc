"""`harness verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.consoles import console, paper, print_json
from harness.cli.environment import REFERENCE, lab_kernel, log_limit, open_app, stall
from harness.cli.exits import FAILED, INFRASTRUCTURE
from harness.cli.interrupts import heard
from harness.cli.options import AsJson, EngineChoice, Jobs
from harness.cli.words import jobs_of
from harness.errors import InputError


def verify(
    cells: Annotated[
        list[str] | None, typer.Argument(help="Reference runs by KEY or KEY/REPETITION; all of virtual time without.")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            help="So many cells, drawn at random; half of them rest on an entry of the ledger, where there is one.",
            min=1,
        ),
    ] = None,
    draw: Annotated[int, typer.Option("--draw", help="Which sample is drawn.", min=0)] = 1,
    reference: Annotated[Path, typer.Option(help="The store that is verified.")] = REFERENCE,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Make reference runs of virtual time again, and say of each: identical, same figures, or where it differs.

    The exit code is 1 when any differs.
    """
    from harness.execution import Options
    from harness.report import verified as view
    from harness.report.progress import Talk
    from harness.repro.digests import component_digests
    from harness.repro.verify import candidates, chosen, drawn
    from harness.repro.verify import verify as verified

    if cells and sample is not None:
        raise InputError("cells and --sample", "name cells, or draw a sample of them")
    app, kept = open_app(), open_app(reference)
    known = candidates(kept.stored)
    if not known:
        raise InputError(
            f"{reference}: no run of virtual time there says what its captures were", "'make reference' makes such runs"
        )
    if sample is None:
        runs = chosen(known, cells or [])
    else:
        today = component_digests(app)
        runs = drawn(known, sample, draw, lambda cell: app.ledger.joining(cell, today))
    options = Options(
        log_limit=log_limit(), jobs=jobs_of(jobs, EngineChoice.VIRTUAL), stall=stall(), kernel=lab_kernel()
    )
    with Talk(console()) as talk, heard(talk.interrupted, app.end_hard):
        found = []
        for one in verified(app, kept.stored, runs, options, talk):
            found.append(one)
            console().print(f"  {view.sentence(one, app.ledger)}", soft_wrap=True, markup=False)
    if as_json:
        print_json(view.report(found))
    else:
        view.show(found, paper())
    if any(one.again.outcome.status == "infrastructure" for one in found):
        raise typer.Exit(INFRASTRUCTURE)
    if any(one.answer == "differs" for one in found):
        raise typer.Exit(FAILED)
