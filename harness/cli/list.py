"""`harness list`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import typer

from harness.cli.consoles import complain, paper, print_json
from harness.cli.environment import open_app
from harness.cli.exits import USAGE
from harness.cli.options import AsJson, Manifests
from harness.errors import InputError

T = TypeVar("T")


def list_(as_json: AsJson = False, manifest: Manifests = None) -> None:
    """List the scenarios and the implementations."""
    from harness.report import json_report, listing

    app = open_app(manifests=manifest)
    # One file that is wrong hides none of the others; it is named behind them.
    wrong: dict[str, InputError] = {}

    def read(one: Callable[[], T]) -> T | None:
        try:
            return one()
        except InputError as error:
            wrong.setdefault(error.message, error)
            return None

    files = app.catalogue.scenario_files()
    scenarios = [one for file in files if (one := read(partial(app.catalogue.scenario, file))) is not None]
    known = read(app.catalogue.implementations) or {
        found[0].name: (found[0], file.resolve().parent)
        for file in app.catalogue.implementation_files()
        if (found := read(partial(app.catalogue.manifest, file))) is not None
    }
    entries = [
        listing.Entry(item, here, None if here else app.inventory.why_absent(item))
        for item, folder in known.values()
        for here in [app.inventory.has(item, folder)]
    ]
    if as_json:
        print_json(json_report.catalogue(scenarios, entries))
    else:
        listing.show(scenarios, entries, paper())
    for error in wrong.values():
        complain(error)
    if wrong:
        raise typer.Exit(USAGE)
