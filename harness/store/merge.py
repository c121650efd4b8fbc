"""Runs of other stores taken into one's own: each run once, by the key of its cell and its repetition.

A run that is there already is the same one, or it is not taken: nothing of a store is ever replaced but a run that the
ground had spoilt.

Whose the other store is nobody knows. Of its files regular ones alone are copied, through no link, to names that were
free; its record, figures and series are written anew from what was read and understood of them. The lab by hand is not
taken: its files have Docker mount folders, and those are of the machine that wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from harness.errors import disk_error
from harness.outcome import MeasuredRun, Run
from harness.reading import UnfitFileError, status_of
from harness.store.results import BY_HAND, MEASURED, RUN, SERIES, Store, StoreReader
from harness.store.run_comparison import other_figures
from harness.writing import copy_tree

_SPOILT = "infrastructure"
#: What of a run's folder is not copied.
_OWN_WORDS = (RUN, MEASURED, SERIES, *BY_HAND)


@dataclass(frozen=True)
class Conflict:
    """A run that two stores have with other figures, though what it depends on is the same."""

    run: Run
    there: str
    """Where the one is that stays."""
    other: str
    """Where the one is that was not taken."""
    why: str


@dataclass
class Merged:
    """What came of it."""

    taken: int = 0
    there: int = 0
    """Runs that were in the store already."""
    conflicts: list[Conflict] = field(default_factory=list)
    left: list[tuple[Run, str]] = field(default_factory=list)
    """Files of runs that were taken, by their places, which were not taken: links, pipes, devices."""


def merge(store: Store, sources: Sequence[StoreReader], report: Callable[[str], object] = lambda text: None) -> Merged:
    """Take the runs of other stores over, in order. Raises EngineError when the disk refuses.

    `say` is told of each store when it is begun.
    """
    merged = Merged()
    for source in sources:
        report(str(source.root))
        for run in _runs(source):
            _take(store, source, run, merged)
    return merged


def _runs(store: StoreReader) -> Iterator[Run]:
    for key in store.cell_keys():
        yield from store.runs(key)


def _take(store: Store, source: StoreReader, run: Run, merged: Merged) -> None:
    key, number = run.cell.key, run.repetition
    existing, invalidated = store.run(key, number), run.outcome.status == _SPOILT
    measured = source.measured(key, number)
    if existing is not None and (invalidated or existing.outcome.status != _SPOILT):
        why = "" if invalidated else parted(existing, store.measured(key, number), run, measured)
        if why:
            merged.conflicts.append(Conflict(run, str(store.folder(key, number)), str(source.folder(key, number)), why))
        else:
            merged.there += 1
        return
    partial = store.begin(key, number)
    folder = source.folder(key, number)
    try:
        # A run in columns has no folder: its figures are all there is.
        skipped = [] if status_of(folder) is None else copy_tree(folder, partial, _OWN_WORDS)
        store.keep_contents(one for digest in run.contents.values() if (one := source.contents(digest)) is not None)
        store.finish(partial, run, measured, source.series(key, number))
    except UnfitFileError as error:
        store.abandon(partial)
        source.leave_out(folder, error.strerror or str(error))
        return
    except OSError as error:
        store.abandon(partial)
        raise disk_error(error, partial) from error
    except BaseException:
        store.abandon(partial)
        raise
    merged.left += [(run, place) for place in skipped]
    merged.taken += 1


def parted(first: Run, first_measured: MeasuredRun | None, second: Run, second_measured: MeasuredRun | None) -> str:
    """In what two runs of one key differ, in words; empty for one and the same, and in virtual time for nothing."""
    if not first.cell.deterministic:
        same_run = (first.started_at, first.wall) == (second.started_at, second.wall)
        return "" if same_run else "another run of the same repetition, in real time"
    if first.outcome.status != second.outcome.status:
        return f"{first.outcome.status} there, {second.outcome.status} here"
    if first.captures and second.captures:
        return "" if first.captures == second.captures else "other captures"
    flows = len(first.cell.scenario.flows)
    differing = [figure.name.text(flows) for figure in other_figures(first_measured, second_measured) if figure.both]
    return f"other figures: {', '.join(sorted(differing)[:3])}" if differing else ""
