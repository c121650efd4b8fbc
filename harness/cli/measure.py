"""`harness measure`."""

from __future__ import annotations

import typer

from harness.cli.consoles import caution, console
from harness.cli.environment import open_app
from harness.cli.exits import INFRASTRUCTURE
from harness.cli.options import Clients, Servers, StoredScenarios, StoreFolder
from harness.cli.stored import stored_cells
from harness.errors import AbsentError, ResultError


def measure(
    scenarios: StoredScenarios = None, clients: Clients = "all", servers: Servers = "all", store: StoreFolder = None
) -> None:
    """Measure stored runs again from their artefacts. Needs no Docker.

    A run whose artefacts were damaged keeps the figures it has, and is named.
    """
    from harness.execution.measured_store import measure_again
    from harness.formatting import counted

    app = open_app(store)
    count = kept = 0
    for result in stored_cells(app, scenarios, clients, servers, every=True):
        for run, _ in result.runs:
            if not (app.store.folder(run.cell.key, run.repetition) / "sim").is_dir():
                continue
            try:
                measure_again(app.store, run)
                count += 1
            except ResultError as error:
                caution(f"{error.message} ({error.hint})")
                kept += 1
    if not count + kept:
        raise AbsentError("no stored run has artefacts to measure", "what is kept in columns has figures only")
    console().print(counted(count, "run") + " measured" + (f", {kept} left as they were" if kept else ""))
    if kept:
        raise typer.Exit(INFRASTRUCTURE)
