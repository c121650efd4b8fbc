"""Reference runs of virtual time, run again here: the same to the byte, the same figures, or where they part."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.app import App, Options
from harness.app.engines import engine_of
from harness.errors import InputError, did_you_mean
from harness.events import Listener
from harness.outcome import Run, proven_outcome
from harness.plan import PlannedRun
from harness.runner import run_aside
from harness.store import Store, StoreReader
from harness.verified import Verified, compared


def candidates(reference: StoreReader) -> list[Run]:
    """The reference runs that can be made again: in virtual time, ended on their own, with digests of captures."""
    found = []
    for key in reference.cell_keys():
        for run in reference.runs(key):
            measured = reference.measured(key, run.repetition)
            if run.cell.engine == "virtual" and run.captures and proven_outcome(run, measured).status == "completed":
                found.append(run)
    return found


def chosen(runs: Sequence[Run], names: Sequence[str], sample: int | None, seed: int) -> list[Run]:
    """Those that are named (KEY or KEY/REPETITION), or a sample of so many cells, drawn by a seed; all without either.

    InputError for a name that there is none of.
    """
    if names:
        known = {name: [run for run in runs if name in (run.name, run.cell.key)] for name in names}
        for name, found in known.items():
            if not found:
                every = [run.cell.key for run in runs]
                raise InputError(f"no reference run of virtual time is called '{name}'", did_you_mean(name, every))
        return [run for found in known.values() for run in found]
    if sample is None:
        return list(runs)
    first = list({run.cell.key: run for run in reversed(runs)}.values())[::-1]
    return sorted(random.Random(seed).sample(first, min(sample, len(first))), key=lambda run: run.name)


def verify(
    app: App, reference: StoreReader, runs: Sequence[Run], options: Options, listen: Listener
) -> Iterator[Verified]:
    """Make reference runs again, one after the other. EngineError when the ground failed."""
    engine, provenance = engine_of("virtual", app.cache, options), app.provenance({})
    with tempfile.TemporaryDirectory(prefix="quic-lab-verify-") as scratch:
        store = Store(Path(scratch))
        for run in runs:
            cell = app.inventory.made(app.today(run.cell), listen)
            item = PlannedRun(cell, run.repetition)
            again, anew = run_aside(item, engine, store, provenance, listen)
            yield compared(run, reference.measured(run.cell.key, run.repetition), again, anew, (reference, store))
