"""Where a cell's page is."""

from __future__ import annotations

from harness.outcome import Cell

#: The page that shows whichever cell its address asks for.
CELL = "cell.html"


def address(cell: Cell) -> str:
    """Of a cell's page, as seen from the site's own folder; assets/site.js takes it apart."""
    return f"{CELL}?{cell.scenario.name}/{cell.key}"
