"""Further repetitions of cells of which a comparison cannot tell yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.errors import InputError
from harness.evaluation.cell_result import CellResult
from harness.execution.checkout import App
from harness.execution.events import Listener, Warned
from harness.execution.options import Options
from harness.outcome import ENGINES, Cell, EngineName
from harness.stats.intervals import decisive


def repeat_until(
    app: App, undecided: Callable[[], Sequence[CellResult]], most: int, options: Options, listen: Listener
) -> None:
    """Repeat what `undecided` names, look after look, until it names nothing that has fewer than `most` repetitions.

    A cell whose bits are not today's any more is left as it is, and named: its further runs would be of another cell.
    """
    asked: set[tuple[str, int]] = set()
    while True:
        wanted: dict[tuple[EngineName, int], list[Cell]] = {}
        for result in undecided():
            cell = result.cell
            target = next((look for look in looks(most) if look > len(result.runs)), None)
            # What the ground spoils for good is not asked for again.
            if target is None or (cell.key, target) in asked:
                continue
            asked.add((cell.key, target))
            if _is_today(app, cell):
                wanted.setdefault((cell.engine, target), []).append(cell)
            else:
                asked |= {(cell.key, look) for look in looks(most)}
                listen(Warned(f"{cell.scenario.name} {result.name}: the bits are no longer those of its runs"))
        if not wanted:
            return
        # Virtual time first: what it decides need not take the machine for itself.
        for (engine, target), cells in sorted(
            wanted.items(), key=lambda item: (not ENGINES[item[0][0]].virtual_time, item[0][1])
        ):
            jobs = options.jobs if ENGINES[engine].virtual_time else 1
            app.run_cells(cells, target, replace(options, jobs=jobs), listen)


def looks(most: int) -> list[int]:
    """Numbers of repetitions after which a cell is looked at, `most` being the last."""
    return sorted({*decisive(most), most})


def _is_today(app: App, cell: Cell) -> bool:
    try:
        return app.today(cell).key == cell.key
    except InputError:
        return False
