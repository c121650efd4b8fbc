"""Reference runs of virtual time, run again here: the same to the byte, the same figures, or where they part."""

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
from harness.store.run_comparison import RunComparison, compared


def candidates(reference: StoreReader) -> list[Run]:
    """The reference runs that can be made again: in virtual time, ended on their own, with digests of captures."""
    found = []
    for key in reference.cell_keys():
        for run in reference.runs(key):
            measured = reference.measured(key, run.repetition)
            if run.cell.deterministic and run.captures and proven_outcome(run, measured).status == "completed":
                found.append(run)
    return found


def every_run(store: StoreReader) -> Iterator[Run]:
    """All runs of a store."""
    for key in store.cell_keys():
        yield from store.runs(key)


def chosen(runs: Sequence[Run], names: Sequence[str]) -> list[Run]:
    """Those that are named (KEY or KEY/REPETITION); all without names. InputError for a name that there is none of."""
    if not names:
        return list(runs)
    known = {name: [run for run in runs if name in (run.name, run.cell.key)] for name in names}
    for name, found in known.items():
        if not found:
            every = [run.cell.key for run in runs]
            raise InputError(f"no reference run of virtual time is called '{name}'", did_you_mean(name, every))
    return [run for found in known.values() for run in found]


def drawn(
    runs: Sequence[Run], count: int, seed: int, joining: Callable[[Cell], Sequence[Equivalence]] = lambda cell: ()
) -> list[Run]:
    """A random sample of cells, half of it of those that are the reference's by an entry of the ledger.

    `joining`: the entries by which a stored cell's digests are those of today; they take turns. `seed` says which
    sample it is.
    """
    chance = random.Random(seed)
    first = list({run.cell.key: run for run in reversed(runs)}.values())[::-1]
    shuffled = chance.sample(first, len(first))
    resting: dict[object, list[Run]] = {}
    for run in shuffled:
        for entry in joining(run.cell):
            resting.setdefault(entry, []).append(run)
    sample: dict[str, Run] = {}
    turns = chance.sample(list(resting), len(resting))
    while turns and len(sample) < (count + 1) // 2:
        turn = turns.pop(0)
        unseen = [run for run in resting[turn] if run.name not in sample]
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
    """Make reference runs again, side by side, and compare each as it ends. EngineError for infrastructure."""
    with tempfile.TemporaryDirectory(prefix="quic-lab-verify-") as scratch:
        store = Store(Path(scratch))
        for made in run_again(app, runs, store, options, listen):
            measured = reference.measured(made.stored.cell.key, made.stored.repetition)
            yield compared(made.stored, measured, made.again, made.measured, (reference, store), app.ledger)
