"""More repetitions of cells for which a comparison is still undecided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.errors import InputError
from harness.evaluation.cell_result import CellResult
from harness.execution.checkout import App
from harness.execution.events import Listener, Warned
from harness.execution.options import Options
from harness.outcome import ENGINES, Cell, EngineName
from harness.stats.intervals import decisive_sizes


def repeat_until(
    app: App, undecided: Callable[[], Sequence[CellResult]], limit: int, options: Options, listen: Listener
) -> None:
    """Repeat the cells that `undecided` returns until each has `limit` repetitions or is no longer returned.

    A cell is skipped with a warning if the current code and images give it another key: its new runs would belong to
    another cell.
    """
    requested: set[tuple[str, int]] = set()
    while True:
        batches: dict[tuple[EngineName, int], list[Cell]] = {}
        for result in undecided():
            cell = result.cell
            target = next((look for look in evaluation_sizes(limit) if look > len(result.runs)), None)
            # Runs that the environment keeps invalidating are requested only once.
            if target is None or (cell.key, target) in requested:
                continue
            requested.add((cell.key, target))
            if _is_current(app, cell):
                batches.setdefault((cell.engine, target), []).append(cell)
            else:
                requested |= {(cell.key, look) for look in evaluation_sizes(limit)}
                listen(Warned(f"{cell.scenario.name} {result.name}: the bits are no longer those of its runs"))
        if not batches:
            return
        # Virtual time first: what it decides need not take the machine for itself.
        for (engine, target), cells in sorted(
            batches.items(), key=lambda item: (not ENGINES[item[0][0]].virtual_time, item[0][1])
        ):
            jobs = options.jobs if ENGINES[engine].virtual_time else 1
            app.run_cells(cells, target, replace(options, jobs=jobs), listen)


def evaluation_sizes(limit: int) -> list[int]:
    """Numbers of repetitions after which a cell is evaluated; `limit` is the last."""
    return sorted({*decisive_sizes(limit), limit})


def _is_current(app: App, cell: Cell) -> bool:
    try:
        return app.current_cell(cell).key == cell.key
    except InputError:
        return False
