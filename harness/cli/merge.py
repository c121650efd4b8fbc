"""`harness merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.consoles import caution, console, print_json
from harness.cli.environment import open_app
from harness.cli.exits import FAILED, NOTHING
from harness.cli.options import AsJson, StoreFolder
from harness.errors import InputError


def merge(
    stores: Annotated[list[Path], typer.Argument(help="Stores whose runs are taken over: folders, or in columns.")],
    store: StoreFolder = None,
    as_json: AsJson = False,
) -> None:
    """Take the runs of other stores into one, each once: those of shards, say, or of another machine.

    A run that the store has with other figures is not taken but named, and the exit code is 1.
    """
    from harness.store.merge import merge as merged
    from harness.store.parquet import is_columnar

    app = open_app(store)
    if is_columnar(app.store.root):
        raise InputError(
            f"{app.store.root} holds reference runs in columns, and no run is written there", "name another --store"
        )
    for folder in stores:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder, so there are no runs in it", "name the folder of a store")
        if folder.resolve() == app.store.root.resolve():
            raise InputError(f"{folder}: that is the store itself", "name others")
    others = [open_app(folder).stored for folder in stores]
    done = merged(app.store, others)
    for one in done.conflicts:
        run = one.run
        who = f"{run.name} {run.cell.scenario.name} {run.cell.client.name}→{run.cell.server.name}"
        console().print(f"not taken: {who}: {one.why} ({one.other}; {one.there} stays)", markup=False, soft_wrap=True)
    for run, place in done.left:
        caution(f"not taken: {place} of the run {run.name} is a link, or no file at all")
    if as_json:
        conflicts = [
            {"run": one.run.name, "why": one.why, "stays": one.there, "not_taken": one.other} for one in done.conflicts
        ]
        print_json({"schema": 1, "taken": done.taken, "there": done.there, "conflicts": conflicts})
    else:
        console().print(f"taken {done.taken} runs, {done.there} were there, {len(done.conflicts)} conflict")
    if done.conflicts:
        raise typer.Exit(FAILED)
    if not done.taken and not done.there:
        raise typer.Exit(NOTHING)
