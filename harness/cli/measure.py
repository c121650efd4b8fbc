"""`harness measure`."""

from __future__ import annotations

from harness.cli.consoles import console
from harness.cli.environment import open_app
from harness.cli.options import Clients, Servers, StoredScenarios, StoreFolder
from harness.cli.stored import stored_cells
from harness.errors import AbsentError


def measure(
    scenarios: StoredScenarios = None, clients: Clients = "all", servers: Servers = "all", store: StoreFolder = None
) -> None:
    """Measure stored runs again from their artefacts. Needs no Docker."""
    from harness.app.stored import measure_again

    app = open_app(store)
    count = 0
    for result in stored_cells(app, scenarios, clients, servers, every=True):
        for run, _ in result.runs:
            if (app.store.folder(run.cell.key, run.repetition) / "sim").is_dir():
                measure_again(app.store, run)
                count += 1
    if not count:
        raise AbsentError("no stored run has artefacts to measure", "what is kept in columns has figures only")
    console().print(f"{count} runs measured")
