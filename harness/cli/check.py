"""`harness check`."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.completion import implementations
from harness.cli.consoles import console, paper, print_json
from harness.cli.environment import ROOT, lab_kernel, log_limit, open_app, stall
from harness.cli.exits import FAILED
from harness.cli.interrupts import heard
from harness.cli.options import AsJson, EngineChoice, Fresh, Manifests, StoreFolder
from harness.cli.words import contestants, jobs_of


def check(
    names: Annotated[
        str, typer.Argument(help="Implementations, separated by commas, or 'all'.", autocompletion=implementations)
    ],
    jobs: Annotated[int | None, typer.Option(help="Runs side by side; one per core without.", min=1)] = None,
    store: StoreFolder = None,
    manifest: Manifests = None,
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """Check that implementations follow the contract and do what their manifests claim, in virtual time.

    The exit code is 1 when anything does not hold.
    """
    from harness.check import check as findings_of
    from harness.execution import Options
    from harness.report import findings as view
    from harness.report.progress import Talk

    app = open_app(store or ROOT / "results" / "checks", manifest)
    chosen, absent = contestants(app, names)
    options = Options(
        fresh=fresh, log_limit=log_limit(), jobs=jobs_of(jobs, EngineChoice.VIRTUAL), stall=stall(), kernel=lab_kernel()
    )
    with Talk(console()) as talk, heard(talk.interrupted, app.end_hard):
        found = list(findings_of(app, chosen.values(), options, talk))
    if as_json:
        print_json(view.report(found, absent))
    else:
        view.show(found, absent, paper())
    if any(item.failed for item in found):
        raise typer.Exit(FAILED)
