"""A site of stored cells: write it, print its size, open it on request; and the nights of a folder of stores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.consoles import console
from harness.cli.environment import open_app
from harness.cli.stored import stored_cells
from harness.errors import NoDataError
from harness.formatting import format_count

if TYPE_CHECKING:
    from harness.evaluation.cell_result import CellResult
    from harness.execution import App
    from harness.report.gate import GateReport
    from harness.report.trend import Night

NightFolders = Annotated[
    list[Path] | None,
    typer.Option("--nights", help="A folder of nights' stores, or one of them, for a page of the trend."),
]


def write_site(
    app: App,
    results: list[CellResult],
    folder: Path,
    gate_report: GateReport | None = None,
    nights: Sequence[Night] = (),
) -> str:
    """Write the site of these cells, and print its size. Returns its address (file URI).

    `gate_report`: the decisions on them, for badges and a page; `nights`: those of a trend. Raises InputError,
    EngineError and ResultError as `harness.report.site.build.render_site` does.
    """
    from harness.formatting import format_size
    from harness.report.site.build import NightContext, render_site

    site = render_site(
        folder,
        results,
        app.stored_runs,
        app.results.find,
        app.paths.cache,
        app.catalogue.releases,
        NightContext(gate_report, nights),
    )
    console().print(f"{format_count(site.pages, 'page')}, {format_size(site.size)}, for any browser:", soft_wrap=True)
    return site.index.resolve().as_uri()


def open_site(address: str) -> None:
    """Open an address in this machine's browser, if there is one."""
    import webbrowser

    if not webbrowser.open(address):
        console().print("no browser was found here: open the address by hand", soft_wrap=True)


def read_nights(
    folders: Sequence[Path], scenarios: list[str] | None = None, clients: str = "all", servers: str = "all"
) -> list[Night]:
    """The nights of these stores, or of folders of stores, the oldest first; those without such cells are left out.

    Raises NoDataError where no folder has a store, or no store such a cell.
    """
    from harness.report.trend import Night, order_nights

    nights = []
    for store in dict.fromkeys(store.resolve() for folder in folders for store in _stores(folder)):
        try:
            results = stored_cells(open_app(store), scenarios, clients, servers)
        except NoDataError:
            continue
        begun = min(run.started_at for result in results for run, _ in result.runs)
        nights.append(Night(store.name, begun, results))
    if not nights:
        raise NoDataError(
            f"{', '.join(map(str, folders))}: no night has such a cell", "'harness run --store' makes one"
        )
    return order_nights(nights)


def _stores(folder: Path) -> Iterator[Path]:
    """The store that a folder is, or those in it. Raises NoDataError where there is none."""
    if _is_store(folder):
        yield folder
        return
    stores = [child for child in sorted(folder.iterdir()) if _is_store(child)] if folder.is_dir() else []
    if not stores:
        raise NoDataError(f"{folder}: neither a store nor a folder of stores", "'make nightly' fills results/nights")
    yield from stores


def _is_store(folder: Path) -> bool:
    from harness.store.results import is_columnar

    return (folder / "runs").is_dir() or is_columnar(folder)
