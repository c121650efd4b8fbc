"""Repeated runs of one cell in virtual time, with a trace of its system calls, until two runs differ."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from harness.capture.divergence import Divergence, compare_runs
from harness.capture.syscalls import first_differing_call, read_calls
from harness.engine.certificates import VIRTUAL_START
from harness.engine.virtual.engine import VirtualEngine
from harness.errors import EngineError, ResultError
from harness.execution import App, Options
from harness.execution.events import Listener
from harness.execution.matrix import PlannedRun
from harness.execution.runner import run_unjudged
from harness.outcome import Cell, Run
from harness.store.provenance import Provenance
from harness.store.records import read_record_bytes, read_run
from harness.store.results import RUN, Store

#: File name of the trace in a run's folder.
TRACE = "calls"
_START_NS = int(VIRTUAL_START.timestamp()) * 10**9


def compare_stored(first: Path, second: Path) -> Divergence:
    """Where two stored runs diverge, by their folders. ResultError where they cannot be read."""
    try:
        folders = first.resolve(), second.resolve()
        runs = [read_run(read_record_bytes(folder / RUN)) for folder in folders]
        start = _START_NS if all(run.cell.virtual_time for run in runs) else None
        return compare_runs(runs[0], runs[1], folders, start)
    except (OSError, ValueError) as error:
        raise ResultError(f"{first} and {second}: {error}", "name two folders that 'harness run' wrote") from error


def run_until_divergence(
    app: App, cell: Cell, times: int, folder: Path, options: Options, listen: Listener
) -> tuple[Divergence, int]:
    """(where the first run and a later one diverge, number of runs). Without a divergence there are `times` runs.

    Two runs and their traces stay in `folder`: the first one, and the one that was compared last. HarnessError when
    the infrastructure failed.
    """
    built = app.inventory.build_images_of(cell, listen)
    first, first_folder = traced_run(app, built, folder / "first", options, listen)
    divergence, number = Divergence(), 1
    while divergence.identical and number < times:
        shutil.rmtree(folder / "again", ignore_errors=True)
        again, again_folder = traced_run(app, built, folder / "again", options, listen)
        traces = [read_calls(run_folder / TRACE) for run_folder in (folder / "first", folder / "again")]
        divergence = compare_runs(
            first, again, (first_folder, again_folder), _START_NS, first_differing_call(traces[0], traces[1])
        )
        number += 1
    return divergence, number


def traced_run(app: App, cell: Cell, folder: Path, options: Options, listen: Listener) -> tuple[Run, Path]:
    """A run of a cell whose images are there, with a trace of its system calls: the run and its folder.

    `folder`: new; the trace is in it, as `TRACE`. EngineError when there is none.
    """
    folder.mkdir(parents=True)
    trace, store = folder / TRACE, Store(folder)
    core = min(os.sched_getaffinity(0))
    engine = VirtualEngine(app.cache, [core], options.log_limit, options.stall, trace.resolve(), options.kernel)
    run, _ = run_unjudged(PlannedRun(cell, 0), engine, store, Provenance(), listen)
    if not trace.exists():
        raise EngineError("the lab kernel wrote no trace of its system calls", f"see {folder}")
    return run, store.folder(cell.key, 0)
