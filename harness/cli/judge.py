"""`harness judge`."""

from __future__ import annotations

import typer

from harness.cli.consoles import print_text
from harness.cli.environment import open_app
from harness.cli.exits import exit_code
from harness.cli.options import Clients, Servers, StoredScenarios, StoreFolder, Strict
from harness.cli.stored import stored_cells


def judge(
    scenarios: StoredScenarios = None,
    clients: Clients = "all",
    servers: Servers = "all",
    store: StoreFolder = None,
    strict: Strict = False,
) -> None:
    """Print one line per stored cell: verdict, reason, sentence. The exit code is that of run."""
    results = stored_cells(open_app(store), scenarios, clients, servers)
    for item in results:
        verdict = item.verdict
        print_text(f"{verdict.status:12} {item.cell.scenario.name} {item.name}: {verdict.reason}: {verdict.sentence}")
    raise typer.Exit(exit_code(results, strict=strict))
