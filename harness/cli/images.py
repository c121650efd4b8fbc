"""`harness images`."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.completion import one_implementation
from harness.cli.consoles import complain, console, paper, print_json
from harness.cli.environment import open_app, registry
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
    origin: Annotated[
        str,
        typer.Option("--from", metavar="REGISTRY", help="Pull what this registry has instead of building it."),
    ] = "",
    push: Annotated[
        str, typer.Option("--push", metavar="REGISTRY", help="Give them to this registry, for --from elsewhere.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Build the images of the simulator and the implementations, and print their sizes.

    From a registry comes what it has of just these recipes; an image that is not what it says is refused by name.
    HARNESS_REGISTRY is the --from of every command.
    """
    from harness.progress import Talk
    from harness.reports import listing

    target = registry("--push", push)
    app = open_app(manifests=manifest, origin=registry("--from", origin))
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
    if target:
        for name in app.inventory.give(target, [name for name, item in made.items() if item.error is None]):
            console().print(f"pushed {name}", markup=False, soft_wrap=True)
    if any(item.error is not None for item in made.values()):
        raise typer.Exit(INFRASTRUCTURE)
