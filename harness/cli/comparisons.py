"""Figures of cells beside each other, at the end of a `run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.consoles import console
from harness.errors import reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.evaluation.cell_result import CellResult


def draw_comparisons(results: Sequence[CellResult], folder: Path) -> None:
    """Draw what cells of one scenario were compared by, and name the files. What goes wrong costs no verdict."""
    from harness.evaluation.ranking import rankings
    from harness.report import by_scenario

    talk = console()
    found = [ranking for cells in by_scenario(results) for ranking in rankings(cells)]
    if not found:
        return
    try:
        from harness.report.plots.ranked import write

        for ranking in found:
            if (file := write(ranking, folder)) is not None:
                talk.print(f"{ranking.name} of {len(ranking.cells)} cells: {file}", soft_wrap=True, markup=False)
    except Exception as error:  # whatever it is, the verdicts stand
        talk.print(f"warning: no figure of the cells: {reason(error)}", style="yellow", soft_wrap=True, markup=False)
