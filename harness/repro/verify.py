"""Reference runs of virtual time, made again here: equal to the byte, equal in figures, or where they diverge."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from harness.errors import InputError, did_you_mean
from harness.execution import App, Options
from harness.execution.events import Listener
from harness.outcome import Cell, Run, proven_outcome
from harness.repro.parallel_runs import run_again
from harness.store.identity import Equivalence
from harness.store.results import Store, StoreReader
from harness.store.run_comparison import RunComparison, compare_with_reference


def verifiable_runs(reference: StoreReader) -> list[Run]:
    """The reference runs that can be made again: in virtual time, ended on their own, with digests of captures."""
    runs = []
    for key in reference.cell_keys():
        for run in reference.runs(key):
            measured = reference.measured(key, run.repetition)
            if run.cell.deterministic and run.captures and proven_outcome(run, measured).status == "completed":
                runs.append(run)
    return runs


def every_run(store: StoreReader) -> Iterator[Run]:
    """All runs of a store."""
    for key in store.cell_keys():
        yield from store.runs(key)


def select_runs(runs: Sequence[Run], names: Sequence[str]) -> list[Run]:
    """The runs with these names (KEY or KEY/REPETITION); all without names. InputError for an unknown name."""
    if not names:
        return list(runs)
    by_name = {name: [run for run in runs if name in (run.name, run.cell.key)] for name in names}
    for name, matches in by_name.items():
        if not matches:
            keys = [run.cell.key for run in runs]
            raise InputError(f"no reference run of virtual time is called '{name}'", did_you_mean(name, keys))
    return [run for group in by_name.values() for run in group]


def draw_sample(
    runs: Sequence[Run], count: int, seed: int, joining: Callable[[Cell], Sequence[Equivalence]] = lambda cell: ()
) -> list[Run]:
    """A random sample of cells. Half of it are cells that depend on an entry of the ledger, as far as there are any.

    `joining`: the entries by which a stored cell's digests are equivalent to today's; they take turns. `seed`: which
    sample is drawn.
    """
    generator = random.Random(seed)
    first = list({run.cell.key: run for run in reversed(runs)}.values())[::-1]
    shuffled = generator.sample(first, len(first))
    runs_by_entry: dict[object, list[Run]] = {}
    for run in shuffled:
        for entry in joining(run.cell):
            runs_by_entry.setdefault(entry, []).append(run)
    sample: dict[str, Run] = {}
    turns = generator.sample(list(runs_by_entry), len(runs_by_entry))
    while turns and len(sample) < (count + 1) // 2:
        turn = turns.pop(0)
        unseen = [run for run in runs_by_entry[turn] if run.name not in sample]
        if unseen:
            sample[unseen[0].name] = unseen[0]
            turns.append(turn)
    for run in shuffled:
        if len(sample) >= count:
            break
        sample.setdefault(run.name, run)
    return sorted(sample.values(), key=lambda run: run.name)


def verify(
    app: App, reference: StoreReader, runs: Sequence[Run], options: Options, listen: Listener
) -> Iterator[RunComparison]:
    """Make reference runs again, side by side, and compare each when it ends. EngineError for infrastructure."""
    with tempfile.TemporaryDirectory(prefix="quic-lab-verify-") as scratch:
        store = Store(Path(scratch))
        for rerun in run_again(app, runs, store, options, listen):
            measured = reference.measured(rerun.stored.cell.key, rerun.stored.repetition)
            yield compare_with_reference(
                rerun.stored, measured, rerun.repeated, rerun.measured, (reference, store), app.ledger
            )
