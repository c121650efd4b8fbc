"""`harness prune`."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.consoles import console, print_text
from harness.cli.environment import open_app
from harness.cli.options import Clients, Manifests, Servers, StoredScenarios, StoreFolder
from harness.cli.words import age, one_of
from harness.errors import InputError

if TYPE_CHECKING:
    from harness.execution import App
    from harness.outcome import Cell


def prune(
    scenarios: StoredScenarios = None,
    clients: Clients = "all",
    servers: Servers = "all",
    older_than: Annotated[str, typer.Option(metavar="AGE", help="Runs that began so long ago: '30 d', '12 h'.")] = "",
    outcome: Annotated[str, typer.Option(help="Runs of which this came, such as crashed,timed_out.")] = "",
    unwanted: Annotated[
        bool,
        typer.Option(
            "--unwanted",
            help="Runs that no 'harness run' of today finds: their scenario is gone, it or an image, the simulator or "
            "the engine is another by now, or a fresh run stands in for them.",
        ),
    ] = False,
    artefacts: Annotated[
        bool,
        typer.Option("--artefacts", help="Only captures and logs; figures, link proof, series and digests stay."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go, and how much; remove nothing.")
    ] = False,
    manifest: Manifests = None,
    store: StoreFolder = None,
) -> None:
    """Remove stored runs, or their artefacts: those that are all of what is asked."""
    from typing import get_args

    from harness.execution.prune import Criteria, Pruning
    from harness.formatting import counted, size_of
    from harness.outcome import Status

    app = open_app(store, manifest)
    if app.stored is not app.store:
        raise InputError(f"{app.store.root} holds published runs in columns: nothing of it goes", "leave --store out")
    outcomes = frozenset(one_of("--outcome", word, get_args(Status)) for word in outcome.split(",") if word)
    if not (older_than or outcomes or unwanted or artefacts or scenarios):
        raise InputError(
            "prune: nothing says which runs are to go",
            "name scenarios, --older-than, --outcome, --unwanted or --artefacts; --dry-run says what they amount to",
        )
    criteria = Criteria(age("--older-than", older_than), outcomes, unwanted, artefacts)
    pruning = Pruning(app, criteria, datetime.datetime.now(datetime.UTC))
    count = size = 0
    for one in pruning.prunable(_chosen(app, scenarios, clients, servers)):
        cell, run = one.run.cell, one.run
        words = [
            f"{run.name:20}",
            f"{size_of(one.size):>8}",
            cell.scenario.name,
            f"{cell.client.name}→{cell.server.name}",
        ]
        words += [one.outcome, run.started_at[:10], *([one.why] if one.why else [])]
        print_text(" ".join(words))
        if not dry_run and not pruning.remove(one):
            continue
        count, size = count + 1, size + one.size
    for text in pruning.left:
        console().print(f"warning: left alone: {text}", soft_wrap=True, markup=False)
    what = f"{'artefacts of ' if artefacts else ''}{counted(count, 'run')}, {size_of(size)}"
    console().print(f"{'would remove' if dry_run else 'removed'} {what}", soft_wrap=True)


def _chosen(app: App, scenarios: list[str] | None, clients: str, servers: str) -> Callable[[Cell], bool]:
    names = {scenario.name for scenario in app.catalogue.find_scenarios(scenarios)} if scenarios else None

    def chosen(cell: Cell) -> bool:
        return (
            (names is None or cell.scenario.name in names)
            and (clients == "all" or cell.client.name in clients.split(","))
            and (servers == "all" or cell.server.name in servers.split(","))
        )

    return chosen
