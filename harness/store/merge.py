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


def merge(own: Store, others: Sequence[StoreReader], say: Callable[[str], object] = lambda text: None) -> Merged:
    """Take the runs of other stores over, in order. Raises EngineError when the disk refuses.

    `say` is told of each store when it is begun.
    """
    done = Merged()
    for other in others:
        say(str(other.root))
        for run in _runs(other):
            _take(own, other, run, done)
    return done


def _runs(store: StoreReader) -> Iterator[Run]:
    for key in store.cell_keys():
        yield from store.runs(key)


def _take(own: Store, other: StoreReader, run: Run, done: Merged) -> None:
    key, number = run.cell.key, run.repetition
    there, spoilt = own.run(key, number), run.outcome.status == _SPOILT
    measured = other.measured(key, number)
    if there is not None and (spoilt or there.outcome.status != _SPOILT):
        why = "" if spoilt else parted(there, own.measured(key, number), run, measured)
        if why:
            done.conflicts.append(Conflict(run, str(own.folder(key, number)), str(other.folder(key, number)), why))
        else:
            done.there += 1
        return
    partial = own.begin(key, number)
    folder = other.folder(key, number)
    try:
        # A run in columns has no folder: its figures are all there is.
        left = [] if status_of(folder) is None else copy_tree(folder, partial, _OWN_WORDS)
        own.keep_contents(one for digest in run.contents.values() if (one := other.contents(digest)) is not None)
        own.finish(partial, run, measured, other.series(key, number))
    except UnfitFileError as error:
        own.abandon(partial)
        other.leave_out(folder, error.strerror or str(error))
        return
    except OSError as error:
        own.abandon(partial)
        raise disk_error(error, partial) from error
    except BaseException:
        own.abandon(partial)
        raise
    done.left += [(run, place) for place in left]
    done.taken += 1


def parted(one: Run, of_one: MeasuredRun | None, other: Run, of_other: MeasuredRun | None) -> str:
    """In what two runs of one key differ, in words; empty for one and the same, and in virtual time for nothing."""
    if not one.cell.deterministic:
        same = (one.started_at, one.wall) == (other.started_at, other.wall)
        return "" if same else "another run of the same repetition, in real time"
    if one.outcome.status != other.outcome.status:
        return f"{one.outcome.status} there, {other.outcome.status} here"
    if one.captures and other.captures:
        return "" if one.captures == other.captures else "other captures"
    flows = len(one.cell.scenario.flows)
    found = [figure.name.text(flows) for figure in other_figures(of_one, of_other) if figure.both]
    return f"other figures: {', '.join(sorted(found)[:3])}" if found else ""
