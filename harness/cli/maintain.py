"""Commands that make room: `cache`, `prune`, `clean`."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.consoles import console, print_document, print_text
from harness.cli.environment import open_app
from harness.cli.options import (
    AsJson,
    Clients,
    Manifests,
    Servers,
    StoredScenarios,
    StoreFolder,
    parse_age,
    require_choice,
)
from harness.errors import InputError

if TYPE_CHECKING:
    from harness.execution import App
    from harness.outcome import Cell


def cache(
    tidy: Annotated[
        bool, typer.Option("--tidy", help="Remove what no image needs any more, and what is over the limit.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what is kept to be used again (exported images, served files) and how large it is. Results are elsewhere."""
    from harness.engine.docker_cli import image_ids
    from harness.engine.images.cache import size_of
    from harness.errors import EngineError
    from harness.report.images import CacheContent, cache_document

    app = open_app()
    removed: list[str] = []
    if tidy:
        try:
            images = image_ids()
        except EngineError:
            # Then it is unknown which exports no image needs.
            images = None
        removed = [*app.cache.tidy(images), *app.cache.bound()]
        if images is not None:
            removed += app.images.bound_releases(app.cache)
    entries = {"rootfs": 0, "www": 0}
    for item in app.cache.kept():
        kind = item.name.partition("/")[0]
        entries[kind] += 1
    state = app.paths.state
    cached = CacheContent(
        str(app.cache.folder),
        app.cache.limit,
        app.cache.sizes(),
        entries,
        removed,
        {f"{state} (logs of builds and of what was installed)": size_of(state)},
    )
    print_document(cache_document(cached), as_json=as_json)


# --- `harness prune`.


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
    evidence: Annotated[
        bool, typer.Option("--evidence", help="Only captures and logs; figures, link proof, series and digests stay.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go, and how much; remove nothing.")
    ] = False,
    manifest: Manifests = None,
    store: StoreFolder = None,
) -> None:
    """Remove stored runs, or their evidence: those that are all of what is asked."""
    from typing import get_args

    from harness.execution.prune import Criteria, RunPruner
    from harness.formatting import format_count, format_size
    from harness.outcome import Status

    app = open_app(store, manifest)
    if app.stored_runs is not app.store:
        raise InputError(f"{app.store.root} holds published runs in columns: nothing of it goes", "leave --store out")
    outcomes = frozenset(require_choice("--outcome", word, get_args(Status)) for word in outcome.split(",") if word)
    if not (older_than or outcomes or unwanted or evidence or scenarios):
        raise InputError(
            "prune: nothing says which runs are to go",
            "name scenarios, --older-than, --outcome, --unwanted or --evidence; --dry-run says what they amount to",
        )
    criteria = Criteria(parse_age("--older-than", older_than), outcomes, unwanted, evidence)
    pruning = RunPruner(app, criteria, datetime.datetime.now(datetime.UTC))
    count = size = 0
    for candidate in pruning.prunable(_chosen(app, scenarios, clients, servers)):
        cell, run = candidate.run.cell, candidate.run
        words = [
            f"{run.name:20}",
            f"{format_size(candidate.size):>8}",
            cell.scenario.name,
            f"{cell.client.name}→{cell.server.name}",
        ]
        words += [candidate.outcome, run.started_at[:10], *([candidate.why] if candidate.why else [])]
        print_text(" ".join(words))
        if not dry_run and not pruning.remove(candidate):
            continue
        count, size = count + 1, size + candidate.size
    for text in pruning.left:
        console().print(f"warning: left alone: {text}", soft_wrap=True, markup=False)
    amount = f"{'evidence of ' if evidence else ''}{format_count(count, 'run')}, {format_size(size)}"
    console().print(f"{'would remove' if dry_run else 'removed'} {amount}", soft_wrap=True)


def _chosen(app: App, scenarios: list[str] | None, clients: str, servers: str) -> Callable[[Cell], bool]:
    names = {scenario.name for scenario in app.catalogue.find_scenarios(scenarios)} if scenarios else None

    def chosen(cell: Cell) -> bool:
        return (
            (names is None or cell.scenario.name in names)
            and (clients == "all" or cell.client.name in clients.split(","))
            and (servers == "all" or cell.server.name in servers.split(","))
        )

    return chosen


# --- `harness clean`.


def clean() -> None:
    """Remove what the harness left or made in Docker: containers, networks, images and their exports. Results stay."""
    from harness.engine.docker_cli import image_ids
    from harness.engine.images.build import remove_everything

    app = open_app()
    for name in [*remove_everything(), *app.cache.tidy(image_ids())]:
        console().print(f"removed {name}", markup=False)
