"""`harness keep`, for whoever adds to the reference runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.consoles import console
from harness.cli.environment import REFERENCE, open_app
from harness.cli.options import Clients, Scenarios, Servers, StoreFolder
from harness.cli.words import stored_cells


def keep(
    scenarios: Scenarios,
    clients: Clients = "all",
    servers: Servers = "all",
    store: StoreFolder = None,
    into: Annotated[Path, typer.Option(help="Store that keeps them.")] = REFERENCE,
    series: Annotated[
        bool, typer.Option(help="With the series of first repetitions, from which figures are drawn.")
    ] = True,
) -> None:
    """Keep the figures of stored runs, without their artefacts, as the runs behind the README's tables.

    Cells that differ from a kept one only in their bits, and are older, are dropped.
    """
    app, kept = open_app(store), open_app(into)
    count = 0
    for result in stored_cells(app, scenarios, clients, servers):
        for run, measured in result.runs:
            kept.store.keep(run, measured, app.store.series(run.cell.key, run.repetition) if series else None)
            count += 1
    newest = {result.cell.key for result in kept.results.find(lambda cell: True)}
    replaced = set(kept.store.cell_keys()) - newest
    for key in replaced:
        kept.store.drop(key)
    console().print(f"kept {count} runs in {into}, dropped {len(replaced)} cells that others replace")
