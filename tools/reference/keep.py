"""`harness keep`, for whoever adds to the reference runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.consoles import console
from harness.cli.environment import REFERENCE, open_app
from harness.cli.options import Clients, Servers, StoredScenarios, StoreFolder
from harness.cli.stored import stored_cells

if TYPE_CHECKING:
    from harness.outcome import Run


class SeriesChoice(StrEnum):
    """Of which runs the series are kept: they are what is large."""

    FIGURES = "figures"
    FIRST = "first"
    NONE = "none"


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
    from harness.evaluation.publish import keep as take_over
    from harness.evaluation.publish import rekey
    from tools.reference.pages import behind_figures

    app = open_app(store)
    results = stored_cells(app, scenarios, clients, servers)
    drawn = behind_figures(results) if series == SeriesChoice.FIGURES else set()

    def with_series(run: Run) -> bool:
        return run.name in drawn or (series == SeriesChoice.FIRST and run.repetition == 0)

    kept = take_over(into, results, app.stored, with_series)
    rekey(into, app.ledger)
    console().print(f"kept {kept.runs} runs in {into}, dropped {kept.replaced} cells that others replace")
