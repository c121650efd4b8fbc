"""A site of stored cells: written, told of, and opened where that is asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.consoles import console

if TYPE_CHECKING:
    from harness.evaluation.cell_result import CellResult
    from harness.execution import App


def write_site(app: App, results: list[CellResult], folder: Path) -> str:
    """Write the site of these cells, and say how large it is. Its address.

    Raises InputError, EngineError and ResultError as `harness.report.site.build.write` does.
    """
    from harness.formatting import counted, size_of
    from harness.report.site.build import write

    made = write(folder, results, app.stored, app.results.find, app.places.cache)
    console().print(f"{counted(made.pages, 'page')}, {size_of(made.size)}, for any browser:", soft_wrap=True)
    return made.index.resolve().as_uri()


def open_site(address: str) -> None:
    """Open it in this machine's browser, if there is one."""
    import webbrowser

    if not webbrowser.open(address):
        console().print("no browser was found here: open the address by hand", soft_wrap=True)
