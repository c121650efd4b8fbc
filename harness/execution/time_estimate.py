"""How long runs take here, by those that are stored."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path

from harness.errors import ResultError
from harness.execution.runner import cpu_model
from harness.outcome import Cell
from harness.planning.estimate import ENDED, Experience, Took
from harness.store.parquet import Columns, is_columnar
from harness.store.results import Store

#: Other cells of the store that are looked at: each takes milliseconds to read.
OTHERS = 60


def experience(store: Store, reference: Path, cells: Iterable[Cell]) -> Experience:
    """What the runs of these cells took, those of some others in the store, and those of the reference.

    What cannot be read tells nothing, and is told of by those who need it.
    """
    own = dict.fromkeys(cell.key for cell in cells)
    others = islice((key for key in store.cell_keys() if key not in own), OTHERS)
    took = list[Took]()
    for key in (*own, *others):
        try:
            runs = store.runs(key)
        except ResultError:
            continue
        took += [Took(run.cell, run.wall, str(run.host.get("cpu", ""))) for run in runs if run.outcome.status in ENDED]
    if is_columnar(reference):
        with suppress(ResultError):
            took += Columns(reference).took()
    return Experience(took, cpu_model())
