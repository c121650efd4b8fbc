"""`harness validate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.consoles import complain, console
from harness.cli.environment import open_app
from harness.cli.exits import USAGE


def validate(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Files, and folders with all below; all of the repository's without.")
    ] = None,
) -> None:
    """Check scenario and image files without running anything."""
    from harness.catalogue.validation import files_of
    from harness.catalogue.validation import validate as check

    app = open_app()
    found = files_of(files or [])
    problems = check(app.catalogue, found)
    for problem in problems:
        complain(problem)
    if problems:
        raise typer.Exit(USAGE)
    count = len(found or [*app.catalogue.scenario_files(), *app.catalogue.implementation_files()])
    console().print(f"{count} files are valid")
