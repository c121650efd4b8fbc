"""Merge runs of other stores into one store: each run once, by the key of its cell and its repetition.

If the store has a run already, the other one is the same, or is not taken. Only a run that its environment had
invalidated is ever replaced.

The other store may be a stranger's. Only its regular files are copied, through no link, to unused names. The record,
figures and series are written again from their parsed content. The lab by hand is not copied: its files make Docker
mount folders of the machine that wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from harness.errors import disk_error
from harness.outcome import MeasuredRun, Run
from harness.reading import UnfitFileError, file_status
from harness.store.results import BY_HAND, MEASURED, RUN, SERIES, Store, StoreReader
from harness.store.run_comparison import differing_figures
from harness.writing import copy_tree

_INVALIDATED = "infrastructure"
#: Entries of a run's folder that are not copied.
_NOT_COPIED = (RUN, MEASURED, SERIES, *BY_HAND)


@dataclass(frozen=True)
class Conflict:
    """A run that two stores have with different figures, although it depends on the same inputs."""

    run: Run
    kept_path: str
    """Path of the run that stays."""
    rejected_path: str
    """Path of the run that was not merged."""
    why: str


@dataclass
class MergeResult:
    """The result of a merge."""

    merged: int = 0
    present: int = 0
    """Runs that were in the store already."""
    conflicts: list[Conflict] = field(default_factory=list)
    skipped: list[tuple[Run, str]] = field(default_factory=list)
    """Files of merged runs that were not copied, by path: links, pipes, devices."""


def merge(
    store: Store, sources: Sequence[StoreReader], report: Callable[[str], object] = lambda text: None
) -> MergeResult:
    """Merge the runs of other stores into a store, in order. Raises EngineError when the disk refuses.

    `report` is called with each store at its start.
    """
    merged = MergeResult()
    for source in sources:
        report(str(source.root))
        for run in _runs(source):
            _merge_run(store, source, run, merged)
    return merged


def _runs(store: StoreReader) -> Iterator[Run]:
    for key in store.cell_keys():
        yield from store.runs(key)


def _merge_run(store: Store, source: StoreReader, run: Run, merged: MergeResult) -> None:
    key, number = run.cell.key, run.repetition
    existing, invalidated = store.run(key, number), run.outcome.status == _INVALIDATED
    measured = source.measured(key, number)
    if existing is not None and (invalidated or existing.outcome.status != _INVALIDATED):
        why = "" if invalidated else describe_difference(existing, store.measured(key, number), run, measured)
        if why:
            merged.conflicts.append(Conflict(run, str(store.folder(key, number)), str(source.folder(key, number)), why))
        else:
            merged.present += 1
        return
    partial = store.begin(key, number)
    folder = source.folder(key, number)
    try:
        # A run in columns has no folder, but figures only.
        skipped = [] if file_status(folder) is None else copy_tree(folder, partial, _NOT_COPIED)
        contents = (source.contents(digest) for digest in run.contents.values())
        store.keep_contents(content for content in contents if content is not None)
        store.finish(partial, run, measured, source.series(key, number))
    except UnfitFileError as error:
        store.abandon(partial)
        source.warn_ignored(folder, error.strerror or str(error))
        return
    except OSError as error:
        store.abandon(partial)
        raise disk_error(error, partial) from error
    except BaseException:
        store.abandon(partial)
        raise
    merged.skipped += [(run, place) for place in skipped]
    merged.merged += 1


def describe_difference(
    first: Run, first_measured: MeasuredRun | None, second: Run, second_measured: MeasuredRun | None
) -> str:
    """The difference of two runs of one key, in words; empty for the same run, and for equal runs in virtual time."""
    if not first.cell.deterministic:
        same_run = (first.started_at, first.wall) == (second.started_at, second.wall)
        return "" if same_run else "another run of the same repetition, in real time"
    if first.outcome.status != second.outcome.status:
        return f"{first.outcome.status} there, {second.outcome.status} here"
    if first.captures and second.captures:
        return "" if first.captures == second.captures else "other captures"
    flows = len(first.cell.scenario.flows)
    differing = [
        figure.name.text(flows) for figure in differing_figures(first_measured, second_measured) if figure.both
    ]
    return f"other figures: {', '.join(sorted(differing)[:3])}" if differing else ""
