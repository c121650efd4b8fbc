"""`harness plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.consoles import console, print_text
from harness.cli.environment import open_app
from harness.cli.options import Clients, Servers, StoredScenarios, StoreFolder
from harness.cli.words import one_of, span, stored_cells


def plot(
    scenarios: StoredScenarios = None,
    clients: Clients = "all",
    servers: Servers = "all",
    store: StoreFolder = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write into; figures/ in that of the results.")] = None,
    formats: Annotated[str, typer.Option(help="Of png, svg and html, separated by commas.")] = "png,svg,html",
    only: Annotated[str, typer.Option(help="Figures to make, separated by commas; all without.")] = "",
    runs: Annotated[
        list[str] | None, typer.Option("--run", help="A run as KEY/REPETITION; the first of each cell without.")
    ] = None,
    detail: Annotated[str, typer.Option(help="What a detail shows, as FROM-TO in seconds; chosen without.")] = "",
) -> None:
    """Draw stored runs, from the store alone: figures as PNG and SVG, and one interactive page a run (HTML).

    A run with RED is drawn beside that of the same cell with DropTail. Prints the files it wrote.
    """
    from harness.plots.registry import plots
    from harness.plots.render import Format, has_letters, write
    from harness.plots.stored import find_drawings, folder_name
    from harness.text import counted

    app, talk = open_app(store), console()
    chosen = [one_of("--only", name, plots()) for name in only.split(",") if name]
    kinds = [Format(one_of("--formats", name, list(Format))) for name in formats.split(",") if name]
    section = span("--detail", detail)
    results = stored_cells(app, scenarios, clients, servers, every=bool(runs))
    drawings = find_drawings(app.stored, results, app.results.find, runs or [], section)
    if Format.PNG in kinds and not has_letters():
        talk.print("warning: this machine has no font, so PNGs have no words (Debian: fonts-dejavu-core)")
    target = out or app.places.store / "figures"
    bare: list[str] = []
    for drawing in drawings:
        run = drawing.run.run
        wrote = write(
            drawing.run, target / folder_name(run), kinds, app.places.cache, partner=drawing.partner, only=chosen
        )
        for file in wrote:
            print_text(str(file))
        if drawing.run.series is None:
            bare.append(run.name)
    if bare:
        what = f"{counted(len(bare), 'run')} (such as {bare[0]})"
        talk.print(f"{what}: no series are stored, so that only means could be drawn, if any", soft_wrap=True)
