"""`harness images`."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.completion import one_implementation
from harness.cli.consoles import complain, console, paper, print_json
from harness.cli.environment import open_app
from harness.cli.exits import INFRASTRUCTURE
from harness.cli.interrupts import heard
from harness.cli.options import AsJson, Manifests
from harness.cli.words import contestants


def images(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Implementations; all that can be built without.", autocompletion=one_implementation),
    ] = None,
    manifest: Manifests = None,
    as_json: AsJson = False,
) -> None:
    """Build the images of the simulator and the implementations, and print their sizes."""
    from harness.progress import Talk
    from harness.reports import listing

    app = open_app(manifests=manifest)
    chosen, absent = contestants(app, ",".join(names or ["all"]), generators=True)
    talk = Talk(console())
    with talk, heard(talk.interrupted, app.end_hard):
        made = app.inventory.make(sorted(chosen), talk)
    if as_json:
        print_json(listing.images_json(made))
    else:
        listing.show_images(made, absent, paper())
    for item in made.values():
        if item.error is not None:
            complain(item.error)
    if any(item.error is not None for item in made.values()):
        raise typer.Exit(INFRASTRUCTURE)
