"""Stored runs made again on this machine, as many at once as there are cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass

from harness.execution import App, Options
from harness.execution.engines import create_engine
from harness.execution.events import Listener
from harness.execution.matrix import PlannedRun
from harness.execution.runner import run_unjudged
from harness.outcome import MeasuredRun, Run
from harness.store.results import Store


@dataclass(frozen=True)
class RepeatedRun:
    """A stored run, and the same one made here."""

    stored: Run
    repeated: Run
    measured: MeasuredRun | None
    """Measurements of the run made here."""


def run_again(
    app: App,
    runs: Sequence[Run],
    store: Store,
    options: Options,
    listen: Listener,
    keeps: Callable[[Run, Run], bool] = lambda stored, again: True,
) -> Iterator[RepeatedRun]:
    """Make runs of virtual time again, into a store, with today's code and images. They come in the order of their
    ends. What the store has already, of an attempt that was interrupted, is not made once more.

    `keeps`: whether the artefacts of a run stay; its arguments are the stored run and the new one. EngineError when
    the infrastructure failed; the runs under way are then ended.
    """
    provenance = app.provenance({})
    cells = {run.name: app.inventory.build_images_of(app.current_cell(run.cell), listen) for run in runs}
    engine = create_engine("virtual", app.cache, options)

    def again(run: Run) -> RepeatedRun:
        planned = PlannedRun(cells[run.name], run.repetition)
        place = planned.cell.key, planned.repetition
        if (known := store.run(*place)) is not None and known.outcome.status != "infrastructure":
            return RepeatedRun(run, known, store.measured(*place))
        result = run_unjudged(planned, engine, store, provenance, listen, lambda again, measured: keeps(run, again))
        return RepeatedRun(run, *result)

    with closing(engine), ThreadPoolExecutor(max_workers=options.jobs) as pool:
        waiting: set[Future[RepeatedRun]] = {pool.submit(again, run) for run in runs}
        try:
            while waiting:
                finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield future.result()
        finally:
            for future in waiting:
                future.cancel()
            if waiting:
                engine.cancel()
