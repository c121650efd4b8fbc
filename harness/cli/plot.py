"""`harness plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli import completion
from harness.cli.consoles import console, print_text
from harness.cli.environment import open_app
from harness.cli.options import Clients, Servers, StoredScenarios, StoreFolder
from harness.cli.stored import stored
from harness.cli.words import one_of, span
from harness.errors import InputError


def plot(
    scenarios: StoredScenarios = None,
    clients: Clients = "all",
    servers: Servers = "all",
    store: StoreFolder = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write into; figures/ in that of the results.")] = None,
    formats: Annotated[
        str, typer.Option(help="Of png, svg and html, separated by commas.", autocompletion=completion.formats)
    ] = "png,svg,html",
    only: Annotated[
        str,
        typer.Option(
            help="Figures to make, separated by commas; those that fit a run without.",
            autocompletion=completion.figures,
        ),
    ] = "",
    runs: Annotated[
        list[str] | None, typer.Option("--run", help="A run as KEY/REPETITION; the first of each cell without.")
    ] = None,
    together: Annotated[
        bool,
        typer.Option(
            "--together", help="All in one figure. So are two or more runs or cells that are named, without --only."
        ),
    ] = False,
    detail: Annotated[str, typer.Option(help="What a detail shows, as FROM-TO in seconds; chosen without.")] = "",
) -> None:
    """Draw stored runs, from the store alone: figures as PNG and SVG, and one interactive page a run (HTML).

    Several runs or cells that are named, as in `plot KEY/0 KEY/1` or `plot 'ngtcp2→quiche' 'quiche→quiche'`, share one
    figure; its legend says what they differ in. A run with RED is drawn beside that of the same cell with DropTail.
    Prints the files it wrote.
    """
    from harness.formatting import counted
    from harness.report.plots.curves import MOST
    from harness.report.plots.registry import plots
    from harness.report.plots.render import Format, has_letters, write, write_together
    from harness.report.plots.stored import find_subjects, folder_name, folder_of

    app, talk = open_app(store), console()
    chosen = [one_of("--only", name, plots()) for name in only.split(",") if name]
    kinds = [Format(one_of("--formats", name, list(Format))) for name in formats.split(",") if name]
    shown = span("--detail", detail)
    found = stored(app, scenarios, clients, servers, every=bool(runs))
    asked = list(dict.fromkeys([*found.runs, *(runs or [])]))
    subjects = find_subjects(found.results, app.results.find, asked)
    one_figure = together or any(plots()[name].of == "runs" for name in chosen) or (found.several and not chosen)
    if one_figure and len(subjects) > MOST:
        raise InputError(
            f"{len(subjects)} runs in one figure could not be told apart", f"name {MOST} at most: KEY/REPETITION"
        )
    for one in (run for subject in subjects for run in subject.runs):
        app.results.make_series(one)
    if Format.PNG in kinds and not has_letters():
        talk.print("warning: this machine has no font, so PNGs have no words (Debian: fonts-dejavu-core)")
    target = out.resolve() if out is not None else app.store.root / "figures"
    bare: list[str] = []
    if one_figure:
        drawn = [subject.drawing(app.stored, shown).run for subject in subjects]
        for file in write_together(drawn, target / folder_of(drawn), kinds, app.places.cache) if drawn else []:
            print_text(str(file))
        bare = [run.run.name for run in drawn if run.series is None]
    else:
        for subject in subjects:
            drawing = subject.drawing(app.stored, shown)
            folder = target / folder_name(drawing.run.run)
            for file in write(drawing.run, folder, kinds, app.places.cache, partner=drawing.partner, only=chosen):
                print_text(str(file))
            bare += [drawing.run.run.name] if drawing.run.series is None else []
    if bare:
        what = f"{counted(len(bare), 'run')} (such as {bare[0]})"
        talk.print(f"{what}: no series are stored, so that only means could be drawn, if any", soft_wrap=True)
